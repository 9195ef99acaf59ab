"""Imports predict exactly what their source predicts, on rows that hug the thresholds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import (
    DecisionTreeClassifier,
    ExtraTreeClassifier,
)

from hardwood import RobustTreeClassifier, TreeEnsemble, as_ensemble
from hardwood.convert.checking import check_import, rows_near_thresholds
from hardwood.convert.precision import float32_cutoffs
from hardwood.convert.source import Source
from reference import attacking as reference

LARGEST = float(np.finfo(np.float32).max)


def as_float32(values: Any) -> np.ndarray:
    """Round as scikit-learn rounds its rows (past the largest float32 lies infinity); compared as float64."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32).astype(np.float64)


class TestCutoffs:
    """`float32(x) <= t` and `x <= cutoff(t)` are the same question for every float64 x."""

    @staticmethod
    def check(threshold: float) -> None:
        (cutoff,) = float32_cutoffs(np.array([threshold]))
        assert cutoff.dtype == np.float64
        # Rounding is monotone: it is enough that the answer turns exactly between these two.
        assert as_float32(cutoff) <= threshold
        assert not as_float32(np.nextafter(cutoff, np.inf)) <= threshold
        near = [threshold, float(as_float32(threshold))]
        with np.errstate(over="ignore"):
            for step in range(3):
                near += [np.nextafter(near[-2], np.inf), np.nextafter(near[-1], -np.inf)]
                near.append(float(as_float32(cutoff) + step))
        values = np.array([cutoff, *near, 0.0, -0.0, threshold / 2, LARGEST, -LARGEST])
        assert ((as_float32(values) <= threshold) == (values <= cutoff)).all()

    @given(st.floats(-3.4e38, 3.4e38))
    @example(0.0)
    @example(-0.0)
    @example(5e-324)
    @example(-5e-324)
    @example(1e-45)
    @example(1e-46)
    @example(-1e-46)
    @example(2.0**-149)
    @example(2.0**-150)
    @example(-(2.0**-150))
    @example(float(np.finfo(np.float32).tiny))
    @example(1.0)
    @example(1.0 + 2.0**-24)
    @example(1.0 + 3 * 2.0**-24)
    @example(2.0**24 + 1)
    def test_any_threshold(self, threshold: float) -> None:
        self.check(threshold)

    @given(st.floats(-LARGEST, LARGEST, width=32), st.integers(-2, 2))
    def test_thresholds_beside_float32_numbers_and_halfway(self, value: float, steps: int) -> None:
        above = float(np.nextafter(np.float32(value), np.float32(LARGEST)))
        for threshold in (value, value / 2 + above / 2):
            for _ in range(abs(steps)):
                threshold = float(np.nextafter(threshold, np.inf * steps))
            if abs(threshold) < 3.4e38:
                self.check(threshold)

    @pytest.mark.parametrize(
        "threshold",
        [LARGEST, np.nextafter(LARGEST, np.inf), 3.5e38, 1e300, -LARGEST, -3.5e38, -1e300],
    )
    def test_at_and_past_the_largest_float32(self, threshold: float) -> None:
        """Numbers that round to infinity: beyond every threshold on the right, before every one on the left."""
        self.check(threshold)

    def test_as_many_as_given(self) -> None:
        thresholds = np.random.default_rng(0).normal(size=1000)
        together = float32_cutoffs(thresholds)
        assert together.tolist() == [float32_cutoffs(t[None])[0] for t in thresholds]


def rows_that_hug(model: Any, n_rows: int = 10_000) -> np.ndarray:
    """Return rows at the model's own thresholds, at the numbers where rounding to float32 turns, and just beside."""
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(n_rows, model.n_features_in_))
    for j in range(model.n_features_in_):
        threshold = model.tree_.threshold[model.tree_.feature == j]
        if len(threshold):
            rounded = threshold.astype(np.float32).astype(np.float64)
            above = np.nextafter(rounded.astype(np.float32), np.float32(np.inf)).astype(np.float64)
            halfway = rounded / 2 + above / 2
            at = np.concatenate([threshold, rounded, above, halfway])
            near = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])
            chosen = generator.random(n_rows) < 0.8
            rows[chosen, j] = generator.choice(near, chosen.sum())
    return rows


def check_same(model: Any, trees: TreeEnsemble) -> None:
    rows = rows_that_hug(model)
    for table in (rows, rows.astype(np.float32), np.asfortranarray(rows)):
        assert np.array_equal(trees.predict(table), model.predict(table))
        assert np.allclose(trees.predict_proba(table), model.predict_proba(table), rtol=1e-15)
        # Leaves have the same numbers on both sides.
        assert np.array_equal(trees.apply(table)[:, 0], model.apply(table))
    assert np.array_equal(trees.labels, model.classes_)
    assert trees.max_depth == model.get_depth()
    assert trees.n_leaves == model.get_n_leaves()


