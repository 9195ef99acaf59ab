"""Tables in and out: CSV and Parquet, checked column by column, never half written."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import typer

from hardwood.cli.late import pd
from hardwood.cli.messages import CommandError, explaining
from hardwood.files import write_whole

_CSV = (".csv", ".csv.gz")
_PARQUET = (".parquet", ".pq")
SUFFIXES = " ".join(_CSV + _PARQUET)

# Only what cannot be anything else: "NA" and "None" are labels in many tables.
_MISSING = ["", "NaN", "nan"]
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def is_table_name(path: Path) -> bool:
    """Whether the name of the file says which kind of table it holds."""
    return path.name.lower().endswith(_CSV + _PARQUET)


def check_table_name(output: Path) -> None:
    """Refuse an output of which the name does not say what kind of table to write."""
    if not is_table_name(output):
        raise typer.BadParameter(f"--output must end in one of {SUFFIXES}, got {output}")


def check_inputs(paths: Collection[Path]) -> None:
    """Before anything is imported or read: refuse files that are not there or that hold nothing."""
    for path in paths:
        with explaining(f"read {path}"):
            if str(path) in ("-", "/dev/stdin"):
                raise CommandError(
                    f"{path} is standard input, and hardwood reads files: save what comes from there, as .csv or "
                    ".parquet if it is a table, and give the name of the file"
                )
            if not path.exists():
                raise CommandError(f"{path} does not exist")
            if not path.is_file():
                raise CommandError(f"{path} is not a file")
            if path.stat().st_size == 0:
                raise CommandError(f"{path} is empty")


def read_table(path: Path, text_columns: Collection[str] = ()) -> pd.DataFrame:
    """Read a CSV or Parquet file; `text_columns` keep the spelling of their values."""
    check_inputs([path])
    with explaining(f"read {path}"):
        if path.suffix.lower() in (".tsv", ".tab"):
            raise CommandError(f"{path} has its values separated by tabs, not by commas: {_convert(path, sep=chr(9))}")
        if not is_table_name(path):
            raise CommandError(f"{path} is no table: its name must end in one of {SUFFIXES}")
        read = _read_parquet if path.name.lower().endswith(_PARQUET) else _read_csv
        table = read(path, text_columns)
    if table.empty:
        raise CommandError(f"{path} has column names but no rows")
    return table


def _convert(path: Path, **options: str) -> str:
    """Say how to make a table that can be read of one that has another layout."""
    said = ", ".join(f"{name}={value!r}" for name, value in options.items())
    name = f"{path.name.partition('.')[0]}-commas.csv"
    return f"convert it, in Python by pandas.read_csv({str(path)!r}, {said}).to_csv({name!r}, index=False)"


def _read_csv(path: Path, text_columns: Collection[str]) -> pd.DataFrame:
    layout: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True, "keep_default_na": False}
    # Before 3.1 the ordinary parser of pandas could be off by the last bit, and a threshold between.
    is_old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact = {"float_precision": "round_trip"} if is_old else {}
    try:
        # pandas renames repeated columns, so they have to be found in a look at the header alone.
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, **layout)
        names = header.iloc[0].tolist()
        _check_separator(path, names)
        _check_names(path, names)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path,
                index_col=False,
                dtype=dict.fromkeys(text_columns, str),
                na_values=_MISSING,
                low_memory=False,
                **layout,
                **exact,
            )
    except UnicodeDecodeError:
        remedy = _convert(path, encoding="latin-1")
        raise ValueError(f"it is not UTF-8 text; if it is Latin-1, as some spreadsheets write: {remedy}") from None
    except pd.errors.ParserWarning:
        raise ValueError("a row has more values than there are column names") from None
    except (EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None


def _read_parquet(path: Path, text_columns: Collection[str]) -> pd.DataFrame:
    table = pd.read_parquet(path).reset_index(drop=True)
    table.columns = table.columns.map(str)
    _check_names(path, table.columns.tolist())
    for name in set(text_columns) & set(table.columns):
        known = table[name].notna()
        table[name] = table[name].astype(object).where(known).map(str, na_action="ignore")
    return table


def _check_separator(path: Path, names: Sequence[str]) -> None:
    """Refuse a table that seems to be one column because its values are not separated by commas."""
    for separator, plural in _SEPARATORS.items():
        if len(names) == 1 and separator in str(names[0]):
            remedy = _convert(path, sep=separator)
            raise CommandError(f"{path} seems to have its values separated by {plural}, not by commas: {remedy}")


def _check_names(path: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for position, name in enumerate(names):
        if not name:
            raise CommandError(f"column {position + 1} of {path} has no name")
        if name in seen:
            raise CommandError(f'{path} has more than one column named "{name}"')
        seen.add(name)


def check_has(table: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    """Refuse a table that lacks a column, and say which it has."""
    for name in names:
        if name not in table.columns:
            known = [*table.columns[:20], "..."] if table.shape[1] > 20 else table.columns
            raise CommandError(f'{path} has no column "{name}"; it has {", ".join(known)}')


def check_complete(table: pd.DataFrame, path: Path, reason: str = "the model takes no missing values") -> None:
    """Refuse missing values, naming the first, and say why."""
    for name, column in table.items():
        missing = column.isna().to_numpy()
        if missing.any():
            raise CommandError(
                f'column "{name}" of {path} has no value in {missing.sum()} of {len(missing)} rows, first in row '
                f"{missing.argmax() + 1}: {reason}, so fill them in or drop those rows"
            )


def _is_too_large(value: Any) -> bool:
    """Say whether a value is a whole number that no float is as large as: an int to newer pandas, text to older."""
    if isinstance(value, str):
        digits = value.lstrip("+-")
        return digits.isdigit() and len(digits.lstrip("0")) > sys.float_info.max_10_exp
    return isinstance(value, int) and abs(value) > sys.float_info.max


def as_numbers(column: pd.Series, path: Path, remedy: str) -> pd.Series:
    """Turn a column into float64, or say which of its values is none and what to do about it."""
    if column.dtype.kind in "biuf":
        return column.astype("float64")
    values = column.astype(object)
    too_large = values.map(_is_too_large).astype(bool)
    numbers = pd.to_numeric(values.mask(too_large), errors="coerce")
    wrong = numbers.isna() & values.notna()
    if not wrong.any():
        # Text is refused even where all of it reads as numbers: it may be a code, such as 01234.
        wrong = values.map(lambda value: isinstance(value, str))
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        raise CommandError(
            f'column "{column.name}" of {path} holds "{_shorten(column.iloc[row])}" in row {row + 1}, '
            f"where a number {'of at most 308 digits ' if too_large.iloc[row] else ''}belongs: {remedy}"
        )
    return numbers.astype("float64")


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


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
    is_parquet = path.name.lower().endswith(_PARQUET)
    write = table.to_parquet if is_parquet else table.to_csv
    write_file(path, lambda draft: write(draft, index=False))
