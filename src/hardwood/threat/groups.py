"""One-hot groups: 0/1 columns of which one is 1, in the user's words and placed in one table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.table.columns import Label, say_where
from hardwood.threat.group_reach import GroupReach
from hardwood.threat.reach import Reach
from hardwood.threat.resolve import explain_column
from hardwood.threat.spelling import plain, read_column, refuse_repeats

FROM_TABLE = "from_table"
# What `may_become` calls the state in which no column of a group is 1.
NONE_SET = ""
# Columns that an error names.
_SHOWN = 4


@dataclass(frozen=True)
class OneHotGroup:
    """Columns that are 0 or 1, of which exactly one is 1: a category in the form that most models take.

    Parameters
    ----------
    columns : list of str or int
        The columns, by name, or by index if the table has no names; at least two.
    at_most_one : bool, default=False
        Whether a row may have none that is 1, as where the first category was dropped.
    may_become : "<>", None or dict, default="<>"
        What the attacker can do. "<>": set any column instead of the one that is set. None: nothing. A dict
        ``{column: [columns that can be set instead]}``; with `at_most_one`, ``""`` stands for none. Changes do not
        follow each other: with a to b and b to c, a still cannot become c.
    name : str or None, default=None
        What errors and reports call the group.

    Examples
    --------
    >>> OneHotGroup(["color_blue", "color_red"], name="color")
    OneHotGroup(['color_blue', 'color_red'], name='color')
    >>> OneHotGroup(["tier_2", "tier_3"], at_most_one=True, may_become={"tier_3": ["tier_2", ""]})
    OneHotGroup(['tier_2', 'tier_3'], at_most_one=True, may_become={'tier_3': ['tier_2', '']})
    """

    columns: Sequence[Label]
    at_most_one: bool = False
    may_become: Any = "<>"
    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not isinstance(self.name, str):
            raise ValueError(f"name={quote(self.name)}: expected a str or None")
        object.__setattr__(self, "columns", _read_columns(self.columns))
        if not isinstance(self.at_most_one, (bool, np.bool_)):
            raise ValueError(f"{self}: at_most_one={quote(self.at_most_one)}: expected True or False")
        object.__setattr__(self, "at_most_one", bool(self.at_most_one))
        object.__setattr__(self, "may_become", self._read_relation())

    def __str__(self) -> str:
        if self.name is not None:
            return f"one-hot group {quote(self.name)}"
        more = ", ..." if len(self.columns) > _SHOWN else ""
        return f"one-hot group of {', '.join(map(quote, self.columns[:_SHOWN]))}{more}"

    def __repr__(self) -> str:
        beside = [f"{key}={value!r}" for key, value in self.to_record().items() if key != "columns"]
        if self.may_become is None:
            beside = [text.replace("may_become=''", "may_become=None") for text in beside]
        return f"OneHotGroup({', '.join([repr(list(self.columns)), *beside])})"

    def to_record(self) -> dict[str, Any]:
        """Return what is not left at its default, as TOML has it.

        Examples
        --------
        >>> OneHotGroup(["a", "b"], may_become=None).to_record()
        {'columns': ['a', 'b'], 'may_become': ''}
        """
        record: dict[str, Any] = {"columns": list(self.columns)}
        if self.at_most_one:
            record["at_most_one"] = True
        if self.may_become != "<>":
            record["may_become"] = self.may_become or ""
        if self.name is not None:
            record["name"] = self.name
        return record

    def fixed(self) -> "OneHotGroup":
        """Return the group with nothing that the attacker can do."""
        return replace(self, may_become=None)

    def _read_relation(self) -> Any:
        """Return which column can be set instead of which, in the shortest spelling."""
        relation = plain(self.may_become)
        if relation is None or (isinstance(relation, str) and relation in ("", "<>")):
            return relation or None
        if not isinstance(relation, Mapping):
            raise ValueError(
                f"{self}: may_become={quote(relation)}: expected '<>', None or a dict "
                f"{{column: [columns that can be set "
                "instead]}"
            )
        states: dict[str, Label] = {NONE_SET: NONE_SET} if self.at_most_one else {}
        states |= {str(column): column for column in self.columns}
        read: dict[Label, list[Label]] = {}
        for before, targets in relation.items():
            many = isinstance(targets, Iterable) and not isinstance(targets, str)
            labels = [self._find_state(target, states) for target in (targets if many else [targets])]
            read.setdefault(self._find_state(before, states), []).extend(labels)
        return {before: list(dict.fromkeys(targets)) for before, targets in read.items()} or None

    def _find_state(self, label: Any, states: dict[str, Label]) -> Label:
        """Return the column that a label of `may_become` stands for; TOML's keys are strings."""
        label = NONE_SET if label is None else read_column(label, f"{self}: may_become")
        if str(label) in states:
            return states[str(label)]
        remedy = "; say at_most_one=True where none may be set" if label == NONE_SET else ""
        raise ValueError(f"{self}: may_become: {quote(label)} is not one of its columns{remedy}")

    def allow(self) -> np.ndarray:
        """Return which state may become which, as `GroupReach` has it."""
        n_codes = len(self.columns) + self.at_most_one
        if self.may_become == "<>":
            return np.ones((n_codes, n_codes), dtype=bool)
        allowed = np.eye(n_codes, dtype=bool)
        code = {column: k for k, column in enumerate((*self.columns, NONE_SET))}
        for before, targets in (self.may_become or {}).items():
            allowed[code[before], [code[after] for after in targets]] = True
        return allowed


