"""What rows weigh is relative: weights in any unit make the same model, those beyond what adds up are refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    HardenedClassifier,
    OptimalRobustTreeClassifier,
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    RobustForestClassifier,
    RobustForestRegressor,
    RobustTreeClassifier,
    RobustTreeRegressor,
    TreantClassifier,
    adversarial_accuracy,
    make_adversarial_scorer,
    prune,
    refine,
    relabel,
    stream,
)


class Table:
    """Numbers, with holes and categories beside them, two classes, three and numbers, and weights, some of them 0."""

    def __init__(self) -> None:
        generator = np.random.default_rng(3)
        self.X = generator.integers(-8, 9, (60, 3)) * 0.25
        self.mixed = pd.DataFrame(self.X, columns=list("abc")).assign(
            k=pd.Categorical(generator.choice(list("uvw"), 60))
        )
        self.mixed.loc[::9, "a"] = np.nan
        self.target = self.X[:, 0] + self.X[:, 1] + 0.4 * generator.normal(size=60)
        self.two, self.three = (self.target > 0).astype(int), np.digitize(self.target, [-0.7, 0.7])
        self.weight = generator.integers(1, 5, 60) * generator.random(60)
        self.weight[:7] = 0.0


T = Table()
SMALL: dict[str, Any] = {"max_depth": 3}
FEW: dict[str, Any] = {"n_estimators": 2, "max_depth": 3, "random_state": 0}
# What l2_regularization, min_child_weight and min_gain say is in the unit of the weights.
BOOST: dict[str, Any] = {**FEW, "l2_regularization": 0.0, "min_child_weight": 0.0, "min_gain": 0.0}
PLAIN: dict[str, Any] = {**BOOST, "early_stopping": False}

# An estimator, its table and its target; and so is what refine_price says.
CLASSIFIERS: dict[str, tuple[Any, Any, Any]] = {
    "tree": (RobustTreeClassifier(0.1, **SMALL), T.X, T.two),
    "entropy": (RobustTreeClassifier(0.1, criterion="entropy", **SMALL), T.X, T.two),
    "error": (RobustTreeClassifier(0.1, criterion="error", **SMALL), T.X, T.two),
    "rho": (RobustTreeClassifier(0.1, rho=0.5, **SMALL), T.X, T.two),
    "least gain": (RobustTreeClassifier(0.1, min_impurity_decrease=0.01, **SMALL), T.X, T.two),
    "bins": (RobustTreeClassifier(0.1, max_bins=9, **SMALL), T.X, T.two),
    "three classes": (RobustTreeClassifier(0.1, **SMALL), T.X, T.three),
    "holes and categories": (RobustTreeClassifier({"a": 0.1}, **SMALL), T.mixed, T.three),
    "chen": (RobustTreeClassifier(0.1, attacker="chen", **SMALL), T.X, T.two),
    "alternate": (RobustTreeClassifier(0.1, refine="alternate", refine_price=0.0, random_state=0, **SMALL), T.X, T.two),
    "search": (
        RobustTreeClassifier(0.1, refine="search", n_starts=1, refine_price=0.0, random_state=0, **SMALL), T.X, T.two
    ),
    "forest": (RobustForestClassifier(0.1, **FEW), T.X, T.two),
    "bootstrap": (RobustForestClassifier(0.1, bootstrap=True, **FEW), T.X, T.three),
    "boosting": (RobustBoostingClassifier(0.1, **PLAIN), T.X, T.two),
    "boosting, three classes": (RobustBoostingClassifier(0.1, **PLAIN), T.X, T.three),
    "boosting, early": (RobustBoostingClassifier(0.1, **BOOST), T.X, T.two),
    "treant": (TreantClassifier(0.1, max_depth=2), T.X, T.two),
    "treant, log": (TreantClassifier(0.1, max_depth=2, loss="log"), T.X, T.two),
    "optimal": (OptimalRobustTreeClassifier(0.1, max_depth=1), T.X, T.two),
    "hardened": (HardenedClassifier(RobustTreeClassifier(max_depth=3), threat=0.1, rounds=1), T.X, T.two),
    "hardened, scikit-learn": (
        HardenedClassifier(DecisionTreeClassifier(max_depth=3, random_state=0), threat=0.1, rounds=1), T.X, T.two
    ),
}  # fmt: skip
REGRESSORS: dict[str, tuple[Any, Any, Any]] = {
    "regression": (RobustTreeRegressor(0.1, **SMALL), T.X, T.target),
    "absolute error": (RobustTreeRegressor(0.1, criterion="absolute_error", **SMALL), T.X, T.target),
    "regression, rho": (RobustTreeRegressor(0.1, rho=0.5, **SMALL), T.X, T.target),
    "regression, bins": (RobustTreeRegressor(0.1, max_bins=9, **SMALL), T.X, T.target),
    "regression, categories": (RobustTreeRegressor({"b": 0.1}, **SMALL), T.mixed, T.target),
    "forest of numbers": (RobustForestRegressor(0.1, **FEW), T.X, T.target),
    "boosting of numbers": (RobustBoostingRegressor(0.1, **PLAIN), T.X, T.target),
    "boosting of numbers, early": (RobustBoostingRegressor(0.1, **BOOST), T.X, T.target),
}
ESTIMATORS = CLASSIFIERS | REGRESSORS
# Those that are grown on bins, and take streams.
STREAMED = [
    "tree", "three classes", "holes and categories", "forest", "boosting", "regression", "forest of numbers",
    "boosting of numbers, early",
]  # fmt: skip
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def fit(name: str, weight: Any, *, streamed: bool = False) -> Any:
    estimator, X, y = ESTIMATORS[name]
    estimator = type(estimator)(**estimator.get_params(deep=False))
    if not streamed:
        return estimator.fit(X, y, sample_weight=weight)
    parts = [slice(0, 25), slice(25, 60)]
    rows = getattr(X, "iloc", X)
    return estimator.fit(stream(lambda: iter([(rows[part], y[part], weight[part]) for part in parts])))


def describe(model: Any, power: int) -> dict[str, Any]:
    """Return the model, with its covers in a unit."""
    document = json.loads(model.ensemble_.to_json())
    document["nodes"]["cover"] = np.ldexp(document["nodes"]["cover"], -power).tolist()
    return document


def count_leaves(model: Any) -> int:
    return int(model.ensemble_.n_leaves)


def predict(model: Any, X: Any) -> np.ndarray:
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


POWERS = (-1000, -331, -61, 1, 170, 996)
# No powers of two, from one end to the other.
DECIMAL = (1e-300, 1e-150, 1e-100, 1e80, 1e153, 1e290)


class TestAnyUnit:
    """Trees lost all splits at weights of 1e80 and 1e-100, without a word; forests and boosting, too."""

    @pytest.mark.parametrize(
        ("name", "streamed"), [*((name, False) for name in ESTIMATORS), *((name, True) for name in STREAMED)]
    )
    def test_powers_of_two_change_no_bit(self, name: str, streamed: bool) -> None:
        model = fit(name, T.weight, streamed=streamed)
        expected = describe(model, 0)
        assert count_leaves(model) > 1
        for power in POWERS:
            scaled = describe(fit(name, np.ldexp(T.weight, power), streamed=streamed), power)
            if name.startswith("hardened"):  # its estimator is given weights in a unit
                scaled["nodes"]["cover"] = expected["nodes"]["cover"]
            assert scaled == expected, power

    @each_estimator
    def test_other_factors_move_last_bits(self, name: str) -> None:
        model = fit(name, T.weight)
        X = ESTIMATORS[name][1]
        for factor in DECIMAL:
            scaled = fit(name, T.weight * factor)
            if "min_gain" not in model.get_params():  # splits that gain nothing come and go with the last bits
                assert count_leaves(scaled) == count_leaves(model), factor
            assert np.allclose(predict(scaled, X), predict(model, X), rtol=1e-6, atol=1e-9), factor

    @pytest.mark.parametrize(
        "name", [name for name, (estimator, *_) in CLASSIFIERS.items() if "class_weight" in estimator.get_params()]
    )
    def test_of_classes(self, name: str) -> None:
        """What classes weigh is multiplied with what rows weigh: each may make up for the other."""
        estimator, X, y = CLASSIFIERS[name]
        labels = np.unique(y).tolist()
        parameters = estimator.get_params(deep=False)

        def weigh(power: int, weight: np.ndarray) -> dict[str, Any]:
            own = {label: (1.0 + label) * 2.0**power for label in labels}
            return describe(type(estimator)(**parameters | {"class_weight": own}).fit(X, y, sample_weight=weight), 0)

        expected = weigh(0, T.weight)
        for power, beside in ((-300, 300), (600, -600)):
            assert weigh(power, np.ldexp(T.weight, beside)) == expected
        without_cover = [weigh(power, T.weight) for power in (0, -900, 900)]
        for document in without_cover:
            document["nodes"].pop("cover")
        assert without_cover[0] == without_cover[1] == without_cover[2]


TOO_MUCH = {
    "more than adds up": 1.7e308 * np.ones(60),
    "a few": np.r_[np.full(5, 1e308), np.ones(55)],
    "too little": np.full(60, 5e-324),
    "too unequal": np.r_[np.full(30, 1e-300), np.full(30, 1e300)],
    "infinite": np.r_[np.ones(59), np.inf],
    "missing": np.r_[np.ones(59), np.nan],
    "negative": np.r_[np.ones(59), -1e-300],
    "integers of 400 digits": [10**400] * 60,
    "text": ["1"] * 60,
}


class TestWeightsThatCannotBeAddedUp:
    @pytest.mark.parametrize("case", TOO_MUCH)
    @each_estimator
    def test_are_refused(self, name: str, case: str) -> None:
        """Five rows of 1e308 gave a boosted model of NaN, silently; integers of 400 digits were an OverflowError."""
        with pytest.raises(ValueError, match="sample_weight"):
            fit(name, TOO_MUCH[case])

    @pytest.mark.parametrize("case", list(TOO_MUCH)[:-2])
    @pytest.mark.parametrize("name", STREAMED)
    def test_are_refused_of_streams(self, name: str, case: str) -> None:
        with pytest.raises(ValueError, match="sample_weight"):
            fit(name, TOO_MUCH[case], streamed=True)

    @pytest.mark.parametrize("class_weight", [{0: 1.7e308}, {0: 1e-300, 1: 1e300}, {0: 10**400}, {0: "1"}, {1: np.nan}])
    @pytest.mark.parametrize("name", ["tree", "three classes", "search", "forest", "boosting"])
    def test_of_classes(self, name: str, class_weight: Any) -> None:
        estimator, X, y = CLASSIFIERS[name]
        parameters = estimator.get_params(deep=False) | {"class_weight": class_weight}
        with pytest.raises(ValueError, match="class_weight"):
            type(estimator)(**parameters).fit(X, y)

    def test_of_rows_and_classes_together(self) -> None:
        with pytest.raises(ValueError, match=r"sample_weight and class_weight: 60 rows that weigh up to 1\.0e"):
            RobustTreeClassifier(class_weight={0: 1e200, 1: 1e200}).fit(T.X, T.two, np.full(60, 1e200))

    def test_squared_errors_of_heavy_rows(self) -> None:
        """The message named the target only, which was 3.5."""
        with pytest.raises(ValueError, match=r"y and sample_weight: the largest number, 3\.\d* .* Scale the weights"):
            RobustBoostingRegressor(**PLAIN).fit(T.X, T.target, np.full(60, 1e305))

    def test_a_class_may_weigh_nothing(self) -> None:
        """A search over such rows warned of a division by zero."""
        estimator, X, y = CLASSIFIERS["search"]
        parameters = estimator.get_params(deep=False) | {"class_weight": {0: 0.0, 1: 1e300}}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = RobustTreeClassifier(**parameters).fit(X, y)
        assert np.array_equal(model.predict_proba(X), np.tile([0.0, 1.0], (60, 1)))


SHARES: dict[str, Callable[[Any, Any], float]] = {
    "adversarial_accuracy": lambda model, weight: adversarial_accuracy(model, T.X, T.two, 0.3, sample_weight=weight),
    "a scorer": lambda model, weight: make_adversarial_scorer(0.3)(model, T.X, T.two, sample_weight=weight),
    "a stream": lambda model, weight: adversarial_accuracy(
        model, stream(T.X, T.two, sample_weight=weight, batch_rows=25), None, 0.3
    ),
}


class TestShares:
    @pytest.mark.parametrize("factor", [1e-300, 1e-100, 1e153, 1e307])
    @pytest.mark.parametrize("way", SHARES)
    def test_of_any_unit(self, way: str, factor: float) -> None:
        """A sum of weights beyond float64 made NaN of an accuracy; of a stream, weights of 1e307 sufficed."""
        model = fit("tree", None)
        expected = SHARES[way](model, T.weight)
        assert 0.5 < expected < 1.0
        assert SHARES[way](model, T.weight * factor) == pytest.approx(expected)

    @pytest.mark.parametrize("metric", ["neg_worst_squared_error", "neg_worst_absolute_error"])
    def test_of_errors(self, metric: str) -> None:
        """Weights of a regression's score were not looked at: a negative one counted, and a missing one gave NaN."""
        model, score = fit("regression", None), make_adversarial_scorer(0.3, metric=metric)
        expected = score(model, T.X, T.target, sample_weight=T.weight)
        for factor in (1e-300, 1e307):
            assert score(model, T.X, T.target, sample_weight=T.weight * factor) == pytest.approx(expected)
        for weight in (TOO_MUCH["negative"], TOO_MUCH["missing"], np.zeros(60)):
            with pytest.raises(ValueError, match="sample_weight"):
                score(model, T.X, T.target, sample_weight=weight)

    @pytest.mark.parametrize("case", ["infinite", "missing", "negative", "integers of 400 digits", "text"])
    def test_bad_weights(self, case: str) -> None:
        with pytest.raises(ValueError, match="sample_weight"):
            SHARES["adversarial_accuracy"](fit("tree", None), TOO_MUCH[case])


