"""What fitted transformers of scikit-learn do to single columns.

A tree after a transformer compares `f(x)` with a threshold. Where `f` reads one column and never decreases, that is the
same as to compare `x` with the largest number that `f` does not bring above the threshold; where the column holds
categories, it is the same as to ask whether `x` is one of some of them. So each column that a transformer puts out is
followed back to the one column that it comes from, and the arithmetic on its way is written down: operation by
operation, as the transformer itself computes in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood.convert.encoders import ENCODERS, read_encoder
from hardwood.quoting import quote

Operation = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Column:
    """A column that a transformer puts out: where it comes from and what happens on its way.

    Parameters
    ----------
    source : int
        The column of the table that goes in.
    operations : tuple of callables
        What is done to it, one after the other. None of them ever decreases where its argument grows.
    labels : tuple or None
        If the column that goes in holds categories: their labels. The operations then start from the code of a label,
        with one past the last for a category that is not among them.
    takes_unseen : bool
        Whether a category that is not among the labels is taken at all.
    """

    source: int
    operations: tuple[Operation, ...] = ()
    labels: tuple[Any, ...] | None = None
    takes_unseen: bool = True

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return what becomes of values of the column that goes in, which may be missing."""
        with np.errstate(over="ignore", invalid="ignore"):
            for operation in self.operations:
                values = operation(values)
        return values

    def then(self, *operations: Operation) -> Column:
        """Return the column after further operations."""
        return replace(self, operations=self.operations + operations)


class Unfoldable(Exception):
    """Why a transformer cannot be folded into thresholds."""


