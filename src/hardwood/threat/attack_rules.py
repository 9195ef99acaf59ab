"""Attack rules: what an attacker can do to one feature, when, and at what cost."""

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table.columns import Label
from hardwood.threat.spelling import plain, read_column, read_label, read_real


@dataclass(frozen=True)
class AttackRule:
    """One thing that an attacker can do to a feature, when, and at what cost.

    A rule that adds moves a number by any amount between nothing and the step, as the rules of TREANT do; the step
    must be made exactly if both ends are given. A rule that sets replaces a number or a category.

    Parameters
    ----------
    feature : str or int
        The column, by name, or by index if the table has no names.
    when : pair of numbers, category, list of categories or None, default=None
        The rule applies to a number `x` with ``low <= x <= high``, or to one of these categories. None: to any.
    add : number, pair of numbers or None
        A step: anything between 0 and that number is added. A pair ``(least, most)``: anything between the two.
    set_to : number, category or None
        What the value becomes. Exactly one of `add` and `set_to` is given.
    cost : float, default=1.0
        What each application costs; more than 0.

    Examples
    --------
    >>> AttackRule("age", when=(18, 60), add=-2)
    AttackRule('age', when=(18.0, 60.0), add=-2.0)
    >>> AttackRule("color", when="red", set_to="blue", cost=2.5)
    AttackRule('color', when=['red'], set_to='blue', cost=2.5)
    """

    feature: Label
    when: Any = None
    add: Any = None
    set_to: Any = None
    cost: float = 1.0

    def __post_init__(self) -> None:
        feature = read_column(self.feature, "feature")
        where = f"attack rule for feature {quote(feature)}"
        if (self.add is None) == (self.set_to is None):
            raise ValueError(
                f"{where}: add={quote(self.add)}, set_to={quote(self.set_to)}: give exactly one of the two"
            )
        cost = _read_number(self.cost, "cost", where)
        values = {
            "feature": feature,
            "when": _read_condition(self.when, self.add is not None, where),
            "add": None if self.add is None else _read_step(self.add, where),
            "set_to": None if self.set_to is None else read_label(self.set_to, f"{where}: set_to"),
            "cost": cost,
        }
        if not 0.0 < cost < math.inf:
            raise ValueError(f"{where}: cost={quote(self.cost)}: expected a finite number > 0")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = [repr(self.feature)]
        shown += [f"{name}={value!r}" for name, value in self.to_record().items() if name != "feature"]
        return f"AttackRule({', '.join(shown)})"

    def to_record(self) -> dict[str, Any]:
        """Return what is not left at its default, in the shortest spelling.

        Examples
        --------
        >>> AttackRule("age", add=(0, 2)).to_record()
        {'feature': 'age', 'add': 2.0}
        """
        record: dict[str, Any] = {"feature": self.feature}
        if self.when is not None:
            record["when"] = self.when if _is_interval(self.when) else list(self.when)
        if self.add is not None:
            least, most = self.add
            record["add"] = least + most if least <= 0.0 <= most and 0.0 in self.add else self.add
        if self.set_to is not None:
            record["set_to"] = self.set_to
        if self.cost != 1.0:
            record["cost"] = self.cost
        return record

    def check_kind(self, labels: tuple[Label, ...] | None) -> None:
        """Refuse a rule for numbers on a categorical feature (one with labels), and the other way round."""
        where = f"attack rule for feature {quote(self.feature)}"
        if labels is not None:
            if self.add is not None:
                raise ValueError(
                    f"{where}: add={quote(self.add)} is for numbers, but the feature is categorical; use set_to"
                )
            return
        if self.when is not None and not _is_interval(self.when):
            raise ValueError(
                f"{where}: when={quote(self.when)}: the feature is numerical; give a pair (low, high), low <= high"
            )
        if self.set_to is not None and math.isnan(read_real(self.set_to, f"{where}: set_to")):
            raise ValueError(f"{where}: set_to={quote(self.set_to)}: the feature is numerical; give a number")


