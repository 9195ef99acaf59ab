"""RobustTreeClassifier as a scikit-learn estimator."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import RobustTreeClassifier, ThreatModel, adversarial_accuracy
from hardwood.warm import warm_up

Table = tuple[np.ndarray, np.ndarray]
Frame = tuple[pd.DataFrame, pd.Series]


# Checks that are expected to fail, each with its reason.
EXPECTED_FAILURES = {
    "check_class_weight_classifiers": "a leaf of one class predicts it, however little it weighs; the check keeps "
    "trees from growing such leaves by min_weight_fraction_leaf, which is not a parameter here",
}


def expect_failures(estimator: RobustTreeClassifier) -> dict[str, str]:
    """Return the checks that fail with some parameters, too."""
    expected = EXPECTED_FAILURES | find_faulty_checks(estimator)
    check = "check_sample_weight_equivalence_on_dense_data"
    if 0.0 < estimator.rho < 1.0:
        expected[check] = "rows are counted, whatever they weigh, and parts of less than two rows can be of two classes"
    elif estimator.class_weight == "balanced":
        expected[check] = "balanced weights of classes are by their rows, whatever these weigh, as in scikit-learn"
    return expected


@parametrize_with_checks(
    [
        RobustTreeClassifier(),
        RobustTreeClassifier(threat=0.1),
        RobustTreeClassifier(threat=0.1, rho=0.5, criterion="entropy"),
        RobustTreeClassifier(threat=0.01, criterion="error", max_leaf_nodes=4),
        RobustTreeClassifier(threat=0.05, max_features="sqrt", class_weight="balanced", n_jobs=2),
    ],
    expected_failed_checks=expect_failures,
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def without_address(value: Any) -> str:
    """Name a case the same way in every process."""
    return re.sub(r" at 0x\w+", "", str(value))


class TestParameters:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("threat", -1.0),
            ("threat", "up"),
            ("threat", float("nan")),
            ("threat", [0.1, 0.2]),
            ("threat", {"age": 1.0}),
            ("threat", [0.1, -0.5, 0.1]),
            ("threat", object()),
            ("attacking_classes", 7),
            ("attacking_classes", [0, "one"]),
            ("rho", -0.1),
            ("rho", 1.1),
            ("rho", float("nan")),
            ("rho", "half"),
            ("rho", None),
            ("rho", True),
            ("criterion", "mse"),
            ("criterion", None),
            ("criterion", ["gini"]),
            ("max_depth", 0),
            ("max_depth", -3),
            ("max_depth", 2.0),
            ("max_depth", "deep"),
            ("min_samples_split", 1),
            ("min_samples_split", 0.0),
            ("min_samples_split", 1.5),
            ("min_samples_split", None),
            ("min_samples_leaf", 0),
            ("min_samples_leaf", -0.1),
            ("min_samples_leaf", 2.5),
            ("min_samples_leaf", "few"),
            ("min_impurity_decrease", -0.1),
            ("min_impurity_decrease", float("nan")),
            ("min_impurity_decrease", "little"),
            ("max_features", 0),
            ("max_features", 1.5),
            ("max_features", "all"),
            ("max_features", True),
            ("max_leaf_nodes", 1),
            ("max_leaf_nodes", 2.5),
            ("max_leaf_nodes", "many"),
            ("class_weight", "even"),
            ("class_weight", 3),
            ("class_weight", {0: -1.0, 1: 1.0}),
            ("class_weight", {0: float("nan"), 1: 1.0}),
            ("class_weight", {0: float("inf"), 1: 1.0}),
            ("class_weight", {"no": 1.0}),
            ("class_weight", {0: 0.0, 1: 0.0}),
            ("categorical_features", "color"),
            ("categorical_features", [5]),
            ("categorical_features", ["color"]),
            ("categorical_features", [True]),
            ("categorical_features", 1),
            ("random_state", "seed"),
            ("random_state", -1),
            ("random_state", 1.5),
            ("n_jobs", 0),
            ("n_jobs", "two"),
            ("n_jobs", 1.5),
        ],
        ids=without_address,
    )
    def test_a_bad_value_is_named(self, numbers: Table, name: str, value: Any) -> None:
        estimator = RobustTreeClassifier(**{name: value})
        shown = str(value[-1] if isinstance(value, list) else next(iter(value)) if isinstance(value, dict) else value)
        with pytest.raises((ValueError, TypeError)) as raised:
            estimator.fit(*numbers)
        assert name in str(raised.value)
        if name != "threat" and value != [True]:
            assert shown in str(raised.value)
        with pytest.raises(NotFittedError):
            estimator.predict(numbers[0])

    @pytest.mark.parametrize(
        "parameters",
        [
            {"rho": 0},
            {"rho": np.float32(0.5), "threat": 0.1},
            {"max_depth": np.int64(3)},
            {"max_depth": 10**30},
            {"min_samples_split": 1.0},
            {"min_samples_split": 10**9},
            {"min_samples_leaf": np.int32(5)},
            {"min_samples_leaf": 0.5},
            {"max_features": np.float64(0.5)},
            {"max_features": 10**6},
            {"max_features": "log2"},
            {"min_impurity_decrease": 1e9},
            {"class_weight": {0: 1, 1: 100}},
            {"attacking_classes": np.int64(1), "threat": 0.1},
            {"random_state": np.random.RandomState(0)},
            {"n_jobs": -1},
        ],
        ids=without_address,
    )
    def test_unusual_values_that_are_fine(self, numbers: Table, parameters: dict[str, Any]) -> None:
        X, y = numbers
        assert RobustTreeClassifier(**parameters).fit(X, y).predict(X).shape == y.shape

    def test_fit_leaves_parameters_alone(self, numbers: Table) -> None:
        threat = {0: 0.1, 2: (0, 0.5)}
        estimator = RobustTreeClassifier(threat=threat, attacking_classes=[1], class_weight="balanced")
        before = estimator.get_params()
        estimator.fit(*numbers)
        assert all(estimator.get_params()[name] is value for name, value in before.items())
        assert threat == {0: 0.1, 2: (0, 0.5)}

    @pytest.mark.parametrize(
        "threat",
        [
            None,
            0.1,
            [0.1, None, ">"],
            {"a": 0.1, "b": (0.0, 0.2)},
            ThreatModel({"a": 0.1}, attacking_classes=[1]),
            np.array([0.1, 0.2, 0.3]),
            pd.Series({"a": 0.1, "c": 0.2}),
        ],
        ids=lambda threat: type(threat).__name__,
    )
    def test_clone(self, numbers: Table, threat: Any) -> None:
        X = pd.DataFrame(numbers[0], columns=["a", "b", "c"])
        estimator = RobustTreeClassifier(threat, rho=0.7, max_depth=3)
        copied = clone(estimator)
        assert copied is not estimator
        assert copied.get_params()["rho"] == 0.7
        assert repr(copied) == repr(estimator)
        trees = [one.fit(X, numbers[1]).ensemble_.to_json() for one in (estimator, copied)]
        assert trees[0] == trees[1]
        assert estimator.threat_ == ThreatModel(threat)

    def test_set_params(self, numbers: Table) -> None:
        estimator = RobustTreeClassifier().set_params(threat={1: 0.5}, rho=0.25)
        assert estimator.get_params()["threat"] == {1: 0.5}
        estimator.fit(*numbers)
        same = RobustTreeClassifier(ThreatModel({1: 0.5}), rho=0.25).fit(*numbers)
        assert estimator.ensemble_.to_json() == same.ensemble_.to_json()
        with pytest.raises(ValueError, match="epsilon"):
            estimator.set_params(epsilon=0.1)

    def test_attacking_classes_of_the_parameter_win(self, numbers: Table) -> None:
        threat = ThreatModel(0.1, attacking_classes=[0])
        assert RobustTreeClassifier(threat).fit(*numbers).threat_.attacking_classes == [0]
        estimator = RobustTreeClassifier(threat, attacking_classes=[1]).fit(*numbers)
        assert estimator.threat_.attacking_classes == [1]


class TestInPipelines:
    def test_pipeline_and_grid_search(self, numbers: Table) -> None:
        X, y = numbers
        scorer = make_scorer(lambda truth, decision: float((truth == decision).mean()))
        search = GridSearchCV(
            make_pipeline(MinMaxScaler(), RobustTreeClassifier(threat=0.05)),
            {
                "robusttreeclassifier__rho": [0.0, 0.5, 1.0],
                "robusttreeclassifier__threat": [0.0, ThreatModel(0.02)],
            },
            scoring=scorer,
            cv=3,
        ).fit(X, y)
        assert len(search.cv_results_["params"]) == 6
        assert search.best_estimator_.predict(X).shape == y.shape
        assert search.best_score_ > 0.7

    def test_cross_validation_by_adversarial_accuracy(self, numbers: Table) -> None:
        X, y = numbers

        def score(model: Any, rows: np.ndarray, labels: np.ndarray) -> float:
            return adversarial_accuracy(model, rows, labels, 0.1)

        scores = cross_val_score(RobustTreeClassifier(0.1, max_depth=3), X, y, scoring=score, cv=3)
        assert (scores > 0.5).all()

    def test_one_tree_per_class(self) -> None:
        """What the error about more than two classes advises."""
        X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
        y = [0, 0, 1, 1, 2, 2]
        model = OneVsRestClassifier(RobustTreeClassifier(threat=0.1)).fit(X, y)
        assert model.predict(X).tolist() == y

    @pytest.mark.parametrize("dump", [pickle, joblib], ids=["pickle", "joblib"])
    def test_pickles(self, mixed: RobustTreeClassifier, frame: Frame, dump: Any, tmp_path: Path) -> None:
        with open(tmp_path / "model", "wb") as file:
            dump.dump(mixed, file)
        with open(tmp_path / "model", "rb") as file:
            again = dump.load(file)
        X, _ = frame
        assert np.array_equal(again.predict_proba(X), mixed.predict_proba(X))
        assert again.threat_ == mixed.threat_
        assert again.feature_names_in_.tolist() == mixed.feature_names_in_.tolist()


class TestTables:
    def test_the_container_does_not_matter(self, numbers: Table, tmp_path: Path) -> None:
        X, y = numbers
        np.save(tmp_path / "X.npy", X)
        expected = RobustTreeClassifier(0.05).fit(X, y).ensemble_.to_json()
        tables = {
            "read-only": X,
            "Fortran order": np.asfortranarray(X),
            "strided": np.repeat(X, 2, axis=0)[::2],
            "memory map": np.load(tmp_path / "X.npy", mmap_mode="r"),
            "objects": X.astype(object),
            "list": X.tolist(),
            "unnamed frame": pd.DataFrame(X),
            "swapped bytes": X.astype(X.dtype.newbyteorder()),
        }
        for name, table in tables.items():
            model = RobustTreeClassifier(0.05).fit(table, y)
            assert model.ensemble_.to_json() == expected, name
            assert np.array_equal(model.predict(table), model.predict(X)), name
            assert not hasattr(model, "feature_names_in_"), name

    @pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint8, bool, np.float16])
    def test_other_numbers_are_widened_first(self, numbers: Table, dtype: Any) -> None:
        """The reach 0.3 must not be rounded to the table's own type."""
        X = (np.abs(numbers[0]) * 2).astype(dtype)
        narrow = RobustTreeClassifier(0.3).fit(X, numbers[1])
        wide = RobustTreeClassifier(0.3).fit(X.astype(np.float64), numbers[1])
        assert narrow.ensemble_.to_json() == wide.ensemble_.to_json()
        assert np.array_equal(narrow.predict(X), wide.predict(X.astype(np.float64)))

    def test_labels_in_any_container(self, numbers: Table) -> None:
        X, y = numbers
        words = np.array(["ham", "spam"])[y]
        expected = RobustTreeClassifier(0.05).fit(X, words).predict(X).tolist()
        kinds = {
            "list": words.tolist(),
            "objects": words.astype(object),
            "pandas": pd.Series(words),
            "pandas category": pd.Series(words, dtype="category"),
            "polars": pl.Series(words.tolist()),
        }
        for name, labels in kinds.items():
            model = RobustTreeClassifier(0.05).fit(X, labels)
            assert model.classes_.tolist() == ["ham", "spam"], name
            assert model.predict(X).tolist() == expected, name

    @pytest.mark.parametrize(
        "labels",
        [[0, 1], [5, -3], [True, False], [0.0, 1.0], ["b", "a"], [np.uint8(200), np.uint8(3)]],
        ids=str,
    )
    def test_labels_of_every_kind(self, numbers: Table, labels: list[Any]) -> None:
        X, y = numbers
        target = np.array(labels)[y]
        model = RobustTreeClassifier(0.05).fit(X, target)
        assert model.classes_.tolist() == sorted(labels)
        assert model.predict(X).dtype == target.dtype
        assert model.score(X, target) > 0.8
        column = model.classes_.tolist().index(labels[1])
        assert np.array_equal(model.predict_proba(X)[:, column] > 0.5, model.predict(X) == labels[1])

    def test_frames(self, frame: Frame) -> None:
        X, y = frame
        threat = {"income": 1.0, "color": {"red": ["blue"]}}
        pandas = RobustTreeClassifier(threat, max_depth=5).fit(X, y)
        assert pandas.n_features_in_ == 4
        assert pandas.feature_names_in_.tolist() == list(X.columns)
        assert pandas.ensemble_.schema.categories[1] == ("blue", "green", "red")
        other = pl.from_pandas(X)
        polars = RobustTreeClassifier(threat, max_depth=5).fit(other, y.to_list())
        assert polars.feature_names_in_.tolist() == list(X.columns)
        assert polars.predict(other).tolist() == pandas.predict(X).tolist()
        assert pandas.predict(other).tolist() == pandas.predict(X).tolist()

    def test_an_index_does_not_matter(self, frame: Frame) -> None:
        X, y = frame
        shuffled = X.set_index(np.arange(len(X))[::-1] * 7)
        model = RobustTreeClassifier(max_depth=3).fit(shuffled, y)
        assert model.predict(shuffled).tolist() == model.predict(X).tolist()

    def test_wrong_columns(self, mixed: RobustTreeClassifier, frame: Frame) -> None:
        X, _ = frame
        for method in (mixed.predict, mixed.predict_proba, mixed.apply, mixed.decision_path):
            with pytest.raises(ValueError, match=r"(?s)unseen at fit time:.*years"):
                method(X.rename(columns={"age": "years"}))
            with pytest.raises(ValueError, match="same order"):
                method(X[X.columns[::-1]])
            with pytest.raises(ValueError, match=r"(?s)now missing:.*town"):
                method(X[["age", "color", "income"]])
        with pytest.raises(ValueError, match=r"(?s)now missing:.*town"):
            mixed.predict(pl.from_pandas(X).drop("town"))

    @pytest.mark.parametrize("width", [1, 4])
    def test_wrong_width(self, model: RobustTreeClassifier, width: int) -> None:
        with pytest.raises(ValueError, match=f"X has {width} features.* expecting 3 features"):
            model.predict(np.zeros((2, width)))

    @pytest.mark.parametrize(
        ("cell", "words"), [(np.nan, "NaN"), (np.inf, "infinity"), ("seven", "'seven'"), (None, "NaN")]
    )
    def test_bad_cells(self, numbers: Table, cell: Any, words: str) -> None:
        X = numbers[0].astype(object)
        X[17, 1] = cell
        if words != "NaN":  # a tree learns where missing values go
            with pytest.raises(ValueError, match=words):
                RobustTreeClassifier().fit(X, numbers[1])
        model = RobustTreeClassifier().fit(*numbers)
        with pytest.raises(ValueError, match=words):
            model.predict(X)


