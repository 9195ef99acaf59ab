"""Models of numbers do not depend on the order of rows, in any bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import RobustBoostingRegressor, RobustForestRegressor, RobustTreeRegressor, stream
from hardwood.refinement.worst_case_leaves import refit_leaves

FEW: dict[str, Any] = {"n_estimators": 2, "max_depth": 4, "random_state": 0}
ESTIMATORS: dict[str, Any] = {
    "tree": RobustTreeRegressor("<", max_depth=3),
    "all leaves": RobustTreeRegressor(0.3),
    "rho": RobustTreeRegressor(0.3, rho=0.5, max_depth=4),
    "absolute error": RobustTreeRegressor("<", criterion="absolute_error", max_depth=3),
    "best first": RobustTreeRegressor(0.3, max_leaf_nodes=6),
    "bins": RobustTreeRegressor(0.3, max_bins=20, max_depth=4),
    "greedy leaves": RobustTreeRegressor(0.3, refit_leaves=False),
    "no attacker": RobustTreeRegressor(),
    "forest": RobustForestRegressor(0.3, bootstrap=False, **FEW),
    "exact forest": RobustForestRegressor(0.3, bootstrap=False, max_bins="exact", **FEW),
    "boosting": RobustBoostingRegressor(0.3, early_stopping=False, **FEW),
}


def make_rows(*, ties: bool, weighs: bool, mixed: bool = False) -> tuple[Any, np.ndarray, np.ndarray | None]:
    generator = np.random.default_rng(1)
    X, y = generator.normal(size=(58, 3)), generator.normal(size=58)
    weight = np.where(generator.random(58) < 0.5, generator.random(58), generator.integers(1, 4, 58))
    if ties:
        X, y = X.round(1), y.round(1)
    if mixed:
        X = pd.DataFrame(X, columns=list("abc")).assign(k=pd.Categorical(generator.choice(list("uvw"), 58)))
        X.loc[::7, "a"] = np.nan
    return X, y, weight if weighs else None


def count_documents(estimator: Any, X: Any, y: np.ndarray, weight: np.ndarray | None, n_orders: int = 5) -> int:
    found = set()
    for seed in range(n_orders):
        order = np.random.default_rng(seed).permutation(len(y))
        model = type(estimator)(**estimator.get_params())
        rows = X.iloc[order] if hasattr(X, "iloc") else X[order]
        model.fit(rows, y[order], None if weight is None else weight[order])
        found.add(model.ensemble_.to_json())
    return len(found)


@pytest.mark.parametrize("weighs", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("ties", [False, True], ids=["all different", "ties"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_model_for_all_orders(name: str, ties: bool, weighs: bool) -> None:
    """Refitted leaves differed by 1e-8 of them, those for absolute errors by a hundredth; weights in the last bits.

    Leaves are the optimum of a program that is solved until it is near enough, on sums that were added up row by row.
    """
    assert count_documents(ESTIMATORS[name], *make_rows(ties=ties, weighs=weighs)) == 1


@pytest.mark.parametrize("weighs", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("name", ["tree", "boosting"])
def test_holes_and_categories(name: str, weighs: bool) -> None:
    threat = {"a": 0.3, "b": "<", "k": "<>"}
    estimator = type(ESTIMATORS[name])(**ESTIMATORS[name].get_params() | {"threat": threat})
    assert count_documents(estimator, *make_rows(ties=True, weighs=weighs, mixed=True)) == 1


def test_streams_are_grown_alike() -> None:
    """Rows of one target are sorted by weight in memory and of a stream alike."""
    X, y, weight = make_rows(ties=True, weighs=True)
    options: dict[str, Any] = {"max_depth": 4, "max_bins": 20, "refit_leaves": False}
    own = RobustTreeRegressor(0.3, **options).fit(X, y, weight).ensemble_
    order = np.random.default_rng(7).permutation(58)
    rows = stream(X[order], y[order], sample_weight=weight[order], batch_rows=11)
    assert RobustTreeRegressor(0.3, **options).fit(rows).ensemble_.to_json() == own.to_json()


def test_rows_of_almost_no_weight_end_the_search_in_silence() -> None:
    """With `rho` of 1e-160 numpy warned of overflows: the squares of such weights are 0."""
    X, y, _ = make_rows(ties=False, weighs=False)
    model = RobustTreeRegressor(0.3, rho=1e-160, max_depth=3).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("squared", [False, True])
def test_refitting_says_how_good_leaves_are_in_the_unit_of_the_weights(squared: bool) -> None:
    X, y, weight = make_rows(ties=True, weighs=True)
    model = RobustTreeRegressor(0.3, max_depth=3, refit_leaves=False).fit(X, y, weight)
    reach = model.threat_.resolve(model.ensemble_.schema)
    plain = refit_leaves(model.ensemble_, X, y, weight, reach, squared=squared)
    for power in (-301, 1, 301):
        own = refit_leaves(model.ensemble_, X, y, np.ldexp(weight, power), reach, squared=squared)
        assert np.array_equal(own.ensemble.value, plain.ensemble.value)
        assert (own.error, own.bound) == (np.ldexp(plain.error, power), np.ldexp(plain.bound, power))
