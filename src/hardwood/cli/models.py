"""Saved models, and the columns and labels of a table as a model knows them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hardwood
from hardwood.cli.columns import Cells, Found, find_absent, judge_numbers, read_numbers
from hardwood.cli.late import np, pd
from hardwood.cli.messages import CommandError, explaining, run_with_notice, say_error
from hardwood.cli.streams import make_stream, open_stream
from hardwood.cli.tables import check_has, read_table, refuse_no_target, say_left_out, say_missing
from hardwood.quoting import list_some, shorten

if TYPE_CHECKING:
    from hardwood import TreeEnsemble
    from hardwood.table import Schema
    from hardwood.table.batches import Batch, Stream

MODEL = "A saved model: JSON of hardwood, JSON or UBJ of XGBoost, text of LightGBM; a pickle with --trust-pickle."
# What XGBoost writes before a warning: the time of day and the place in its source.
_WHERE_LOGGED = re.compile(r"^\[[\d:]+\] WARNING: \S+: ")
TrustPickle = Annotated[
    bool,
    typer.Option("--trust-pickle", help="Load a pickle, such as scikit-learn's models: that runs the code in it."),
]


def read_model(path: Path, *, trust_pickle: bool) -> TreeEnsemble:
    """Read a saved model: hardwood's JSON, XGBoost's JSON or UBJ, LightGBM's text; a pickle that is trusted."""
    from hardwood.convert.saved import is_pickle

    with explaining(f"read {path}"):
        if path.is_file() and path.stat().st_size == 0:
            raise CommandError(f"{path} is empty")
        if path.is_file() and is_pickle(path):
            if not trust_pickle:
                raise CommandError(
                    f"{path} looks like a pickle, and to load a pickle is to run the code in it; if you trust it, "
                    "add --trust-pickle"
                )
            return _import(lambda: hardwood.as_ensemble(_load_pickle(path)), path)
        try:
            return _import(lambda: hardwood.as_ensemble(path), path)
        except ValueError as error:
            raise CommandError(str(error)) from error  # it names the file already


