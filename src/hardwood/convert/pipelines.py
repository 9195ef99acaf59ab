"""Pipelines of scikit-learn: what happens to a table before its trees see it is folded into the trees."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.convert import read_model
from hardwood.convert.column_maps import Column, Unfoldable, trace
from hardwood.convert.precision import LARGEST, largest_not_above
from hardwood.convert.scikit_learn import in_one_thread, quiet, run_quietly
from hardwood.convert.source import Answer, Source
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.bit_sets import pack_sets
from hardwood.quoting import quote
from hardwood.table import Schema


def read_pipeline(model: Any) -> TreeEnsemble | Source:
    """Read the last step of a pipeline, and fold what the steps before it do into its splits."""
    *before, (_, last) = model.steps
    reading = read_model(last)
    steps = [(name, step) for name, step in before if step is not None and step != "passthrough"]
    if not steps:
        return reading
    ensemble = reading if isinstance(reading, TreeEnsemble) else reading.ensemble
    columns = [Column(j) for j in range(steps[0][1].n_features_in_)]
    n_raw = len(columns)
    for name, step in steps:
        try:
            columns = trace(step, columns)
        except Unfoldable as reason:
            raise TypeError(_explain(name, step, reason)) from None
    if len(columns) != ensemble.schema.n_features:
        raise ValueError(f"model: {len(columns)} columns leave the steps of the Pipeline, and {ensemble} goes on")
    names = getattr(steps[0][1], "feature_names_in_", None)
    schema = Schema(n_raw, None if names is None else tuple(names), _categories(columns, ensemble, n_raw))
    single = _in_one_thread(model)
    _refuse_sparse(single, schema, reading)
    schema = replace(schema, accepts_missing=_takes_missing(single, schema, columns, ensemble))
    if not schema.accepts_missing:
        _refuse_missing_categories(columns)
    folded = fold(ensemble, columns, schema)
    return _source(single, folded, columns, reading)


def _explain(name: str, step: Any, reason: Exception) -> str:
    return (
        f"model: a Pipeline with a {type(step).__name__} in front (step {quote(name)}) cannot be turned into trees "
        f"on the table that goes in: {reason}; give its last step, model[-1], with the table that this step sees, "
        "model[:-1].transform(X), and a threat in the units of that table"
    )


def fold(ensemble: TreeEnsemble, columns: Sequence[Column], schema: Schema) -> TreeEnsemble:
    """Return an ensemble that decides on a table what another decides on the columns that are made of it.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Splits on `columns`.
    columns : sequence of Column
        How they come about.
    schema : Schema
        The table.
    """
    threshold, missing_left = ensemble.threshold.copy(), ensemble.missing_left.copy()
    left, right = ensemble.left.copy(), ensemble.right.copy()
    feature = ensemble.feature.copy()
    left_sets = ensemble.left_sets()
    for j, column in enumerate(columns):
        nodes = np.flatnonzero(ensemble.feature == j)
        feature[nodes] = column.source
        if not len(nodes) or ensemble.schema.categories[j] is not None:
            continue  # categories are handed on as they are
        cut = ensemble.threshold[nodes]
        (missing,) = column(np.array([np.nan]))
        if not np.isnan(missing):
            missing_left[nodes] = missing <= cut
        if column.labels is not None:
            value = column(np.arange(len(column.labels) + 1.0))
            # What the model does not take is NaN, and goes right: the check of the import leaves it out.
            left_sets |= dict(zip(nodes.tolist(), value[None, :] <= cut[:, None], strict=True))
            threshold[nodes] = 0.0
            continue
        threshold[nodes], some = largest_not_above(column, cut)
        # Where no number goes left, all numbers do once the sides are swapped.
        swapped = nodes[~some]
        left[swapped], right[swapped] = ensemble.right[swapped], ensemble.left[swapped]
        threshold[swapped], missing_left[swapped] = LARGEST, ~missing_left[swapped]
    start, words = pack_sets(ensemble.n_nodes, left_sets)
    return replace(
        ensemble,
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        missing_left=missing_left & (feature >= 0),
        category_start=start,
        category_words=words,
        schema=schema,
    )


def _categories(columns: Sequence[Column], ensemble: TreeEnsemble, n_raw: int) -> tuple[tuple | None, ...]:
    """Return the labels of the columns of the table that goes in."""
    found: dict[int, tuple | None] = {}
    for column, labels in zip(columns, ensemble.schema.categories, strict=True):
        if labels is not None and (column.operations or column.labels is not None):
            raise ValueError("model: a step of the Pipeline changes a column of categories before the model sees it")
        own = labels if column.labels is None else column.labels
        if found.setdefault(column.source, own) != own:
            raise ValueError(
                f"model: column {column.source} is a number for one step of the Pipeline, and categories for another"
            )
    return tuple(found.get(j) for j in range(n_raw))


def _in_one_thread(model: Any) -> Any:
    single = copy.copy(model)
    name, last = model.steps[-1]
    single.steps = [*model.steps[:-1], (name, in_one_thread(last))]
    return single


def _refuse_sparse(model: Any, schema: Schema, reading: TreeEnsemble | Source) -> None:
    """Refuse XGBoost behind a step that makes sparse tables: it takes the zeros that they leave out for missing."""
    row = np.zeros((1, schema.n_features))
    is_sparse = hasattr(quiet_transform(model, schema.decode(row)), "toarray")
    if is_sparse and type(model.steps[-1][1]).__module__.startswith("xgboost"):
        raise ValueError(
            "model: a step of the Pipeline makes sparse tables (sparse_output=True), and XGBoost takes the zeros that "
            "these leave out for missing values; set sparse_output=False or sparse_threshold=0 and fit again"
        )


def quiet_transform(model: Any, table: Any) -> Any:
    """Return what a pipeline's last step sees, without a warning about names of columns."""
    result = []
    run_quietly(lambda given: result.append(model[:-1].transform(given)) or np.empty(0), table)  # type: ignore[func-returns-value]
    return result[0]


