"""RobustTreeClassifier with more than two classes, and everything that is done with a fitted tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    RobustTreeClassifier,
    ThreatModel,
    TreantClassifier,
    TreeEnsemble,
    adversarial_accuracy,
    attack,
    evaluate,
    export_rules,
    is_vulnerable,
    make_adversarial_scorer,
    prune,
    refine,
    relabel,
    verify,
)

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


@pytest.fixture(scope="module")
def tree() -> RobustTreeClassifier:
    return RobustTreeClassifier(0.2, max_depth=4).fit(X, NAMES)


class TestFitted:
    def test_probabilities(self, tree: RobustTreeClassifier) -> None:
        probability = tree.predict_proba(X)
        assert probability.shape == (150, 3)
        np.testing.assert_allclose(probability.sum(axis=1), 1.0)
        np.testing.assert_array_equal(tree.predict(X), tree.classes_[probability.argmax(axis=1)])
        assert tree.score(X, NAMES) > 0.85

    def test_importances(self, tree: RobustTreeClassifier) -> None:
        """The same as scikit-learn's where nobody attacks."""
        assert tree.feature_importances_.sum() == pytest.approx(1.0)
        table = np.random.default_rng(0).random((300, 4))
        label = np.digitize(table @ [1.0, 2.0, 3.0, 4.0], [4.0, 5.5])
        ours = RobustTreeClassifier(max_depth=3).fit(table, label)
        natural = DecisionTreeClassifier(max_depth=3, random_state=0).fit(table, label)
        np.testing.assert_allclose(ours.feature_importances_, natural.feature_importances_)

    def test_json(self, tree: RobustTreeClassifier, tmp_path: Path) -> None:
        tree.ensemble_.to_json(tmp_path / "tree.json")
        copy = TreeEnsemble.from_json(tmp_path / "tree.json")
        np.testing.assert_array_equal(copy.predict(X), tree.predict(X))
        assert adversarial_accuracy(copy, X, NAMES, 0.2) == adversarial_accuracy(tree, X, NAMES, 0.2)

    def test_rules(self, tree: RobustTreeClassifier) -> None:
        text = export_rules(tree)
        assert all(f"predict {name}" in text for name in tree.classes_)

    def test_answers_agree(self, tree: RobustTreeClassifier) -> None:
        share = adversarial_accuracy(tree, X, NAMES, 0.3)
        assert (verify(tree, X, NAMES, 0.3).status == "robust").mean() == pytest.approx(share)
        assert 1.0 - attack(tree, X, NAMES, 0.3).found.mean() == pytest.approx(share)
        report = evaluate(tree, X, NAMES, 0.3)
        assert report.adversarial_accuracy.lower == pytest.approx(share)
        assert report.ceiling is not None
        assert share <= report.ceiling

    def test_scorer(self) -> None:
        search = GridSearchCV(
            RobustTreeClassifier(0.2), {"max_depth": [1, 3]}, scoring=make_adversarial_scorer(0.2), cv=3
        ).fit(X, NAMES)
        assert search.best_params_ == {"max_depth": 3}