def _import(work: Callable[[], TreeEnsemble], path: Path) -> TreeEnsemble:
    """Import a model, and say in a sentence each what it or its library warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ensemble = run_with_notice(work, f"Reading {path}...")
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say_error(f"note: {_WHERE_LOGGED.sub('', text)}")
    return ensemble


def _load_pickle(path: Path) -> Any:
    """Load what pickle or joblib has written."""
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle can raise anything
        raise ValueError(f"it cannot be loaded by joblib or pickle: {type(error).__name__}: {error}") from error


def read_rows(
    path: Path, model: TreeEnsemble, target: str | None, *, asked: int | None = None
) -> tuple[pd.DataFrame, pd.Series | None]:
    """Read a table: the columns that a model was fitted on, and the one with the labels; the index counts its rows.

    asked : the row that all is about, which is kept if it has no label, as others are not.
    """
    table = run_with_notice(lambda: read_table(path, _list_categorical(model.schema)), f"Reading {path}...")
    if asked is not None and asked > len(table):
        raise CommandError(f"--row {asked}: {path} has {len(table):,} rows")
    columns = ModelColumns(model, path, target, asked=asked)
    columns.add(table)
    columns.check()
    return columns.read(table)


def stream_rows(tables: Stream, columns: ModelColumns) -> Stream:
    """Return a stream of the columns that a model was fitted on, and of the labels, which have been looked at."""

    def read() -> Iterator[Batch]:
        for batch in tables:
            X, labels = columns.read(batch.X)
            yield batch._replace(X=X, y=labels)

    return make_stream(columns.path, read, tables.count_rows())


def open_rows(path: Path, schema: Schema) -> Stream:
    """Open Parquet as a stream of tables, in which the categories of a model keep their spelling."""
    return open_stream(path, _list_categorical(schema))


def _list_categorical(schema: Schema) -> list[str]:
    """Return the names that columns of categories may have in a table."""
    names = [name for name, labels in zip(schema.feature_names or (), schema.categories, strict=False) if labels]
    return names + [name.replace("_", " ") for name in names]


def adopt_table(ensemble: TreeEnsemble, X: pd.DataFrame) -> TreeEnsemble:
    """Return a model whose columns are named as those of a table; one none of whose labels it knows is an error."""
    if ensemble.schema.feature_names is not None:
        ensemble = replace(ensemble, schema=replace(ensemble.schema, feature_names=tuple(X.columns)))
    with explaining("use the table"):
        return hardwood.as_ensemble(ensemble, X)


class ModelColumns:
    """The columns of a table that a model was fitted on, in its order and with its categories, and that of the labels.

    A table is looked at first, part after part, and then read. Rows without a label are left out, as in training.
    """

    def __init__(self, model: TreeEnsemble, path: Path, target: str | None, *, asked: int | None = None) -> None:
        self.path, self._schema, self._target, self._asked = path, model.schema, target, asked
        self._is_regression = model.classes is None
        self._names: list[str] = []  # in the table
        self._cells: dict[str, Cells] = {}  # of columns in which something can be wrong
        self._n_rows = 0
        self._kept: list[np.ndarray] = []  # the rows of each part, counted from 0

    @property
    def rows(self) -> np.ndarray:
        """Which rows are kept, counted from 0."""
        return np.concatenate(self._kept)

    def add(self, table: pd.DataFrame) -> None:
        """Look at some rows; their index says which."""
        if not self._names:
            self._names = self._match(table)
            self._cells = {name: Cells(name) for name in self._names}
        self._n_rows += len(table)
        table = self._leave_out(table)
        self._kept.append(table.index.to_numpy())
        for name, cells in self._cells.items():
            cells.add(table[name])

    def _leave_out(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows that have a label, and the one that was asked for."""
        if self._target is None:
            return table
        is_absent = find_absent(table[self._target], is_regression=self._is_regression)
        if not is_absent.any():
            return table
        is_asked = table.index.to_numpy() == (-1 if self._asked is None else self._asked - 1)
        return table[~is_absent | is_asked]

    def look(self, tables: Stream) -> None:
        """Look at all rows of a stream, and refuse what is wrong with them; say which are left out."""
        for batch in tables:
            self.add(batch.X)
        self.check()

    def check(self) -> None:
        """Refuse values that are missing or infinite, and text where there should be numbers; say what is left out."""
        if self._target is not None and (n_missing := self._n_rows - sum(map(len, self._kept))):
            if n_missing == self._n_rows:
                refuse_no_target(self._target, self.path)
            if self._asked is None:
                say_error(f"note: {say_left_out(self._target, n_missing, self._n_rows)}")
        problems = [found.problem for found in map(self._judge, self._names) if found is not None and found.problem]
        if problems:
            raise CommandError(*(f"{self.path}: {problem}" for problem in problems))
        if not self._schema.accepts_missing:
            for name in self._names:
                self._check_complete(name, "the model takes no missing values")

    def read(self, table: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series | None]:
        """Return some rows as the model takes them, and their labels, once they have been checked."""
        table = self._leave_out(table)
        columns = {}
        for name, labels in zip(self._names, self._schema.categories, strict=True):
            found = self._judge(name)
            if found is not None:
                columns[name] = found.read(table[name])
            else:
                by_spelling = {str(label): label for label in labels or ()}
                values = [value if pd.isna(value) else by_spelling.get(str(value), value) for value in table[name]]
                columns[name] = pd.Series(values, index=table.index)
        return pd.DataFrame(columns), None if self._target is None else table[self._target]

    def _judge(self, name: str) -> Found | None:
        """Return what a column of numbers holds; None of one of categories."""
        is_number = self._schema.categories[self._names.index(name)] is None
        return judge_numbers(self._cells[name], "the model was fitted on numbers") if is_number else None

    def _check_complete(self, name: str, reason: str) -> None:
        cells = self._cells[name]
        n_missing = cells.n_rows - cells.n_known
        if n_missing:
            raise CommandError(say_missing(name, self.path, n_missing, cells.n_rows, cells.first_missing, reason))

    def _match(self, table: pd.DataFrame) -> list[str]:
        """Return the columns of the model by their names in the table."""
        schema, path = self._schema, self.path
        if self._target is not None:
            check_has(table, [self._target], path)
            if self._target in (schema.feature_names or ()):
                raise CommandError(f'the model predicts from column "{shorten(self._target)}", so it is not the target')
        names = [name for name in table.columns if name != self._target]
        if schema.feature_names is None:
            if len(names) != schema.n_features:
                raise CommandError(
                    f"{path} has {len(names)} columns to predict from, "
                    f"but the model was fitted on {schema.n_features} without names"
                )
            return names
        # LightGBM writes an underscore for every space.
        respelt = {name.replace(" ", "_"): name for name in names} | {name: name for name in names}
        missing = [name for name in schema.feature_names if name not in respelt]
        if missing:
            raise CommandError(f"{path} lacks columns of the model: {list_some(missing, 20, shorten)}")
        return [respelt[name] for name in schema.feature_names]


def read_target(labels: pd.Series, ensemble: TreeEnsemble, path: Path) -> np.ndarray:
    """Return the classes of a table as the model spells them, or its numbers if the model is a regression."""
    if ensemble.classes is not None:
        return read_classes(labels, ensemble.classes, path)
    found = read_numbers(labels, "the model predicts numbers")
    if found.problem or found.values is None:
        raise CommandError(f"{path}: {found.problem}")
    return found.values.to_numpy(dtype="float64")


def read_classes(labels: pd.Series, classes: np.ndarray, path: Path) -> np.ndarray:
    """Return the labels of a table as the model spells them: 1, 1.0 and the text "1" are the same class."""
    known = classes.tolist()
    by_value: dict[Any, Any] = {str(label): label for label in known} | {label: label for label in known}
    found = {value: by_value.get(value, by_value.get(str(value))) for value in labels.unique().tolist()}
    for value, label in found.items():
        if label is None:
            raise CommandError(
                f'column "{shorten(labels.name)}" of {path} holds {shorten(value)}, which is not a class of the model; '
                f"its classes are {list_some(known, 20, shorten)}"
            )
    return np.array([found[value] for value in labels.tolist()], dtype=classes.dtype)
