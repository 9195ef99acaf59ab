"""What an estimator does not take, which of its parameters is why, and what takes it: the advice in a refusal.

An estimator of which parameters decide says by which values of them it takes all there is, in `_takes_all_with`:
any number of classes, categories, missing values, attackers who make them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import get_tags

from hardwood.quoting import quote
from hardwood.rows.columns import hides
from hardwood.table import Schema
from hardwood.table.columns import MissingValueError
from hardwood.threat import ThreatModel


def list_limits(estimator: Any) -> list[tuple[str, Any]]:
    """Return the parameters because of which an estimator does not take all there is, and what each would have to be.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier
    >>> list_limits(RobustTreeClassifier(attacker="chen")), list_limits(RobustTreeClassifier())
    ([('attacker', 'groot')], [])
    """
    return [(name, value) for name, value in estimator._takes_all_with if getattr(estimator, name) != value]


@contextmanager
def explaining_missing(estimator: Any) -> Iterator[None]:
    """Where a value is missing and must not be, say what takes missing values."""
    try:
        yield
    except MissingValueError as error:
        limits, remedy = _explain(estimator, "complete rows", "missing values")
        raise ValueError(f"{error.place}, and {limits}; {remedy}. Otherwise {error.remedy}") from None


def refuse_hiding(estimator: Any, threat: ThreatModel) -> None:
    """Refuse an attacker who makes values missing, or fills them in, if this estimator does not count with him."""
    if is_regressor(estimator) and hides(threat):
        raise ValueError(
            f"threat: {type(estimator).__name__} cannot be trained against an attacker who blanks values or fills them "
            "in; RobustBoostingRegressor can. Otherwise leave out blank and fill"
        )
    if threat.blank is not None and not get_tags(estimator).input_tags.allow_nan:
        shown = threat.blank if isinstance(threat.blank, str) else list(threat.blank)
        limits, remedy = _explain(estimator, "complete rows", "missing values")
        advice = f"{limits}, so that nobody gains by hiding a value; {remedy}. Otherwise leave blank out"
        raise ValueError(f"blank={quote(shown)}: {advice}")


def refuse_partial_hiding(threat: ThreatModel, rho: float) -> None:
    """Refuse to count with a share of attackers who hide values: growers know all or none."""
    if hides(threat) and 0.0 < rho < 1.0:
        raise ValueError(f"rho={quote(rho)}: with blank or fill, expected 0.0 or 1.0: all attackers hide, or none")


def refuse_many_classes(estimator: Any, classes: np.ndarray) -> None:
    """Refuse more than two classes if this estimator, with its parameters, takes only two."""
    if len(classes) <= 2 or get_tags(estimator).classifier_tags.multi_class:
        return
    shown = ", ".join(map(quote, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
    limits, remedy = _explain(estimator, "two", "any number")
    raise ValueError(
        f"Only binary classification is supported: y has {len(classes)} classes ({shown}), and {limits}; {remedy}. "
        "Otherwise merge classes into two, or fit one tree per class with sklearn.multiclass.OneVsRestClassifier"
    )


def refuse_categories(estimator: Any, schema: Schema, parameter: str) -> None:
    """Refuse a table that has a categorical column, on account of a parameter."""
    if schema.categorical:
        limits, remedy = _explain(estimator, "numbers", "categories", parameter)
        raise ValueError(
            f"X: column {quote(schema.key(schema.categorical[0]))} is categorical, and {limits}; {remedy}. Otherwise "
            "encode the column"
        )


def _explain(estimator: Any, taken: str, wanted: str, parameter: str | None = None) -> tuple[str, str]:
    """Say which parameters, or else which estimator, take only so much, and what takes what is wanted.

    parameter : the only one that decides; None: all do
    """
    limits = list_limits(estimator) if hasattr(estimator, "_takes_all_with") else []
    limits = [limit for limit in limits if parameter in (None, limit[0])]
    if not limits:
        return f"{type(estimator).__name__} takes {taken} only", f"RobustTreeClassifier takes {wanted}"
    takes = "takes" if len(limits) == 1 else "take"
    given = " and ".join(f"{name}={quote(getattr(estimator, name))}" for name, _ in limits)
    free = " and ".join(f"{name}={quote(value)}" for name, value in limits)
    return f"{given} {takes} {taken} only", f"{free} {takes} {wanted}"