class TestTarget:
    X = np.arange(6.0)[:, None]

    def test_one_class(self) -> None:
        with pytest.raises(ValueError, match=r"only one class, .*'a'"):
            RobustTreeClassifier().fit(self.X, ["a"] * 6)

    @pytest.mark.parametrize("labels", [[0, 1, 2, 0, 1, 2], ["a", "b", "c"] * 2, [0.0, 1.0, 2.0] * 2])
    def test_three_classes(self, labels: Any) -> None:
        model = RobustTreeClassifier().fit(self.X, labels)
        assert model.predict(self.X).tolist() == labels
        assert model.predict_proba(self.X).shape == (6, 3)

    @pytest.mark.parametrize(
        ("y", "words"),
        [
            (None, "y"),
            ([0, 1], "inconsistent numbers of samples"),
            (np.linspace(0.0, 1.0, 6) + 0.1, "continuous"),
            ([0.0, 1.0, np.nan, 0.0, 1.0, 0.0], "NaN"),
            ([[0, 1]] * 6, "1d array"),
            ([0, 1, None, 0, 1, 0], r"y\[2\] is None: a label is missing; leave such rows out"),
        ],
        ids=["None", "too few", "continuous", "NaN", "two columns", "missing"],
    )
    def test_no_target(self, y: Any, words: str) -> None:
        with pytest.raises((ValueError, TypeError), match=words):
            RobustTreeClassifier().fit(self.X, y)