Groups = tuple[OneHotGroup, ...] | str


def _read_columns(columns: Any) -> tuple[Label, ...]:
    if isinstance(columns, (str, bytes, Mapping)) or not isinstance(columns, Iterable):
        raise ValueError(f"columns={quote(columns)}: expected a list of columns (names or indices)")
    read = [read_column(column, "columns") for column in columns]
    refuse_repeats(read, "columns:")
    if len(read) < 2:
        raise ValueError(f"columns={quote(read)}: a one-hot group has at least two columns")
    return tuple(read)


def read_groups(groups: Any) -> Groups:
    """Return groups given as such, as mappings of their parameters, or as lists of columns; or the word for a table."""
    if groups is None:
        return ()
    if isinstance(groups, str) and groups == FROM_TABLE:
        return groups
    if isinstance(groups, (str, bytes, Mapping, OneHotGroup)) or not isinstance(groups, Iterable):
        raise ValueError(
            f"groups={quote(groups)}: expected a list of groups (OneHotGroup, or a list of columns), 'from_table' "
            "or None"
        )
    read = []
    for k, group in enumerate(groups):
        try:
            read.append(_read_group(group))
        except ValueError as error:
            raise ValueError(f"groups[{k}]: {error}") from None
    _refuse_overlaps(read)
    return tuple(read)


def _read_group(group: Any) -> OneHotGroup:
    if isinstance(group, OneHotGroup):
        return group
    if not isinstance(group, Mapping):
        return OneHotGroup(group)
    known = [field.name for field in fields(OneHotGroup)]
    for key in group:
        if key not in known:
            raise ValueError(f"unknown key {quote(key)}; the keys are {', '.join(map(repr, known))}")
    if "columns" not in group:
        raise ValueError(f"columns: missing in {quote(dict(group))}")
    return OneHotGroup(**group)


def _refuse_overlaps(groups: Sequence[OneHotGroup]) -> None:
    owner: dict[str, int] = {}
    for k, group in enumerate(groups):
        for column in group.columns:
            if str(column) in owner:
                raise ValueError(
                    f"groups: column {quote(column)} is in groups[{owner[str(column)]}] and in groups[{k}]; a column "
                    "belongs to one group"
                )
            owner[str(column)] = k


def compare_groups(groups: Groups) -> Any:
    """Return what is equal for groups that mean the same."""
    if isinstance(groups, str):
        return groups
    return [_spell_strings(group.to_record()) for group in groups]


def _spell_strings(value: Any) -> Any:
    """Return a record with the strings that stand for indices where TOML has keys."""
    if isinstance(value, dict):
        return {str(key): _spell_strings(entry) for key, entry in value.items()}
    return list(map(str, value)) if isinstance(value, list) else value


def scale_groups(groups: Groups, factor: float) -> Groups:
    """Return the groups of an attacker that many times as strong: a change of category has no size."""
    if factor:
        return groups
    return () if isinstance(groups, str) else tuple(group.fixed() for group in groups)


def check_not_grouped(columns: Any, option: str, groups: Groups) -> None:
    """Refuse an option that names a column of a group, which is changed as a whole."""
    if isinstance(columns, tuple) and not isinstance(groups, str):
        grouped = {str(column) for group in groups for column in group.columns}
        for column in columns:
            if str(column) in grouped:
                raise ValueError(
                    f"{option}: column {quote(column)} is in a one-hot group, which is changed as a whole; leave it out"
                )


