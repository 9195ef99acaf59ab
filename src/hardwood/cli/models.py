"""Saved models, and the columns and labels of a table as a model knows them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hardwood
from hardwood.cli.columns import read_numbers
from hardwood.cli.late import np, pd
from hardwood.cli.messages import CommandError, explaining, run_with_notice, say_error
from hardwood.cli.tables import check_complete, check_has, read_table

if TYPE_CHECKING:
    from hardwood import TreeEnsemble
    from hardwood.table import Schema

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


def read_rows(path: Path, schema: Schema, target: str | None) -> tuple[pd.DataFrame, pd.Series | None]:
    """Read a table: the columns that a model was fitted on, and the one with the labels."""
    names = schema.feature_names or ()
    categorical = [name for name, labels in zip(names, schema.categories, strict=False) if labels is not None]
    categorical += [name.replace("_", " ") for name in categorical]
    table = run_with_notice(lambda: read_table(path, categorical), f"Reading {path}...")
    labels = None
    if target is not None:
        check_has(table, [target], path)
        if target in names:
            raise CommandError(f'the model predicts from column "{target}", so it is not the target')
        labels = table.pop(target)
        check_complete(labels.to_frame(), path, "every row needs its class")
    return _model_columns(table, schema, path), labels


def adopt_table(ensemble: TreeEnsemble, X: pd.DataFrame) -> TreeEnsemble:
    """Return a model whose columns are named as those of a table; one none of whose labels it knows is an error."""
    if ensemble.schema.feature_names is not None:
        ensemble = replace(ensemble, schema=replace(ensemble.schema, feature_names=tuple(X.columns)))
    with explaining("use the table"):
        return hardwood.as_ensemble(ensemble, X)


def _model_columns(table: pd.DataFrame, schema: Schema, path: Path) -> pd.DataFrame:
    """The columns that the model was fitted on, in its order and with its categories, by their names in the table."""
    if schema.feature_names is None:
        if table.shape[1] != schema.n_features:
            raise CommandError(
                f"{path} has {table.shape[1]} columns to predict from, "
                f"but the model was fitted on {schema.n_features} without names"
            )
        names = list(table.columns)
    else:
        # LightGBM writes an underscore for every space.
        respelt = {name.replace(" ", "_"): name for name in table.columns} | {name: name for name in table.columns}
        missing = [name for name in schema.feature_names if name not in respelt]
        if missing:
            raise CommandError(f"{path} lacks columns of the model: {_list(missing)}")
        names = [respelt[name] for name in schema.feature_names]
    columns, problems = {}, []
    for name, labels in zip(names, schema.categories, strict=True):
        if labels is None:
            found = read_numbers(table[name], "the model was fitted on numbers")
            columns[name] = found.values
            problems += [f"{path}: {found.problem}"] if found.problem else []
        else:
            by_spelling = {str(label): label for label in labels}
            values = [value if pd.isna(value) else by_spelling.get(str(value), value) for value in table[name]]
            columns[name] = pd.Series(values, index=table.index)
    if problems:
        raise CommandError(*problems)
    chosen = pd.DataFrame(columns)
    if not schema.accepts_missing:
        check_complete(chosen, path)
    return chosen


def _list(names: Collection[str]) -> str:
    shown = list(names)
    return ", ".join(shown if len(shown) <= 20 else [*shown[:20], "..."])


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
                f'column "{labels.name}" of {path} holds {value}, which is not a class of the model; '
                f"its classes are {_list([str(label) for label in known])}"
            )
    return np.array([found[value] for value in labels.tolist()], dtype=classes.dtype)
