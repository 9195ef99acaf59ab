"""What a threat model says beside how far each feature can be moved: a record with one field per option."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.threat.attack_rules import AttackRule, check_budget, read_budget, read_repeat, read_rules
from hardwood.threat.attackers import AttackingClasses, compare_classes, read_classes, spell_classes
from hardwood.threat.budget_words import (
    Units,
    check_column_budget,
    place_budget,
    read_max_changes,
    read_norm,
    read_radius,
    read_units,
    scale_radius,
)
from hardwood.threat.column_budget import ColumnBudget
from hardwood.threat.domain import (
    FROM_DTYPE,
    WholeNumbers,
    Within,
    check_rows,
    is_left_to_table,
    place_whole,
    place_within,
    read_dtypes,
    read_whole_numbers,
    read_within,
    see_domains,
)
from hardwood.threat.group_finding import find_groups
from hardwood.threat.group_reach import GroupReach
from hardwood.threat.groups import (
    FROM_TABLE,
    Groups,
    check_groups,
    check_not_grouped,
    compare_groups,
    place_groups,
    read_groups,
    scale_groups,
)
from hardwood.threat.missing import Hidden, compare_hidden, place_blank, place_fill, read_blank, read_fill, scale_hidden
from hardwood.threat.relations import place_relations, read_relations, warn_about_rows
from hardwood.threat.spelling import with_string_keys

UNSEEN_CATEGORIES = ("error", "ignore", "allow")


def _option(
    read: Callable[[Any], Any],
    *,
    default: Any = None,
    compare: Callable[[Any], Any] = with_string_keys,
    scale: Callable[[Any, float], Any] = lambda kept, factor: kept,
) -> dict[str, Any]:
    """Describe an option.

    Parameters
    ----------
    read : what a user gives -> what is kept
        Refuses what is not understood. It also accepts what it returns.
    default : what the parameter of `ThreatModel` has as its default
    compare : what is kept -> what is equal for equal threat models
    scale : what is kept, a factor >= 0 -> what is kept by an attacker that much stronger
        At 0 there is no attacker at all.
    """
    return {"read": read, "default": default, "compare": compare, "scale": scale}


def _read_unseen_categories(value: Any) -> str:
    if value not in UNSEEN_CATEGORIES:
        raise ValueError(f"unseen_categories={quote(value)}: expected 'error', 'ignore' or 'allow'")
    return str(value)


def _compare_columns(columns: WholeNumbers) -> Any:
    return columns if isinstance(columns, str) else set(map(str, columns))


def _compare_rules(rules: tuple[AttackRule, ...]) -> list[dict[str, Any]]:
    return [rule.to_record() | {"feature": str(rule.feature)} for rule in rules]


def _scale_rules(rules: tuple[AttackRule, ...], factor: float) -> tuple[AttackRule, ...]:
    return rules if factor else ()


def _drop_at_zero(kept: Any, factor: float) -> Any:
    """Return a limit of what can be done, unless nothing can."""
    return kept if factor else None


def _scale_budget(budget: float | None, factor: float) -> float | None:
    return None if budget is None or factor == 0.0 else factor * budget if budget else 0.0


@dataclass(frozen=True, eq=False)
class Options:
    """What a threat model says beside the features, as the reader of each option returns it.

    They are copied, compared, shown and written in this order. Collections of columns or classes are kept as tuples.
    """

    attacking_classes: AttackingClasses = field(metadata=_option(read_classes, compare=compare_classes))
    rules: tuple[AttackRule, ...] = field(metadata=_option(read_rules, compare=_compare_rules, scale=_scale_rules))
    budget: float | None = field(metadata=_option(read_budget, scale=_scale_budget))
    repeat: bool = field(metadata=_option(read_repeat, default=True))
    unseen_categories: str = field(metadata=_option(_read_unseen_categories, default="error"))
    whole_numbers: WholeNumbers = field(
        metadata=_option(read_whole_numbers, default=FROM_DTYPE, compare=_compare_columns)
    )
    within: Within = field(metadata=_option(read_within))
    groups: Groups = field(metadata=_option(read_groups, compare=compare_groups, scale=scale_groups))
    blank: Hidden = field(metadata=_option(read_blank, compare=compare_hidden, scale=scale_hidden))
    fill: Hidden = field(metadata=_option(read_fill, compare=compare_hidden, scale=scale_hidden))
    max_changes: int | None = field(metadata=_option(read_max_changes, scale=_drop_at_zero))
    radius: float | None = field(metadata=_option(read_radius, scale=scale_radius))
    norm: int = field(metadata=_option(read_norm, default=2))
    units: Units = field(metadata=_option(read_units, scale=_drop_at_zero))
    relations: tuple[str, ...] = field(metadata=_option(read_relations, compare=set))

    def __post_init__(self) -> None:
        """Refuse options that mean nothing together."""
        if not self.rules:
            object.__setattr__(self, "repeat", True)  # nothing is repeated
        if self.radius is None:
            object.__setattr__(self, "norm", 2)  # nothing is measured
        check_budget(self.budget, self.rules, self.repeat)
        check_column_budget(self.max_changes, self.radius, self.units, has_rules=bool(self.rules))
        if self.rules and self.whole_numbers and self.whole_numbers != FROM_DTYPE:
            raise ValueError("whole_numbers: attack rules say which values they lead to; leave it out")
        for name in ("blank", "fill"):
            if self.rules and getattr(self, name) is not None:
                raise ValueError(f"{name}: attack rules say nothing about missing values; leave it out")
            check_not_grouped(getattr(self, name), name, self.groups)
        if self.rules and self.relations:
            raise ValueError("relations: not understood together with attack rules; leave one of them out")
        ruled = {str(rule.feature) for rule in self.rules}
        for column in self.within if isinstance(self.within, dict) else ():
            if str(column) in ruled:
                raise ValueError(f"within for column {quote(column)}: it has attack rules, which say where they lead")
        if self.rules and self.groups:
            raise ValueError("groups: not understood together with attack rules; leave one of the two out")

    @classmethod
    def read(cls, given: dict[str, Any]) -> Options:
        """Read what a user gives; what is not given is left at its default."""
        if not find_given(given):
            return _leave_unsaid()
        return cls(**{
            option.name: option.metadata["read"](given.get(option.name, option.metadata["default"]))
            for option in fields(cls)
        })  # fmt: skip

    @property
    def allows_unseen(self) -> bool:
        """Whether the attacker can bring categories that a table does not have."""
        return self.unseen_categories == "allow"

    def spell(self) -> dict[str, Any]:
        """Return the options that are not left at their defaults, as a user would give them."""
        return {
            option.name: spell_classes(kept)
            if option.name == "attacking_classes"
            else list(kept)
            if isinstance(kept, tuple)
            else kept
            for option in fields(self)
            if (kept := getattr(self, option.name)) != option.metadata["read"](option.metadata["default"])
        }

    def means_the_same(self, other: Options) -> bool:
        """Say whether other options mean the same."""
        return self is other or self._compare() == other._compare()

    def _compare(self) -> list[Any]:
        return [option.metadata["compare"](getattr(self, option.name)) for option in fields(self)]

    def scale(self, factor: float) -> Options:
        """Return the options of an attacker that many times as strong."""
        return Options(**{
            option.name: option.metadata["scale"](getattr(self, option.name), factor) for option in fields(self)
        })  # fmt: skip

    @property
    def is_measured(self) -> bool:
        """Whether domains or groups are left to the values of a table."""
        return is_left_to_table(self.within) or self.groups == FROM_TABLE

    def settle(self, X: Any, matrix: np.ndarray, schema: Schema, *, moves: bool) -> Options:
        """Write out what is left to a table, and check the rows of the table; the same object if nothing was left.

        Where no number moves, it does not matter which columns are whole, and they are not listed.
        """
        settled = self
        within = see_domains(self.within, matrix, schema, {str(rule.feature) for rule in self.rules})
        if within is not self.within:
            settled = replace(settled, within=within)
        if self.whole_numbers == FROM_DTYPE and (moves or self.fill is not None) and not self.rules:
            columns, within = read_dtypes(X, schema, settled.within)
            settled = replace(settled, whole_numbers=columns, within=within) if columns else settled
        if settled.whole_numbers != FROM_DTYPE or settled.within:
            check_rows(matrix, schema, *settled._place_domain(schema))
        if self.groups == FROM_TABLE:
            settled = replace(settled, groups=find_groups(matrix, schema))
        elif not isinstance(self.groups, str):
            check_groups(matrix, schema, self.groups, self.place_groups(schema))
        if settled.relations:
            whole = place_whole(settled.whole_numbers, schema)
            warn_about_rows(place_relations(settled.relations, schema, whole), matrix)
        return settled

    def place_budget(self, schema: Schema) -> ColumnBudget | None:
        """Return the budget over columns for one table; None where there is none."""
        return place_budget(self.max_changes, self.radius, self.norm, self.units, schema)

    def _place_domain(self, schema: Schema) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return which columns are whole, and between which values that were said, not seen, each of them lies."""

        def make() -> tuple[np.ndarray | None, np.ndarray | None]:
            whole = place_whole(self.whole_numbers, schema)
            return whole, place_within(self.within, schema, whole, seen=False)

        placed: tuple[np.ndarray | None, np.ndarray | None] = self._remember("domain", schema, make)
        return placed

    def place_groups(self, schema: Schema) -> GroupReach | None:
        """Return the groups as arrays for one table."""
        if not self.groups:
            return None
        placed: GroupReach | None = self._remember("groups", schema, lambda: place_groups(self.groups, schema))
        return placed

    def place(self, schema: Schema) -> dict[str, Any]:
        """Return the fields of `Reach` that the options become for one table; None where nothing is said."""
        whole = place_whole(self.whole_numbers, schema)
        return {
            "whole": whole,
            "within": place_within(self.within, schema, whole),
            "blank": place_blank(self.blank, schema),
            "fill": place_fill(self.fill, schema),
            "relations": place_relations(self.relations, schema, whole),
        }

    def _remember(self, what: str, schema: Schema, make: Callable[[], Any]) -> Any:
        """Return what was made for a table, if it is the last one: whoever asks row by row repeats it every time."""
        known: dict[str, tuple[Schema, Any]] = self.__dict__.setdefault("_known", {})
        last = known.get(what)  # another thread may ask about another table
        if last is None or last[0] is not schema:
            last = known[what] = schema, make()
        return last[1]


@cache
def _leave_unsaid() -> Options:
    """Return the options where everything is left at its default: what most threat models have."""
    return Options(**{option.name: option.metadata["read"](option.metadata["default"]) for option in fields(Options)})


@cache
def _list_defaults() -> dict[str, Any]:
    return {option.name: option.metadata["default"] for option in fields(Options)}


def list_options() -> tuple[str, ...]:
    """Return the names of all options."""
    return tuple(option.name for option in fields(Options))


def find_given(given: dict[str, Any]) -> list[str]:
    """Return the names of the options that a caller does not leave at their defaults."""
    defaults = _list_defaults()
    return [
        name for name, value in given.items()
        if value is not defaults[name] and not (isinstance(value, (str, bool)) and value == defaults[name])
    ]  # fmt: skip