def make_table(n_classes: int = 2, n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, 4))
    X[:, 1] = X[:, 1].round(1)  # decimal numbers are no float32 numbers
    X[:, 2] = X[:, 2].astype(np.float32)
    X[:, 3] = X[:, 3].round()
    y = np.digitize(X[:, 0] + X[:, 1] + 0.5 * generator.normal(size=n_rows), range(n_classes - 1))
    return X, y


class TestScikitLearn:
    @pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier])
    @pytest.mark.parametrize("n_classes", [2, 5])
    @pytest.mark.parametrize(
        "parameters",
        [
            {},
            {"criterion": "entropy"},
            {"criterion": "log_loss", "max_leaf_nodes": 9},
            {"max_depth": 1},
            {"max_depth": 3, "class_weight": "balanced"},
            {"min_samples_leaf": 10, "splitter": "random"},
            {"max_features": "sqrt"},
        ],
        ids=repr,
    )
    def test_predicts_the_same(self, kind: Any, n_classes: int, parameters: dict[str, Any]) -> None:
        model = kind(random_state=0, **parameters).fit(*make_table(n_classes))
        check_same(model, as_ensemble(model))

    @pytest.mark.parametrize("scale", [1e-5, 1e5, 1e33])
    def test_other_units(self, scale: float) -> None:
        X, y = make_table()
        model = DecisionTreeClassifier(random_state=0).fit(X * scale, y)
        check_same(model, as_ensemble(model))

    def test_sample_weights(self) -> None:
        X, y = make_table(3)
        weight = np.random.default_rng(2).exponential(size=len(X)).round(1)
        model = DecisionTreeClassifier(max_depth=4).fit(X, y, sample_weight=weight)
        trees = as_ensemble(model)
        check_same(model, trees)
        assert trees.cover[0] == pytest.approx(weight.sum())

    def test_ties_in_a_leaf(self) -> None:
        """The first of the classes with the most rows, as scikit-learn decides."""
        X = np.array([[0.0], [0.0], [0.0], [0.0], [1.0]])
        model = DecisionTreeClassifier().fit(X, ["c", "b", "b", "c", "a"])
        trees = as_ensemble(model)
        check_same(model, trees)
        assert trees.predict([[0.0]]).tolist() == ["b"]

    def test_a_single_leaf(self) -> None:
        model = DecisionTreeClassifier().fit(np.zeros((3, 2)), [0, 1, 1])
        trees = as_ensemble(model)
        assert trees.n_nodes == 1
        check_same(model, trees)

    @pytest.mark.parametrize(
        "labels",
        [[3, 7], [False, True], [-1.0, 1.0], ["no", "yes"], np.array(["no", "yes"], dtype=object)],
        ids=repr,
    )
    def test_labels(self, labels: Any) -> None:
        X, y = make_table()
        model = DecisionTreeClassifier(max_depth=3).fit(X, np.asarray(labels)[y])
        trees = as_ensemble(model)
        check_same(model, trees)
        again = TreeEnsemble.parse_json(trees.to_json())
        assert again.predict(X).tolist() == model.predict(X).tolist()

    def test_names_of_a_frame(self) -> None:
        X, y = make_table()
        frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
        trees = as_ensemble(DecisionTreeClassifier(max_depth=3).fit(frame, y))
        assert trees.schema.feature_names == ("a", "b", "c", "d")
        assert np.array_equal(trees.predict(frame), trees.predict(X))
        with pytest.raises(ValueError, match="same order"):
            trees.predict(frame[["b", "a", "c", "d"]])

    @pytest.mark.parametrize(
        ("column", "y"),
        [
            ([np.nan, np.nan, 1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1, 1, 1]),
            ([np.nan, np.nan, 1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1, 0, 0]),
            ([1.0, 2.0, 3.0, 4.0, np.nan, np.nan], [1, 1, 0, 0, 0, 1]),
        ],
        ids=["only missing on one side", "missing goes right", "missing among others"],
    )
    def test_a_tree_that_saw_missing_values(self, column: list[float], y: list[int]) -> None:
        """A split between missing and present has an infinite threshold."""
        X = np.array(column)[:, None]
        model = DecisionTreeClassifier().fit(X, y)
        trees = as_ensemble(model)
        assert np.array_equal(trees.predict(X), model.predict(X))
        again = TreeEnsemble.parse_json(trees.to_json())
        assert np.array_equal(again.predict(X), model.predict(X))

    def test_one_class_only(self) -> None:
        """scikit-learn fits it, so it is imported; and what can be written can be read."""
        model = DecisionTreeClassifier().fit([[0.0], [1.0]], ["yes", "yes"])
        trees = as_ensemble(model)
        assert trees.predict([[5.0]]).tolist() == ["yes"]
        assert TreeEnsemble.parse_json(trees.to_json()).predict([[5.0]]).tolist() == ["yes"]

    def test_the_model_is_left_alone(self) -> None:
        X, y = make_table()
        model = DecisionTreeClassifier(random_state=0).fit(X, y)
        before = model.tree_.threshold.copy()
        as_ensemble(model)
        assert np.array_equal(model.tree_.threshold, before)
        assert model.predict(X).tolist() == y.tolist()