@pytest.mark.parametrize("improve", [refine, relabel, prune], ids=lambda function: function.__name__)
def test_improving_a_tree(improve: Any) -> None:
    """Prices are in the unit of weights; without one, weights in any unit make the same tree."""
    tree = RobustTreeClassifier(0.3, max_depth=4).fit(T.X, T.two)
    options = {"price": 0.0} if improve is not relabel else {}
    expected = improve(tree, T.X, T.two, 0.3, sample_weight=T.weight, **options).ensemble_
    for power in (-900, 1, 900):
        own = improve(tree, T.X, T.two, 0.3, sample_weight=np.ldexp(T.weight, power), **options).ensemble_
        assert np.array_equal(own.feature, expected.feature)
        assert np.array_equal(own.value, expected.value)


UNEQUAL = {
    "over all magnitudes": np.exp(np.random.default_rng(5).uniform(np.log(1e-290), 0.0, 60)),
    "of two magnitudes": np.where(np.arange(60) % 3, 1.0, 1e-250),
    "by class": np.where(T.two == 1, 1e-160, 1.0),
    "one heavy row": np.r_[1e290, np.ones(59)],
    "one light row": np.r_[np.ones(59), 1e-290],
}


@pytest.mark.parametrize("kind", UNEQUAL)
@each_estimator
def test_weights_of_all_magnitudes(name: str, kind: str) -> None:
    """Where a heavy row was held out, numpy warned of a cast: its gradient is no integer in the unit of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(name, UNEQUAL[kind])
    assert np.isfinite(predict(model, ESTIMATORS[name][1])).all()
    assert (model.ensemble_.cover >= 0.0).all()
    assert np.isfinite(model.ensemble_.cover).all()
