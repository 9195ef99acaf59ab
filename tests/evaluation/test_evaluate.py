"""Reports: figures that agree with `verify`, `attack` and plain counting, whatever the threat model."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, ThreatModel, adversarial_accuracy, as_ensemble, attack, evaluate, verify
from hardwood.results import Bounds
from hardwood.table import Schema

Table = tuple[np.ndarray, np.ndarray]
EPSILONS = [0.25, 0.5, 1.5, 3.0]


@pytest.fixture(scope="module")
def forest(numbers: Table) -> RandomForestClassifier:
    return RandomForestClassifier(15, max_depth=4, random_state=0).fit(*numbers)


class TestScaling:
    def test_words(self) -> None:
        threat = ThreatModel([0.5, (1, 0), (1, np.inf), "<", "<>", None, {"a": ["b"]}], attacking_classes=["x"])
        doubled = ThreatModel([1.0, (2, 0), (2, np.inf), "<", "<>", None, {"a": ["b"]}], attacking_classes=["x"])
        assert threat.scaled(2) == doubled
        assert threat.scaled(1.0) == threat
        assert threat.scaled(0) == ThreatModel(None, attacking_classes=["x"])
        without_limit = [np.inf, "<", (np.inf, np.inf), "<", "<>", None, {"a": ["b"]}]
        assert threat.scaled(np.inf) == ThreatModel(without_limit, attacking_classes=["x"])
        assert ThreatModel(0.5).scaled(3) == ThreatModel(1.5)
        assert ThreatModel({"a": 2}).scaled(0.5) == ThreatModel({"a": 1})

    def test_a_number_never_comes_to_mean_categories(self) -> None:
        schema = Schema(2, None, (None, ("blue", "red")))
        reach = ThreatModel(1.0).scaled(np.inf).resolve(schema)
        assert reach.left[0] == reach.right[0] == np.inf
        assert reach.categories[1] is not None
        assert (reach.categories[1] == np.eye(3, dtype=bool)).all()

    @pytest.mark.parametrize("factor", [-1, np.nan, "2", None, True], ids=repr)
    def test_what_is_no_factor(self, factor: Any) -> None:
        with pytest.raises(ValueError, match="factor="):
            ThreatModel(1.0).scaled(factor)


THREATS = {
    "a number": 0.1,
    "per feature": [0.1, (0.05, 0.2), None],
    "without limit": [">", 0.1, (np.inf, 0.1)],
    "one class": ThreatModel(0.2, attacking_classes=[1]),
    "nothing": None,
}


@pytest.mark.parametrize("threat", THREATS.values(), ids=THREATS.keys())
def test_every_point_of_the_curve_is_what_verify_says(forest: RandomForestClassifier, numbers: Table, threat: Any):
    X, y = numbers
    report = evaluate(forest, X, y, threat, epsilons=EPSILONS)
    assert report.epsilons.tolist() == [0.0, 0.25, 0.5, 1.0, 1.5, 3.0]
    previous = 1.0
    for epsilon in report.epsilons:
        status = verify(forest, X, y, ThreatModel.coerce(threat).scaled(epsilon)).status
        bounds = report.accuracy_at(epsilon)
        assert bounds.is_exact
        assert bounds.lower == (status == "robust").mean() <= previous
        previous = bounds.lower
        assert ((report.robust_to >= epsilon) == (status == "robust")).all()
        assert ((report.fooled_at <= epsilon) == (status == "vulnerable")).all()
    assert report.accuracy == report.accuracy_at(0.0).lower == forest.score(X, y)
    assert report.adversarial_accuracy.lower == adversarial_accuracy(forest, X, y, threat)
    assert (report.status == verify(forest, X, y, threat).status).all()
    assert report.ceilings is not None
    assert (np.diff(report.ceilings) <= 0.0).all()
    assert not report.interrupted


def test_categories(mixed: RobustTreeClassifier, frame: tuple[pd.DataFrame, pd.Series]) -> None:
    """Changes of category are there from the smallest epsilon on; rows with an unknown category are no obstacle."""
    X, y = frame
    X = X.assign(color=X["color"].cat.add_categories("violet"))
    X.loc[:20, "color"] = "violet"
    threat = ThreatModel({"income": 1.0, "color": {"red": ["blue", "green"], "blue": ["green"]}})
    report = evaluate(mixed, X, y, threat, epsilons=[1e-9, 0.5])
    assert report.accuracy_at(1e-9).lower == adversarial_accuracy(mixed, X, y, threat.scaled(1e-9)) < report.accuracy
    for epsilon in (0.5, 1.0):
        assert report.accuracy_at(epsilon).lower == adversarial_accuracy(mixed, X, y, threat.scaled(epsilon))
    assert report.ceiling is not None
    assert report.constant_accuracy < report.ceiling < 1.0
    assert report.to_frame()["label"].tolist() == y.tolist()


def test_distances(forest: RandomForestClassifier, numbers: Table) -> None:
    X, y = numbers
    report = evaluate(forest, X, y, [0.1, (0.0, 0.1), None], distances=True)
    expected = attack(forest, X, y, ["<>", ">", None]).distance
    np.testing.assert_array_equal(report.distance, expected)
    np.testing.assert_array_equal(report.distance_lower, expected)
    median = np.sort(expected[report.fooled_at > 0])[np.ceil(0.5 * (report.fooled_at > 0).sum()).astype(int) - 1]
    assert f"50%{median:>{len('have an example within') + 25}.4g}" in str(report)
    assert evaluate(forest, X, y, 0.1).distance is None


@pytest.fixture(scope="module")
def hard() -> tuple[Any, np.ndarray, np.ndarray]:
    """A forest of which a time limit of 0 leaves some rows undecided."""
    generator = np.random.default_rng(0)
    X = generator.random((300, 6))
    y = (X.sum(axis=1) + 0.3 * generator.normal(size=300) > 3.0).astype(int)
    return as_ensemble(RandomForestClassifier(40, random_state=0).fit(X, y)), X[:200], y[:200]


def test_while_rows_are_undecided_shares_are_intervals(hard: tuple[Any, np.ndarray, np.ndarray]) -> None:
    model, X, y = hard
    loose, exact = (evaluate(model, X, y, 0.05, epsilons=EPSILONS, time_limit=limit) for limit in (0, None))
    assert not loose.adversarial_accuracy.is_exact
    for epsilon in exact.epsilons:
        bounds, truth = loose.accuracy_at(epsilon), exact.accuracy_at(epsilon)
        assert truth.is_exact
        assert bounds.lower <= truth.lower <= bounds.upper
    n_unknown = int((loose.status == "unknown").sum())
    assert n_unknown > 0
    assert f"{loose.adversarial_accuracy}  {n_unknown} rows undecided" in str(loose)
    assert (loose.robust_to < loose.fooled_at).all()
    classes = loose.to_frame("classes")
    assert (classes["lower"] < classes["upper"]).any()


class TestInterruption:
    def test_what_was_decided_is_kept(self, hard: tuple[Any, np.ndarray, np.ndarray]) -> None:
        model, X, y = hard
        exact = evaluate(model, X, y, 0.05, epsilons=EPSILONS)

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        report = evaluate(model, X, y, 0.05, epsilons=EPSILONS, ceiling=False, distances=True, progress=interrupt)
        assert report.interrupted
        assert report.distance is None
        assert report.accuracy == exact.accuracy
        assert 0 < (report.status == "unknown").sum() < len(y)
        decided = report.status != "unknown"
        assert (report.status[decided] == exact.status[decided]).all()
        assert "interrupted" in str(report)

    def test_while_distances_are_measured(self, hard: tuple[Any, np.ndarray, np.ndarray]) -> None:
        model, X, y = hard
        measuring = threading.Event()

        def interrupt(done: int, total: int) -> None:
            # Searching has a step per row that is right and epsilon; measuring one per row.
            if total <= len(y):
                measuring.set()
                raise KeyboardInterrupt

        report = evaluate(model, X, y, 0.05, epsilons=EPSILONS, ceiling=False, distances=True, progress=interrupt)
        assert measuring.is_set()
        assert report.interrupted
        assert report.adversarial_accuracy.is_exact
        assert report.distance is not None
        assert report.distance_lower is not None
        assert (report.distance_lower <= report.distance).all()


def test_progress(forest: RandomForestClassifier, numbers: Table) -> None:
    seen: list[tuple[int, int]] = []
    evaluate(forest, *numbers, 0.1, epsilons=EPSILONS, ceiling=False, progress=lambda *step: seen.append(step))
    done, total = zip(*seen, strict=True)
    assert done[0] < 0.2 * total[0]
    assert list(done) == sorted(done)
    assert len(set(total)) == 1
    assert max(done) <= total[0]


def test_threads_change_nothing(forest: RandomForestClassifier, numbers: Table) -> None:
    alone, together = (evaluate(forest, *numbers, 0.1, epsilons=EPSILONS, n_jobs=n) for n in (1, 2))
    assert (alone.robust_to == together.robust_to).all()
    assert (alone.fooled_at == together.fooled_at).all()


class TestReport:
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [4.2]])
    y = np.array(["a", "a", "b", "b", "b", "<b>"])

    @pytest.fixture
    def report(self) -> Any:
        model = DecisionTreeClassifier(random_state=0).fit(self.X, self.y)
        return evaluate(model, self.X, self.y, 0.7, epsilons=[0.5])

    def test_figures(self, report: Any) -> None:
        assert report.n_samples == 6
        assert report.accuracy == 1.0
        assert report.constant_accuracy == 0.5
        assert report.adversarial_accuracy == (2 / 6, 2 / 6)
        assert report.ceiling == pytest.approx(4 / 6)  # 1 meets 2, and 4 meets 4.2
        assert report.status.tolist() == ["robust", "vulnerable", "vulnerable", "robust", "vulnerable", "vulnerable"]
        assert report.fooled_at.tolist() == [np.inf, 1.0, 1.0, np.inf, 0.5, 0.5]
        assert report.robust_to.tolist() == [1.0, 0.5, 0.5, 1.0, 0.0, 0.0]

    def test_text(self, report: Any) -> None:
        text = str(report)
        lines = [line.split() for line in text.splitlines()]
        assert text.startswith("6 rows under ThreatModel(0.7)\n")
        assert ["adversarial", "accuracy", "33.3%"] in lines
        assert ["constant", "classifier", "50.0%", "always", "b"] in lines
        assert ["ceiling", "66.7%", "the", "best", "that", "any", "classifier", "can", "do"] in lines
        assert ["b", "3", "100.0%", "33.3%"] in lines
        assert ["0.5", "66.7%", "83.3%"] in lines
        assert max(map(len, text.splitlines())) <= 80
        assert "&lt;b&gt;" in report._repr_html_()
        assert "<b>" not in report._repr_html_()
        assert "83.3%" in report._repr_html_()

    def test_a_long_threat_model_is_cut_short(self, numbers: Table) -> None:
        X, y = numbers
        frame = pd.DataFrame(X, columns=[f"a column with quite a long name {k}" for k in range(3)])
        model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(frame, y)
        report = evaluate(model, frame, y, dict.fromkeys(frame.columns, 0.1))
        assert len(str(report).splitlines()[0]) < 110

    def test_frames(self, report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        rows, classes, curve = (report.to_frame(of) for of in ("rows", "classes", "curve"))
        assert rows["status"].tolist() == report.status.tolist()
        assert rows["prediction"].tolist() == self.y.tolist()
        assert classes["class"].tolist() == ["<b>", "a", "b"]
        assert classes["rows"].tolist() == [1, 2, 3]
        assert classes["upper"].tolist() == [0.0, 0.5, pytest.approx(1 / 3)]
        assert curve["epsilon"].tolist() == [0.0, 0.5, 1.0]
        assert curve["ceiling"].tolist() == [1.0, pytest.approx(5 / 6), pytest.approx(4 / 6)]
        with pytest.raises(ValueError, match="of='columns'"):
            report.to_frame("columns")
        monkeypatch.setitem(__import__("sys").modules, "pandas", None)
        with pytest.raises(ImportError, match="pip install pandas"):
            report.to_frame()

    def test_without_a_ceiling(self) -> None:
        model = DecisionTreeClassifier(random_state=0).fit(self.X, self.y)
        report = evaluate(model, self.X, self.y, 0.7, ceiling=False, epsilons=[0.5])
        assert report.ceiling is None
        assert "ceiling" not in str(report)
        assert "ceiling" not in report.to_frame("curve")

    def test_bounds(self) -> None:
        assert str(Bounds(0.25, 0.25)) == "25.0%"
        assert str(Bounds(0.25, 0.5)) == "25.0% to 50.0%"


def test_a_model_that_is_always_wrong() -> None:
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    report = evaluate(model, X, 1 - y, 0.1, distances=True)
    assert report.accuracy == 0.0
    assert report.adversarial_accuracy == (0.0, 0.0)
    assert report.distance is not None
    assert report.distance.tolist() == [0.0, 0.0]
    assert "0.0%" in str(report)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilons": [-1.0]}, "epsilons"),
        ({"epsilons": [np.inf]}, "epsilons"),
        ({"epsilons": 0.5}, "epsilons"),
        ({"epsilons": ["a"]}, "epsilons"),
        ({"time_limit": -1}, "time_limit"),
        ({"threat": [0.1]}, "1 entries for a table of 3"),
        ({"threat": ThreatModel(0.1, attacking_classes=[7])}, "7 is not a class"),
        ({"X": np.empty((0, 3)), "y": []}, "0 sample"),
        ({"y": [1]}, "one per row"),
        ({"X": np.zeros((200, 2))}, "2 features"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(model: RobustTreeClassifier, numbers: Table, options: dict[str, Any], words: str) -> None:
    asked = {"model": model, "X": numbers[0], "y": numbers[1], "threat": 0.1} | options
    with pytest.raises(ValueError, match=words):
        evaluate(**asked)
