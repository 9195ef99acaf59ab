"""Pipelines of scikit-learn: a tree model if nothing happens to a table before its trees see it."""

from typing import Any

from hardwood.convert import read_model
from hardwood.convert.source import Source
from hardwood.ensemble import TreeEnsemble


def read_pipeline(model: Any) -> TreeEnsemble | Source:
    """Import the last step of a pipeline that does nothing before it."""
    *before, (_, last) = model.steps
    for name, step in before:
        if step is not None and step != "passthrough":
            raise TypeError(
                f"model: a Pipeline with a {type(step).__name__} in front (step {name!r}) is not a tree model: its "
                "trees see another table than the one a threat model speaks of; give its last step, model[-1], with "
                "the table that this step sees, model[:-1].transform(X), and a threat in the units of that table"
            )
    return read_model(last)
