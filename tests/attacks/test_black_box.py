"""Attacks through predictions alone: inside the threat, within their queries, never nearer than the exact minimum."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from hardwood import ThreatModel, attack, black_box_attack, is_vulnerable, transfer_attack
from hardwood.attacks.black_box import Target, _OutOfQueriesError, _QueryAttack

needs_art = pytest.mark.skipif(find_spec("art") is None, reason="the Adversarial Robustness Toolbox is an extra")

Case = tuple[Any, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def forest(numbers: tuple[np.ndarray, np.ndarray]) -> Case:
    X, y = numbers
    return RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y), X[:30], y[:30]


@pytest.fixture(scope="module")
def linear(numbers: tuple[np.ndarray, np.ndarray]) -> Case:
    X, y = numbers
    return LogisticRegression().fit(X, y), X[:30], y[:30]


class TestTransfer:
    def test_examples_fool_the_model_itself(self, forest: Case, numbers: Any) -> None:
        model, X, y = forest
        result = transfer_attack(model, X, y, 0.5, X_surrogate=numbers[0], random_state=0)
        vulnerable = is_vulnerable(model, X, y, 0.5)
        assert not (result.found & ~vulnerable).any()
        assert result.found.sum() > 0.7 * vulnerable.sum()
        assert (model.predict(result.X_adv[result.found]) != y[result.found]).all()
        assert ThreatModel(0.5).contains(X[result.found], result.X_adv[result.found]).all()
        assert np.isnan(result.X_adv[~result.found]).all()
        assert (result.lower == 0.0).all()

    @pytest.mark.parametrize("norm", [np.inf, 2, 1, 0])
    def test_never_nearer_than_the_minimum(self, numbers: Any, norm: float) -> None:
        X, y = numbers
        model = RandomForestClassifier(1, max_depth=4, random_state=0).fit(X, y)
        exact = attack(model, X, y, norm=norm).distance
        result = transfer_attack(model, X, y, norm=norm, method="heuristic", random_state=0)
        assert result.found.any()
        assert (result.distance >= exact * (1 - 1e-12)).all()

    def test_a_model_that_is_no_tree(self, linear: Case) -> None:
        """A line can be crossed anywhere: halving brings the example to within a thousandth of it."""
        model, X, y = linear
        result = transfer_attack(model, X, y, random_state=0)
        right = model.predict(X) == y
        assert (result.distance[~right] == 0.0).all()
        moved = result.found & right
        assert moved.any()
        score = model.decision_function(X[moved]), model.decision_function(result.X_adv[moved])
        assert (np.sign(score[0]) != np.sign(score[1])).all()
        assert (np.abs(score[1]) <= 0.01 * np.abs(score[0]) + 0.05).all()

    def test_a_perfect_surrogate(self, forest: Case) -> None:
        """The model as its own surrogate: whatever is found against it works."""
        model, X, y = forest
        result = transfer_attack(model, X, y, 0.5, surrogate=model, method="search")
        np.testing.assert_array_equal(result.found, is_vulnerable(model, X, y, 0.5))

    def test_surrogates(self, linear: Case) -> None:
        model, X, y = linear
        base = GradientBoostingClassifier(n_estimators=10)
        one, two = (transfer_attack(model, X, y, 1.0, surrogate=base, random_state=seed).X_adv for seed in (0, 0))
        np.testing.assert_array_equal(one, two)
        assert not hasattr(base, "estimators_")

    def test_frames_and_attacking_classes(self, forest: Case) -> None:
        _, X, y = forest
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        labels = np.where(y == 1, "bad", "good")
        model = LogisticRegression().fit(frame, labels)
        result = transfer_attack(model, frame, labels, ThreatModel({"a": 2.0}, "bad"), random_state=0)
        right = model.predict(frame) == labels
        assert not result.found[right & (labels == "good")].any()
        moved = result.found & right
        assert moved.any()
        assert result.X_adv.columns.tolist() == ["a", "b", "c"]
        assert result.X_adv.loc[moved, ["b", "c"]].equals(frame.loc[moved, ["b", "c"]])

    def test_a_model_that_always_says_the_same(self, numbers: Any) -> None:
        X, y = numbers
        model = LogisticRegression().fit(X, y)
        alike = X[model.predict(X) == 1]
        with pytest.raises(ValueError, match=r"X_surrogate: the model gives all \d+ rows the class 1"):
            transfer_attack(model, alike, threat=1.0)


class TestQuest:
    """What the toolbox is let in on: a cube, a count and no more."""

    def query_attack(self, case: Case, threat: Any, max_queries: int) -> _QueryAttack:
        model, X, y = case
        target = Target(model, X, y, threat)
        return _QueryAttack(target, int(np.flatnonzero(~target.is_wrong)[0]), np.inf, max_queries)

    def test_no_more_queries_than_allowed(self, forest: Case) -> None:
        query_attack = self.query_attack(forest, 5.0, 100)
        cube = np.random.default_rng(0).random((70, 3))
        assert query_attack.answer(cube).shape == (70, 2)
        with pytest.raises(_OutOfQueriesError):
            query_attack.answer(cube)
        assert query_attack.left == 0
        with pytest.raises(_OutOfQueriesError):
            query_attack.answer(cube[:1])

    def test_the_cube_is_the_reach(self, forest: Case) -> None:
        """Corners, centre and points beyond: all that is asked is in reach; fixed features stay as they are."""
        query_attack = self.query_attack(forest, [0.5, None, (0.0, 1.0)], 1000)
        assert query_attack.movable.tolist() == [0, 2]
        asked: list[np.ndarray] = []
        predict = query_attack.target.predict
        query_attack.target.predict = lambda matrix: (asked.append(matrix), predict(matrix))[1]  # type: ignore[method-assign]
        query_attack.answer(np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [-3.0, 7.0]], dtype=np.float32))
        points = asked[0]
        rows = np.tile(query_attack.row, (4, 1))
        assert ThreatModel([0.5, None, (0.0, 1.0)]).contains(rows, points).all()
        np.testing.assert_array_equal(points[0], query_attack.row - np.array([0.5, 0.0, 0.0]))
        np.testing.assert_array_equal(points[1], query_attack.row + np.array([0.5, 0.0, 1.0]))

    def test_the_nearest_example_is_remembered(self, forest: Case) -> None:
        query_attack = self.query_attack(forest, 3.0, 5000)
        cube = np.random.default_rng(0).random((500, 3))
        classes = query_attack.answer(cube).argmax(axis=1)
        points = query_attack.low + cube * (query_attack.high - query_attack.low)
        wrong = points[classes != query_attack.class_index]
        assert len(wrong)
        assert query_attack.best is not None
        nearest = np.abs(wrong - query_attack.row).max(axis=1).min()
        np.testing.assert_allclose(np.abs(query_attack.best - query_attack.row).max(), nearest)


@needs_art
class TestToolbox:
    @pytest.mark.parametrize("method", ["hopskipjump", "boundary"])
    @pytest.mark.parametrize("norm", [np.inf, 2])
    def test_examples_within_the_threat(self, forest: Case, method: str, norm: float) -> None:
        model, X, y = forest
        X, y = X[:8], y[:8]
        result = black_box_attack(model, X, y, 0.7, method=method, norm=norm, max_queries=400, random_state=0)
        vulnerable = is_vulnerable(model, X, y, 0.7)
        assert not (result.found & ~vulnerable).any()
        assert result.found.sum() >= 0.5 * vulnerable.sum()
        assert (model.predict(result.X_adv[result.found]) != y[result.found]).all()
        if norm == np.inf:
            assert (result.distance >= attack(model, X, y).distance - 1e-12).all()

    def test_seeds(self, linear: Case) -> None:
        model, X, _ = linear
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        one, two, three = (
            black_box_attack(model, X[:2], max_queries=200, random_state=seed).distance for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(one, two)
        assert (one != three).any()
        np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002

    @pytest.mark.parametrize(
        ("name", "value"), [("method", "zoo"), ("norm", 1), ("max_queries", 0), ("max_queries", True)]
    )
    def test_parameters(self, linear: Case, name: str, value: Any) -> None:
        with pytest.raises(ValueError, match=f"{name}="):
            black_box_attack(*linear, **{name: value})


@pytest.mark.skipif(find_spec("art") is not None, reason="it is installed")
def test_without_the_toolbox(linear: Case) -> None:
    with pytest.raises(ImportError, match=r"pip install adversarial-robustness-toolbox"):
        black_box_attack(*linear)


def test_what_cannot_be_attacked(frame: tuple[pd.DataFrame, pd.Series], linear: Case) -> None:
    table, y = frame
    _, X, _ = linear
    with pytest.raises(TypeError, match="a dict has no predict method"):
        transfer_attack({}, X)
    with pytest.raises(ValueError, match="X: column 'color' is categorical"):
        Target(LogisticRegression().fit(X, y[:30]), table, y, None)


@pytest.mark.parametrize("attackers", [[1, 2], {1: [0, 2], 2: [0]}])
def test_a_surrogate_that_has_not_seen_every_class(attackers: Any) -> None:
    """The surrogate was asked about classes that it does not know, and the attack ended in a ValueError."""
    X = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    y = np.repeat([0, 1, 2], 10)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    threat = ThreatModel(1.0, attacking_classes=attackers)
    result = transfer_attack(model, X, y, threat, X_surrogate=X[:20], random_state=0)
    assert result.found.tolist() == [label == 1 for label in y.tolist()]
