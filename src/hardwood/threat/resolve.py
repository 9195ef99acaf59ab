"""A threat model's words resolved for one table: which column, which category, which arrays."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import product
from typing import Any

import numpy as np

from hardwood._kernels.rule_pieces import NumberRules
from hardwood.quoting import LONGEST, list_some, quote
from hardwood.table import Schema
from hardwood.table.columns import Label, get_column, open_table, read_labels, say_where
from hardwood.threat.attack_rules import AttackRule
from hardwood.threat.priced_reach import PricedReach
from hardwood.threat.reach import Reach, round_distances
from hardwood.threat.relative import find_share
from hardwood.threat.spelling import INTERVALS, ONE_FEATURE, label_codes, needs_table, write_out_entry

# Names that are listed in an error.
_SHOWN = 20
# A rule and the position of its feature.
PlacedRules = Sequence[tuple[int, AttackRule]]


def place_entries(features: Any, schema: Schema) -> list[Any]:
    """Return one entry per feature of a table, of a kind that suits the feature."""
    if isinstance(features, list):
        if len(features) != schema.n_features:
            raise ValueError(
                f"threat: {len(features)} entries for a table of {schema.n_features} features; "
                "give one entry per feature, or a dict by column name"
            )
        entries = list(features)
    elif isinstance(features, dict):
        entries = [None] * schema.n_features
        positions = schema.positions
        for key, entry in features.items():
            if str(key) not in positions:
                raise ValueError(f"threat for feature {quote(key)}: {explain_column(key, schema)}")
            entries[positions[str(key)]] = entry
    else:
        # One entry for all suits every feature.
        if not schema.categorical:
            return [features] * schema.n_features
        return [features if labels is None or features == "<>" else None for labels in schema.categories]
    for j, (entry, labels) in enumerate(zip(entries, schema.categories, strict=True)):
        _check_kind(entry, labels is not None, f"threat for feature {quote(schema.key(j))}")
    return entries


def write_out_features(features: Any, matrix: np.ndarray, schema: Schema) -> Any:
    """Return the spelling of a whole table with what is measured on its columns as numbers."""
    if not needs_table(features):
        return features
    entries = place_entries(features, schema)
    keys = [schema.key(j) for j in range(schema.n_features)]
    settled = [
        entry if labels is not None else write_out_entry(entry, matrix[:, j], f"threat for feature {quote(keys[j])}")
        for j, (entry, labels) in enumerate(zip(entries, schema.categories, strict=True))
    ]
    if isinstance(features, dict):
        return {key: settled[schema.positions[str(key)]] for key in features}
    if isinstance(features, list) or schema.feature_names is None:
        return settled
    return {key: entry for key, entry, labels in zip(keys, settled, schema.categories, strict=True) if labels is None}


def place_rules(rules: Sequence[AttackRule], entries: Sequence[Any], schema: Schema) -> PlacedRules:
    """Return the rules, each with the position of its feature, which must not have an entry as well."""
    positions = schema.positions
    placed = []
    for k, rule in enumerate(rules):
        if str(rule.feature) not in positions:
            raise ValueError(f"rules[{k}]: {quote(rule)}: {explain_column(rule.feature, schema)}")
        j = positions[str(rule.feature)]
        if entries[j] is not None:
            raise ValueError(
                f"rules[{k}]: {quote(rule)}: the feature can be moved at no cost ({quote(entries[j])}); give one "
                "or the other"
            )
        placed.append((j, rule))
    return placed


def _check_kind(entry: Any, is_categorical: bool, where: str) -> None:
    """Refuse an entry for numbers on a categorical feature, and the other way round."""
    if isinstance(entry, dict) and not is_categorical:
        raise ValueError(
            f"{where}: {quote(entry)} is for categories, but the feature is numerical; "
            f"declare it in categorical_features or {ONE_FEATURE}"
        )
    if is_categorical and not isinstance(entry, dict) and entry not in (None, "<>"):
        raise ValueError(
            f"{where}: {quote(entry)} is for numbers, but the feature is categorical; "
            "give a dict {category: [categories it can become]}, '<>' or None"
        )


def explain_column(name: Label, schema: Schema) -> str:
    """Say that there is no such column, and which was probably meant."""
    return f"there is no such column{_suggest(name, [schema.key(j) for j in range(schema.n_features)], 'columns')}"


def _suggest(name: Label, known: Sequence[Label], kind: str) -> str:
    """Return which of the known names is nearest to one that is not among them, and what there is."""
    spelled = {str(label): label for label in known}
    nearest = get_close_matches(str(name)[:LONGEST], spelled, n=1)
    question = f", did you mean {quote(spelled[nearest[0]])}?" if nearest else ";"
    return f"{question} the {kind} are {list_some(known, _SHOWN)}"


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
    """Refuse a threat that names a category which the table does not have: most often it is misspelt."""
    for j, named, labels in _named_categories(entries, rules, schema):
        known = label_codes(labels)
        for label in named:
            if label not in known:
                raise ValueError(
                    f"threat for feature {quote(schema.key(j))}: there is no category {quote(label)} in the table"
                    f"{_suggest(label, labels, 'categories')}; to pass over what the table does not have, say "
                    "unseen_categories='ignore'"
                )


def extend_schema(entries: Sequence[Any], rules: PlacedRules, schema: Schema) -> Schema:
    """Add the categories that are named to those of the schema, after the last."""
    categories = list(schema.categories)
    for j, named, labels in _named_categories(entries, rules, schema):
        codes = label_codes(labels)
        categories[j] = (*labels, *(label for label in named if label not in codes))
    return replace(schema, categories=tuple(categories))


def add_labels(schema: Schema, X: Any) -> Schema:
    """Add the labels that a table holds to those of the schema, after the last."""
    if not schema.categorical:
        return schema
    schema.encode(X)  # refuses a table of other columns
    table, categories = open_table(X), list(schema.categories)
    for j in schema.categorical:
        known = schema.categories[j] or ()
        found = read_labels(get_column(table, j), say_where(schema.feature_names, j))
        categories[j] = (*known, *(label for label in found if label not in known))
    return replace(schema, categories=tuple(categories))


def resolve_reach(
    entries: Sequence[Any],
    schema: Schema,
    attacks: np.ndarray,
    options: dict[str, Any],
    *,
    allow_unseen: bool,
) -> Reach:
    """Turn one entry per feature into arrays; unless they are allowed, no category becomes one never seen.

    options : what else `Reach` says, under the names of its fields.
    """
    if not schema.categorical and entries.count(entries[0]) == len(entries):  # one for all, often: not one by one
        ends = [np.full(len(entries), end) for end in _find_ends(entries[0], "threat")]
        categories: tuple[np.ndarray | None, ...] = (None,) * len(entries)
    else:
        both = list(zip(entries, schema.categories, strict=True))
        found = [
            _find_ends(entry if labels is None else 0.0, f"threat for feature {quote(schema.key(j))}")
            for j, (entry, labels) in enumerate(both)
        ]
        ends = list(np.array(found).T)
        categories = tuple(
            None if labels is None else _category_matrix(entry, labels, allow_unseen) for entry, labels in both
        )
    left, right, *shares = ends
    whole = options["whole"]
    if whole is not None:
        left, right = round_distances(left, whole), round_distances(right, whole)
    share = np.stack(shares) if any(side.any() for side in shares) else None
    return Reach(left, right, categories, attacks, share=share, **options)


def _find_ends(entry: Any, where: str) -> tuple[float, float, float, float]:
    """Return how far a number can be moved to the left and to the right, and which shares of itself further."""
    side = INTERVALS.get(entry, entry)
    left, right = side if isinstance(side, tuple) else (side, side)
    if not isinstance(left, str) and not isinstance(right, str):
        return left, right, 0.0, 0.0
    try:
        (left, left_share), (right, right_share) = find_share(left), find_share(right)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return left, right, left_share, right_share


def _category_matrix(entry: Any, labels: tuple[Label, ...], allow_unseen: bool) -> np.ndarray:
    unseen = len(labels)
    if entry == "<>":
        allowed = np.ones((unseen + 1, unseen + 1), dtype=bool)
        allowed[:unseen, unseen] = allow_unseen
        return allowed
    allowed = np.eye(unseen + 1, dtype=bool)
    for category, targets in (entry or {}).items():
        allowed[np.ix_(_find_codes([category], labels, allow_unseen), _find_codes(targets, labels, allow_unseen))] = (
            True
        )
    return allowed


def _find_codes(named: Iterable[Label], labels: tuple[Label, ...], allow_unseen: bool) -> list[int]:
    """Return the codes of categories; those that are not in the table have the last one, or count for nothing."""
    codes = label_codes(labels)
    return [codes.get(label, len(labels)) for label in named if allow_unseen or label in codes]


def resolve_rules(
    rules: PlacedRules, free: Reach, schema: Schema, budget: float, repeat: bool, *, allow_unseen: bool
) -> PricedReach:
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
            costs = np.where(allowed, 0.0, np.inf)
            categorical.append(_category_cost(mine, labels, costs, repeat, allow_unseen))
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
    rules: Sequence[AttackRule], labels: tuple[Label, ...], cost: np.ndarray, repeat: bool, allow_unseen: bool
) -> np.ndarray:
    for rule in rules:
        before = range(len(cost)) if rule.when is None else _find_codes(rule.when, labels, allow_unseen)
        for category, after in product(before, _find_codes([rule.set_to], labels, allow_unseen)):
            cost[category, after] = min(cost[category, after], rule.cost)
    if repeat:
        for middle in range(len(cost)):  # the cheapest way of several steps (Floyd and Warshall)
            np.minimum(cost, cost[:, [middle]] + cost[[middle]], out=cost)
    return cost