def place_groups(groups: Groups, schema: Schema) -> GroupReach | None:
    """Return groups as arrays for one table; None if there are none."""
    if isinstance(groups, str):
        raise ValueError(
            "groups='from_table': here is no table to find groups in; give a list, as find_one_hot_groups returns it, "
            "or call settle first"
        )
    if not groups:
        return None
    position = schema.positions
    placed = []
    for group in groups:
        for column in group.columns:
            if str(column) not in position:
                raise ValueError(f"groups: {group}: column {quote(column)}: {explain_column(column, schema)}")
            if schema.categories[position[str(column)]] is not None:
                raise ValueError(f"groups: {group}: column {quote(column)} is categorical; groups are of 0/1 columns")
        placed.append(np.array([position[str(column)] for column in group.columns], dtype=np.intp))
    return GroupReach(tuple(placed), tuple(group.allow() for group in groups))


def leave_out(features: Any, groups: Groups) -> Any:
    """Return one entry per feature, in a list or a dict, without those of columns in groups."""
    grouped = {str(column) for group in groups if isinstance(group, OneHotGroup) for column in group.columns}
    if isinstance(features, dict):
        return {key: entry for key, entry in features.items() if str(key) not in grouped}
    if isinstance(features, list):
        return [None if str(j) in grouped else entry for j, entry in enumerate(features)]
    return features


def leave_to_groups(features: Any, entries: list[Any], placed: GroupReach, schema: Schema) -> list[Any]:
    """Return the entries of a threat without those of columns in groups, which must not be named one by one."""
    entries = list(entries)
    for j in placed.grouped.tolist():
        if isinstance(features, (dict, list)) and entries[j] is not None:
            raise ValueError(
                f"threat for feature {quote(schema.key(j))}: {quote(entries[j])}, but the column is in a one-hot "
                "group, which is changed as a whole; leave the entry out, and say in the group's may_become what "
                "can be changed"
            )
        entries[j] = None
    return entries


def add_groups(reach: Reach, placed: GroupReach) -> Reach:
    """Return a reach in which one-hot groups can be changed as well.

    A state that needs a value outside the domain of its column cannot be reached.
    """
    n_features = len(reach.left)
    left, right = reach.left.copy(), reach.right.copy()
    whole = np.zeros(n_features, dtype=bool) if reach.whole is None else reach.whole.copy()
    unbounded = np.repeat([[-np.inf], [np.inf]], n_features, axis=1)
    within = unbounded if reach.within is None else reach.within.copy()
    relations = []
    for columns, said in zip(placed.columns, placed.allowed, strict=True):
        allowed = said.copy()
        state = np.eye(len(allowed), len(columns))
        exists = ((within[0, columns] <= state) & (state <= within[1, columns])).all(axis=1)
        allowed[:, ~exists] = False
        np.fill_diagonal(allowed, val=True)
        relations.append(allowed)
    groups = GroupReach(placed.columns, tuple(relations))
    left[groups.grouped], right[groups.grouped] = groups.bound()
    whole[groups.grouped], within[:, groups.grouped] = True, [[0.0], [1.0]]
    blank, fill = _leave_whole(reach.blank, groups), _leave_whole(reach.fill, groups)
    changed = replace(reach, left=left, right=right, whole=whole, within=within, blank=blank, fill=fill)
    return replace(changed, groups=groups)


def _leave_whole(flags: np.ndarray | None, groups: GroupReach) -> np.ndarray | None:
    """Return in which features values can be blanked or filled in: a group is complete, and stays so."""
    if flags is None:
        return None
    flags = flags.copy()
    flags[groups.grouped] = False
    return flags if flags.any() else None


def check_groups(
    matrix: np.ndarray, schema: Schema, groups: tuple[OneHotGroup, ...], placed: GroupReach | None
) -> None:
    """Refuse rows that have another number of columns set than their groups say, or other values than 0 and 1."""
    if placed is None:
        return
    bad = placed.read_codes(matrix) < 0
    if not bad.any():
        return
    row, k = map(int, np.argwhere(bad)[0])
    group, columns, where = groups[k], placed.columns[k], f"in row {row} (counted from 0)"
    for j in columns.tolist():
        value = matrix[row, j]
        if value not in (0.0, 1.0):
            is_what = "missing" if np.isnan(value) else f"{value:g}"
            raise ValueError(
                f"X: {say_where(schema.feature_names, j)} is {is_what} {where}, but it belongs to the {group}, "
                "whose columns are 0 or 1; correct the row, or leave the group out of groups"
            )
    n_set = int((matrix[row, columns] == 1.0).sum())
    wanted = "at most one" if group.at_most_one else "exactly one"
    remedy = ", or say at_most_one=True" if n_set == 0 else ""
    raise ValueError(
        f"X: {n_set} columns of the {group} are 1 {where}, expected {wanted}; correct the row{remedy}, or leave "
        "the group out of groups"
    )
