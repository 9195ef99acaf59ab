"""Tables in and out: CSV and Parquet, checked column by column, never half written."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import typer

from hardwood.cli.late import pd
from hardwood.cli.layout import find_layout, open_bytes
from hardwood.cli.messages import CommandError, explaining, say_error
from hardwood.files import write_whole
from hardwood.quoting import list_some, shorten

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".txt")
PARQUET = (".parquet", ".pq")
_PARQUET_BEGINS = b"PAR1"
_WRITTEN = (".csv", ".csv.gz", *PARQUET)

# Only what cannot be anything else: "NA" and "None" are labels in many tables.
_MISSING = ["", "NaN", "nan"]


def is_table_name(path: Path) -> bool:
    """Whether the name of the file says which kind of table it holds."""
    return path.name.lower().endswith(_CSV + PARQUET)


def check_table_name(output: Path) -> None:
    """Refuse an output of which the name does not say what kind of table to write."""
    if not output.name.lower().endswith(_WRITTEN):
        raise typer.BadParameter(f"--output must end in one of {' '.join(_WRITTEN)}, got {output}")


def check_inputs(paths: Collection[Path], *, data: Path | None = None, folder: bool = False) -> None:
    """Before anything is imported or read: refuse files that are not there or that hold nothing.

    `data` is the table among them, which may come from standard input and, if `folder` says so, be a folder of Parquet.
    """
    for path in paths:
        with explaining(f"read {path}"):
            if is_standard_input(path):
                if path != data:
                    raise CommandError(f"{path} is standard input, from which only a table is read: save it to a file")
                continue
            if not path.exists():
                raise CommandError(f"{path} does not exist")
            if folder and path == data and path.is_dir():
                if not any(file.name.lower().endswith(PARQUET) for file in path.rglob("*")):
                    raise CommandError(f"{path} is a folder without Parquet files ({' '.join(PARQUET)})")
                continue
            if not path.is_file():
                raise CommandError(f"{path} is not a file")
            if path.stat().st_size == 0:
                raise CommandError(f"{path} is empty")


def is_standard_input(path: Path) -> bool:
    """Whether a name stands for what is piped into the command."""
    return str(path) in ("-", "/dev/stdin")


def read_table(path: Path, text_columns: Collection[str] = ()) -> pd.DataFrame:
    """Read a CSV or Parquet file, or standard input; `text_columns` keep the spelling of their values."""
    check_inputs([path], data=path)
    with explaining(f"read {path}"):
        if is_standard_input(path):
            path = Path("standard input")
            table = _read_piped(path, io.BytesIO(sys.stdin.buffer.read()), text_columns)
        elif not is_table_name(path):
            raise CommandError(f"{path} is no table: its name must end in one of {' '.join(_CSV + PARQUET)}")
        else:
            with path.open("rb") as source:
                read = _read_parquet if path.name.lower().endswith(PARQUET) else _read_csv
                table = read(path, source, text_columns)
    if table.empty:
        raise CommandError(f"{path} has column names but no rows")
    return table


def _read_piped(path: Path, source: BinaryIO, text_columns: Collection[str]) -> pd.DataFrame:
    first = source.read(len(_PARQUET_BEGINS))
    if not first:
        raise CommandError("standard input is empty")
    source.seek(0)
    return (_read_parquet if first == _PARQUET_BEGINS else _read_csv)(path, source, text_columns)


def _read_csv(path: Path, source: BinaryIO, text_columns: Collection[str]) -> pd.DataFrame:
    # Before 3.1 the ordinary parser of pandas could be off by the last bit, and a threshold between.
    is_old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact = {"float_precision": "round_trip"} if is_old else {}
    try:
        source = open_bytes(source)
        found = find_layout(source)
        layout: dict[str, Any] = {
            "encoding": found.encoding, "sep": found.separator, "decimal": found.decimal,
            "skipinitialspace": found.separator != "\t", "keep_default_na": False,
        }  # fmt: skip
        # pandas renames repeated columns, so they have to be found in a look at the header alone.
        source.seek(0)
        header = pd.read_csv(source, header=None, nrows=1, dtype=str, **layout)
        check_names(path, header.iloc[0].tolist())
        source.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                source,
                index_col=False,
                dtype=dict.fromkeys(text_columns, str),
                na_values=_MISSING,
                low_memory=False,
                **layout,
                **exact,
            )
    except pd.errors.ParserWarning:
        raise ValueError("a row has more values than there are column names") from None
    except (EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None
    if found.describe():
        say_error(f"note: {path}: {found.describe()}")
    return table


def _read_parquet(path: Path, source: BinaryIO, text_columns: Collection[str]) -> pd.DataFrame:
    table = _read_noted(source).reset_index(drop=True)
    table.columns = table.columns.map(str)
    check_names(path, table.columns.tolist())
    return spell_columns(table, text_columns)


def _read_noted(source: BinaryIO) -> pd.DataFrame:
    """Read Parquet as the note of pandas in it says, or without the note if that is damaged."""
    try:
        from pyarrow import ArrowException, parquet

        from hardwood.table.parquet import can_read_note, make_frame
    except ImportError:
        return pd.read_parquet(source)  # by another library, or it says which to install
    try:
        rows = parquet.read_table(source)
        return make_frame(rows, with_note=can_read_note(rows.schema))
    except (ArrowException, LookupError, NotImplementedError, ArithmeticError) as error:
        if isinstance(error, OSError):
            raise
        raise ValueError(shorten(error)) from None


def spell_columns(table: pd.DataFrame, text_columns: Collection[str]) -> pd.DataFrame:
    """Return a table with some columns as text, missing where nothing stands."""
    for name in set(text_columns) & set(table.columns):
        known = table[name].notna()
        table[name] = table[name].astype(object).where(known).map(str, na_action="ignore")
    return table


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse columns without a name, and names that two columns have."""
    seen: set[str] = set()
    for position, name in enumerate(names):
        if not name and position > 0:  # the first is often an index that was written along
            raise CommandError(f"column {position + 1} of {path} has no name")
        if name in seen:
            raise CommandError(f'{path} has more than one column named "{shorten(name)}"')
        seen.add(name)


