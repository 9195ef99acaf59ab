"""Alternating optimisation: what it reports is true, and no move makes things worse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.refinement.alternation import Settings, alternate, find_lost
from hardwood.refinement.leaf_values import fill_values, measure_loss
from hardwood.refinement.refined import improve, order_features
from hardwood.refinement.rows import find_grid, make_samples
from hardwood.refinement.working_tree import count_leaves, harvest, plant
from reference.refining import loss_by_points
from refinement.cases import general_case, loss_by_attack, random_case

SEEDS = st.integers(0, 2**32 - 1)
UNLIMITED = np.iinfo(np.int64).max


@given(SEEDS, st.sampled_from([0.0, 0.5, 2.0]), st.integers(0, 5))
def test_a_sweep_never_raises_the_objective_and_the_loss_it_reports_is_exact(seed, price, max_depth):
    start, rows = random_case(seed)
    samples = make_samples(rows, find_grid(rows, start))
    tree = plant(start, samples, capacity=200)
    assert samples.weight[find_lost(samples, tree)].sum() == pytest.approx(loss_by_attack(start, rows))
    before = loss_by_attack(start, rows) + price * start.n_leaves
    generator = np.random.default_rng(seed)
    for _ in range(4):
        after = alternate(samples, tree, Settings(price, 1, max_depth, UNLIMITED), generator)
        grown = harvest(tree, samples, start.schema, start.labels)
        assert grown.n_leaves == count_leaves(tree)
        assert after == pytest.approx(loss_by_attack(grown, rows) + price * grown.n_leaves)
        assert after <= before + 1e-9
        before = after


@given(SEEDS, st.sampled_from([0.0, 0.5, 2.0]), st.integers(0, 5), st.integers(2, 4), st.booleans())
def test_so_does_one_with_more_classes_and_missing_values(seed, price, max_depth, n_classes, holes):
    """Whoever attacks: everybody, some classes, who wants certain classes only, who blanks and fills."""
    start, rows = general_case(seed, n_classes, holes=holes)
    samples = make_samples(rows, find_grid(rows, start))
    tree = plant(start, samples, capacity=200)
    before = loss_by_points(start, rows)
    assert samples.weight[find_lost(samples, tree)].sum() == pytest.approx(before)
    assert measure_loss(start, rows) == pytest.approx(before)
    before += price * start.n_leaves
    generator = np.random.default_rng(seed)
    for _ in range(3):
        after = alternate(samples, tree, Settings(price, 1, max_depth, UNLIMITED), generator)
        grown = harvest(tree, samples, start.schema, start.labels)
        assert grown.n_leaves == count_leaves(tree)
        assert after == pytest.approx(loss_by_points(grown, rows) + price * grown.n_leaves)
        assert after <= before + 1e-9
        before = after


@given(SEEDS, st.integers(2, 4), st.booleans())
def test_refined_trees_say_what_they_were_refined_to_say(seed, n_classes, holes):
    """Class shares are filled in, and where missing values go is kept: the finished tree loses no more rows."""
    start, rows = general_case(seed, n_classes, holes=holes)
    refined = improve(start, rows, Settings(0.0, 20, 4, UNLIMITED), 0)
    assert loss_by_points(refined, rows) <= loss_by_points(start, rows) + 1e-9
    np.testing.assert_allclose(refined.value.sum(axis=1), 1.0)
    assert refined.cover[refined.root[0]] == pytest.approx(rows.weight.sum())


@given(SEEDS)
def test_the_measured_loss_is_the_one_of_the_definition(seed):
    tree, rows = random_case(seed)
    assert measure_loss(tree, rows) == pytest.approx(loss_by_attack(tree, rows))


@given(SEEDS, st.integers(1, 4))
def test_limits_hold(seed, max_leaves):
    start, rows = random_case(seed)
    refined = improve(start, rows, Settings(0.0, 20, start.max_depth + 1, max(max_leaves, start.n_leaves)), 0)
    assert refined.max_depth <= start.max_depth + 1
    assert refined.n_leaves <= max(max_leaves, start.n_leaves)


@given(SEEDS)
def test_the_same_seed_gives_the_same_tree(seed):
    start, rows = random_case(seed)
    options = Settings(0.5, 20, 5, UNLIMITED)
    once, twice = (improve(start, rows, options, 1) for _ in range(2))
    assert once.to_json() == twice.to_json()


@given(SEEDS, SEEDS)
def test_the_order_of_columns_decides_nothing(seed, order):
    start, rows = random_case(seed)
    columns = np.random.default_rng(order).permutation(start.schema.n_features)
    if len(np.unique(rows.matrix, axis=1).T) < len(columns):
        return  # two columns with the same contents
    options = Settings(0.5, 20, 5, UNLIMITED)
    plain = improve(start, rows, options, 0)
    moved = rows._replace(matrix=np.ascontiguousarray(rows.matrix[:, columns]), reach=rows.reach.select(columns))
    other = improve(order_features(start, columns), moved, options, 0)
    assert order_features(other, np.argsort(columns)).to_json() == plain.to_json()


@given(SEEDS)
def test_leaves_predict_the_classes_they_are_given(seed):
    start, rows = random_case(seed)
    given_class = np.random.default_rng(seed).integers(0, 2, start.n_nodes)
    filled = fill_values(start, given_class, rows)
    is_leaf = filled.feature < 0
    np.testing.assert_array_equal(filled.node_class[is_leaf], given_class[is_leaf])
    np.testing.assert_allclose(filled.value.sum(axis=1), 1.0)
    assert filled.cover[filled.root[0]] == pytest.approx(rows.weight.sum())
