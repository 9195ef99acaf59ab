"""What tables that are read in parts cannot have."""

from typing import Any

from hardwood.quoting import quote
from hardwood.threat import ThreatModel


def refuse_beside_stream(**values: Any) -> None:
    """Refuse labels and weights beside those that a stream brings."""
    for name, value in values.items():
        if value is not None:
            raise ValueError(f"{name}: a stream brings its own; name it where you call hardwood.stream")


def refuse_parameters(estimator: Any) -> None:
    """Refuse parameters of growers that need all rows at hand."""
    refused = {
        "max_bins": ("exact", "an integer from 2 to 255"),
        "refine": (("alternate", "search"), "None"),
        "attacker": (("chen", "chen-greedy"), "'groot'"),
        "oob_score": (True, "False"),
        "criterion": (("absolute_error",), "'squared_error'"),
        "refit_leaves": (True, "False"),
    }
    for name, (values, expected) in refused.items():
        value = getattr(estimator, name, None)
        if value is not None and (value in values if isinstance(values, tuple) else value == values):
            raise ValueError(
                f"{name}={quote(value)}: needs all rows in memory at once; for a stream or a cluster, expected "
                f"{expected}"
            )


def refuse_measured(threat: ThreatModel) -> None:
    """Refuse a threat model that leaves numbers to the values of a whole table."""
    if threat.is_measured:
        raise ValueError(
            "threat: distances in 'std' or 'iqr', within='from_data' and groups='from_table' are measured on a whole "
            "table, and this one is read in parts; write them out with ThreatModel.settle on rows that fit in memory"
        )
