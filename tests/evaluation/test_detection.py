"""Precision, recall, false alarms and ROC AUC under attack: against plain counting over every point within reach."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import precision_score, recall_score, roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, ThreatModel, evaluate, make_adversarial_scorer
from hardwood.results import Bounds

THREAT = ThreatModel([1, 1, None])
NOBODY = ThreatModel(None)


def make_rows(n_rows: int = 40, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    X = generator.integers(0, 6, (n_rows, 3)).astype(float)
    y = (X.sum(axis=1) + generator.integers(0, 4, n_rows)) * n_classes // 20
    return X, np.array(["ham", "spam", "worm"])[np.clip(y.astype(int), 0, n_classes - 1)]


MODELS = {
    "our tree": RobustTreeClassifier(THREAT, max_depth=3),
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(7, max_depth=3, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0),
}


def move_everywhere(row: np.ndarray) -> np.ndarray:
    """Every point that matters within reach: thresholds lie between whole numbers, so steps of a half see all cells."""
    steps = np.linspace(-1.0, 1.0, 9)
    return np.array([row + np.array([a, b, 0.0]) for a, b in product(steps, steps)])


def find_worst_scores(model: Any, X: np.ndarray, y: np.ndarray, positive: str, attacking: list[str]) -> np.ndarray:
    column = list(model.classes_).index(positive)
    scores = []
    for row, label in zip(X, y, strict=True):
        points = move_everywhere(row) if label in attacking else row[None]
        score = model.predict_proba(points)[:, column]
        scores.append(score.min() if label == positive else score.max())
    return np.array(scores)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("positive", ["ham", "spam"])
@pytest.mark.parametrize("attacking", [["ham", "spam"], ["spam"]], ids=str)
@pytest.mark.parametrize("threshold", [None, 0.3])
def test_same_as_trying_everything(name: str, positive: str, attacking: list[str], threshold: float | None) -> None:
    X, y = make_rows()
    model = MODELS[name].fit(X, y)
    threat = ThreatModel(THREAT.features, attacking_classes=attacking)
    report = evaluate(
        model, X, y, threat, positive_class=positive, decision_threshold=threshold, time_limit=None, ceiling=False
    )
    is_positive = y == positive
    natural = model.predict_proba(X)[:, list(model.classes_).index(positive)]
    worst = find_worst_scores(model, X, y, positive, attacking)
    assert report.roc_auc == pytest.approx(roc_auc_score(is_positive, natural))
    assert report.adversarial_roc_auc is not None
    # Of one tree exact; the sums of several are known up to rounding, so equal scores may count as different.
    assert report.adversarial_roc_auc.upper == pytest.approx(roc_auc_score(is_positive, worst))
    assert report.adversarial_roc_auc.is_exact or name in ("forest", "boosting")
    assert report.adversarial_roc_auc.lower <= report.adversarial_roc_auc.upper + 1e-12
    cut = 0.5 if threshold is None else threshold
    for epsilon, scores in ((0.0, natural), (1.0, worst)):
        # A tie goes to the first class.
        alarm = scores >= cut if positive == "ham" else scores > cut
        rates = report.detection_at(epsilon)
        assert rates.precision == Bounds(*[precision_score(is_positive, alarm, zero_division=0.0)] * 2)
        assert rates.recall == Bounds(*[recall_score(is_positive, alarm)] * 2)
        assert rates.false_alarm_rate == Bounds(*[alarm[~is_positive].mean()] * 2)
    if threshold is None:
        expected = {
            "precision": report.detection_at().precision.lower,
            "recall": report.detection_at().recall.lower,
            "neg_false_alarm_rate": -report.detection_at().false_alarm_rate.upper,
            "roc_auc": report.adversarial_roc_auc.lower,
        }
        for metric, score in expected.items():
            scorer = make_adversarial_scorer(threat, metric=metric, positive_class=positive)
            assert scorer(model, X, y) == pytest.approx(score)


def test_more_than_two_classes_have_bounds() -> None:
    X, y = make_rows(60, n_classes=3)
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
    report = evaluate(model, X, y, THREAT, positive_class="worm", ceiling=False)
    alarm = np.array([(model.predict(move_everywhere(row)) == "worm") for row in X])
    rates = report.detection_at()
    recall = alarm.all(axis=1)[y == "worm"].mean()
    false_alarms = alarm.any(axis=1)[y != "worm"].mean()
    assert rates.recall == Bounds(recall, recall)
    assert rates.false_alarm_rate.lower <= false_alarms <= rates.false_alarm_rate.upper
    assert rates.false_alarm_rate.lower < rates.false_alarm_rate.upper
    assert report.roc_auc is None
    assert "detecting worm" in str(report)


def test_what_is_shown() -> None:
    X, y = make_rows()
    report = evaluate(MODELS["our tree"].fit(X, y), X, y, THREAT, positive_class="spam")
    lines = str(report).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("detecting spam"))
    assert [line.split("  ")[0] for line in lines[start + 1 : start + 5]] == [
        "precision", "recall", "false alarms", "ROC AUC",
    ]  # fmt: skip
    assert "detecting spam" in report._repr_html_()
    assert "detecting" not in str(evaluate(MODELS["our tree"], X, y, THREAT))


def test_wrong_use() -> None:
    X, y = make_rows()
    model = DecisionTreeClassifier(max_depth=2).fit(X, y)
    with pytest.raises(ValueError, match=r"positive_class='eggs': .*\['ham', 'spam'\]"):
        evaluate(model, X, y, THREAT, positive_class="eggs")
    with pytest.raises(ValueError, match="say the probability of which class"):
        evaluate(model, X, y, THREAT, decision_threshold=0.5)
    with pytest.raises(ValueError, match=r"decision_threshold=1\.5"):
        evaluate(model, X, y, THREAT, positive_class="spam", decision_threshold=1.5)
    with pytest.raises(ValueError, match="say which class is to be detected"):
        evaluate(model, X, y, NOBODY).detection_at()
    with pytest.raises(ValueError, match="metric='f1'"):
        make_adversarial_scorer(THREAT, metric="f1")
    with pytest.raises(ValueError, match="accuracy is about all classes"):
        make_adversarial_scorer(THREAT, positive_class="spam")
    X, y = make_rows(60, n_classes=3)
    model = DecisionTreeClassifier(max_depth=2).fit(X, y)
    with pytest.raises(ValueError, match="3 classes; expected two"):
        evaluate(model, X, y, THREAT, positive_class="spam", decision_threshold=0.5)
    with pytest.raises(ValueError, match="3 classes; expected two"):
        make_adversarial_scorer(THREAT, metric="recall")(model, X, y)