def _takes_missing(model: Any, schema: Schema, columns: Sequence[Column], ensemble: TreeEnsemble) -> bool:
    """Say whether any value may be missing; whether some may is more than a schema can say."""
    arrives = any(np.isnan(column(np.array([np.nan]))[0]) for column in columns)
    if arrives and not ensemble.schema.accepts_missing:
        return False
    accepting = replace(schema, accepts_missing=True)
    try:
        run_quietly(model.predict, accepting.decode(np.full((1, schema.n_features), np.nan)))
    except (ValueError, TypeError):
        return False
    return True


def _refuse_missing_categories(columns: Sequence[Column]) -> None:
    """Refuse a category for missing labels where numbers must not be missing: a schema accepts both or none."""
    for column in columns:
        if column.labels is not None:
            unseen, missing = column(np.array([len(column.labels), np.nan]))
            if not np.isnan(missing) and missing != unseen:
                raise ValueError(
                    f"model: column {column.source} of the Pipeline has a category of its own for missing labels, and "
                    "its numbers must not be missing; fill in missing labels before, such as with 'missing'"
                )


def _source(model: Any, folded: TreeEnsemble, columns: Sequence[Column], reading: TreeEnsemble | Source) -> Source:
    schema = folded.schema

    def after(answer: Answer | None) -> Answer | None:
        return None if answer is None else lambda table: answer(quiet_transform(model, table))

    source = Source(
        ensemble=folded,
        name=f"Pipeline with {type(model.steps[-1][1]).__name__}",
        predict=quiet(model.predict),
        as_table=schema.decode,
        takes_unseen=all(column.takes_unseen for column in columns),
    )
    if isinstance(reading, TreeEnsemble):
        return replace(source, output=quiet(model.predict_proba) if folded.link == "probability" else None)
    return replace(
        source,
        output=after(reading.output),
        probability=after(reading.probability),
        float32=reading.float32,
        warning=reading.warning,
    )