class TestTraining:
    def test_no_threat_is_the_natural_tree(self) -> None:
        for criterion in ("gini", "entropy"):
            ours = RobustTreeClassifier(criterion=criterion, max_depth=3).fit(X, Y)
            natural = DecisionTreeClassifier(criterion=criterion, max_depth=3, random_state=0).fit(X, Y)
            assert (ours.predict(X) == natural.predict(X)).mean() > 0.97
            assert ours.score(X, Y) >= natural.score(X, Y) - 1e-9

    def test_robust_beyond_the_natural_tree(self) -> None:
        """Digits: rows that the tree has not seen."""
        pixels, digit = load_digits(return_X_y=True)
        train, test, y_train, y_test = train_test_split(pixels / 16, digit, random_state=0, stratify=digit)
        natural = DecisionTreeClassifier(max_depth=10, random_state=0).fit(train, y_train)
        for epsilon, least in ((0.1, 0.67), (0.2, 0.5)):
            robust = RobustTreeClassifier(epsilon, max_depth=10).fit(train, y_train)
            assert adversarial_accuracy(robust, test, y_test, epsilon) > least
            assert adversarial_accuracy(natural, test, y_test, epsilon) < 0.3

    def test_classes_that_do_not_attack(self) -> None:
        """Their rows stay: with nobody attacking the tree is the natural one."""
        still = RobustTreeClassifier(1.0, attacking_classes=[], max_depth=4).fit(X, NAMES)
        natural = RobustTreeClassifier(max_depth=4).fit(X, NAMES)
        np.testing.assert_array_equal(still.ensemble_.threshold, natural.ensemble_.threshold)
        one = RobustTreeClassifier(0.5, attacking_classes=["virginica"], max_depth=4).fit(X, NAMES)
        assert adversarial_accuracy(one, X, NAMES, one.threat_) >= adversarial_accuracy(natural, X, NAMES, one.threat_)

    def test_weights(self) -> None:
        """Weights of rows and of classes are the same thing; a class of weight 0 is never predicted."""
        weight = np.where(NAMES == "setosa", 3.0, 1.0)
        by_row = RobustTreeClassifier(0.2, max_depth=4).fit(X, NAMES, weight)
        by_class = RobustTreeClassifier(
            0.2, max_depth=4, class_weight={"setosa": 3.0, "versicolor": 1.0, "virginica": 1.0}
        ).fit(X, NAMES)
        np.testing.assert_array_equal(by_row.ensemble_.feature, by_class.ensemble_.feature)
        np.testing.assert_allclose(by_row.predict_proba(X), by_class.predict_proba(X))
        none = RobustTreeClassifier(0.2, class_weight={"setosa": 0.0, "versicolor": 1.0, "virginica": 1.0})
        assert "setosa" not in none.fit(X, NAMES).predict(X)

    def test_a_class_of_which_no_row_counts(self) -> None:
        weight = np.where(NAMES == "setosa", 0.0, 1.0)
        model = RobustTreeClassifier(0.2, max_depth=3).fit(X, NAMES, weight)
        assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
        assert (model.predict_proba(X)[:, 0] == 0.0).all()

    @pytest.mark.parametrize("max_bins", ["exact", 255])
    def test_three_hundred_classes(self, max_bins: int | str) -> None:
        """Class numbers that a byte does not hold."""
        x = np.arange(600.0)[:, None]
        y = np.arange(600) // 2
        model = RobustTreeClassifier(0.25, max_bins=max_bins).fit(x, y)
        assert model.predict_proba(x).shape == (600, 300)
        assert model.score(x, y) >= (1.0 if max_bins == "exact" else 0.5)

    def test_shares_of_values(self) -> None:
        model = RobustTreeClassifier("5%", max_depth=4).fit(X, NAMES)
        natural = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, NAMES)
        assert adversarial_accuracy(model, X, NAMES, "5%") > adversarial_accuracy(natural, X, NAMES, "5%")

    def test_binned_is_nearly_as_good(self) -> None:
        generator = np.random.default_rng(0)
        table = generator.random((6000, 4))
        score = np.sin(6 * table) @ [1.0, 0.8, 0.6, 0.4] + 0.3 * generator.normal(size=6000)
        label = np.searchsorted(np.quantile(score, [0.25, 0.5, 0.75]), score)
        exact, binned = (
            adversarial_accuracy(
                RobustTreeClassifier(0.03, max_depth=6, max_bins=max_bins).fit(table[:4000], label[:4000]),
                table[4000:],
                label[4000:],
                0.03,
            )
            for max_bins in ("exact", 255)
        )
        assert binned > exact - 0.02


class TestRefusals:
    """What takes two classes says so."""

    def test_treant(self) -> None:
        with pytest.raises(ValueError, match="Only binary classification is supported: y has 3 classes"):
            TreantClassifier(0.1).fit(X, NAMES)


class TestRefinement:
    """What improves trees of two classes improves those of more."""

    @pytest.mark.parametrize("improve", [refine, prune, relabel])
    def test_fitted_trees(self, improve: Callable[..., RobustTreeClassifier]) -> None:
        deep = RobustTreeClassifier(0.2, max_depth=8).fit(X, NAMES)
        better = improve(deep, X, NAMES)
        before, after = (adversarial_accuracy(model, X, NAMES, 0.2) for model in (deep, better))
        assert after > before - 2 * (deep.get_n_leaves() - better.get_n_leaves()) / len(X)
        assert after > before or better.get_n_leaves() < deep.get_n_leaves()
        assert better.classes_.tolist() == deep.classes_.tolist()

    @pytest.mark.parametrize("attackers", [None, {"setosa": ["versicolor"], "versicolor": ["virginica"]}])
    def test_search(self, attackers: object) -> None:
        threat = ThreatModel(0.2, attacking_classes=attackers)
        greedy, *refined = (
            RobustTreeClassifier(threat, max_depth=3, refine=refine, n_starts=3, random_state=0).fit(X, NAMES)
            for refine in (None, "alternate", "search")
        )
        before, after = (
            is_vulnerable(model, X, NAMES, threat).sum() + 2 * model.get_n_leaves() for model in (greedy, refined[0])
        )
        assert after <= before
        report = refined[1].search_report_
        assert adversarial_accuracy(refined[1], X, NAMES, threat) == pytest.approx(1 - report.chosen.training_loss)
