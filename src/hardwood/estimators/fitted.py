"""What estimators know once they are fitted, and what every estimator of a single tree can then do."""

from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

from hardwood.ensemble import TreeEnsemble
from hardwood.quoting import shortening
from hardwood.table import Schema
from hardwood.table.batches import Stream
from hardwood.threat import ThreatModel


def keep_columns(estimator: Any, schema: Schema) -> None:
    """Store what scikit-learn wants to know of the columns an estimator was fitted on."""
    estimator.n_features_in_ = schema.n_features
    if schema.feature_names is not None:
        estimator.feature_names_in_ = np.array(schema.feature_names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


class SingleTree:
    """Predictions and facts of one fitted tree: for estimators that keep it in `ensemble_`."""

    ensemble_: TreeEnsemble
    threat_: ThreatModel
    n_features_in_: int
    feature_names_in_: np.ndarray

    def _store(self, ensemble: TreeEnsemble, threat: ThreatModel) -> Self:
        """Store what was grown. Only once nothing can fail any more: a fit that fails leaves an estimator as it was."""
        self.ensemble_ = ensemble
        self.threat_ = threat
        keep_columns(self, ensemble.schema)
        return self

    def _with_tree(self, ensemble: TreeEnsemble) -> Self:
        """Return a copy that is fitted to another tree on the same columns: how `refine` and others hand it back."""
        fitted = copy(self)
        fitted.ensemble_ = ensemble
        return fitted

    def _fitted_on(self, X: Any) -> TreeEnsemble:
        check_is_fitted(self)
        # An array has no names to compare, and the check is slow for small tables. Its shape is checked by the schema.
        if not isinstance(X, np.ndarray) or (X.ndim == 2 and hasattr(self, "feature_names_in_")):
            with shortening():
                validate_data(self, X, reset=False, skip_check_array=True)
        return self.ensemble_

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class label, or number, of every row of a table or a stream."""
        if isinstance(X, Stream):
            return X.collect(self.predict)
        return self._fitted_on(X).predict(X)

    def apply(self, X: Any) -> np.ndarray:
        """Return the id of the leaf each row ends in."""
        return self._fitted_on(X).apply(X)[:, 0]

    def decision_path(self, X: Any) -> sp.csr_matrix:
        """Return a sparse indicator of the nodes each row passes."""
        return self._fitted_on(X).decision_path(X)

    def get_depth(self) -> int:
        """Return the depth of the tree."""
        check_is_fitted(self)
        return self.ensemble_.max_depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        check_is_fitted(self)
        return self.ensemble_.n_leaves


class FittedTree(SingleTree):
    """What classifiers of one tree can do beyond that."""

    classes_: np.ndarray

    def _keep(self, ensemble: TreeEnsemble, threat: ThreatModel) -> Self:
        """Store what was grown; see `_store`."""
        assert ensemble.classes is not None
        self.classes_ = ensemble.classes
        return self._store(ensemble, threat)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities: each leaf's class shares among the training rows, as the attacker moved them."""
        if isinstance(X, Stream):
            return X.collect(self.predict_proba)
        return self._fitted_on(X).predict_proba(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.classifier_tags.multi_class = False
        tags.input_tags.categorical = True
        return tags
