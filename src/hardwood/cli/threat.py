"""`hardwood threat`: a commented threat-model file to edit; and reading it back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hardwood
from hardwood.cli.columns import Kind, classify
from hardwood.cli.late import LateModule, np
from hardwood.cli.messages import CommandError, console, explaining, run_with_notice
from hardwood.cli.proposals import find_proposals, propose_domains, propose_options
from hardwood.cli.tables import check_has, check_inputs, check_output, read_table, write_file
from hardwood.quoting import shorten

if TYPE_CHECKING:
    import pandas as pd

    from hardwood import ThreatModel, TreeEnsemble
    from hardwood.threat import spelling, toml
else:
    spelling = LateModule("hardwood.threat.spelling")
    toml = LateModule("hardwood.threat.toml")

THREAT = "TOML: what the attacker can do; or a model of hardwood fit: what it was trained against."
EPSILON = "Or: how far every number can be moved."

_SHOWN = 12  # categories
_SHOWN_IDENTIFIERS = 3
_LONGEST = 60  # characters of a category
_LARGEST_WHOLE = 2**63 - 1  # in TOML
_SPELLINGS = """\
# To let the attacker change a column, take the "# " off the line with its name and say how, in the units of the column:
#   0.5                  move it by up to 0.5, up or down
#   [0.5, 2.0]           down by up to 0.5, up by up to 2.0
#   "10%"                by up to a tenth of its own value; ["10%", 0.0] down only
#   "0.5 std"  "2 iqr"   by half a standard deviation, two interquartile ranges, of its training column
#   ">"  "<"  "<>"       up, down, either way without limit; "<>" also turns any category into any other
#   { red = ["blue"] }   turn the category red into blue
# A column that is not named cannot be changed. A cell that is missing stays missing, and none can be made missing.
# A category must be one of the table; unseen_categories = "ignore" or "allow" is for those that are not.
# What is proposed below holds in all rows of this table. Whether it holds for the attacker, you have to know.
"""


def threat(
    data: Annotated[Path, typer.Argument(help="The table: .csv, .csv.gz or .parquet.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the threat model (TOML).")],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the classes, which nobody attacks.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there already.")] = False,
) -> None:
    """Write a threat-model file to edit.

    Lists the columns of a table with what is in them and, commented out, an example of how to say
    what an attacker can do to each; and what holds in all rows: which columns are whole numbers,
    between which values they lie, one-hot groups, sums, ratios and comparisons of columns. As
    written, nothing can be changed.

    **Example:** hardwood threat mail.csv --target spam --output threat.toml
    """
    check_output(output, [data])
    check_inputs([data], data=data)
    if output.exists() and not overwrite:
        raise CommandError(f"{output} is there already: choose another output, or say --overwrite")
    table = run_with_notice(lambda: read_table(data), f"Reading {data}...")
    check_has(table, [] if target is None else [target], data)
    table = _read_numbers(table, target)
    text = "\n".join(_describe(table, data, target)) + "\n"
    with explaining(f"describe {data}"):
        hardwood.ThreatModel.parse(text)
    write_file(output, lambda draft: draft.write_text(text, encoding="utf-8"))
    count = table.shape[1] - (target is not None)
    console.print(f"Described {count} columns; edit {output} to say what can be changed", markup=False, soft_wrap=True)


def check_threat_options(path: Path | None, epsilon: float | None) -> None:
    """Refuse two spellings of the threat at once."""
    if path is not None and epsilon is not None:
        raise typer.BadParameter("--threat and --epsilon say the same thing: give one of them")


def read_threat(path: Path | None, epsilon: float | None) -> ThreatModel:
    """Return the threat model that a file or one number stands for; without either, there is no attacker."""
    if path is None:
        return hardwood.ThreatModel(epsilon)
    with explaining(f"read {path}"):
        text = path.read_text(encoding="utf-8-sig")
        return hardwood.ThreatModel.parse(_find_in_model(text) if path.suffix.lower() == ".json" else text)


def settle_threat(threat: ThreatModel, ensemble: TreeEnsemble, X: pd.DataFrame) -> ThreatModel:
    """Return the threat model with what it leaves to a table read off the whole table, not off some rows of it."""
    return threat.settle(X, ensemble.schema.encode(X), ensemble.schema)


def resolve_words(settled: ThreatModel) -> ThreatModel:
    """Return what a model was trained against so that no other table can change what it means."""
    return settled.replace(whole_numbers=None) if settled.whole_numbers == "from_dtype" else settled


def _find_in_model(text: str) -> str:
    """Return what a model was trained against: the same on every table, as everything relative has become numbers."""
    document = json.loads(text)
    threat = document.get("threat") if isinstance(document, dict) else None
    if not isinstance(threat, str):
        raise ValueError("it does not say what it was trained against; give a threat model (TOML)")
    return threat


def _read_numbers(table: pd.DataFrame, target: str | None) -> pd.DataFrame:
    """Return a table in which columns of text are numbers where `hardwood fit` takes them for numbers."""
    table = table.copy(deep=False)
    for name in table.columns:
        if name != target and table[name].dtype.kind not in "biuf":
            found = classify(table[name])
            if found.kind is Kind.number and found.is_used:
                table[name] = found.values
    return table


def _describe(table: pd.DataFrame, path: Path, target: str | None) -> Iterator[str]:
    """Go through the lines of the file."""
    yield _comment(f"What an attacker can do to the {len(table):,} rows of {path.name}. As it stands: nothing.")
    yield "#"
    yield _SPELLINGS
    if target is None:
        yield "# The classes whose rows are changed. All of them, unless you say which:"
        yield '# attacking_classes = ["fraud"]'
    else:
        labels = table[target]
        counts = _count(labels if labels.dtype.kind in "biuf" else labels.dropna().astype(str))
        yield _comment(f"The classes of {target}: {_counts(counts) or 'none, all cells are missing'}.")
        yield "# Those whose rows are changed. All of them, unless you say which:"
        yield f"# attacking_classes = {toml.toml_value([spelling.plain(label) for label in counts.index[-1:]])}"
    found = find_proposals(table.drop(columns=[] if target is None else [target]))
    yield from propose_options(found)
    yield "\n[features]"
    for name in table.columns:
        if name != target:
            yield ""
            if str(name) in found.grouped:
                yield _comment(f"One column of the group {found.grouped[str(name)]} (see groups): {name}")
                continue
            yield from _describe_column(table[name].dropna(), str(name))
            if missing := int(table[name].isna().sum()):
                yield _comment(f"{missing:,} cells are missing: they stay so, and no others become missing")
    yield "\n# Values that exist, smallest and largest, beyond which nothing is moved."
    yield "[within]"
    yield from propose_domains(found)


def _describe_column(column: pd.Series, name: str) -> Iterator[str]:
    """Say what is in a column, and how an attacker could be given it."""
    if column.empty:
        yield _comment(f"{name}: no values at all")
    elif column.dtype.kind in "iuf":
        yield from _describe_numbers(column.astype(float), name)
    else:
        yield from _describe_categories(_count(column.astype(str)), len(column), name)


def _describe_numbers(column: pd.Series, name: str) -> Iterator[str]:
    finite = column[np.isfinite(column)]
    if finite.empty:
        yield _comment(f"{name}: all values are infinite, which no model takes")
        return
    if len(finite) < len(column):
        yield _comment(f"{len(column) - len(finite):,} values are infinite, which no model takes")
    low, median, high = finite.quantile([0.0, 0.5, 1.0])
    kind = "whole number" if (finite == finite.round()).all() else "number"
    if finite.isin([0.0, 1.0]).all() and low < high:
        yield _comment(f"0 or 1: {int(finite.sum()):,} of {len(finite):,} are 1")
        yield f"# {toml.toml_key(name)} = 1"
        return
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(finite.std(ddof=0))
    yield _comment(f"{kind} from {low:g} to {high:g}, median {median:g}, standard deviation {spread:.3g}")
    tenth = 0.1 * (spread or abs(high) or 1.0)
    if not math.isfinite(tenth):  # the squares of very large numbers are too large
        tenth = 0.1 * high
    step = max(1, round(tenth)) if kind == "whole number" else float(f"{tenth:.2g}")
    yield f"# {toml.toml_key(name)} = {toml.toml_value(float(step) if abs(step) > _LARGEST_WHOLE else step)}"


def _describe_categories(counts: pd.Series, n_values: int, name: str) -> Iterator[str]:
    if len(counts) > max(_SHOWN, 0.5 * n_values):
        examples = ", ".join(shorten(label, _LONGEST) for label in counts.index[:_SHOWN_IDENTIFIERS])
        yield _comment(f"{len(counts):,} different values in {n_values:,} cells, such as {examples}, ...")
        yield _comment(f"probably identifiers, which say nothing of new rows: hardwood fit --ignore {name}")
        return
    yield _comment(f"{len(counts):,} categor{'y' if len(counts) == 1 else 'ies'}: {_counts(counts)}")
    first = str(counts.index[0])
    other = str(counts.index[1]) if len(counts) > 1 else first
    yield f"# {toml.toml_key(name)} = {toml.toml_value({first: [other]})}"


def _count(labels: pd.Series) -> pd.Series:
    """Return how often each label occurs, the commonest first; of several that are as common, the first one seen."""
    return labels.value_counts(sort=False).sort_values(ascending=False, kind="stable")


def _counts(counts: pd.Series) -> str:
    shown = [f"{shorten(label, _LONGEST)} ({count:,})" for label, count in counts.iloc[:_SHOWN].items()]
    return ", ".join(shown if len(counts) <= _SHOWN else [*shown, f"and {len(counts) - _SHOWN:,} more"])


def _comment(text: str) -> str:
    """Return a comment of one line, whatever is in the names."""
    return "# " + "".join(c if c.isprintable() else " " for c in text)
