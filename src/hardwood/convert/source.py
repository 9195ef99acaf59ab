"""A model of another library beside the ensemble that it was turned into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble

Answer = Callable[[Any], np.ndarray]


def _same(rows: np.ndarray) -> Any:
    return rows


@dataclass(frozen=True, kw_only=True)
class Source:
    """What an importer returns: the ensemble, and all that is needed to compare it with the model it came from.

    Parameters
    ----------
    ensemble : TreeEnsemble
    name : str
        What errors call the model.
    predict : callable
        What the model predicts for a table: class labels, or values of a regression.
    output : callable, optional
        What the model says the ensemble's outputs are. They have to be the same up to rounding: a compiler may fuse a
        multiplication and an addition. Classes have to be the same.
    probability : callable, optional
        For a model that rounds its outputs to probabilities and takes the largest: classes whose probabilities are
        equal to the last bit are then as good as one another.
    as_table : callable
        Turns encoded rows, as the kernels take them, into a table that the model takes.
    float32, infinite : bool
        Whether the model rounds its rows to float32, and whether it takes infinite numbers.
    takes_unseen : bool
        Whether the model takes categories that it was not trained on.
    respell : callable
        How the library has changed the names of columns that it was given.
    adapt : callable, optional
        For a model that does not know all about its columns, such as the labels of categories: takes the table that
        the caller has, with the columns that the model has, and returns the source that knows them.
    warning : str, optional
        What the user should know of the import, unless a table was there to adapt to.
    """

    ensemble: TreeEnsemble
    name: str
    predict: Answer
    output: Answer | None = None
    probability: Answer | None = None
    as_table: Callable[[np.ndarray], Any] = _same
    float32: bool = False
    infinite: bool = False
    takes_unseen: bool = True
    respell: Callable[[str], str] = str
    adapt: Callable[[Any], Source] | None = None
    warning: str | None = None
