"""Relations that hold in every row of a table: proposals for a threat model, with the evidence for each.

A sum is looked for by one number per column, its values added up with random weights: what is true of columns is true
of these numbers. What passes that, and every ratio and comparison, is then compared in all rows.
"""

import keyword
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from hardwood.table import Schema

# Values count as equal if they differ by less than this share of their size: half of what a relation forgives.
_TOLERANCE = 5e-7
# Columns with fewer different values are flags or codes: they are below, or sums of, too many others by chance.
_LEAST_VALUES = 3
# Rows that have to speak for a relation: all parts of a sum are other than 0, or chance would break a comparison.
_LEAST_EVIDENCE = 10
_LEAST_SHARE = 0.01
# A search through all columns, all pairs or all triples of this many takes some seconds.
_MOST_COLUMNS, _MOST_FOR_PAIRS, _MOST_FOR_TRIPLES = 600, 200, 80
# Rows that are looked at before all of them are.
_SAMPLE_ROWS = 200
# Comparisons that are listed, those first that chance would break most often.
_MOST_COMPARISONS = 12


class FoundRelation(NamedTuple):
    """A relation that holds in all rows, as `ThreatModel` takes it, and what speaks for it."""

    text: str
    evidence: str


class _Sum(NamedTuple):
    target: int
    parts: tuple[int, ...]


def find_relations(matrix: np.ndarray, schema: Schema) -> list[FoundRelation]:
    """Find sums, ratios and comparisons between the columns of an encoded table that hold in every row.

    Columns with missing values, and those that are flags or constant, are passed over.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_features)
    schema : Schema

    Examples
    --------
    >>> letters, digits = np.random.default_rng(0).integers(0, 50, (2, 100)).astype(float)
    >>> matrix = np.column_stack([letters, digits, letters + digits])
    >>> for found in find_relations(matrix, Schema.numeric(3, ["letters", "digits", "length"])):
    ...     print(found.text)
    length = letters + digits
    """
    columns = _list_columns(matrix, schema)
    X = matrix[:, columns]
    names = [_quote(str(schema.key(j))) for j in columns]
    n_rows = f"{len(X):,} of {len(X):,} rows"
    found = []
    implied: set[tuple[int, int]] = set()  # comparisons that another relation says already
    for target, parts in _find_sums(X):
        n_speaking = int((X[:, parts] != 0.0).all(axis=1).sum())
        text = f"{names[target]} = {' + '.join(names[part] for part in parts)}"
        found.append(FoundRelation(text, f"{n_rows}, in {n_speaking:,} of them every part counts"))
        implied |= {(part, target) for part in parts}
    for target, factor, part in _find_multiples(X):
        found.append(FoundRelation(f"{names[target]} = {factor:.12g} * {names[part]}", n_rows))
        implied |= {(part, target), (target, part)}
    for target, above, below in _find_ratios(X):
        found.append(FoundRelation(f"{names[target]} = {names[above]} / {names[below]}", n_rows))
        implied |= {(target, above), (above, target)}
    for low, high, share in _find_comparisons(X, implied):
        chance = f"{n_rows}, where chance would break it in {share:.0%}"
        found.append(FoundRelation(f"{names[low]} <= {names[high]}", chance))
    return found


def _list_columns(matrix: np.ndarray, schema: Schema) -> list[int]:
    """Return the columns of numbers, all known, that are neither constant nor flags, each of equals once."""
    columns: dict[bytes, int] = {}
    for j in range(matrix.shape[1]):
        values = matrix[:, j]
        is_numerical = schema.categories[j] is None and "`" not in str(schema.key(j))
        if is_numerical and np.isfinite(values).all() and len(np.unique(values[:1000])) >= _LEAST_VALUES:
            columns.setdefault((values + 0.0).tobytes(), j)
    return list(columns.values())[:_MOST_COLUMNS]