class TestOthers:
    def test_an_ensemble_is_itself(self, ensemble: TreeEnsemble) -> None:
        assert as_ensemble(ensemble) is ensemble

    def test_a_fitted_estimator_gives_its_own(self, model: RobustTreeClassifier) -> None:
        assert as_ensemble(model) is model.ensemble_

    def test_paths(self, ensemble: TreeEnsemble, tmp_path: Path) -> None:
        path = tmp_path / "model.json"
        ensemble.to_json(path)
        for where in (path, str(path)):
            assert as_ensemble(where).to_json() == ensemble.to_json()
        with pytest.raises(FileNotFoundError):
            as_ensemble(tmp_path / "nowhere.json")
        path.write_text("{")
        with pytest.raises(ValueError, match=r"model\.json is not a JSON file"):
            as_ensemble(path)

    @pytest.mark.parametrize("kind", [RobustTreeClassifier, DecisionTreeClassifier, ExtraTreeClassifier])
    def test_not_fitted(self, kind: Any) -> None:
        with pytest.raises(ValueError, match=f"{kind.__name__} is not fitted"):
            as_ensemble(kind())

    def test_several_outputs(self) -> None:
        model = DecisionTreeClassifier().fit([[0.0], [1.0]], [[0, 1], [1, 0]])
        with pytest.raises(ValueError, match="2 outputs"):
            as_ensemble(model)

    @pytest.mark.parametrize(
        "other",
        [
            LogisticRegression().fit([[0.0], [1.0]], [0, 1]),
            *(None, 3, [], b"model.json", np.zeros(3)),
        ],
        ids=lambda other: type(other).__name__,
    )
    def test_unknown_kinds(self, other: Any) -> None:
        with pytest.raises(TypeError, match=f"a {type(other).__name__} is not a tree model"):
            as_ensemble(other)


class TestChecking:
    def test_rows_hug_every_threshold(self) -> None:
        tree = reference.build((0, 1.0, (2, -3.0, 0, 1), (0, 2.0, 1, 0)))
        rows = rows_near_thresholds(tree)
        for feature, thresholds in ((0, [1.0, 2.0]), (2, [-3.0])):
            expected = {
                value
                for threshold in thresholds
                for value in (threshold, np.nextafter(threshold, -9), np.nextafter(threshold, 9))
            }
            assert set(rows[:, feature].tolist()) == expected
        assert not rows[:, 1].any()

    @pytest.mark.parametrize(
        "broken",
        [
            (0, np.nextafter(0.5, 0), 0, 1),
            (0, np.nextafter(0.5, 1), 0, 1),
            (0, 0.5, 1, 0),
            (0, 0.5, 0, 0),
        ],
        ids=["a float below", "a float above", "sides swapped", "a leaf of the wrong class"],
    )
    def test_a_broken_import_is_refused(self, broken: Any) -> None:
        right = reference.build((0, 0.5, 0, 1))
        source = Source(ensemble=right, name="the model", predict=right.predict)
        check_import(source)
        with pytest.raises(ValueError, match=r"the model could not be imported faithfully: .* of 512 rows"):
            check_import(replace(source, ensemble=reference.build(broken)))

    def test_scikit_learn_imports_are_checked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Were the thresholds taken as they are, rows that round across one would go the other way."""
        X = np.array([[0.1], [0.2], [0.4]]) + 2.0**-25
        model = DecisionTreeClassifier().fit(X, [0, 1, 0])
        as_ensemble(model)
        monkeypatch.setattr("hardwood.convert.scikit_learn.float32_cutoffs", lambda t: t)
        same = DecisionTreeClassifier().fit(X, [0, 1, 0])  # what was read of the first one is known
        with pytest.raises(ValueError, match="DecisionTreeClassifier could not be imported faithfully"):
            as_ensemble(same)
