"""Attackers who want their rows to be taken for certain classes, against trying one point of every cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

from hardwood import (
    AttackRule,
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    attack,
    evaluate,
    transfer_attack,
    verify,
)
from hardwood.threat import Reach
from hardwood.verification import ask
from hardwood.verification.answers import FOUND, NONE, UNFINISHED
from hardwood.verification.ask import AskSettings
from hardwood.verification.explanation import explain_row
from hardwood.verification.question import read_question
from reference import attacking, enumerating
from reference.cases import Case, random_case


def draw_targets(generator: np.random.Generator, n_classes: int) -> dict[int, list[int]]:
    """Say who wants to be taken for whom; never all for all others."""
    targets = {}
    for k in range(n_classes):
        others = [other for other in range(n_classes) if other != k and generator.random() < 0.5]
        if others:
            targets[k] = others
    full = all(len(others) == n_classes - 1 for others in targets.values())
    return {0: [n_classes - 1]} if full or not targets else targets


def targeted_case(seed: int, n_trees: int | None, **options: Any) -> tuple[Case, Reach, dict[int, list[int]]]:
    """A model of three or four classes, rows, and an attacker who wants certain classes."""
    generator = np.random.default_rng(seed)
    while True:
        case = random_case(int(generator.integers(2**31)), n_trees, most_classes=4, **options)
        n_classes = len(case.trees.labels)
        if n_classes > 2:
            break
    targets = draw_targets(generator, n_classes)
    labels = case.trees.labels.tolist()
    words = {labels[k]: [labels[other] for other in others] for k, others in targets.items()}
    reach = case.threat.replace(attacking_classes=words).resolve(case.trees.schema, case.trees.labels)
    assert isinstance(reach, Reach)
    class_index = case.class_index.copy()
    class_index[0] = generator.integers(n_classes)  # a row that may be wrong as it stands
    return case._replace(class_index=class_index), reach, targets


def list_examples(case: Case, reach: Reach, targets: dict[int, list[int]], row: int) -> np.ndarray:
    """Points that are given a class that the attacker wants; the row itself if it is wrong as it stands."""
    own = int(case.class_index[row])
    if attacking.predict(case.trees, case.rows[row]) != own:
        return case.rows[[row]]
    points = enumerating.reachable_points(case.trees, case.rows[row], own, reach)
    wanted = targets.get(own, [])
    return points[[attacking.predict(case.trees, point) in wanted for point in points]]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 1, None]), st.booleans(), st.booleans())
def test_decisions(seed: int, n_trees: int | None, missing: bool, hides: bool) -> None:
    case, reach, targets = targeted_case(seed, n_trees, missing=missing, hides=missing and hides)
    answers = ask.decide(case.trees, case.rows, case.class_index, reach, AskSettings())
    for row in range(len(case.rows)):
        there_is = len(list_examples(case, reach, targets, row)) > 0
        assert answers.status[row] == (FOUND if there_is else NONE)
        assert answers.lower[row] <= answers.upper[row]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, None]), st.sampled_from([np.inf, 2, 1, 0]))
@example(353, None, np.inf)  # columns without weight: an example at distance 0 that is not the row
def test_nearest_examples(seed: int, n_trees: int | None, norm: float) -> None:
    case, reach, targets = targeted_case(seed, n_trees)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], case.rows.shape[1])
    answers = ask.nearest(case.trees, case.rows, case.class_index, reach, norm, weight, AskSettings())
    for row in range(len(case.rows)):
        points = list_examples(case, reach, targets, row)
        expected = enumerating.nearest(points, case.rows[row], case.trees.schema, norm, weight)
        assert answers.lower[row] <= min(answers.upper[row], expected * (1.0 + 1e-9))
        assert answers.status[row] == (FOUND if expected < np.inf else NONE)
        np.testing.assert_allclose([answers.lower[row], answers.upper[row]], expected, rtol=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_the_solver_agrees(seed: int) -> None:
    case, reach, _ = targeted_case(seed, None)
    first, second = (
        ask.decide(case.trees, case.rows, case.class_index, reach, AskSettings(method)) for method in ("search", "milp")
    )
    known = second.status != UNFINISHED  # it cannot always tell a tie from a lead
    np.testing.assert_array_equal(first.status[known], second.status[known])


def test_margins_of_one_tree() -> None:
    """The smallest lead of the best class that nobody wants over the best that the attacker wants."""
    for seed in range(60):
        case, reach, targets = targeted_case(seed, 1)
        answers = ask.decide(case.trees, case.rows, case.class_index, reach, AskSettings())
        predicted = case.trees.decide(case.rows)
        for row, own in enumerate(case.class_index.tolist()):
            if predicted[row] == own and own in targets:
                points = enumerating.reachable_points(case.trees, case.rows[row], own, reach)
                output = case.trees.output(points).astype(np.float64)
                wanted = np.isin(np.arange(output.shape[1]), targets[own])
                margin = (output[:, ~wanted].max(axis=1) - output[:, wanted].max(axis=1)).min()
                np.testing.assert_allclose([answers.lower[row], answers.upper[row]], margin, atol=1e-12)


X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
TARGETS = {"virginica": ["versicolor"], "versicolor": "setosa"}


class TestDoors:
    """What users call."""

    def test_words(self, tmp_path: Path) -> None:
        threat = ThreatModel(0.5, TARGETS)
        assert repr(threat) == (
            "ThreatModel(0.5, attacking_classes={'virginica': ['versicolor'], 'versicolor': ['setosa']})"
        )
        assert threat == ThreatModel(0.5, {"versicolor": ["setosa"], "virginica": ("versicolor",)})
        assert threat != ThreatModel(0.5, ["virginica", "versicolor"])
        for words in (threat, ThreatModel(0.5, {0: [1, 2], 2: [0]})):
            (tmp_path / "threat.toml").write_text(words.to_toml())
            assert ThreatModel.from_toml(tmp_path / "threat.toml") == words

    def test_all_others_is_no_target(self) -> None:
        reach = ThreatModel(0.5, {"a": ["b", "c"]}).resolve(RobustTreeClassifier().fit(X, Y).ensemble_.schema, "abc")
        assert reach.targets is None
        assert reach.attacks.tolist() == [True, False, False]

    @pytest.mark.parametrize(
        ("classes", "words"),
        [
            ({"setosa": []}, r"'setosa' wants to be taken for \[\]"),
            ({"setosa": ["setosa"]}, r"'setosa' wants to be taken for \['setosa'\]"),
            ({"setosa": ["rose"]}, r"'rose' is not a class; the classes are"),
            ({"rose": ["setosa"]}, r"'rose' is not a class; the classes are"),
        ],
    )
    def test_bad_words(self, classes: dict[str, list[str]], words: str) -> None:
        with pytest.raises(ValueError, match=f"attacking_classes: {words}"):
            RobustTreeClassifier(0.5, attacking_classes=classes).fit(X, NAMES)

    def test_a_tree(self) -> None:
        """Fewer rows are lost to an attacker who wants one class than to one who wants any other."""
        tree = RobustTreeClassifier(0.5, attacking_classes=TARGETS, max_depth=4).fit(X, NAMES)
        threats = [ThreatModel(1.0, classes) for classes in ({"setosa": "virginica"}, ["setosa"])]
        some, any_other = (adversarial_accuracy(tree, X, NAMES, threat) for threat in threats)
        assert any_other < some
        report = evaluate(tree, X, NAMES, ThreatModel(1.0, TARGETS))
        assert report.ceiling is None
        assert report.adversarial_accuracy.lower == report.adversarial_accuracy.upper
        result = attack(tree, X, NAMES, ThreatModel(1.0, TARGETS))
        moved = result.found & ~result.was_wrong
        given = tree.predict(result.X_adv[moved])
        assert set(zip(NAMES[moved], given, strict=True)) <= {("virginica", "versicolor"), ("versicolor", "setosa")}
        assert report.adversarial_accuracy.lower == pytest.approx(1.0 - result.found.mean())

    @pytest.mark.parametrize("method", ["heuristic", "coordinate", "lowest"])
    def test_attacks_that_prove_nothing(self, method: str) -> None:
        forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, NAMES)
        threat = ThreatModel(1.5, TARGETS)
        result = attack(forest, X, NAMES, threat, method=method)
        moved = result.found & ~result.was_wrong
        wanted = {("virginica", "versicolor"), ("versicolor", "setosa")}
        assert set(zip(NAMES[moved], forest.predict(result.X_adv[moved]), strict=True)) <= wanted
        exact = verify(forest, X, NAMES, threat)
        assert (exact.status[moved] == "vulnerable").all()

    def test_transfer(self) -> None:
        forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, NAMES)
        result = transfer_attack(forest, X, NAMES, ThreatModel(1.5, TARGETS), random_state=0)
        moved = result.found & ~result.was_wrong
        wanted = {("virginica", "versicolor"), ("versicolor", "setosa")}
        assert set(zip(NAMES[moved], forest.predict(result.X_adv[moved]), strict=True)) <= wanted

    def test_rules(self) -> None:
        """Attackers who pay for their moves want certain classes, too."""
        tree = RobustTreeClassifier(max_depth=3).fit(X, NAMES)
        rules = [AttackRule(j, add=(-0.5, 0.5)) for j in range(4)]
        some, any_other = (
            verify(tree, X, NAMES, ThreatModel(rules=rules, budget=3.0, attacking_classes=classes)).status
            == "vulnerable"
            for classes in ({"virginica": ["setosa"]}, ["virginica"])
        )
        assert not (some & ~any_other).any()
        assert some.sum() < any_other.sum()

    def test_explained(self) -> None:
        """Why a row gets its class was not said where classes are wanted: each leaf is asked about with two classes."""
        tree = RobustTreeClassifier(max_depth=3).fit(X, NAMES)
        threat = ThreatModel(5.0, TARGETS)
        question = read_question(tree, X[100:101], NAMES[100:101], threat)
        story = explain_row(
            tree.ensemble_, question.matrix, int(question.class_index[0]), question.reach, AskSettings()
        )
        assert {tree.ensemble_.node_class[push.leaf] for push in story.pushes} == {0, 1, 2}
        inside = [threat.contains(X[100:101], push.point[None], NAMES[100:101])[0] for push in story.pushes]
        assert all(inside)