def read_rules(rules: Any) -> tuple[AttackRule, ...]:
    """Return rules given as such or as mappings of their parameters."""
    if rules is None:
        return ()
    if isinstance(rules, (str, Mapping, AttackRule)) or not np.iterable(rules):
        raise ValueError(f"rules={quote(rules)}: expected a list of AttackRule")
    read = []
    for k, rule in enumerate(rules):
        try:
            read.append(rule if isinstance(rule, AttackRule) else _read_record(rule))
        except ValueError as error:
            raise ValueError(f"rules[{k}]: {error}") from None
    return tuple(read)


def read_budget(budget: Any) -> float | None:
    """Return what the changes of a row may cost together."""
    return None if budget is None else _read_number(budget, "budget", "rules")


def read_repeat(repeat: Any) -> bool:
    """Return whether rules are applied as often as the budget allows."""
    if not isinstance(repeat, (bool, np.bool_)):
        raise ValueError(f"repeat={quote(repeat)}: expected True or False")
    return bool(repeat)


def check_budget(budget: float | None, rules: tuple[AttackRule, ...], repeat: bool) -> None:
    """Refuse rules without a budget, a budget without rules, and one that never ends."""
    if not rules:
        if budget is not None:
            raise ValueError(f"budget={budget:g}: a budget is spent on rules, and there are none")
        return
    if budget is None:
        raise ValueError("budget: needed with rules; what may all changes of a row cost together?")
    if budget < 0.0 or (repeat and not math.isfinite(budget)):
        raise ValueError(f"budget={budget:g}: expected a number >= 0; infinity only with repeat=False")


def _read_record(record: Any) -> AttackRule:
    if not isinstance(record, Mapping):
        raise ValueError(f"{quote(record)} is not an AttackRule")
    known = [field.name for field in fields(AttackRule)]
    for key in record:
        if key not in known:
            raise ValueError(f"unknown key {quote(key)}; the keys are {', '.join(map(repr, known))}")
    if "feature" not in record:
        raise ValueError(f"feature: missing in {quote(dict(record))}")
    return AttackRule(**record)


def _read_number(value: Any, name: str, where: str) -> float:
    number = read_real(value, f"{where}: {name}")
    if math.isnan(number):
        raise ValueError(f"{where}: {name}={quote(plain(value))}: expected a number")
    return number


def _read_step(add: Any, where: str) -> tuple[float, float]:
    add = plain(add)
    if isinstance(add, (list, tuple, np.ndarray)):
        if len(add) != 2:
            raise ValueError(f"{where}: add={quote(add)}: expected a number or a pair (least, most)")
        least, most = (_read_number(end, "add", where) for end in add)
    else:
        step = _read_number(add, "add", where)
        least, most = min(step, 0.0), max(step, 0.0)
    if least > most or least == math.inf or most == -math.inf:
        raise ValueError(f"{where}: add={quote(add)}: expected a number or a pair (least, most) with least <= most")
    return least, most


def _read_condition(when: Any, is_interval: bool, where: str) -> tuple[Any, ...] | None:
    """Return a pair of numbers or a tuple of labels; whether two numbers are labels is known once the table is."""
    when = plain(when)
    if when is None:
        return None
    many = isinstance(when, (list, tuple, set, frozenset, np.ndarray))
    items = tuple(plain(item) for item in when) if many else (when,)
    if _is_interval(items):
        return tuple(read_real(end, f"{where}: when") for end in items)
    if is_interval:
        raise ValueError(
            f"{where}: when={quote(when)}: expected a pair of numbers (low, high) with low <= high, or None"
        )
    if not items:
        raise ValueError(f"{where}: when={quote(when)}: expected a pair (low, high), categories or None")
    return tuple(dict.fromkeys(read_label(item, f"{where}: when") for item in items))


def _is_interval(items: tuple[Any, ...]) -> bool:
    is_real = [isinstance(item, numbers.Real) and not isinstance(item, bool) for item in items]
    return len(items) == 2 and all(is_real) and bool(items[0] <= items[1])
