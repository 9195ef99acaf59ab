"""Tables, targets and weights of every type and size, as people hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hypothesis import strategies as st

# What columns consist of: ordinary numbers, or such as are at the end of what a type can hold.
VALUES: dict[str, st.SearchStrategy[float]] = {
    "small whole": st.integers(-3, 3).map(float),
    "ordinary": st.floats(-100, 100, width=16),
    "constant": st.just(1.5),
    "zeros": st.sampled_from([0.0, -0.0]),
    "denormal": st.sampled_from([5e-324, -5e-324, 1e-310, 2e-310, 0.0]),
    "tiny": st.floats(1e-308, 1e-290),
    "huge": st.floats(1e290, 1e308),
    "ends": st.sampled_from([-1.7976931348623157e308, 1.7976931348623157e308, 0.0, 1e308, -1e308]),
    "ends of float32": st.sampled_from([3.4028234663852886e38, -3.4028234663852886e38, 1e-45, 1.17549435e-38, 3.5e38]),
    "all sizes": st.sampled_from([1e-308, 1e-160, 1e-30, 1.0, 1e30, 1e160, 1e308, -1e200]),
    "neighbours": st.sampled_from([1.0, 1.0 + 2**-52, 1.0 - 2**-53, 1.0 + 2**-23]),
    "huge whole": st.sampled_from([2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 9e18]),
    "not finite": st.sampled_from([np.inf, -np.inf, 0.0, 1.0]),
    "missing": st.sampled_from([np.nan, 0.0, 1.0, 2.0]),
}
PLAIN = ["small whole", "small whole", "ordinary", "ordinary", "constant", "missing"]
TYPES = [
    "float16", "float32", "float64", "longdouble", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool", "object", "str", "datetime64[s]", "timedelta64[s]", "complex128",
]  # fmt: skip
PANDAS_TYPES = [
    "Int8", "Int64", "UInt64", "Float32", "Float64", "boolean", "string", "category", "object",
    "datetime64[ns]", "datetime64[ns, UTC]", "int64[pyarrow]", "uint8[pyarrow]", "float[pyarrow]",
    "double[pyarrow]", "bool[pyarrow]", "string[pyarrow]", "timestamp[ms][pyarrow]", "float64", "float32",
    "int64", "Sparse[float64]",
]  # fmt: skip
POLARS_TYPES = [
    "Float64", "Float32", "Int64", "UInt8", "Boolean", "String", "Categorical", "Datetime", "Decimal", "Int128",
    "Null",
]  # fmt: skip


def convert(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return numbers as another type, as far as they have a place in it; others become what they become."""
    with np.errstate(all="ignore"):
        if dtype == "str":
            return np.array([f"{value:g}" for value in values.ravel()]).reshape(values.shape)
        if np.dtype(dtype).kind in "iu":
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            whole = [int(min(max(value, low), high)) for value in np.nan_to_num(values, nan=0.0).ravel().tolist()]
            return np.array(whole, dtype=dtype).reshape(values.shape)
        if np.dtype(dtype).kind in "mM":
            return np.nan_to_num(np.clip(values, -1e9, 1e9)).astype("int64").astype(dtype)
        return values.astype(dtype)


@st.composite
def columns(draw: st.DrawFn, n_rows: int, names: list[str]) -> np.ndarray:
    """Return a column of numbers of one of these sizes."""
    strategy = VALUES[draw(st.sampled_from(names))]
    some = draw(st.lists(strategy, min_size=1, max_size=6))
    return np.array([some[k] for k in np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(some), n_rows)])


@st.composite
def matrices(draw: st.DrawFn, n_rows: int) -> np.ndarray:
    """Return a float64 matrix: of ordinary columns, of such as are finite, or of any."""
    names = draw(st.sampled_from([PLAIN, PLAIN, list(VALUES)[:-2], list(VALUES)[:-2], list(VALUES)]))
    return np.column_stack([draw(columns(n_rows, names)) for _ in range(draw(st.integers(1, 3)))])


@st.composite
def tables(draw: st.DrawFn, n_rows: int, *, is_odd: bool) -> Any:
    """Return a table in one of the ways in which one can hold it; if it is not to be odd, an array of plain numbers."""
    if not is_odd:
        return np.column_stack([draw(columns(n_rows, PLAIN[:4])) for _ in range(draw(st.integers(1, 3)))])
    matrix = draw(matrices(n_rows))
    holders: dict[str, Callable[[], Any]] = {
        "array": lambda: convert(matrix, draw(st.sampled_from(TYPES))),
        "fortran": lambda: np.asfortranarray(matrix),
        "reversed": lambda: matrix[::-1, ::-1],
        "swapped": lambda: matrix.astype(">f8"),
        "lists": lambda: matrix.tolist(),
        "masked": lambda: np.ma.masked_invalid(matrix),
        "sparse": lambda: draw(st.sampled_from([sp.csr_matrix, sp.csc_array, sp.coo_matrix]))(matrix),
        "huge integers": lambda: [
            [10 ** draw(st.integers(17, 400)) if k == 0 else k for _ in range(matrix.shape[1])] for k in range(n_rows)
        ],
        "pandas": lambda: make_frame(matrix, [draw(st.sampled_from(PANDAS_TYPES)) for _ in range(matrix.shape[1])]),
        "polars": lambda: make_polars(matrix, [draw(st.sampled_from(POLARS_TYPES)) for _ in range(matrix.shape[1])]),
    }
    holder = draw(st.sampled_from([*holders, *["array"] * 4, *["pandas"] * 6, "polars"]))
    return holders[holder]()


