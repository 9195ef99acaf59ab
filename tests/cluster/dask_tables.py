"""Tables for the tests of clusters, in memory and as Dask collections."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pandas as pd
import pytest

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N_ROWS = 3000


def make_table(n_rows: int = N_ROWS, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + generator.normal(scale=0.5, size=n_rows), range(n_classes - 1))
    return X, y, generator.integers(0, 4, size=n_rows) / 2.0


def cut(n_parts: int, *arrays: np.ndarray, columns: int = 2) -> list[Any]:
    """Return arrays of Dask with as many chunks; a table is cut along its columns, too."""
    sizes = tuple(len(part) for part in np.array_split(np.arange(len(arrays[0])), n_parts))
    return [da.from_array(each, chunks=(sizes, columns) if each.ndim == 2 else (sizes,)) for each in arrays]


def kill_a_worker(client: Any) -> None:
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


def make_frame() -> pd.DataFrame:
    """A table of numbers with gaps, whole numbers and categories that differ from part to part."""
    X, y, weight = make_table(n_classes=3)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.loc[2900:, "b"] = np.nan
    frame["clicks"] = np.arange(N_ROWS) % 7
    frame["kind"] = np.where(np.arange(N_ROWS) < 1500, "x", np.array(["z", "w", "y"])[y])
    frame["weight"] = weight
    frame["label"] = np.array(["no", "perhaps", "yes"])[y]
    return frame


def cut_frame(frame: pd.DataFrame, n_parts: int) -> Any:
    """Return a DataFrame of Dask whose partitions have the categories of their own rows only."""
    rows = np.array_split(np.arange(len(frame)), n_parts)

    def make(number: int) -> pd.DataFrame:
        return frame.iloc[rows[number]].astype({"kind": "category"})

    return dd.from_map(make, range(n_parts), meta=make(0)[:0])
