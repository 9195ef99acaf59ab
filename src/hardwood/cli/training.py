"""A table as a tree is fitted to it: what its columns were taken for, and all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hardwood.cli.columns import Found, Kind, as_text, classify, list_remarks, read_numbers
from hardwood.cli.late import np, pd
from hardwood.cli.messages import CommandError
from hardwood.cli.tables import explain_absence

# More classes than this, of numbers, are probably no classes.
_MANY_NUMBERS = 20


class Wanted(NamedTuple):
    """What the user said about the columns."""

    target: str
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    ignore: tuple[str, ...]
    is_regression: bool


class TrainingTable(NamedTuple):
    """Features and targets, and what the user should know about them."""

    X: pd.DataFrame
    y: np.ndarray
    remarks: list[str]


def read_training_table(table: pd.DataFrame, path: Path, wanted: Wanted) -> TrainingTable:
    """Find out what the columns hold; everything that is wrong is said at once."""
    named = [wanted.target, *wanted.categorical, *wanted.numeric, *wanted.ignore]
    problems = [explain_absence(table, name, path) for name in dict.fromkeys(named) if name not in table.columns]
    twice = sorted({*wanted.categorical} & {*wanted.numeric})
    problems += [f'column "{name}" is said to be --categorical and --numeric' for name in twice]
    if problems:
        raise CommandError(*problems)
    labels = table[wanted.target]
    remarks = []
    if missing := int(labels.isna().sum()):
        remarks.append(f'{missing:,} of {len(labels):,} rows have no value of "{wanted.target}" and are left out')
        table = table[labels.notna()].reset_index(drop=True)
        if table.empty:
            raise CommandError(f'column "{wanted.target}" of {path} has no value in any row')
    y, problem = _read_target(table[wanted.target], path, wanted)
    found = {
        str(name): _read_feature(column, wanted)
        for name, column in table.items()
        if name != wanted.target and name not in wanted.ignore
    }
    problems = [*([problem] if problem else []), *_list_problems(found, path, wanted.target)]
    if problems:
        raise CommandError(*problems)
    features = {name: column.values for name, column in found.items() if column.values is not None}
    return TrainingTable(pd.DataFrame(features), y, [*remarks, *list_remarks(found)])


def _read_feature(column: pd.Series, wanted: Wanted) -> Found:
    if column.name in wanted.categorical:
        return Found(Kind.category, as_text(column))
    return read_numbers(column) if column.name in wanted.numeric else classify(column)


def _list_problems(found: dict[str, Found], path: Path, target: str) -> Iterator[str]:
    for column in found.values():
        if column.problem:
            yield f"{path}: {column.problem}"
    if all(column.values is None and not column.problem for column in found.values()):
        yield f'{path} has no column besides "{target}" to predict it from'


def _read_target(labels: pd.Series, path: Path, wanted: Wanted) -> tuple[np.ndarray, str]:
    """Return the targets, and what is wrong with them."""
    if wanted.is_regression:
        numbers = read_numbers(labels, "a regression predicts numbers; say --task classification for classes")
        if numbers.values is None:
            return np.empty(0), f"{path}: {numbers.problem}"
        return numbers.values.to_numpy(dtype="float64"), numbers.problem
    y = labels.to_numpy() if labels.dtype.kind in "biuf" else labels.astype(str).to_numpy(dtype=str)
    classes = np.unique(y)
    if len(classes) < 2:
        return y, f'column "{wanted.target}" of {path} holds one class only ({y[0]}), not two'
    if y.dtype.kind == "f" and len(classes) > _MANY_NUMBERS:
        return y, (
            f'column "{wanted.target}" of {path} holds {len(classes):,} different numbers; to predict a number say '
            "--task regression"
        )
    if len(classes) > max(_MANY_NUMBERS, len(y) // 2):
        many = f"{len(classes):,} different values in {len(y):,} rows"
        return y, f'column "{wanted.target}" of {path} holds {many}: too many to be classes'
    return y, ""
