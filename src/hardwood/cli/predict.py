"""`hardwood predict`: a model and a table in, predictions out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from hardwood import TreeEnsemble
from hardwood.cli.messages import (
    CommandError,
    console,
    explaining,
    prepare_kernels,
    run_with_notice,
)
from hardwood.cli.tables import (
    SUFFIXES,
    as_numbers,
    check_complete,
    check_output,
    is_table_name,
    read_table,
    write_table,
)
from hardwood.table import Schema


def predict(
    model: Annotated[Path, typer.Argument(help="A model that `hardwood fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="The rows to predict: .csv, .csv.gz or .parquet.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .csv, .csv.gz or .parquet.")],
) -> None:
    """Predict the rows of a table with a saved model.

    Writes one row per row of DATA: the predicted class, then the probability of each class.
    Columns that the model does not know are ignored.

    **Example:** hardwood predict model.json new-mail.csv --output predictions.csv
    """
    if not is_table_name(output):
        raise typer.BadParameter(f"--output must end in one of {SUFFIXES}, got {output}")
    check_output(output, [model, data])
    ensemble = _read_model(model)
    schema = ensemble.schema
    table = run_with_notice(lambda: read_table(data, _categorical(schema)), f"Reading {data}...")
    X = _model_columns(table, schema, data)
    prepare_kernels()
    with explaining(f"predict {data}"):
        probabilities = run_with_notice(lambda: ensemble.predict_proba(X), "Predicting...")
    labels = ensemble.labels[probabilities.argmax(axis=1)]
    predictions = pd.DataFrame({"prediction": labels})
    for index, label in enumerate(ensemble.labels):
        predictions[f"probability_{label}"] = probabilities[:, index]
    write_table(predictions, output)
    counts = ", ".join(f"{label}: {np.sum(labels == label):,}" for label in ensemble.labels)
    console.print(f"Predicted {len(labels):,} rows ({counts}), saved to {output}", markup=False, soft_wrap=True)


def _read_model(path: Path) -> TreeEnsemble:
    with explaining(f"read {path}"):
        text = path.read_bytes()
    try:
        return TreeEnsemble.parse_json(text, source=str(path))
    except ValueError as error:
        raise CommandError(str(error)) from error


def _categorical(schema: Schema) -> list[str]:
    names = schema.feature_names or ()
    return [name for name, labels in zip(names, schema.categories, strict=False) if labels is not None]


def _model_columns(table: pd.DataFrame, schema: Schema, path: Path) -> pd.DataFrame:
    """The columns that the model was fitted on, in its order and with its categories."""
    if schema.feature_names is None:
        if table.shape[1] != schema.n_features:
            raise CommandError(
                f"{path} has {table.shape[1]} columns, but the model was fitted on {schema.n_features} without names"
            )
        names = list(table.columns)
    else:
        names = list(schema.feature_names)
        missing = [name for name in names if name not in table.columns]
        if missing:
            raise CommandError(f"{path} lacks columns of the model: {', '.join(missing)}")
    table = table[names].copy()
    if not schema.accepts_missing:
        check_complete(table, path)
    for name, labels in zip(names, schema.categories, strict=True):
        if labels is None:
            table[name] = as_numbers(table[name], path, "the model was fitted on numbers")
        else:
            by_spelling = {str(label): label for label in labels}
            table[name] = [value if pd.isna(value) else by_spelling.get(str(value), value) for value in table[name]]
    return table
