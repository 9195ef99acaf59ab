"""What an estimator says of the rows that it is fitted to."""

from dataclasses import dataclass
from typing import Any

from sklearn.utils import get_tags

from hardwood.threat import ThreatModel


@dataclass(frozen=True)
class Request:
    """What an estimator says of the rows that it is fitted to, by its parameters and tags."""

    threat: ThreatModel
    categorical_features: Any
    accepts_missing: bool  # whether values may be missing
    has_classes: bool  # whether the target is classes, not numbers
    class_weight: Any = None
    is_open: bool = False  # whether a model of rows without missing values accepts some later
    is_narrow: bool = False  # whether a table of float32 may stay so, for growers on bins
    divides_target: bool = False  # whether numbers are divided by a unit in which their squares can be added up


def read_request(estimator: Any, **others: Any) -> Request:
    """Read the parameters and tags of an estimator that say how rows are read; `others` are fields of a `Request`."""
    tags = get_tags(estimator)
    said = {
        "threat": ThreatModel.coerce(estimator.threat, getattr(estimator, "attacking_classes", None)),
        "categorical_features": estimator.categorical_features,
        "accepts_missing": bool(tags.input_tags.allow_nan),
        "has_classes": tags.estimator_type == "classifier",
        "class_weight": getattr(estimator, "class_weight", None),
    }
    return Request(**(said | others))
