"""What a table suggests about its attacker beyond single columns: types, domains, groups and relations, with evidence.

Every line that can be uncommented says one thing, and means something whether or not the others are uncommented.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hardwood.cli.late import LateModule, np
from hardwood.quoting import list_some, shorten

if TYPE_CHECKING:
    import pandas as pd

    from hardwood import OneHotGroup
    from hardwood.threat import group_finding, relation_finding, toml
    from hardwood.threat.relation_finding import FoundRelation
else:
    group_finding = LateModule("hardwood.threat.group_finding")
    relation_finding = LateModule("hardwood.threat.relation_finding")
    toml = LateModule("hardwood.threat.toml")

_SHOWN = 8  # columns that a comment names


class Proposals(NamedTuple):
    """What was found in a table."""

    n_rows: int
    numbers: dict[str, np.ndarray]  # the known, finite values of numerical columns that are in no group
    groups: list[OneHotGroup]
    relations: list[FoundRelation]
    missing: dict[str, int]  # how many cells of a column are missing, where some are

    @property
    def grouped(self) -> dict[str, str]:
        """The columns that are in a group, and what the group is called."""
        return {str(column): str(group.name) for group in self.groups for column in group.columns}


def find_proposals(table: pd.DataFrame) -> Proposals:
    """Look through the columns of a table, without that of the classes."""
    from hardwood.table import Schema

    numerical = [name for name in table.columns if table[name].dtype.kind in "iuf"]
    matrix = table[numerical].to_numpy(dtype=np.float64, na_value=np.nan)
    matrix = np.where(np.isfinite(matrix), matrix, np.nan)
    groups, relations = [], []
    if numerical:
        schema = Schema.numeric(len(numerical), [str(name) for name in numerical])
        groups = group_finding.find_in_matrix(matrix, schema)
        relations = relation_finding.find_relations(matrix, schema)
    grouped = {str(column) for group in groups for column in group.columns}
    values = {name: matrix[:, j] for j, name in enumerate(map(str, numerical)) if name not in grouped}
    known = {name: column[~np.isnan(column)] for name, column in values.items()}
    missing = {str(name): int(table[name].isna().sum()) for name in table.columns if str(name) not in grouped}
    return Proposals(
        n_rows=len(table),
        numbers={name: column for name, column in known.items() if len(column)},
        groups=groups,
        relations=relations,
        missing={name: count for name, count in missing.items() if 0 < count < len(table)},
    )


def propose_options(found: Proposals) -> Iterator[str]:
    """Go through the lines about several columns at once: whole numbers, groups, relations and missing values."""
    whole = [name for name, values in found.numbers.items() if (values == np.floor(values)).all()]
    if whole:
        yield ""
        yield _comment(f"All values of {_count(whole)} are whole numbers: {_list(whole)}.")
        yield "# Integer columns are moved by whole steps unless you say otherwise ([] for none). To say which are:"
        yield f"# whole_numbers = {toml.toml_value(whole)}"
    if found.groups:
        yield ""
        for group in found.groups:
            columns = [str(column) for column in group.columns]
            yield _comment(f"{found.n_rows:,} of {found.n_rows:,} rows: exactly one of {_list(columns)} is 1.")
        yield "# One-hot groups: the attacker can set another column of a group instead. To say so:"
        yield f"# groups = {toml.toml_value([group.to_record() for group in found.groups])}"
    if found.relations:
        yield ""
        for relation in found.relations:
            yield _comment(f"{relation.evidence}: {relation.text}")
        yield "# Relations that an example has to keep, if you say so:"
        yield f"# relations = {toml.toml_value([relation.text for relation in found.relations])}"
    if found.missing:
        yield ""
        counts = [f"{name} ({count:,})" for name, count in found.missing.items()]
        yield _comment(f"Cells are missing in {_count(counts)}: {_list(counts)}.")
        yield "# They stay so, and no others become missing. An attacker who can leave these fields empty:"
        yield f"# blank = {toml.toml_value(list(found.missing))}"


def propose_domains(found: Proposals) -> Iterator[str]:
    """Go through the lines about the values that columns can have."""
    for name, values in found.numbers.items():
        low, high = float(values.min()), float(values.max())
        if low < 0.0:
            continue
        yield ""
        if np.isin(values, (0.0, 1.0)).all():
            yield _comment(f"All {len(values):,} values of {name} are 0 or 1.")
        elif high <= 1.0:
            yield _comment(f"All {len(values):,} values of {name} lie between 0 and 1.")
        else:
            yield _comment(f"None of the {len(values):,} values of {name} is negative.")
        yield f"# {toml.toml_key(name)} = {toml.toml_value([0, 1] if high <= 1.0 else [0, float('inf')])}"


def _count(columns: list[str]) -> str:
    return f"{len(columns):,} column{'s' if len(columns) > 1 else ''}"


def _list(names: list[str]) -> str:
    return list_some(names, _SHOWN, shorten)


def _comment(text: str) -> str:
    """Return a comment of one line, whatever is in the names."""
    return "# " + "".join(c if c.isprintable() else " " for c in text)