class TestWeights:
    def test_class_weight_is_a_sample_weight(self, numbers: Table) -> None:
        X, y = numbers
        weights = {0: 1.0, 1: 3.0}
        one = RobustTreeClassifier(0.05, max_depth=4, class_weight=weights).fit(X, y)
        other = RobustTreeClassifier(0.05, max_depth=4).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
        assert one.ensemble_.to_json() == other.ensemble_.to_json()
        plain = RobustTreeClassifier(0.05, max_depth=4).fit(X, y)
        assert one.predict(X).sum() > plain.predict(X).sum()

    def test_balanced(self, numbers: Table) -> None:
        X, y = numbers[0][40:], numbers[1][40:]
        share = {int(k): len(y) / (2 * (y == k).sum()) for k in (0, 1)}
        one = RobustTreeClassifier(0.05, class_weight="balanced").fit(X, y)
        other = RobustTreeClassifier(0.05, class_weight=share).fit(X, y)
        assert one.ensemble_.to_json() == other.ensemble_.to_json()
        assert one.ensemble_.value[0].tolist() == pytest.approx([0.5, 0.5])

    def test_class_weight_by_name(self, frame: Frame) -> None:
        X, y = frame
        model = RobustTreeClassifier(class_weight={"yes": 50.0}, max_depth=1).fit(X, y)
        assert model.ensemble_.value[0, 1] > 0.9

    def test_a_class_without_weight_has_no_say(self, numbers: Table) -> None:
        X, y = numbers
        model = RobustTreeClassifier(class_weight={0: 0.0, 1: 1.0}).fit(X, y)
        assert set(model.predict(X).tolist()) == {1}
        assert np.array_equal(model.predict_proba(X), np.tile([0.0, 1.0], (len(X), 1)))

    @pytest.mark.parametrize(
        ("weight", "words"),
        [
            (np.ones(3), r"sample_weight: expected 200 weights, one per row, got shape \(3,\)"),
            (np.ones((200, 2)), r"sample_weight: expected 200 weights, one per row, got shape \(200, 2\)"),
            (np.full(200, np.nan), "sample_weight: row 0 has nan; expected finite weights >= 0"),
            # NumPy makes numbers of these, with a warning or without a word.
            (np.full(200, 1 + 1j), "sample_weight: expected numbers, got complex128$"),
            (
                np.full(200, "2020-01-01", dtype="datetime64[s]"),
                r"sample_weight: expected numbers, got datetime64\[s\]",
            ),
            (["1"] * 200, "sample_weight: expected numbers, got '1'"),
            (np.full(200, np.inf), "sample_weight: row 0 has inf; expected finite weights >= 0"),
            (np.full(200, -1.0), "sample_weight: row 0 has -1.0; expected finite weights >= 0"),
            (np.zeros(200), "sample_weight: the weights of all rows are zero; expected a positive one"),
            (["heavy"] * 200, "sample_weight: expected numbers, got 'heavy'"),
        ],
        ids=["few", "two-dimensional", "NaN", "complex", "dates", "digits", "infinite", "negative", "zero", "text"],
    )
    def test_bad_sample_weights(self, numbers: Table, weight: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            RobustTreeClassifier().fit(*numbers, sample_weight=weight)

    def test_only_one_class_has_weight(self, numbers: Table) -> None:
        X, y = numbers
        with pytest.raises(ValueError, match="sample_weight: only one of the classes"):
            RobustTreeClassifier().fit(X, y, sample_weight=(y == 1).astype(float))

    def test_containers(self, numbers: Table) -> None:
        X, y = numbers
        weight = np.random.default_rng(0).integers(1, 4, len(y))
        expected = RobustTreeClassifier().fit(X, y, weight).ensemble_.to_json()
        for given in (weight.tolist(), pd.Series(weight), weight.astype(np.float32)):
            assert RobustTreeClassifier().fit(X, y, given).ensemble_.to_json() == expected


class TestFitted:
    def test_probabilities(self, model: RobustTreeClassifier, numbers: Table) -> None:
        X, _ = numbers
        probability = model.predict_proba(X)
        assert probability.shape == (len(X), 2)
        assert np.allclose(probability.sum(axis=1), 1.0, rtol=1e-15)
        assert (probability >= 0.0).all()
        with np.errstate(divide="ignore"):
            assert np.array_equal(model.predict_log_proba(X), np.log(probability))
        assert np.array_equal(model.classes_[probability.argmax(axis=1)], model.predict(X))

    @pytest.mark.parametrize("criterion", ["gini", "entropy", "error"])
    @pytest.mark.parametrize("rho", [1.0, 0.5])
    def test_importances(self, numbers: Table, criterion: str, rho: float) -> None:
        model = RobustTreeClassifier(0.1, criterion=criterion, rho=rho, max_depth=4).fit(*numbers)
        importance = model.feature_importances_
        assert importance.shape == (3,)
        assert importance.sum() == pytest.approx(1.0)
        assert (importance >= -1e-12).all()
        assert importance.argmax() == 0

    def test_importances_of_a_natural_tree_are_those_of_scikit_learn(self, numbers: Table) -> None:
        X, y = numbers
        ours = RobustTreeClassifier(max_depth=2).fit(X, y)
        theirs = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
        assert np.allclose(ours.feature_importances_, theirs.feature_importances_)

    def test_importances_of_a_single_leaf(self, numbers: Table) -> None:
        model = RobustTreeClassifier("<>").fit(*numbers)
        assert model.get_n_leaves() == 1
        assert model.get_depth() == 0
        assert model.feature_importances_.tolist() == [0.0, 0.0, 0.0]

    def test_shape(self, model: RobustTreeClassifier, numbers: Table) -> None:
        X, _ = numbers
        path = model.decision_path(X)
        assert model.get_depth() == path.sum(axis=1).max() - 1
        assert model.get_n_leaves() == model.ensemble_.n_leaves > 10
        leaves = model.apply(X)
        assert leaves.shape == (len(X),)
        assert (model.ensemble_.feature[leaves] == -1).all()
        assert RobustTreeClassifier(max_depth=2).fit(*numbers).get_depth() == 2

    @pytest.mark.parametrize(
        "use",
        [
            lambda model: model.predict([[0.0]]),
            lambda model: model.predict_proba([[0.0]]),
            lambda model: model.predict_log_proba([[0.0]]),
            lambda model: model.apply([[0.0]]),
            lambda model: model.decision_path([[0.0]]),
            lambda model: model.get_depth(),
            lambda model: model.get_n_leaves(),
            lambda model: model.feature_importances_,
        ],
    )
    def test_nothing_works_before_fit(self, use: Any) -> None:
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use(RobustTreeClassifier())

    def test_fitting_again_forgets_the_first_time(self, numbers: Table, frame: Frame) -> None:
        X, y = numbers
        model = RobustTreeClassifier(max_depth=3)
        model.fit(*frame)
        model.fit(X, y)
        assert not hasattr(model, "feature_names_in_")
        assert model.n_features_in_ == 3
        assert model.classes_.tolist() == [0, 1]
        fresh = RobustTreeClassifier(max_depth=3).fit(X, y)
        assert model.ensemble_.to_json() == fresh.ensemble_.to_json()
        model.fit(*frame)
        assert model.feature_names_in_.tolist() == list(frame[0].columns)


class TestFailedFit:
    """A fit that fails loses nothing: what was fitted before still works, what was not is still not."""

    BAD: tuple[Any, ...] = (
        ("one class", lambda X, y: (X, np.zeros(len(X)))),
        ("infinite value", lambda X, y: (np.where(X > 1, np.inf, X), y)),
        ("too few labels", lambda X, y: (X, y[:-1])),
        ("other columns, one class", lambda X, y: (np.hstack([X, X]), np.zeros(len(X)))),
        ("a frame, one class", lambda X, y: (pd.DataFrame(X, columns=[*"abc"]), np.zeros(len(X)))),
        ("a wider frame", lambda X, y: (pd.DataFrame(np.hstack([X, X]), columns=[*"abcdef"]), y[:-1])),
        ("text", lambda X, y: (np.full(X.shape, "text", dtype=object), y)),
    )

    @pytest.mark.parametrize("damage", [bad[1] for bad in BAD], ids=[bad[0] for bad in BAD])
    @pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
    def test_the_earlier_model_is_still_there(self, numbers: Table, damage: Any, named: bool) -> None:
        X, y = numbers
        table = pd.DataFrame(X, columns=["x", "y", "z"]) if named else X
        model = RobustTreeClassifier(0.05, max_depth=4).fit(table, y)
        before, state = model.predict_proba(table), set(vars(model))
        with pytest.raises(ValueError):  # noqa: PT011 (which one is tested elsewhere)
            model.fit(*damage(X, y))
        assert np.array_equal(model.predict_proba(table), before)
        assert set(vars(model)) == state
        assert model.n_features_in_ == 3

    @pytest.mark.parametrize("damage", [bad[1] for bad in BAD], ids=[bad[0] for bad in BAD])
    def test_a_model_that_was_never_fitted(self, numbers: Table, damage: Any) -> None:
        model = RobustTreeClassifier()
        with pytest.raises(ValueError):  # noqa: PT011
            model.fit(*damage(*numbers))
        with pytest.raises(NotFittedError):
            model.predict(numbers[0])

    def test_a_bad_parameter_after_a_good_fit(self, numbers: Table) -> None:
        X, y = numbers
        model = RobustTreeClassifier(max_depth=3).fit(X, y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="rho"):
            model.set_params(rho=7).fit(np.hstack([X, X]), y)
        assert np.array_equal(model.predict(X), before)

    def test_interrupted(self, numbers: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = numbers
        frame = pd.DataFrame(np.hstack([X, X]), columns=[*"abcdef"])
        model = RobustTreeClassifier(max_depth=3).fit(X, y)
        before = model.predict(X)

        def interrupt(*arguments: Any, **options: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("hardwood.estimators.tree.grow_tree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(frame, y)
        assert np.array_equal(model.predict(X), before)


def test_warming_up_says_nothing_and_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for work in ("fit", "categories", "categories"):
        warm_up(work)
    assert capsys.readouterr() == ("", "")


def test_bins_are_for_large_tables_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a tree is the exact one up to 100,000 rows, to the last bit; beyond, it is grown on bins."""
    generator = np.random.default_rng(0)
    X = generator.random((3000, 3))
    y = (X.sum(axis=1) + 0.3 * generator.random(3000) > 1.6).astype(int)

    def fit(max_bins: int | str) -> np.ndarray:
        return RobustTreeClassifier(0.02, max_depth=5, max_bins=max_bins).fit(X, y).ensemble_.threshold

    default, exact, binned = fit("auto"), fit("exact"), fit(255)
    np.testing.assert_array_equal(default, exact)
    assert not np.array_equal(exact, binned)
    monkeypatch.setattr("hardwood.estimators.tree.AUTO_ROWS", 2999)
    np.testing.assert_array_equal(fit("auto"), binned)
    np.testing.assert_array_equal(fit("exact"), exact)


@pytest.mark.parametrize("max_bins", [1, 256, 2.0, True, "all", None])
def test_bins_that_cannot_be(max_bins: Any) -> None:
    with pytest.raises(ValueError, match=r"max_bins=.*: expected 'auto', 'exact' or an integer from 2 to 255"):
        RobustTreeClassifier(max_bins=max_bins).fit([[0.0], [1.0]], [0, 1])


def test_bins_are_for_groot(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]], [0, 1, 1]
    assert RobustTreeClassifier(max_bins=9, categorical_features=[1]).fit(X, y).score(X, y) == 1.0
    with pytest.raises(ValueError, match=r"max_bins=9: with attacker='chen'"):
        RobustTreeClassifier(max_bins=9, attacker="chen").fit(X, y)
    monkeypatch.setattr("hardwood.estimators.tree.AUTO_ROWS", 2)
    for parameters in ({"categorical_features": [1]}, {"attacker": "chen"}):
        assert RobustTreeClassifier(**parameters).fit(X, y).score(X, y) == 1.0