def _quote(name: str) -> str:
    """Return a column as a relation names it."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`"


def _find_sums(X: np.ndarray) -> Iterator[_Sum]:
    """Yield the columns that are the sum of two others, or else of three."""
    n_columns = X.shape[1]
    weight = np.random.default_rng(0).uniform(0.5, 1.5, len(X))
    total, size = weight @ X, weight @ np.abs(X)
    order = np.argsort(total)
    done: set[int] = set()
    for n_parts, most in ((2, _MOST_FOR_PAIRS), (3, _MOST_FOR_TRIPLES)):
        if n_columns > most or n_columns < n_parts + 1:
            continue
        parts = np.array(list(combinations(range(n_columns), n_parts)))
        wanted, slack = total[parts].sum(axis=1), _TOLERANCE * size[parts].sum(axis=1)
        first = np.searchsorted(total[order], wanted - slack)
        last = np.searchsorted(total[order], wanted + slack, side="right")
        for k in np.flatnonzero(first < last).tolist():
            for target in order[first[k] : last[k]].tolist():
                one = _Sum(target, tuple(parts[k].tolist()))
                if target not in {*one.parts, *(done if n_parts > 2 else ())} and _is_sum(X, one):
                    done.add(target)
                    yield one


def _is_sum(X: np.ndarray, one: _Sum) -> bool:
    parts = X[:, one.parts]
    is_equal = np.abs(parts.sum(axis=1) - X[:, one.target]) <= _TOLERANCE * np.abs(parts).sum(axis=1)
    return bool(is_equal.all()) and int((parts != 0.0).all(axis=1).sum()) >= _LEAST_EVIDENCE


def _find_multiples(X: np.ndarray) -> Iterator[tuple[int, float, int]]:
    """Yield the columns that are a multiple of another, the larger of the other."""
    if X.shape[1] > _MOST_FOR_PAIRS or len(X) < _LEAST_EVIDENCE:
        return
    size = np.abs(X).sum(axis=0)
    for target in range(X.shape[1]):
        for part in np.flatnonzero(size < size[target]).tolist():
            factor = float(f"{size[target] / size[part]:.12g}")
            is_equal = np.abs(factor * X[:, part] - X[:, target]) <= _TOLERANCE * np.abs(X[:, target])
            if is_equal[0] and is_equal.all():
                yield target, factor, part


def _find_ratios(X: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield the columns that are one column divided by another, which is never 0."""
    if X.shape[1] > _MOST_FOR_PAIRS or len(X) < _LEAST_EVIDENCE:
        return
    few = X[_draw_rows(len(X))]
    for below in np.flatnonzero((X != 0.0).all(axis=0)).tolist():
        for target in range(X.shape[1]):
            if target == below:
                continue
            product = few[:, target] * few[:, below]
            is_near = np.abs(few - product[:, None]) <= _TOLERANCE * np.abs(product)[:, None]
            for above in np.flatnonzero(is_near.all(axis=0)).tolist():
                values = X[:, target] * X[:, below]
                is_equal = np.abs(X[:, above] - values) <= _TOLERANCE * np.abs(values)
                if above not in (target, below) and is_equal.all() and _is_fraction(X[:, target]):
                    yield target, above, below


def _is_fraction(values: np.ndarray) -> bool:
    """Say whether values are not all whole: of ``a = b * c`` only the parts that are ratios are called so."""
    return bool((values != np.floor(values)).any())


def _find_comparisons(X: np.ndarray, known: set[tuple[int, int]]) -> list[tuple[int, int, float]]:
    """Return pairs of columns, the first of which is never above the second, and how often chance would break that."""
    if X.shape[1] > _MOST_FOR_PAIRS or len(X) < _LEAST_EVIDENCE:
        return []
    few = X[_draw_rows(len(X))]
    found: dict[tuple[int, int], float] = {}
    for low in range(X.shape[1]):
        for high in np.flatnonzero((few[:, [low]] <= few).all(axis=0)).tolist():
            share = _find_chance(few[:, low], few[:, high])
            speaks = share >= _LEAST_SHARE and share * len(X) >= _LEAST_EVIDENCE
            if high != low and speaks and (X[:, low] <= X[:, high]).all():
                found[low, high] = share
    direct = [
        (low, high, share) for (low, high), share in found.items()
        if (low, high) not in known
        and not any((low, middle) in found and (middle, high) in found for middle in range(X.shape[1]))
    ]  # fmt: skip
    return sorted(direct, key=lambda one: -one[2])[:_MOST_COMPARISONS]


def _find_chance(low: np.ndarray, high: np.ndarray) -> float:
    """Return how often a value of one column is above a value of another row in the other."""
    return float(np.searchsorted(np.sort(high), low).mean() / len(high))


def _draw_rows(n_rows: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(n_rows)[:_SAMPLE_ROWS]
