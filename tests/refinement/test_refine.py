"""`refine`, `relabel`, `prune` and `pruning_path`: for users, and against enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    AttackRule,
    RobustTreeClassifier,
    ThreatModel,
    TreantClassifier,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    is_vulnerable,
    load_dataset,
    prune,
    pruning_path,
    refine,
    relabel,
)
from hardwood.refinement import pruning
from hardwood.refinement.alternation import Settings, alternate
from hardwood.refinement.leaf_values import measure_loss
from hardwood.refinement.minimum_cut import Groups, choose_labels
from hardwood.refinement.relabelling import find_labels
from hardwood.refinement.rows import Rows, find_grid, make_samples
from hardwood.refinement.working_tree import plant
from hardwood.table import Schema
from reference import attacking, refining
from refinement.cases import general_case, loss_by_attack, random_case

SEEDS = st.integers(0, 2**32 - 1)
UNLIMITED = np.iinfo(np.int64).max


def priced(model, X, y, threat, price):
    return is_vulnerable(model, X, y, threat).sum() + price * as_ensemble(model).n_leaves


@pytest.mark.parametrize("price", [0.0, 2.0])
@pytest.mark.parametrize("threat", [0.1, [">", 0.2, "<"], [(0.1, 0.0), "<>", None]])
def test_a_foreign_tree_gets_better(numbers, threat, price):
    X, y = numbers
    natural = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
    refined = refine(natural, X, y, threat, price=price)
    assert isinstance(refined, TreeEnsemble)
    assert priced(refined, X, y, threat, price) < priced(natural, X, y, threat, price)
    assert refined.max_depth <= 4


def test_an_estimator_comes_back_as_a_fitted_copy(numbers):
    X, y = numbers
    for model in (RobustTreeClassifier(0.3, max_depth=4), TreantClassifier(0.3, max_depth=3)):
        before = model.fit(X, y).ensemble_
        for improve in (refine, relabel, prune):
            improved = improve(model, X, y)  # against what it was trained against
            assert type(improved) is type(model)
            assert improved is not model
            assert model.ensemble_ is before
            assert improved.predict(X).shape == y.shape
            assert adversarial_accuracy(improved, X, y, 0.3) == pytest.approx(
                1.0 - measure_loss(improved.ensemble_, _rows(improved, X, y, 0.3)) / len(y)
            )


def _rows(model, X, y, threat):
    tree = as_ensemble(model)
    reach = ThreatModel.coerce(threat).resolve(tree.schema, tree.labels)
    return Rows(X, np.searchsorted(tree.labels, y), np.ones(len(y)), reach)


def test_weights_count_as_rows(numbers):
    X, y = numbers
    model = RobustTreeClassifier(0.2, max_depth=3).fit(X, y)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    by_weight = refine(model, X, y, sample_weight=weight, max_depth=4)
    by_rows = refine(model, np.repeat(X, weight, axis=0), np.repeat(y, weight), max_depth=4)
    assert by_weight.ensemble_.n_leaves == by_rows.ensemble_.n_leaves
    np.testing.assert_array_equal(by_weight.predict(X), by_rows.predict(X))


def test_it_grows_where_it_may():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 5)
    y = (X[:, 0] != X[:, 1]).astype(int)
    stump = attacking.build((0, 0.5, (1, 0.5, 0, 1), 0))
    assert adversarial_accuracy(refine(stump, X, y, 0.1), X, y, 0.1) == 1.0
    leaf = attacking.build(1, schema=Schema.numeric(2))
    assert refine(leaf, X, X[:, 0] > 0.5, 0.1).n_leaves == 1
    assert refine(leaf, X, (X[:, 0] > 0.5).astype(int), 0.1, max_depth=1).n_leaves == 2


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.integers(2, 4))
def test_the_move_of_one_node_is_the_best_there_is(seed, price, n_classes):
    """Where no feature is asked twice on a path, the scan is exact: nothing that can become of the root is better."""
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(2, 9))
    X = generator.integers(0, 4, (n_rows, 3)).astype(float)
    label = generator.integers(0, n_classes, n_rows)
    subtrees = [0, 1, (1, 1.5, 0, 1), (2, 1.5, n_classes - 1, 0)]
    start = subtrees[generator.integers(4)]
    if generator.random() < 0.7:
        start = (0, float(generator.integers(0, 3)) + 0.5, start, subtrees[generator.integers(4)])
    tree = attacking.build(start, schema=Schema.numeric(3), n_classes=n_classes)
    reach = ThreatModel([0.6, 0.3, 1.0]).resolve(tree.schema, tree.labels)
    rows = Rows(X, label, np.ones(n_rows), reach)
    samples = make_samples(rows, find_grid(rows, tree))
    below = start[2:] if isinstance(start, tuple) else ()
    own = {branch[0] for branch in below if isinstance(branch, tuple)}
    thresholds = [
        [] if j in own else samples.cut[samples.first_cut[j] : samples.first_cut[j + 1]].tolist() for j in range(3)
    ]
    best = loss_by_attack(tree, rows) + price * refining.count_leaves(start)
    for other in refining.moves(start, thresholds, can_grow=True, n_classes=n_classes):
        loss = loss_by_attack(attacking.build(other, schema=Schema.numeric(3), n_classes=n_classes), rows)
        best = min(best, loss + price * refining.count_leaves(other))
    working = plant(tree, samples, capacity=50)
    working.nodes["settled"][1:] = 0  # only the root is visited
    generator = np.random.default_rng(0)
    assert alternate(samples, working, Settings(price, 1, 3, UNLIMITED), generator) <= best + 1e-9


@given(SEEDS)
def test_labels_are_those_of_enumeration(seed):
    tree, rows = random_case(seed, whole_weights=True)
    if tree.n_leaves > 9:
        return
    rows = rows._replace(rho=1.0)
    found = find_labels(tree, rows)
    value = np.eye(2)[found]
    relabelled = refining.replace(
        tree, value=value, base_score=np.zeros(2), link="probability", divisor=1.0, precision="float64"
    )
    assert measure_loss(relabelled, rows) == pytest.approx(
        refining.best_labels(lambda other: measure_loss(other, rows), tree)
    )


@given(SEEDS, st.integers(3, 4))
def test_no_leaf_of_several_classes_had_better_say_another(seed, n_classes):
    tree, rows = general_case(seed, n_classes, whole_weights=True)
    rows = rows._replace(rho=1.0, reach=replace(rows.reach, targets=None))
    labels = find_labels(tree, rows)

    def lost(classes):
        plain = {"base_score": np.zeros(n_classes), "divisor": 1.0, "precision": "float64"}
        return measure_loss(replace(tree, value=np.eye(n_classes)[classes], **plain), rows)

    found = lost(labels)
    assert found <= measure_loss(tree, rows)
    for leaf in np.flatnonzero(tree.feature < 0):
        for other in range(n_classes):
            assert found <= lost(np.where(np.arange(len(labels)) == leaf, other, labels))


@pytest.mark.parametrize("name", ["banknote-authentication", "diabetes", "spambase", "wine"])
def test_sixteen_leaves_are_relabelled_as_by_enumeration(name):
    """The classes of up to 16 leaves, of natural and of robust trees: none of the 65,536 choices loses fewer rows."""
    table = load_dataset(name)
    X, y = np.asarray(table.data, dtype=float), np.asarray(table.target)
    for tree in (DecisionTreeClassifier(max_depth=4, random_state=0), RobustTreeClassifier(0.1, max_depth=4)):
        relabelled = relabel(tree.fit(X, y), X, y, 0.1)
        fewest = refining.fewest_lost(as_ensemble(tree), X - 0.1, X + 0.1, np.searchsorted(np.unique(y), y))
        assert is_vulnerable(relabelled, X, y, 0.1).sum() == fewest


@given(SEEDS)
def test_a_minimum_cut_is_the_best_of_all_labels(seed):
    generator = np.random.default_rng(seed)
    n_items, n_groups = int(generator.integers(1, 6)), int(generator.integers(0, 8))
    members = [np.flatnonzero(generator.random(n_items) < 0.5) for _ in range(n_groups)]
    members = [items if len(items) else np.array([0]) for items in members]
    start = np.concatenate([[0], np.cumsum([len(items) for items in members])]).astype(np.int64)
    weight = generator.integers(1, 5, n_groups).astype(float)
    if generator.random() < 0.3:
        weight = generator.uniform(0.1, 1.0, n_groups)
    groups = Groups(
        start, np.concatenate([*members, np.empty(0, int)]).astype(int), generator.random(n_groups) < 0.5, weight
    )
    current = generator.random(n_items) < 0.5

    def lost(labels):
        wrong = [bool((labels[items] != wish).any()) for items, wish in zip(members, groups.wish, strict=True)]
        return float(weight[np.array(wrong, dtype=bool)].sum())

    every = [np.array(labels) for labels in itertools.product([False, True], repeat=n_items)]
    found = choose_labels(groups, current)
    best = min(map(lost, every))
    assert lost(found) == pytest.approx(best)
    if (weight == weight.round()).all():
        fewest = min(int((labels != current).sum()) for labels in every if lost(labels) == best)
        assert (found != current).sum() == fewest


@pytest.mark.parametrize("name", ["spambase", "wine"])
def test_relabelling_large_trees_never_loses(name):
    table = load_dataset(name)
    X, y = np.asarray(table.data, dtype=float), np.asarray(table.target)
    model = RobustTreeClassifier(0.1).fit(X, y)
    assert adversarial_accuracy(relabel(model, X, y), X, y, 0.1) >= adversarial_accuracy(model, X, y, 0.1)


@given(SEEDS)
def test_every_step_of_pruning_loses_what_it_says(seed):
    tree, rows = random_case(seed) if seed % 2 else general_case(seed, holes=True)
    rows = rows._replace(reach=replace(rows.reach, targets=None))
    steps = pruning._find_path(tree, rows)
    assert steps[0].loss == pytest.approx(refining.loss_by_points(tree, rows))
    for k in range(len(steps)):
        pruned = pruning._cut(tree, steps[1 : k + 1], rows)
        assert pruned.n_leaves == steps[k].n_leaves
        assert measure_loss(pruned, rows) == pytest.approx(steps[k].loss)
    assert steps[-1].n_leaves == 1


def test_the_pruning_path_is_what_prune_follows(numbers):
    X, y = numbers
    model = RobustTreeClassifier(0.1).fit(X, y)
    path = pruning_path(model, X, y)
    assert path.prices[0] == 0.0
    assert (np.diff(path.prices) > 0.0).all()
    assert (np.diff(path.n_leaves) < 0).all()
    assert path.n_leaves[-1] == 1
    for k, price in enumerate(path.prices):
        after = path.prices[k + 1] if k + 1 < len(path.prices) else price + 1.0
        pruned = prune(model, X, y, price=(price + after) / 2)
        assert pruned.get_n_leaves() == path.n_leaves[k]
        assert is_vulnerable(pruned, X, y, 0.1).sum() == path.losses[k]


def test_forests_are_relabelled_tree_by_tree_and_never_lose(numbers):
    X, y = numbers
    forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    relabelled = relabel(forest, X, y, 0.3)
    assert relabelled.n_trees == 5
    assert adversarial_accuracy(relabelled, X, y, 0.3) >= adversarial_accuracy(forest, X, y, 0.3)
    with pytest.raises(ValueError, match="a leaf has no class"):
        relabel(GradientBoostingClassifier(n_estimators=3).fit(X, y), X, y, 0.3)


class TestDoor:
    def test_what_is_refused(self, numbers):
        X, y = numbers
        tree = DecisionTreeClassifier(max_depth=2).fit(X, y)
        forest = RandomForestClassifier(2, max_depth=2).fit(X, y)
        three = np.arange(len(y)) % 3
        wants = ThreatModel(0.1, attacking_classes={0: [1]})
        for improve in (refine, prune, pruning_path):
            with pytest.raises(ValueError, match="it has 2 trees"):
                improve(forest, X, y, 0.1)
        for improve in (refine, prune, pruning_path, relabel):
            with pytest.raises(ValueError, match="threat=None"):
                improve(tree, X, y)
            with pytest.raises(ValueError, match="sample_weight"):
                improve(tree, X, y, 0.1, sample_weight=-y)
            with pytest.raises(ValueError, match="rho=2"):
                improve(tree, X, y, 0.1, rho=2)
            with pytest.raises(ValueError, match="attack rules"):
                improve(tree, X, y, ThreatModel(rules=[AttackRule(0, add=1.0)], budget=1))
            if improve is not refine:
                with pytest.raises(ValueError, match="give the list of classes that attack"):
                    improve(DecisionTreeClassifier(max_depth=2).fit(X, three), X, three, wants)
        for parameter in ({"price": -1}, {"max_sweeps": 1.5}, {"max_depth": -1}, {"random_state": "x"}):
            with pytest.raises(ValueError, match=next(iter(parameter))):
                refine(tree, X, y, 0.1, **parameter)

    @pytest.mark.parametrize("hides", [{}, {"blank": [0], "fill": "all"}])
    def test_missing_values_of_relabelled_and_pruned_trees(self, numbers, hides):
        """The classes of leaves are the best of all, and pruning without a price loses no more rows."""
        X, y = numbers
        generator = np.random.default_rng(0)
        holes = np.where(generator.random(X.shape) < 0.2, np.nan, X)
        tree = as_ensemble(DecisionTreeClassifier(max_depth=3, random_state=0).fit(holes, y))
        threat = ThreatModel(0.3, **hides)
        leaves = np.flatnonzero(tree.feature < 0)
        best = 0.0
        for labels in itertools.product([0, 1], repeat=len(leaves)):
            value = tree.value.copy()
            value[leaves] = np.eye(2)[list(labels)]
            best = max(best, adversarial_accuracy(replace(tree, value=value), holes, y, threat))
        relabelled = relabel(tree, holes, y, threat)
        assert adversarial_accuracy(relabelled, holes, y, threat) == pytest.approx(best)
        assert np.array_equal(relabelled.missing_left, tree.missing_left)
        pruned = prune(relabelled, holes, y, threat, price=0.0)
        assert adversarial_accuracy(pruned, holes, y, threat) >= best - 1e-12
        assert prune(tree, holes, y, threat, price=3.0).n_leaves < tree.n_leaves


@given(SEEDS, st.integers(2, 3), st.booleans())
def test_the_split_of_a_feature_with_missing_values_is_the_best_of_all(seed, n_classes, categorical):
    """Every threshold, or set of categories, with missing values on either side, and parted from all others."""
    generator = np.random.default_rng(seed)
    n_rows, labels = int(generator.integers(2, 15)), ("a", "b", "c") if categorical else None
    schema = Schema(1, None, (labels,), accepts_missing=True)
    X = generator.integers(0, 4 if categorical else 5, (n_rows, 1)).astype(float)
    X[generator.random(n_rows) < 0.3] = np.nan
    hidden = [None, "all"]
    threat = ThreatModel(
        [{"a": ["b"], "b": ["c", "a"]} if categorical else 0.6],
        attacking_classes=[None, [0], [1], {0: [1]}][generator.integers(4)],
        blank=hidden[generator.integers(2)],
        fill=hidden[generator.integers(2)],
    )
    leaf = attacking.build(0, schema=schema, n_classes=n_classes)
    rows = Rows(X, generator.integers(0, n_classes, n_rows), np.ones(n_rows), threat.resolve(schema, leaf.labels))
    tests = [-1.0, 0.5, 1.5, 2.5, 3.5, *(k + d for k in range(5) for d in (-0.6, 0.6, -0.61, 0.59))]
    if categorical:
        tests = [set(chosen) for size in range(5) for chosen in itertools.combinations(range(4), size)]
    best = n_rows
    for test, (first, second), side in itertools.product(
        [*tests, *([] if categorical else [9.0])], itertools.product(range(n_classes), repeat=2), (False, True)
    ):
        tree = attacking.build((0, test, first, second), schema=schema, n_classes=n_classes)
        tree = replace(tree, missing_left=np.array([side, False, False]))
        best = min(best, refining.loss_by_points(tree, rows))
    samples = make_samples(rows, find_grid(rows, leaf))
    found = alternate(samples, plant(leaf, samples, 3), Settings(0.0, 5, 1, UNLIMITED), np.random.default_rng(0))
    assert found == pytest.approx(best)


@given(SEEDS)
def test_the_split_by_categories_is_the_best_of_all_partitions(seed):
    generator = np.random.default_rng(seed)
    n_codes, n_rows, n_classes = (int(generator.integers(2, most)) for most in (5, 15, 4))
    schema = Schema(1, None, (tuple("abcd"[:n_codes]),))
    tree = attacking.build(0, schema=schema, n_classes=n_classes)
    relation = {"abcd"[k]: ["abcd"[j] for j in range(n_codes) if generator.random() < 0.3] for k in range(n_codes)}
    threat = ThreatModel([relation], attacking_classes=[None, [0], [1]][generator.integers(3)])
    X, label = generator.integers(0, n_codes, (n_rows, 1)).astype(float), generator.integers(0, n_classes, n_rows)
    rows = Rows(X, label, np.ones(n_rows), threat.resolve(schema, tree.labels))
    codes = range(n_codes + 1)
    subsets = [set(chosen) for size in codes for chosen in itertools.combinations(codes, size)]
    pairs = list(itertools.combinations(range(n_classes), 2))
    best = min(
        loss_by_attack(attacking.build((0, left, *pair), schema=schema, n_classes=n_classes), rows)
        for left in subsets
        for pair in pairs
    )
    samples = make_samples(rows, find_grid(rows, tree))
    found = alternate(samples, plant(tree, samples, 3), Settings(0.0, 5, 1, UNLIMITED), np.random.default_rng(0))
    assert found == pytest.approx(best)
