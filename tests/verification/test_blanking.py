"""Attackers who blank and fill values: every answer against enumeration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeClassifier

from examples import some_examples
from hardwood import ThreatModel, attack, is_vulnerable, verify
from hardwood.ensemble.missing_columns import add_columns
from hardwood.ensemble.reachable import list_reachable
from hardwood.table import Schema
from reference import attacking as reference
from reference import enumerating
from reference.cases import Case, random_case

SEEDS = st.integers(0, 2**32 - 1)
NORMS = [np.inf, 2, 1, 0]
NAN = np.nan


def assert_like_enumeration(case: Case, norm: float, weight: np.ndarray, method: str = "search") -> None:
    """Statuses, distances and examples of a case are those that trying one point of every cell finds."""
    trees, rows, label, threat = case
    reach, X, y = case.reach, trees.schema.decode(rows), trees.labels[label]
    certificate = verify(trees, X, y, threat, method=method)
    result = attack(trees, X, y, threat, norm=norm, feature_weight=weight, method=method)
    for k, (row, own) in enumerate(zip(rows, label, strict=True)):
        points = enumerating.reachable_points(trees, row, own, reach)
        wrong = points[trees.decide(points) != own]
        if method == "milp" and certificate.status[k] == "unknown":
            continue  # the solver does not tell sums apart that are nearly equal
        assert certificate.status[k] == ("vulnerable" if len(wrong) else "robust")
        expected = enumerating.nearest(wrong, row, trees.schema, norm, weight)
        if method == "milp" and result.lower[k] < result.distance[k]:
            assert result.lower[k] <= expected * (1.0 + 1e-6)
            continue
        np.testing.assert_allclose(result.distance[k], expected, rtol=1e-9, atol=1e-150)
    for found, examples in ((result.found, result.X_adv), (certificate.status == "vulnerable", certificate.witness)):
        if found.any():
            assert (trees.predict(examples[found]) != y[found]).all()
            assert threat.contains(X[found], examples[found], y[found], trees.schema).all()


class TestAgainstEnumeration:
    @given(SEEDS, st.sampled_from(NORMS))
    def test_one_tree(self, seed: int, norm: float) -> None:
        case = random_case(seed, 1, max_depth=4, n_rows=6, missing=True, hides=True)
        weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], case.trees.schema.n_features)
        assert_like_enumeration(case, norm, weight)

    @given(SEEDS, st.sampled_from(NORMS))
    def test_several_trees(self, seed: int, norm: float) -> None:
        case = random_case(seed, max_depth=3, missing=True, hides=True)
        weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], case.trees.schema.n_features)
        assert_like_enumeration(case, norm, weight)

    @given(SEEDS, st.sampled_from(NORMS))
    def test_the_solver(self, seed: int, norm: float) -> None:
        case = random_case(seed, int(seed % 3) + 1, n_rows=2, missing=True, hides=bool(seed % 2))
        assert_like_enumeration(case, norm, np.ones(case.trees.schema.n_features), "milp")

    @given(SEEDS)
    def test_whole_numbers_and_domains(self, seed: int) -> None:
        trees, rows, label, threat = random_case(seed, int(seed % 3) + 1, missing=True, hides=True)
        whole = [j for j, labels in enumerate(trees.schema.categories) if labels is None and (seed >> j) % 2]
        rows[:, whole] = np.clip(np.round(rows[:, whole]), -2.0, 1.0)
        label = trees.decide(rows)
        within = dict.fromkeys(whole, (-2.5, 1.5))
        words = ThreatModel(
            threat.features, threat.attacking_classes, whole_numbers=whole, within=within,
            blank=threat.blank, fill=threat.fill,
        )  # fmt: skip
        assert_like_enumeration(Case(trees, rows, label, words), np.inf, np.ones(trees.schema.n_features))

    @given(SEEDS)
    def test_regressions(self, seed: int) -> None:
        case = random_case(seed, int(seed % 3) + 1, missing=True, hides=True, link="value")
        trees, reach = case.trees, case.reach
        X = trees.schema.decode(case.rows)
        certificate = verify(trees, X, None, case.threat, tolerance=0.1)
        for k, row in enumerate(case.rows):
            output = trees.output(enumerating.reachable_points(trees, row, 0, reach))[:, 0]
            rounding = 4.0 * reference.rounding(trees)
            np.testing.assert_allclose(certificate.lower[k], output.min(), atol=rounding)
            np.testing.assert_allclose(certificate.upper[k], output.max(), atol=rounding)

    @given(SEEDS)
    def test_reachable_leaves(self, seed: int) -> None:
        case = random_case(seed, 2, max_depth=4, missing=True, hides=True)
        for tree in range(2):
            leaves = list_reachable(case.trees, case.reach, case.rows, case.class_index, tree)
            for k, (row, own) in enumerate(zip(case.rows, case.class_index, strict=True)):
                points = enumerating.reachable_points(case.trees, row, own, case.reach)
                expected = np.unique(case.trees.leaves(points)[:, tree])
                assert sorted(leaves.leaf[leaves.start[k] : leaves.start[k + 1]]) == expected.tolist()


class TestColumns:
    @given(SEEDS)
    def test_same_outputs(self, seed: int) -> None:
        """Told by columns which values are missing, the trees say the same as before."""
        trees, rows, _, _ = random_case(seed, n_rows=30, max_depth=5, missing=True)
        is_one = np.random.default_rng(seed).random(trees.schema.n_features) < 0.7
        is_one[0] = True
        features = np.flatnonzero(is_one)
        columns = add_columns(trees, features)
        wide = np.concatenate([rows, np.isnan(rows[:, features])], axis=1)
        wide[:, features] = np.nan_to_num(wide[:, features])
        assert np.array_equal(columns.ensemble.output(wide), trees.output(rows))
        assert np.array_equal(columns.origin[columns.ensemble.leaves(wide)], trees.leaves(rows))

    def test_too_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trees = random_case(1, 3, max_depth=6, missing=True).trees
        monkeypatch.setattr("hardwood.ensemble.missing_columns.MOST_NODES", 20)
        with pytest.raises(ValueError, match=r"blank, fill: .* more than 20 nodes"):
            add_columns(trees, np.arange(trees.schema.n_features))


class TestForeignModels:
    def test_hist_gradient_boosting(self) -> None:
        generator = np.random.default_rng(0)
        X = generator.normal(size=(200, 3)).round(1)
        y = (X[:, 0] + X[:, 1] > 0).astype(int)
        X[generator.random(X.shape) < 0.2] = NAN
        model = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=6).fit(X, y)
        threat = ThreatModel(0.1, blank=[0], fill="all", within=dict.fromkeys(range(3), (-3.0, 3.0)))
        certificate = verify(model, X[:30], y[:30], threat)
        plain = verify(model, X[:30], y[:30], 0.1)
        assert (certificate.status == "vulnerable").sum() > (plain.status == "vulnerable").sum()
        found = certificate.status == "vulnerable"
        assert (model.predict(certificate.witness[found]) != y[:30][found]).all()
        assert threat.contains(X[:30][found], certificate.witness[found]).all()
        assert np.array_equal(is_vulnerable(model, X[:30], y[:30], threat), found)

    def test_blanked_in_a_frame(self) -> None:
        """An attacker who can only blank: the example lacks a value, and nothing else changes."""
        table = pd.DataFrame({"age": [20.0, 30.0, NAN, 50.0] * 10, "size": [1.0, 2.0, 3.0, 4.0] * 10})
        y = np.array([0, 0, 1, 1] * 10)
        model = DecisionTreeClassifier().fit(table[["age"]], y)
        result = attack(model, table[["age"]][:2], y[:2], ThreatModel(None, blank=["age"]))
        assert result.found.all()
        assert result.X_adv["age"].isna().all()
        assert result.distance.tolist() == [1.0, 1.0]

    def test_regression(self) -> None:
        X = np.array([[0.0], [1.0], [2.0], [NAN]] * 20)
        y = np.array([0.0, 1.0, 2.0, 10.0] * 20)
        model = HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=1).fit(X, y)
        certificate = verify(model, X[:4], None, ThreatModel(0.1, blank="all"), tolerance=1.0)
        assert certificate.status.tolist() == ["vulnerable"] * 3 + ["robust"]
        assert np.isnan(certificate.witness[:3]).all()
        certificate = verify(model, X[:4], None, ThreatModel(0.1, fill="all"), tolerance=1.0)
        assert certificate.status.tolist() == ["robust"] * 3 + ["vulnerable"]

    @pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
    @some_examples(0.1)
    @given(st.integers(0, 100))
    def test_boosting_libraries(self, library: str, seed: int) -> None:
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(150, 3)).round(1)
        y = (X[:, 0] * X[:, 1] > 0).astype(int)
        X[generator.random(X.shape) < 0.2] = NAN
        module = pytest.importorskip(library)
        model: Any
        if library == "xgboost":
            model = module.XGBClassifier(n_estimators=4, max_depth=3).fit(X, y)
        else:
            model = module.LGBMClassifier(n_estimators=4, max_depth=3, num_leaves=6, verbose=-1).fit(X, y)
        from hardwood import as_ensemble

        trees = as_ensemble(model)
        threat = ThreatModel(0.2, blank=[0, 1], fill=[1, 2])
        assert_like_enumeration(Case(trees, X[:4], trees.decide(X[:4]), threat), np.inf, np.ones(3))


class TestWords:
    def test_one_definition(self) -> None:
        threat = ThreatModel([None, None], blank=["0"], fill=[1], within={1: (0, 5)}, whole_numbers=[1])
        X = [[1.0, NAN]] * 6
        X_adv = [[NAN, NAN], [1.0, 3.0], [1.0, 3.5], [1.0, 6.0], [2.0, NAN], [NAN, 5.0]]
        assert threat.contains(X, X_adv).tolist() == [True, True, False, False, False, True]
        assert not ThreatModel(9.0).contains(X[:2], X_adv[:2]).any()

    def test_a_known_category(self) -> None:
        schema = Schema(1, ("color",), (("blue", "red"),), True)
        reach = ThreatModel(fill="all").resolve(schema)
        codes = np.array([[0.0], [1.0], [2.0], [NAN]])
        assert reach.contains(np.full((4, 1), NAN), codes, np.zeros(4, dtype=int)).tolist() == [True, True, False, True]

    def test_who_attacks(self) -> None:
        threat = ThreatModel(None, attacking_classes=[1], blank="all")
        assert threat.contains([[1.0], [1.0]], [[NAN], [NAN]], [0, 1]).tolist() == [False, True]

    def test_spelling(self) -> None:
        threat = ThreatModel({"age": 1}, blank=["age", "size", "age"], fill="all")
        assert threat.blank == ["age", "size"]
        assert threat.fill == "all"
        assert repr(threat) == "ThreatModel({'age': 1.0}, blank=['age', 'size'], fill='all')"
        assert ThreatModel.parse(threat.to_toml()) == threat
        assert threat == ThreatModel({"age": 1}, blank=["size", "age"], fill="all")
        assert threat != ThreatModel({"age": 1}, blank=["size"], fill="all")
        assert threat.scaled(2.0).blank == ["age", "size"]
        assert threat.scaled(0.0).blank is None

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"blank": "age"}, "blank='age': expected a list"),
            ({"fill": [1.5]}, "fill: 1.5 is neither"),
            ({"blank": 3}, "blank=3: expected a list"),
        ],
    )
    def test_refusals(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ThreatModel(1.0, **options)

    def test_unknown_column(self) -> None:
        schema = Schema(1, ("age",), (None,), True)
        with pytest.raises(ValueError, match="fill: column 'aeg': there is no such column, did you mean 'age'"):
            ThreatModel(fill=["aeg"]).resolve(schema)

    def test_a_model_that_takes_none(self) -> None:
        """Of such a model nobody learns anything by blanking: what it would answer is not known."""
        tree = reference.build((0, 0.5, 0, 1))
        with pytest.raises(ValueError, match="blank='all': the model takes no missing values"):
            verify(tree, [[0.0]], [0], ThreatModel(blank="all"))
        assert verify(tree, [[0.0]], [0], ThreatModel(fill="all")).status.tolist() == ["robust"]

    def test_reach(self) -> None:
        reach = ThreatModel(None, blank=[1]).resolve(Schema(2, None, (None, None), True))
        assert not reach.is_empty
        assert reach.select(np.array([1])).blank.tolist() == [True]
        assert replace(reach, blank=None).is_empty


class TestOtherMethods:
    @pytest.mark.parametrize("method", ["heuristic", "coordinate", "lowest"])
    @given(SEEDS)
    def test_local_attacks(self, method: str, seed: int) -> None:
        """What they find is an example; where blanking alone is enough, they find one."""
        trees, rows, label, threat = random_case(seed, 3, missing=True, hides=True)
        X, y = trees.schema.decode(rows), trees.labels[label]
        result = attack(trees, X, y, threat, method=method)
        exact = attack(trees, X, y, threat)
        assert not (result.found & ~exact.found).any()
        assert (result.distance >= exact.distance * (1.0 - 1e-12)).all()
        found = result.found
        if found.any():
            assert threat.contains(X[found], result.X_adv[found], y[found], trees.schema).all()

    def test_they_blank(self) -> None:
        tree = reference.build((0, 0.5, 0, 1), Schema(1, None, (None,), True), missing_left=np.array([False] * 3))
        result = attack(tree, [[0.0]], [0], ThreatModel(0.1, blank="all"), method="heuristic")
        assert result.found.all()
        assert np.isnan(result.X_adv).all()

    def test_whole_numbers_of_a_frame(self) -> None:
        """A column of integers cannot hold a blanked value: it comes back as numbers with a gap."""
        schema = Schema(2, ("age", "size"), (None, None), True)
        tree = reference.build((0, 0.5, 0, (1, 3.5, 0, 1)), schema, missing_left=np.array([False] * 5))
        table = pd.DataFrame({"age": [0, 0], "size": [3, 5]})
        result = attack(tree, table, [0, 0], ThreatModel({"size": 1}, blank=["age"], whole_numbers=["age", "size"]))
        assert result.found.all()
        assert result.X_adv["age"].isna().all()
        assert result.X_adv["size"].tolist() == [4, 5]


class TestGroups:
    def test_a_group_stays_complete(self) -> None:
        schema = Schema(3, None, (None,) * 3, True)
        threat = ThreatModel(None, groups=[[0, 1]], blank="all", fill="all")
        assert threat.resolve(schema).blank.tolist() == [False, False, True]
        tree = reference.build((0, 0.5, (2, 1.0, 0, 1), 1), schema, missing_left=np.array([False] * 5))
        X = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, NAN]])
        assert verify(tree, X[:1], [0], threat).status.tolist() == ["vulnerable"]
        assert verify(tree, X[:1], [0], ThreatModel(None, blank="all")).status.tolist() == ["vulnerable"]
        only_blank = ThreatModel(None, groups=[{"columns": [0, 1], "may_become": None}], blank="all")
        np.testing.assert_array_equal(attack(tree, X[:1], [0], only_blank).X_adv, [[0.0, 1.0, NAN]])
        with pytest.raises(ValueError, match="blank: column 1 is in a one-hot group"):
            ThreatModel(None, groups=[[0, 1]], blank=[1])


def test_what_is_filled_in_is_free_beside_shares() -> None:
    """A radius limits how far numbers move; where a share was said of any column, it limited filled-in values as well.

    A missing value was then filled in with what is within a radius of an arbitrary number, and rows were "robust" that
    are not.
    """
    X = np.array([[1.0, 0.0], [1.0, 9.0], [1.0, NAN]] * 10)
    y = np.array([0, 1, 0] * 10)
    model = DecisionTreeClassifier().fit(X, y)
    threat = ThreatModel({0: "10%"}, fill=[1], radius=1)
    assert threat.contains([[1.0, NAN]], [[1.0, 9.0]])[0]
    certificate = verify(model, X[2:3], y[2:3], threat)
    assert certificate.status.tolist() == ["vulnerable"]
    assert model.predict(certificate.witness).tolist() == [1]
