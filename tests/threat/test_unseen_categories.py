"""Categories that the training table does not have: misspelt, meant for another table, or brought by the attacker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import (
    AttackRule,
    HardenedClassifier,
    RobustTreeClassifier,
    ThreatModel,
    TreantClassifier,
    adversarial_accuracy,
    attack,
    evaluate,
    is_vulnerable,
    verify,
)


@pytest.fixture(scope="module")
def payments() -> tuple[pd.DataFrame, np.ndarray]:
    """Fraud is at the jeweller's."""
    shop = np.repeat(["Books", "Jewellery", "Toys"], 20)
    return pd.DataFrame({"amount": np.arange(60.0) % 20, "merchant": pd.Categorical(shop)}), shop == "Jewellery"


@pytest.fixture(scope="module")
def tree(payments: tuple[pd.DataFrame, np.ndarray]) -> RobustTreeClassifier:
    return RobustTreeClassifier(max_depth=2).fit(*payments)


MISSPELT: dict[str, dict[str, Any]] = {
    "a category": {"features": {"merchant": {"Jewelry": ["Books"], "Toys": ["Books"]}}},
    "what it becomes": {"features": {"merchant": {"Toys": ["Jewelry", "Books"]}}},
    "the condition of a rule": {"rules": [AttackRule("merchant", when="Jewelry", set_to="Books")], "budget": 1},
    "the target of a rule": {"rules": [AttackRule("merchant", when="Toys", set_to="Jewelry")], "budget": 1},
}
DOORS: dict[str, Callable[..., Any]] = {
    "verify": verify,
    "attack": attack,
    "evaluate": evaluate,
    "is_vulnerable": is_vulnerable,
    "adversarial_accuracy": adversarial_accuracy,
    "TreantClassifier": lambda model, X, y, threat: TreantClassifier(threat).fit(X, y),
}
WITHOUT_RULES: dict[str, Callable[..., Any]] = {
    "RobustTreeClassifier": lambda model, X, y, threat: RobustTreeClassifier(threat).fit(X, y),
    "HardenedClassifier": lambda model, X, y, threat: HardenedClassifier(threat=threat).fit(X, y),
}


@pytest.mark.parametrize("words", MISSPELT.values(), ids=MISSPELT.keys())
@pytest.mark.parametrize("door", [*DOORS, *WITHOUT_RULES])
def test_a_misspelt_category_is_named_with_the_one_that_was_meant(
    door: str, words: dict[str, Any], tree: RobustTreeClassifier, payments: tuple[pd.DataFrame, np.ndarray]
) -> None:
    """`Jewelry` for `Jewellery`, beside categories that are right: the defence was silently off for all jewellers."""
    if door in WITHOUT_RULES and "rules" in words:
        pytest.skip("knows no rules")
    with pytest.raises(ValueError, match=r"'merchant': there is no category 'Jewelry'.*did you mean 'Jewellery'\?"):
        (DOORS | WITHOUT_RULES)[door](tree, *payments, ThreatModel(**words))


