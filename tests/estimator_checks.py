"""Checks of scikit-learn that fail on estimators like ours through no fault of the estimator."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from sklearn.utils import get_tags

RELEASE = tuple(int(part) for part in version("scikit-learn").split(".")[:2])


def find_faulty_checks(estimator: Any) -> dict[str, str]:
    """Return the faulty checks of the release installed, each with its fault. Only the first releases have some."""
    if RELEASE > (1, 6):
        return {}
    faulty = {}
    of_classifier = get_tags(estimator).classifier_tags
    if of_classifier is not None and not of_classifier.multi_class:
        faulty["check_sample_weight_equivalence_on_dense_data"] = (
            "makes two classes of three by the first row, which is not the same in the tables it compares"
        )
    of_input = get_tags(estimator).input_tags
    if of_input.categorical and not of_input.allow_nan:
        faulty["check_positive_only_tag_during_fit"] = "subtracts a mean from whole numbers in place"
    return faulty
