"""A threat model's words resolved for one table: which column, which category, which arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood._kernels.rule_pieces import NumberRules
from hardwood.table import Schema
from hardwood.table.columns import Label
from hardwood.threat.attack_rules import AttackRule
from hardwood.threat.priced_reach import PricedReach
from hardwood.threat.reach import Reach
from hardwood.threat.spelling import INTERVALS, ONE_FEATURE, label_codes

# A rule and the position of its feature.
PlacedRules = Sequence[tuple[int, AttackRule]]


def check_kind(entry: Any, is_categorical: bool, where: str) -> None:
    """Refuse an entry for numbers on a categorical feature, and the other way round."""
    if isinstance(entry, dict) and not is_categorical:
        raise ValueError(
            f"{where}: {entry!r} is for categories, but the feature is numerical; "
            f"declare it in categorical_features or {ONE_FEATURE}"
        )
    if is_categorical and not isinstance(entry, dict) and entry not in (None, "<>"):
        raise ValueError(
            f"{where}: {entry!r} is for numbers, but the feature is categorical; "
            "give a dict {category: [categories it can become]}, '<>' or None"
        )


def list_columns(schema: Schema) -> str:
    """Name the columns, for an error."""
    shown = ", ".join([repr(schema.key(j)) for j in range(min(schema.n_features, 20))])
    return f"the columns are {shown}{', ...' if schema.n_features > 20 else ''}"


def _named_categories(
    entries: Sequence[Any], rules: PlacedRules, schema: Schema
) -> Iterator[tuple[int, list[Label], tuple[Label, ...]]]:
    """Go through the features whose categories are named: what is named, each once, and the labels of the feature."""
    for j in schema.categorical:
        entry, labels = entries[j], schema.categories[j]
        assert labels is not None
        named = [label for a, targets in (entry.items() if isinstance(entry, dict) else ()) for label in (a, *targets)]
        for at, rule in rules:
            if at == j:
                rule.check_kind(labels)
                named += [*(rule.when or ()), rule.set_to]
        if named:
            yield j, list(dict.fromkeys(named)), labels


def check_categories_known(entries: Sequence[Any], rules: PlacedRules, schema: Schema) -> None:
    """Refuse a threat that names no category of a feature: surely not what was meant."""
    for j, named, labels in _named_categories(entries, rules, schema):
        if label_codes(labels).keys().isdisjoint(named):
            raise ValueError(
                f"threat for feature {schema.key(j)!r}: {entries[j] or named!r} names no category of the table; "
                f"its categories are {list(labels)!r}"
            )


def extend_schema(entries: Sequence[Any], rules: PlacedRules, schema: Schema) -> Schema:
    """Add the categories that are named to those of the schema, after the last."""
    categories = list(schema.categories)
    for j, named, labels in _named_categories(entries, rules, schema):
        codes = label_codes(labels)
        categories[j] = (*labels, *(label for label in named if label not in codes))
    return replace(schema, categories=tuple(categories))


def resolve_reach(entries: Sequence[Any], schema: Schema, attacks: np.ndarray) -> Reach:
    """Turn one entry per feature into arrays."""
    if not schema.categorical and entries.count(entries[0]) == len(entries):  # one for all, often: not one by one
        left, right = (np.full(len(entries), end) for end in _find_interval(entries[0]))
        return Reach(left, right, (None,) * schema.n_features, attacks)
    both = list(zip(entries, schema.categories, strict=True))
    left, right = np.array([_find_interval(entry if labels is None else 0.0) for entry, labels in both]).T
    categories = tuple(None if labels is None else _category_matrix(entry, labels) for entry, labels in both)
    return Reach(left, right, categories, attacks)


def _find_interval(entry: Any) -> tuple[float, float]:
    """Return how far a number can be moved to the left and to the right."""
    side = INTERVALS.get(entry, entry)
    return side if isinstance(side, tuple) else (side, side)


def _category_matrix(entry: Any, labels: tuple[Label, ...]) -> np.ndarray:
    unseen = len(labels)
    if entry == "<>":
        return np.ones((unseen + 1, unseen + 1), dtype=bool)
    allowed, codes = np.eye(unseen + 1, dtype=bool), label_codes(labels)
    for category, targets in (entry or {}).items():
        allowed[codes.get(category, unseen), [codes.get(t, unseen) for t in targets]] = True
    return allowed


def resolve_rules(rules: PlacedRules, free: Reach, schema: Schema, budget: float, repeat: bool) -> PricedReach:
    """Turn rules, each with the position of its feature, into arrays."""
    numerical: list[NumberRules | None] = []
    categorical: list[np.ndarray | None] = []
    for feature, labels in enumerate(schema.categories):
        mine = [rule for at, rule in rules if at == feature]
        for rule in mine:
            rule.check_kind(labels)
        if labels is None:
            numerical.append(_number_rules(mine) if mine else None)
            categorical.append(None)
        else:
            allowed = free.categories[feature]
            assert allowed is not None
            numerical.append(None)
            categorical.append(_category_cost(mine, labels, np.where(allowed, 0.0, np.inf), repeat))
    return PricedReach(free, tuple(numerical), tuple(categorical), budget, repeat)


def _number_rules(rules: Sequence[AttackRule]) -> NumberRules:
    rows = []
    for rule in rules:
        low, high = (-np.inf, np.inf) if rule.when is None else rule.when
        least, most = (0.0, 0.0) if rule.add is None else rule.add
        target = np.nan if rule.set_to is None else rule.set_to
        rows.append((low, high, least, most, target, rule.cost))
    return NumberRules(*(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)))


def _category_cost(
    rules: Sequence[AttackRule], labels: tuple[Label, ...], cost: np.ndarray, repeat: bool
) -> np.ndarray:
    codes, unseen = label_codes(labels), len(labels)
    for rule in rules:
        before = range(unseen + 1) if rule.when is None else [codes.get(label, unseen) for label in rule.when]
        after = codes.get(rule.set_to, unseen)
        for category in before:
            cost[category, after] = min(cost[category, after], rule.cost)
    if repeat:
        for middle in range(unseen + 1):  # the cheapest way of several steps (Floyd and Warshall)
            np.minimum(cost, cost[:, [middle]] + cost[[middle]], out=cost)
    return cost