def test_a_misspelt_column_is_named_with_the_one_that_was_meant(payments: tuple[pd.DataFrame, np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"'merchent': there is no such column, did you mean 'merchant'\?"):
        RobustTreeClassifier({"merchent": "<>"}).fit(*payments)
    with pytest.raises(ValueError, match=r"there is no such column, did you mean 'amount'\?"):
        TreantClassifier(ThreatModel(rules=[AttackRule("amuont", add=1)], budget=1)).fit(*payments)


def test_a_file_for_several_tables(tree: RobustTreeClassifier, payments: tuple[pd.DataFrame, np.ndarray]) -> None:
    """It may speak of shops that this table lacks: `ignore` passes over them."""
    X, y = payments
    text = """
        unseen_categories = "ignore"
        [features]
        merchant = { Jewellery = ["Cinema", "Books"], Cinema = ["Toys"] }
    """
    threat, plain = ThreatModel.parse(text), ThreatModel({"merchant": {"Jewellery": ["Books"]}})
    assert threat.unseen_categories == "ignore"
    assert (verify(tree, X, y, threat).status == verify(tree, X, y, plain).status).all()
    trained = [RobustTreeClassifier(words).fit(X, y) for words in (threat, plain)]
    assert trained[0].ensemble_.schema == trained[1].ensemble_.schema
    assert trained[0].ensemble_.to_json() == trained[1].ensemble_.to_json()
    rules = [AttackRule("merchant", when=["Cinema", "Toys"], set_to="Books"), AttackRule("merchant", set_to="Cinema")]
    priced = ThreatModel(rules=rules, budget=1, unseen_categories="ignore")
    same = ThreatModel(rules=[AttackRule("merchant", when="Toys", set_to="Books")], budget=1)
    assert (attack(tree, X, y, priced).distance == attack(tree, X, y, same).distance).all()


def test_any_category_is_any_that_is_known(payments: tuple[pd.DataFrame, np.ndarray]) -> None:
    """With one class attacking, ``"<>"`` left a tree no use of a column: a category never seen went to either side.

    Training and proofs share one relation, so the tree's own figure is what is proved.
    """
    X, y = payments
    for unseen in ("error", "allow"):
        threat = ThreatModel({"merchant": "<>"}, attacking_classes=[False], unseen_categories=unseen)
        model = RobustTreeClassifier(threat).fit(X, y)
        reach = threat.resolve(model.ensemble_.schema, [False, True])
        relation = reach.categories[1]
        assert relation is not None
        assert relation.diagonal().all()
        assert relation[:3, 3].all() == (unseen == "allow")
        example = attack(model, X, y, threat)
        assert threat.contains(X[example.found], example.X_adv[example.found], y[example.found]).all()
        if unseen == "error":
            assert example.X_adv["merchant"][example.found].isin(X["merchant"]).all()


def test_an_example_is_something_that_xgboost_takes() -> None:
    """With ``"<>"`` the example could hold the category `unseen`, which XGBoost refuses to predict."""
    xgboost = pytest.importorskip("xgboost")
    generator = np.random.default_rng(0)
    color = generator.choice(["blue", "green", "red"], 200)
    X = pd.DataFrame({"c": pd.Categorical(color), "x": generator.random(200)})
    y = (color == "red").astype(int)
    options = {"n_estimators": 3, "max_depth": 3, "enable_categorical": True, "tree_method": "hist"}
    model = xgboost.XGBClassifier(**options).fit(X, y)
    certificate = verify(model, X, y, {"c": "<>"})
    assert (certificate.status == "vulnerable").all()
    assert certificate.witness["c"].isin(["blue", "green", "red"]).all()
    witness = certificate.witness.assign(c=pd.Categorical(certificate.witness["c"], X["c"].cat.categories))
    assert (model.predict(witness) != y).all()


class TestWords:
    def test_shown_and_compared(self) -> None:
        threat = ThreatModel("<>", unseen_categories="allow")
        assert repr(threat) == "ThreatModel('<>', unseen_categories='allow')"
        assert threat != ThreatModel("<>")
        assert threat.scaled(2.0) == threat
        assert threat.scaled(0.0).unseen_categories == "allow"
        assert ThreatModel(threat, attacking_classes=[1]).unseen_categories == "allow"
        rules = [AttackRule(0, add=1)]
        with_rules = ThreatModel(rules=rules, budget=2, repeat=False, unseen_categories="ignore", attacking_classes=[1])
        assert repr(with_rules) == (
            "ThreatModel(attacking_classes=[1], rules=[AttackRule(0, add=1.0)], budget=2.0, repeat=False, "
            "unseen_categories='ignore')"
        )

    @pytest.mark.parametrize("unseen", ["yes", True, None, "Allow"], ids=repr)
    def test_what_is_none(self, unseen: Any) -> None:
        with pytest.raises(ValueError, match="unseen_categories="):
            ThreatModel("<>", unseen_categories=unseen)

    def test_a_threat_model_has_its_own(self) -> None:
        with pytest.raises(ValueError, match="unseen_categories: a ThreatModel is given"):
            ThreatModel(ThreatModel(1.0), unseen_categories="allow")