def trace(step: Any, columns: Sequence[Column]) -> list[Column]:
    """Return the columns that a fitted transformer puts out, given those that go in.

    Raises
    ------
    Unfoldable
        If what it does is not known to treat every column by itself and to keep its order.
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return list(columns)
    if isinstance(step, str) and step == "drop":
        return []
    for ancestor in type(step).__mro__:
        if ancestor.__module__.startswith("sklearn.") and ancestor.__name__ in _TRACERS:
            return _TRACERS[ancestor.__name__](step, columns)
    raise Unfoldable("it is not known to treat every column by itself and to keep the order of its numbers")


def _divide_by(scale: Any, j: int) -> list[Operation]:
    if scale is None:
        return []
    divisor = np.float64(scale[j])
    if not (np.isfinite(divisor) and divisor > 0.0):
        raise Unfoldable(f"it divides column {j} by {divisor}")
    return [lambda values: values / divisor]


def _subtract(center: Any, j: int) -> list[Operation]:
    if center is None:
        return []
    middle = np.float64(center[j])
    return [lambda values: values - middle]


def _trace_standard_scaler(step: Any, columns: Sequence[Column]) -> list[Column]:
    mean, scale = (step.mean_ if step.with_mean else None), (step.scale_ if step.with_std else None)
    return [column.then(*_subtract(mean, j), *_divide_by(scale, j)) for j, column in enumerate(columns)]


def _trace_robust_scaler(step: Any, columns: Sequence[Column]) -> list[Column]:
    center, scale = (step.center_ if step.with_centering else None), (step.scale_ if step.with_scaling else None)
    return [column.then(*_subtract(center, j), *_divide_by(scale, j)) for j, column in enumerate(columns)]


def _trace_max_abs_scaler(step: Any, columns: Sequence[Column]) -> list[Column]:
    clip = [lambda values: np.clip(values, -1.0, 1.0)] if getattr(step, "clip", False) else []
    return [column.then(*_divide_by(step.scale_, j), *clip) for j, column in enumerate(columns)]


def _trace_min_max_scaler(step: Any, columns: Sequence[Column]) -> list[Column]:
    def scale(j: int) -> Operation:
        factor, shift = np.float64(step.scale_[j]), np.float64(step.min_[j])
        if not (np.isfinite(factor) and factor > 0.0):
            raise Unfoldable(f"it multiplies column {j} by {factor}")
        return lambda values: values * factor + shift

    low, high = step.feature_range
    clip = [lambda values: np.clip(values, low, high)] if step.clip else []
    return [column.then(scale(j), *clip) for j, column in enumerate(columns)]


def _trace_function(step: Any, columns: Sequence[Column]) -> list[Column]:
    if step.func is not None:
        name = getattr(step.func, "__name__", quote(step.func))
        raise Unfoldable(
            f"it calls {name}, and nobody promises that the last digit of such a function never falls as its argument "
            "grows, nor that it is the same for every shape of a table"
        )
    return list(columns)


def _trace_simple_imputer(step: Any, columns: Sequence[Column]) -> list[Column]:
    if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        raise Unfoldable(f"it takes {quote(step.missing_values)} for a missing value; only NaN is supported")
    fills = step.statistics_.tolist()
    kept = [j for j, fill in enumerate(fills) if step.keep_empty_features or not _is_nan(fill)]
    filled = [columns[j].then(_fill(0.0 if _is_nan(fills[j]) else fills[j])) for j in kept]
    if step.add_indicator:
        filled += [columns[j].then(lambda values: np.isnan(values) * 1.0) for j in step.indicator_.features_.tolist()]
    return filled


def _is_nan(fill: Any) -> bool:
    return isinstance(fill, float) and np.isnan(fill)


@dataclass(frozen=True)
class _Fill:
    """Fill in what is missing, a number or the label of a category."""

    fill: Any

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(values), self.fill, values)


def _fill(fill: Any) -> _Fill:
    return _Fill(fill)


def _trace_selector(step: Any, columns: Sequence[Column]) -> list[Column]:
    return [columns[j] for j in step.get_support(indices=True).tolist()]


def _trace_encoder(step: Any, columns: Sequence[Column]) -> list[Column]:
    for column in columns:
        if column.labels is not None or not all(isinstance(done, _Fill) for done in column.operations):
            raise Unfoldable("it encodes numbers that another step has computed")
    encoded = []
    for code in read_encoder(step):
        column = columns[code.column]
        fill = column.operations[0].fill if column.operations else None  # type: ignore[attr-defined]
        missing = code.value_of(fill) if column.operations else code.missing
        values = np.array([*code.values, code.unseen, missing], dtype=np.float64)
        encoded.append(Column(column.source, (_look_up(values),), code.labels, code.takes_unseen))
    return encoded


def _look_up(values: np.ndarray) -> Operation:
    """Turn codes into what an encoder makes of their labels; the last value is for what is missing."""
    return lambda codes: values[np.where(np.isnan(codes), len(values) - 1, codes).astype(np.intp)]


def _trace_pipeline(step: Any, columns: Sequence[Column]) -> list[Column]:
    for _, inner in step.steps:
        columns = trace(inner, columns)
    return list(columns)


def _trace_column_transformer(step: Any, columns: Sequence[Column]) -> list[Column]:
    """Follow the columns of a fitted ColumnTransformer, which puts out those of its parts one after the other."""
    out = []
    for name, inner, _ in step.transformers_:
        own = [columns[j] for j in step._transformer_to_input_indices[name]]
        out += trace(inner, own) if own else []
    return out


def _trace_feature_union(step: Any, columns: Sequence[Column]) -> list[Column]:
    if step.transformer_weights:
        raise Unfoldable("it has weights")
    return [column for _, inner in step.transformer_list for column in trace(inner, columns)]


_TRACERS: dict[str, Callable[[Any, Sequence[Column]], list[Column]]] = {
    "StandardScaler": _trace_standard_scaler,
    "RobustScaler": _trace_robust_scaler,
    "MaxAbsScaler": _trace_max_abs_scaler,
    "MinMaxScaler": _trace_min_max_scaler,
    "FunctionTransformer": _trace_function,
    "SimpleImputer": _trace_simple_imputer,
    "SelectorMixin": _trace_selector,
    "Pipeline": _trace_pipeline,
    "ColumnTransformer": _trace_column_transformer,
    "FeatureUnion": _trace_feature_union,
    **dict.fromkeys(ENCODERS, _trace_encoder),
}
