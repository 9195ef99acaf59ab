"""Finding the one-hot groups of a table: columns that were one category before somebody encoded them."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.table import Schema
from hardwood.threat.groups import OneHotGroup

# What stands between the name of a category and its label: "color_red", "color=red", "color.red".
_SEPARATORS = "_=.:/| -"
# Characters of a name that are searched for them.
_LONGEST = 200


def find_one_hot_groups(X: Any, *, at_most_one: bool = False) -> list[OneHotGroup]:
    """List the one-hot groups of a table: columns of 0 and 1 that sum to 1 in every row.

    In a table with names the columns of a group begin alike, up to a separator, as those of ``pandas.get_dummies`` and
    scikit-learn's ``OneHotEncoder`` do. In one without names they stand next to each other. At least two of them are 1
    in some row. Two columns that merely happen to be 1 in turn are found as well: look at the list before you use it,
    and find groups in many rows rather than in few.

    Parameters
    ----------
    X : pandas or polars DataFrame, or array-like of shape (n_rows, n_features)
    at_most_one : bool, default=False
        Whether to list, after these, columns with names that begin alike of which at most one is 1 in every row, as
        where one category was dropped. That is weaker evidence: rare flags often do not occur together.

    Returns
    -------
    list of OneHotGroup
        Any column of a group can be set instead of any other; see `OneHotGroup.may_become`.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.get_dummies(pd.DataFrame({"age": [31, 54, 40], "color": ["red", "blue", "red"]}))
    >>> find_one_hot_groups(table)
    [OneHotGroup(['color_blue', 'color_red'], name='color')]
    """
    schema = replace(Schema.from_table(X), accepts_missing=True)
    return find_in_matrix(schema.encode(X), schema, at_most_one=at_most_one)


def find_groups(matrix: np.ndarray, schema: Schema) -> tuple[OneHotGroup, ...]:
    """Return the one-hot groups that a threat model leaves to a table to find; an attacker without any is a mistake."""
    groups = find_in_matrix(matrix, schema)
    if not groups:
        raise ValueError(
            f"groups='from_table': there are none in the {len(matrix)} rows of X; give the groups of a larger table, "
            "as find_one_hot_groups lists them, or name their columns"
        )
    return tuple(groups)


def find_in_matrix(matrix: np.ndarray, schema: Schema, *, at_most_one: bool = False) -> list[OneHotGroup]:
    """List the one-hot groups of an encoded table, in the order of their first columns."""
    is_flag = ((matrix == 0.0) | (matrix == 1.0)).all(axis=0) & (len(matrix) > 0)
    is_flag[list(schema.categorical)] = False
    flags = matrix == 1.0
    if schema.feature_names is None:
        runs = _find_runs(flags, is_flag)
        return [OneHotGroup(list(columns)) for columns in runs]
    families = _list_families(schema.feature_names, is_flag)
    taken: set[int] = set()
    found = []
    for most in [False, True] if at_most_one else [False]:
        for family in families:
            columns = [j for j in family if j not in taken]
            if len(columns) >= 2 and _is_group(flags[:, columns], at_most_one=most):
                taken.update(columns)
                names = [schema.feature_names[j] for j in columns]
                found.append((most, columns[0], OneHotGroup(names, at_most_one=most, name=_name_group(names))))
    return [group for _, _, group in sorted(found, key=lambda entry: entry[:2])]


def _is_group(flags: np.ndarray, *, at_most_one: bool) -> bool:
    """Say whether one flag is set in every row (or none, if that is allowed), and not always the same one."""
    n_set = flags.sum(axis=1)
    return bool((n_set <= 1).all() and (at_most_one or (n_set == 1).all()) and flags.any(axis=0).sum() >= 2)


def _list_families(names: tuple[str, ...], is_flag: np.ndarray) -> list[list[int]]:
    """Return sets of flags whose names begin alike, those with the shortest common beginning first."""
    families: dict[str, list[int]] = defaultdict(list)
    for j in np.flatnonzero(is_flag).tolist():
        for prefix in _list_prefixes(names[j]):
            families[prefix].append(j)
    return [families[prefix] for prefix in sorted(families, key=len) if len(families[prefix]) >= 2]


def _list_prefixes(name: str) -> Iterator[str]:
    """Yield the beginnings of a name that end in a separator, and after which something follows."""
    for separator in re.finditer(f"[{_SEPARATORS}]+", name[:_LONGEST]):
        if separator.start() > 0 and separator.end() < len(name):
            yield name[: separator.end()]


def _name_group(names: list[str]) -> str:
    """Return what names have in common, without the separator at its end."""
    shared = [prefix for prefix in _list_prefixes(names[0]) if all(name.startswith(prefix) for name in names)]
    return shared[-1].rstrip(_SEPARATORS)


def _find_runs(flags: np.ndarray, is_flag: np.ndarray) -> Iterator[range]:
    """Yield neighbouring flags of which one is set in every row. None begins with a flag that is never set."""
    start, n_columns = 0, flags.shape[1]
    occurs = flags.any(axis=0) & is_flag
    while start < n_columns:
        end = _end_run(flags, is_flag, start) if occurs[start] else start
        if end - start >= 2:
            yield range(start, end)
        start = max(end, start + 1)


def _end_run(flags: np.ndarray, is_flag: np.ndarray, start: int) -> int:
    """Return where the run that begins at a flag ends; where it begins, if it is none."""
    covered = np.zeros(len(flags), dtype=bool)
    for j in range(start, flags.shape[1]):
        if not is_flag[j] or (covered & flags[:, j]).any():
            return start
        covered |= flags[:, j]
        if covered.all():
            return j + 1
    return start
