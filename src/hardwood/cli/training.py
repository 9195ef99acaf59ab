"""A table as a model is fitted to it: what its columns were taken for, and all that is wrong with it.

A table in memory is looked at and read as one part; a stream is looked at in a pass of its own, part after part.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hardwood.cli.columns import Cells, Found, find_absent, judge, judge_categories, judge_numbers, list_remarks
from hardwood.cli.late import np, pd
from hardwood.cli.messages import CommandError
from hardwood.cli.streams import MOST_TEXTS, make_stream
from hardwood.cli.tables import explain_absence, refuse_no_target, say_left_out
from hardwood.progress import Progress
from hardwood.quoting import shorten

if TYPE_CHECKING:
    from hardwood.table.batches import Batch, Stream

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

    X: Any  # a DataFrame or a Stream
    y: Any  # an array; None: a stream brings its own
    remarks: list[str]
    n_rows: int
    n_features: int
    classes: dict[Any, int]  # how many rows each has, in the order of the labels; none of a regression

    @property
    def is_stream(self) -> bool:
        """Whether the rows are read part after part."""
        return self.y is None


def read_training_table(table: pd.DataFrame, path: Path, wanted: Wanted) -> TrainingTable:
    """Find out what the columns of a table in memory hold; everything that is wrong is said at once."""
    look = _Look(path, wanted)
    look.add(table)
    found = look.judge()
    X, y = found.read(table)
    return TrainingTable(X, y, found.remarks, found.n_rows, X.shape[1], found.classes)


def read_training_stream(tables: Stream, path: Path, wanted: Wanted, progress: Progress) -> TrainingTable:
    """Find out in a first pass what the columns of a stream hold; the features are made as it is read again."""
    look = _Look(path, wanted, MOST_TEXTS)
    for batch in tables.report_to(progress):
        look.add(batch.X)
    found = look.judge()

    def read() -> Iterator[Batch]:
        for batch in tables:
            yield batch._replace(**dict(zip(("X", "y"), found.read(batch.X), strict=True)))

    rows = make_stream(path, read, found.n_rows)
    return TrainingTable(rows, None, found.remarks, found.n_rows, len(found.features), found.classes)


class _Columns(NamedTuple):
    """What was found out about all columns."""

    target: str
    labels: _Labels
    features: dict[str, Found]  # those that are used
    remarks: list[str]
    n_rows: int  # those with a target
    classes: dict[Any, int]

    def read(self, table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
        """Return features and targets of the rows that have a target."""
        table = table[~find_absent(table[self.target], is_regression=self.labels.is_regression)]
        features = {name: found.read(table[name]) for name, found in self.features.items()}
        return pd.DataFrame(features, index=table.index), self.labels.read(table[self.target])


class _Look:
    """Looks at a table, part after part."""

    def __init__(self, path: Path, wanted: Wanted, most: int | None = None) -> None:
        self._path, self._wanted, self._most = path, wanted, most
        self._labels = _Labels(wanted, path, most)
        self._cells: dict[str, Cells] = {}
        self._n_rows = self._n_labelled = 0

    def add(self, table: pd.DataFrame) -> None:
        """Look at some rows; their index says which."""
        if not self._n_rows:
            self._check_names(table)
        self._n_rows += len(table)
        is_absent = find_absent(table[self._wanted.target], is_regression=self._wanted.is_regression)
        if is_absent.any():
            table = table[~is_absent]
        self._n_labelled += len(table)
        self._labels.add(table[self._wanted.target])
        for name in table.columns:
            if name != self._wanted.target and name not in self._wanted.ignore:
                self._cells.setdefault(name, Cells(name, self._most)).add(table[name])

    def judge(self) -> _Columns:
        """Return what the columns hold, or say all that is wrong with them."""
        path, target = self._path, self._wanted.target
        remarks = []
        if missing := self._n_rows - self._n_labelled:
            remarks.append(say_left_out(target, missing, self._n_rows))
        if not self._n_labelled:
            refuse_no_target(target, path)
        found = {name: self._judge_feature(cells) for name, cells in self._cells.items()}
        problems = [*self._labels.list_problems(), *_list_problems(found, path, target)]
        if problems:
            raise CommandError(*problems)
        features = {name: column for name, column in found.items() if column.is_used}
        remarks += list_remarks(found)
        return _Columns(target, self._labels, features, remarks, self._n_labelled, self._labels.count())

    def _check_names(self, table: pd.DataFrame) -> None:
        wanted = self._wanted
        named = [wanted.target, *wanted.categorical, *wanted.numeric, *wanted.ignore]
        absent = [name for name in dict.fromkeys(named) if name not in table.columns]
        twice = sorted({*wanted.categorical} & {*wanted.numeric})
        problems = [explain_absence(table, name, self._path) for name in absent]
        problems += [f'column "{shorten(name)}" is said to be --categorical and --numeric' for name in twice]
        if problems:
            raise CommandError(*problems)

    def _judge_feature(self, cells: Cells) -> Found:
        if cells.name in self._wanted.categorical:
            return judge_categories(cells)
        return judge_numbers(cells) if cells.name in self._wanted.numeric else judge(cells)


def _list_problems(found: dict[str, Found], path: Path, target: str) -> Iterator[str]:
    for column in found.values():
        if column.problem:
            yield f"{path}: {column.problem}"
    if not any(column.is_used or column.problem for column in found.values()):
        yield f'{path} has no column besides "{shorten(target)}" to predict it from'


class _Labels:
    """The targets of a table, part after part."""

    def __init__(self, wanted: Wanted, path: Path, most: int | None) -> None:
        self.is_regression, self._where = wanted.is_regression, f'column "{shorten(wanted.target)}" of {path}'
        self._path, self._most = path, most
        self._cells = Cells(wanted.target, most)
        self._counts: dict[Any, int] = {}
        self._dtypes: set[Any] = set()
        self._is_text = False

    def add(self, labels: pd.Series) -> None:
        """Look at more of them; none is missing."""
        if self.is_regression:
            self._cells.add(labels)
            return
        if labels.empty or (self._most is not None and len(self._counts) > self._most):
            return
        if labels.dtype.kind in "biuf":
            values, counts = np.unique(labels.to_numpy(), return_counts=True)
            self._dtypes.add(values.dtype)
        else:
            self._is_text = True
            values, counts = np.unique(labels.astype(str).to_numpy(dtype=str), return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count

    def read(self, labels: pd.Series) -> np.ndarray:
        """Return targets as estimators take them."""
        if self.is_regression:
            return self._judge().read(labels).to_numpy(dtype="float64")
        if self._is_text:
            return labels.astype(str).to_numpy(dtype=str)
        return labels.to_numpy(dtype=np.result_type(*self._dtypes))

    def count(self) -> dict[Any, int]:
        """Return how many rows each class has, in the order of the labels; nothing of a regression."""
        if not self._is_text:
            return dict(sorted(self._counts.items()))
        spelled: dict[str, int] = {}
        for value, count in self._counts.items():
            spelled[str(value)] = spelled.get(str(value), 0) + count
        return dict(sorted(spelled.items()))

    def list_problems(self) -> Iterator[str]:
        """Go through what is wrong with them."""
        if self.is_regression:
            if problem := self._judge().problem:
                yield f"{self._path}: {problem}"
            return
        classes, n_rows = self.count(), sum(self._counts.values())
        n_classes = f"more than {self._most:,}" if len(classes) > (self._most or n_rows) else f"{len(classes):,}"
        if len(classes) < 2:
            yield f"{self._where} holds one class only ({shorten(next(iter(classes)))}), not two"
        elif not self._is_text and np.result_type(*self._dtypes).kind == "f" and len(classes) > _MANY_NUMBERS:
            yield f"{self._where} holds {n_classes} different numbers; to predict a number say --task regression"
        elif len(classes) > min(max(_MANY_NUMBERS, n_rows // 2), self._most or n_rows):
            yield f"{self._where} holds {n_classes} different values in {n_rows:,} rows: too many to be classes"

    def _judge(self) -> Found:
        return judge_numbers(self._cells, "a regression predicts numbers; say --task classification for classes")