def check_has(table: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    """Refuse a table that lacks a column, and say which it has."""
    for name in names:
        if name not in table.columns:
            raise CommandError(explain_absence(table, name, path))


def explain_absence(table: pd.DataFrame, name: str, path: Path) -> str:
    """Say that a table has no such column, and which it has."""
    return f'{path} has no column "{shorten(name)}"; it has {list_some(table.columns, 20, shorten)}'


def say_missing(name: str, path: Path, n_missing: int, n_rows: int, first: int, reason: str) -> str:
    """Say that cells of a column are missing, the first in row `first` from 0, and why that will not do."""
    return (
        f'column "{shorten(name)}" of {path} has no value in {n_missing} of {n_rows} rows, first in row {first + 1}: '
        f"{reason}, so fill them in or drop those rows"
    )


def say_left_out(name: str, n_missing: int, n_rows: int) -> str:
    """Say that rows without a target are left out."""
    return f'{n_missing:,} of {n_rows:,} rows have no value of "{shorten(name)}" and are left out'


def refuse_no_target(name: str, path: Path) -> None:
    """Refuse a table none of whose rows has a target."""
    raise CommandError(f'column "{shorten(name)}" of {path} has no value in any row')


def check_output(path: Path, inputs: Collection[Path]) -> None:
    """Before the long work: refuse an output that could not be written at its end."""
    with explaining(f"write {path}"):
        for source in inputs:
            if path.exists() and source.exists() and path.samefile(source):
                raise CommandError(f"{path} is an input of this command: choose another output")
        if path.exists() and not path.is_file():
            raise CommandError(f"cannot write {path}: it is not a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise CommandError(f"cannot write {path}: it is read-only")
        if not path.parent.is_dir():
            raise CommandError(f"cannot write {path}: there is no folder {path.parent}")
        with tempfile.TemporaryFile(dir=path.resolve().parent):
            pass


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all; a link keeps being a link."""
    with explaining(f"write {path}"):
        write_whole(path.resolve(), write)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write CSV, compressed CSV or Parquet, as the name of the file says."""
    is_parquet = path.name.lower().endswith(PARQUET)
    write = table.to_parquet if is_parquet else table.to_csv
    write_file(path, lambda draft: write(draft, index=False))


def write_parts(parts: Iterable[pd.DataFrame], path: Path) -> None:
    """Write a table part after part: CSV, compressed CSV or Parquet, whole or not at all."""
    write = _write_parquet_parts if path.name.lower().endswith(PARQUET) else _write_csv_parts
    write_file(path, lambda draft: write(parts, draft))


def _write_csv_parts(parts: Iterable[pd.DataFrame], draft: Path) -> None:
    is_packed = draft.name.lower().endswith(".gz")
    with (gzip.open if is_packed else open)(draft, "wt", encoding="utf-8", newline="") as file:
        for number, part in enumerate(parts):
            part.to_csv(file, index=False, header=number == 0)


def _write_parquet_parts(parts: Iterable[pd.DataFrame], draft: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    with ExitStack() as stack:
        writer = None
        for part in parts:
            table = pyarrow.Table.from_pandas(part, preserve_index=False)
            if writer is None:
                writer = stack.enter_context(pyarrow.parquet.ParquetWriter(draft, table.schema))
            writer.write_table(table)