def make_frame(matrix: np.ndarray, dtypes: list[str]) -> pd.DataFrame:
    """Return a DataFrame of these types; what pandas itself refuses stays a float."""
    frame = pd.DataFrame(matrix, columns=[f"column {k}" for k in range(matrix.shape[1])])
    for name, dtype in zip(frame.columns, dtypes, strict=True):
        values = frame[name]
        if dtype.lower().startswith(("int", "uint", "bool")):
            values = values.clip(-100, 100).round().abs() if "u" in dtype.lower() else values.clip(-100, 100).round()
        try:
            with np.errstate(all="ignore"):
                frame[name] = values.astype(dtype)
        except (ValueError, TypeError, OverflowError, ArithmeticError):
            frame[name] = values.fillna(0.0).clip(0, 1).round()
    return frame


def make_polars(matrix: np.ndarray, dtypes: list[str]) -> Any:
    """Return a DataFrame of polars of these types; what does not fit is missing."""
    import polars as pl

    data = {}
    for k, dtype in enumerate(dtypes):
        values = (
            pl.Series(np.clip(np.nan_to_num(matrix[:, k]), -100, 100))
            if "Float" not in dtype
            else pl.Series(matrix[:, k])
        )
        if dtype in ("String", "Categorical"):
            values = values.cast(pl.String)
        data[f"column {k}"] = values.cast(pl.Decimal(30, 6) if dtype == "Decimal" else getattr(pl, dtype), strict=False)
    return pl.DataFrame(data)


@st.composite
def labels(draw: st.DrawFn, n_rows: int, *, is_odd: bool) -> Any:
    """Return the classes of rows: labels of one of the types that labels are of, or of a usual one."""
    pools: list[list[Any]] = [
        [0, 1],
        [0, 1, 2],
        [-1, 1],
        ["no", "yes"],
        ["a", "b", "c"],
        [False, True],
        [0.0, 1.0],
        [0.5, 1.5],
        [10**9, 10**15],
        [2**63, 1],
        [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")],
        [None, "a"],
        [np.nan, 1.0],
        [1, "a"],
        [7],
        [1e300, -1e300],
        [1e-320, 0.0],
        [10**30, 1],
        [b"a", b"b"],
        ["", "x" * 3000],
        [(1, 2), (3, 4)],
        [0.0, -0.0],
        [2**53, 2**53 + 1],
    ]
    pool = draw(st.sampled_from(pools if is_odd else pools[:7]))
    picks = [pool[k] for k in np.arange(n_rows) * len(pool) // n_rows]
    if not is_odd:
        return np.array(picks)
    as_array = np.empty(n_rows, dtype=object)
    as_array[:] = picks
    holders: list[Callable[[], Any]] = [
        lambda: picks,
        lambda: as_array,
        lambda: np.array(picks),
        lambda: pd.Series(picks),
        lambda: pd.Series(picks, dtype="category"),
        lambda: pd.Series(picks).convert_dtypes(),
        lambda: np.array(picks).reshape(-1, 1),
        lambda: np.array(picks, dtype=np.uint8),
        lambda: np.array(picks, dtype=np.float16),
        lambda: pd.Series(picks).convert_dtypes(dtype_backend="pyarrow"),
    ]
    return hold(draw(st.sampled_from([*holders[:5] * 2, *holders])), as_array)


@st.composite
def numbers(draw: st.DrawFn, n_rows: int, *, is_odd: bool) -> Any:
    """Return the numbers that rows have as their targets, or as their weights."""
    if not is_odd:
        return draw(columns(n_rows, PLAIN[:4]))
    values = draw(
        columns(n_rows, draw(st.sampled_from([PLAIN[:5], list(VALUES)[:-2], list(VALUES)[:-2], list(VALUES)])))
    )
    holders: list[Callable[[], Any]] = [
        lambda: values,
        lambda: values.tolist(),
        lambda: pd.Series(values),
        lambda: pd.Series(values, dtype="Float64"),
        lambda: values.reshape(-1, 1),
        lambda: values.astype(object),
        *(lambda dtype=dtype: convert(values, dtype) for dtype in TYPES),
        lambda: pd.Series(values, dtype="double[pyarrow]"),
    ]
    return hold(draw(st.sampled_from([*holders[:3] * 4, *holders])), values)


@st.composite
def weights(draw: st.DrawFn, n_rows: int, *, is_odd: bool) -> Any:
    """Return weights: none, or mostly such as are not negative."""
    if not is_odd:
        return None
    names = [name for name in VALUES if name != "zeros"]
    return draw(st.one_of(numbers(n_rows, is_odd=True), *[columns(n_rows, names).map(np.abs)] * 4))


def hold(make: Callable[[], Any], otherwise: Any) -> Any:
    """Return values as someone holds them; as they are, if no library can hold them so."""
    try:
        with np.errstate(all="ignore"):
            return make()
    except Exception:  # of NumPy, pandas or Arrow: whatever they refuse cannot be handed to us
        return otherwise
