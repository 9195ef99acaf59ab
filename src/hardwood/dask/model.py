"""What the estimators over Dask have in common: their client, predictions of collections, and the way back."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, ClassVar, Self
from uuid import uuid4

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from hardwood.dask.scores import score_parts
from hardwood.dask.tables import check_table, is_array, is_collection
from hardwood.ensemble import TreeEnsemble


def take_client(local: type[Any]) -> Callable[..., None]:
    """Return a constructor with the parameters of an estimator, and a client."""
    own = signature(local.__init__)

    def __init__(self: Any, *arguments: Any, client: Any = None, **parameters: Any) -> None:
        local.__init__(self, *arguments, **parameters)
        self.client = client

    added = Parameter("client", Parameter.KEYWORD_ONLY, default=None, annotation=Any)
    __init__.__signature__ = own.replace(parameters=[*own.parameters.values(), added])  # type: ignore[attr-defined]
    return __init__


class DaskModel(BaseEstimator):
    """An estimator that is fitted on a cluster, and is an ordinary one beyond that."""

    local: ClassVar[type[Any]]  # the estimator for tables in memory
    client: Any

    def to_local(self) -> Any:
        """Return the fitted estimator as an ordinary one, which knows nothing of Dask."""
        check_is_fitted(self)
        local = self.local(**{name: value for name, value in self.get_params(deep=False).items() if name != "client"})
        vars(local).update(_without_client(self))
        return local

    def predict(self, X: Any) -> Any:
        """Return the predictions of a Dask collection as a Dask array that is computed when needed; else an array."""
        if not is_collection(X):
            return super().predict(X)
        model = self.to_local()
        dtype = getattr(model, "classes_", np.empty(0)).dtype
        return predict_parts(model, "predict", X, dtype, ())

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy, or R² of numbers; y and weights of a Dask collection are given as to `fit`."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        return score_parts(self.to_local(), X, y, sample_weight, self.client)

    def _predict_proba(self, X: Any) -> Any:
        model = self.to_local()
        return predict_parts(model, "predict_proba", X, np.dtype(np.float64), (len(model.classes_),))

    def _fitted_on(self, X: Any) -> TreeEnsemble:
        if is_collection(X):
            raise ValueError("X: this method takes tables in memory; map it over partitions with to_local()")
        return super()._fitted_on(X)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "client": None}  # a connection belongs to its process

    def __sklearn_clone__(self) -> Self:
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        return type(self)(**{name: clone(value, safe=False) for name, value in parameters.items()}, client=client)


class DaskClassifier(DaskModel):
    """What classifiers can do beyond that."""

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities, of a Dask collection as a Dask array that is computed when needed."""
        return self._predict_proba(X) if is_collection(X) else super().predict_proba(X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of :meth:`predict_proba`."""
        if not is_collection(X):
            return super().predict_log_proba(X)
        return np.log(self._predict_proba(X))


def _without_client(estimator: DaskModel) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if name != "client"}


def predict_parts(model: Any, method: str, X: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """Return what a model says of the rows of a collection, as a Dask array.

    shape : of what it says of a row
    """
    import dask.array
    from dask import delayed

    X = check_table(X)
    lengths = X.chunks[0] if is_array(X) else (np.nan,) * X.npartitions
    meta = np.empty((0, *shape), dtype=dtype)
    parts = X.to_delayed()
    shared = delayed(model, name=f"hardwood-model-{uuid4().hex}", traverse=False)
    ask = delayed(_predict_part, pure=True)
    said = [
        dask.array.from_delayed(ask(shared, method, part, meta), (length, *shape), dtype=dtype, meta=meta)
        for part, length in zip(parts.ravel() if is_array(X) else parts, lengths, strict=True)
    ]
    return dask.array.concatenate(said, allow_unknown_chunksizes=True)


def _predict_part(model: Any, method: str, X: Any, none: np.ndarray) -> np.ndarray:
    """Return what a model says of the rows of a partition, which may be none."""
    return getattr(model, method)(X) if X.shape[0] else none
