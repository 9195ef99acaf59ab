"""The tables that are not bundled, fetched from OpenML and put in the form of the bundled ones."""

import warnings
from http.client import HTTPException

import numpy as np

from hardwood.datasets.catalogue import OpenMLSource


def fetch(source: OpenMLSource) -> tuple[np.ndarray, np.ndarray]:
    """Return the complete rows of a table and their classes, 0 or 1."""
    # Imported here because it takes a tenth of a second that most users never need.
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        # Retries end in the error below; a version that OpenML has retired is still the one meant.
        warnings.simplefilter("ignore")
        try:
            table = fetch_openml(source.name, version=source.version, as_frame=False, parser="liac-arff", n_retries=1)
        except (OSError, HTTPException) as error:
            raise ConnectionError(f"OpenML cannot be reached ({error})") from error

    described = [name not in source.identifiers for name in table.feature_names]
    data = np.asarray(table.data, dtype=np.float64)[:, described]
    target = _classes(table.target, source)
    complete = ~np.isnan(data).any(axis=1)
    data, target = data[complete], target[complete]
    order = _grouped_by_class(target)
    return data[order], target[order]


def _classes(labels: np.ndarray, source: OpenMLSource) -> np.ndarray:
    labels = labels.astype(str)
    unexpected = set(labels.tolist()) - set(source.labels)
    if unexpected:
        raise ValueError(
            f"OpenML's {source.name!r} (version {source.version}) has the labels "
            f"{sorted(unexpected)}, expected only {list(source.labels)}"
        )
    return (labels == source.labels[1]).astype(np.int64)


def _grouped_by_class(target: np.ndarray) -> np.ndarray:
    """Return the row order of the bundled files: row 0, the other class, the rest of its own.

    A stratified split depends only on which class comes first and on the order inside each
    class, so this keeps the folds, and makes a table the same whichever way it was obtained.
    """
    own = np.flatnonzero(target == target[0])
    other = np.flatnonzero(target != target[0])
    return np.concatenate([own[:1], other, own[1:]])
