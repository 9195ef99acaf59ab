"""The door: what callers give is read once, and whoever can answer is asked."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

from hardwood import (
    AttackRule,
    HardenedClassifier,
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    as_ensemble,
    attack,
    evaluate,
    is_vulnerable,
    make_adversarial_scorer,
    verify,
)
from hardwood.table import Schema
from hardwood.verification import ask
from hardwood.verification.answers import FOUND, NONE
from hardwood.verification.ask import AskSettings
from hardwood.verification.question import read_question

Numbers = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def forest(numbers: Numbers) -> RandomForestClassifier:
    return RandomForestClassifier(5, max_depth=3, random_state=0, n_jobs=1).fit(*numbers)


class TestOnce:
    """`evaluate` decoded and encoded its rows for every epsilon, and turned statuses into words and back."""

    @pytest.mark.parametrize("kind", ["tree", "forest"])
    def test_rows_are_encoded_once(
        self, kind: str, model: Any, forest: Any, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = model.ensemble_ if kind == "tree" else as_ensemble(forest)
        X, y = numbers[0][:20], numbers[1][:20]
        encode, calls = Schema.encode, []

        def count(schema: Schema, table: Any) -> np.ndarray:
            calls.append(1)
            return encode(schema, table)

        monkeypatch.setattr(Schema, "encode", count)
        questions = {
            "verify": lambda: verify(asked, X, y, 0.1),
            "attack": lambda: attack(asked, X, y, 0.1),
            "is_vulnerable": lambda: is_vulnerable(asked, X, y, 0.1),
            "adversarial_accuracy": lambda: adversarial_accuracy(asked, X, y, 0.1),
            "evaluate": lambda: evaluate(asked, X, y, 0.1, epsilons=[0.5, 2.0], distances=True),
            "scorer": lambda: make_adversarial_scorer(0.1, time_limit=10.0)(asked, X, y),
        }
        for name, question in questions.items():
            calls.clear()
            question()
            assert len(calls) == 1, name

    def test_a_threat_is_resolved_once(self, model: Any, numbers: Numbers) -> None:
        """Whoever asks row by row repeats it every time; it is kept with the model, and goes with it."""
        X, y = numbers
        first, second = (read_question(model, X[[i]], y[[i]], 0.1) for i in (0, 1))
        assert first.reach is second.reach
        assert read_question(model, X, y, 0.2).reach is not first.reach

    def test_what_is_kept_goes_with_the_model(self, numbers: Numbers) -> None:
        X, y = numbers
        ensemble = RobustTreeClassifier(max_depth=2).fit(X, y).ensemble_
        verify(ensemble, X[:5], y[:5], 0.1)
        seen = weakref.ref(ensemble)
        del ensemble
        gc.collect()
        assert seen() is None


def test_answers_agree_whoever_gives_them(model: Any, forest: Any, numbers: Numbers) -> None:
    """The status says the same as the bounds: of a margin, and of a distance."""
    for asked in (model, forest):
        question = read_question(asked, *numbers, 0.1)
        about = question.ensemble, question.matrix, question.class_index, question.reach
        decided = ask.decide(*about, AskSettings())
        nearest = ask.nearest(*about, np.inf, np.ones(3), AskSettings())
        np.testing.assert_array_equal(decided.status, nearest.status)
        assert set(decided.status) == {FOUND, NONE}
        assert (decided.lower <= decided.upper).all()
        assert (decided.lower[decided.status == NONE] >= 0.0).all()
        assert (decided.upper[decided.status == FOUND] <= 0.0).all()
        np.testing.assert_array_equal(np.isinf(nearest.upper), nearest.status == NONE)
        np.testing.assert_array_equal(nearest.lower, nearest.upper)


class TestRegressions:
    """Nothing could move, and yet rows were unknown: sums were widened by their rounding, whether or not any moved."""

    @pytest.mark.parametrize("threat", [None, 0.0, 1e-12, [None, None, 1.0]])
    def test_where_nothing_can_move(self, numbers: Numbers, threat: Any) -> None:
        X, y = numbers
        columns = X if not isinstance(threat, list) else np.column_stack([X[:, :2], np.zeros(len(X))])
        for model in (
            GradientBoostingRegressor(n_estimators=7, random_state=0).fit(columns, y / 3),
            RandomForestRegressor(3, random_state=0, n_jobs=1).fit(columns, y / 3),
        ):
            certificate = verify(model, columns, None, threat, tolerance=0.0)
            assert set(certificate.status) == {"robust"}
            output = as_ensemble(model).predict(columns)
            np.testing.assert_array_equal(certificate.lower, output)
            np.testing.assert_array_equal(certificate.upper, output)

    def test_rows_that_can_move_beside_rows_that_cannot(self, numbers: Numbers) -> None:
        X, y = numbers
        model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0).fit(X, y / 3)
        certificate = verify(model, X, None, 0.01, tolerance=0.0)
        assert {"robust", "vulnerable"} <= set(certificate.status)
        generator = np.random.default_rng(0)
        for _ in range(50):
            moved = model.predict(X + generator.uniform(-0.01, 0.01, X.shape))
            assert ((certificate.lower <= moved) & (moved <= certificate.upper)).all()


class TestProgress:
    """`progress=True` was "'bool' object is not callable", and an attack by rules said nothing at all."""

    RULES = ThreatModel(rules=[AttackRule(0, add=0.1)], budget=0.3)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda model, X, y, progress: verify(model, X, y, 0.1, progress=progress),
            lambda model, X, y, progress: verify(model, X, y, TestProgress.RULES, progress=progress),
            lambda model, X, y, progress: attack(model, X, y, 0.1, progress=progress),
            lambda model, X, y, progress: attack(model, X, y, TestProgress.RULES, progress=progress),
            lambda model, X, y, progress: attack(model, X, y, 0.1, method="heuristic", progress=progress),
            lambda model, X, y, progress: evaluate(model, X, y, 0.1, ceiling=False, progress=progress),
        ],
        ids=["verify", "verify by rules", "attack", "attack by rules", "heuristic", "evaluate"],
    )
    @pytest.mark.parametrize("kind", ["tree", "forest"])
    def test_everywhere(
        self, ask: Any, kind: str, model: Any, forest: Any, numbers: Numbers, capsys: pytest.CaptureFixture[str]
    ) -> None:
        asked, X, y = model if kind == "tree" else forest, numbers[0][:20], numbers[1][:20]
        seen: list[tuple[int, int]] = []
        ask(asked, X, y, lambda *step: seen.append(step))
        assert seen
        assert seen == sorted(seen)
        assert seen[-1][0] == seen[-1][1]
        capsys.readouterr()
        ask(asked, X, y, True)
        said = capsys.readouterr().err
        assert said.startswith("\r")
        assert said.endswith(f"{seen[-1][0]} of {seen[-1][1]}\n")
        for silent in (None, False):
            ask(asked, X, y, silent)
        assert capsys.readouterr().err == ""
        with pytest.raises(ValueError, match="progress='yes': expected True"):
            ask(asked, X, y, "yes")

    def test_hardening(self, numbers: Numbers, capsys: pytest.CaptureFixture[str]) -> None:
        base = RandomForestClassifier(3, max_depth=2, random_state=0)
        HardenedClassifier(base, 0.1, rounds=1, max_rows=10, random_state=0, progress=True).fit(*numbers)
        assert capsys.readouterr().err == "\r1 of 1\n"


def test_wrong_made_wrong_and_held(numbers: Numbers, model: Any) -> None:
    """Rows that were wrong as they stood were counted as attacks: 2,257 of 2,260."""
    X, y = numbers
    y = np.where(np.arange(len(y)) < 50, 1 - model.predict(X), y)
    result = attack(model, X, y, 0.05)
    np.testing.assert_array_equal(result.was_wrong, model.predict(X) != y)
    np.testing.assert_array_equal(result.found, result.was_wrong | result.made_wrong)
    kinds = [result.was_wrong, result.made_wrong, result.holds, result.undecided]
    np.testing.assert_array_equal(np.sum(kinds, axis=0), np.ones(len(X)))
    assert [int(kind.sum() > 0) for kind in kinds] == [1, 1, 1, 0]
    free = attack(model, X, y, 0.05, feature_weight=[0.0, 0.0, 0.0])
    np.testing.assert_array_equal(free.was_wrong, result.was_wrong)  # though all distances are 0
    hasty = attack(model, X, y, 0.05, method="coordinate")
    assert not hasty.holds.any()  # which proves nothing
    assert hasty.undecided.any()
