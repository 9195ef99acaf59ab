"""What depends on all rows, and must not depend on how they are cut: units of weights, draws, the order of nodes."""

import heapq
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood._kernels.grow.nodes import Limits
from hardwood.grow.bootstrap import STRETCH_ROWS, Draw
from hardwood.grow.exact_sums import add_up
from hardwood.grow.fixed_point import SUM_BITS, FixedUnits, choose_units, fit_units, fix_point, weigh_samples
from hardwood.grow.level_order import replay

NONE = np.empty(0, dtype=np.int64)


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=50), st.integers(1, 5))
def test_units_do_not_depend_on_the_cut(weights, n_blocks):
    weights = np.array(weights)
    units = choose_units(weights)
    blocks = np.array_split(weights[::-1], n_blocks)
    assert fit_units(sum(add_up(block) for block in blocks), len(weights)) == units
    whole, unit = weigh_samples(weights, NONE, 1.0, units), Fraction(units.weight)
    cut = [weigh_samples(block, NONE, 1.0, units).weight for block in blocks]
    np.testing.assert_array_equal(np.concatenate(cut)[::-1], whole.weight)
    # No sum outgrows the integers, the unit is hardly smaller than it must be, and weights are rounded to it.
    total = sum(map(Fraction, weights.tolist()))
    assert total / unit <= 2**SUM_BITS
    assert total / unit > 2 ** (SUM_BITS - 2)
    for weight, fixed in zip(weights.tolist(), whole.weight.tolist(), strict=True):
        assert abs(Fraction(weight) - fixed * unit) <= max(unit, Fraction(weight) / 2**50)


def test_rows_that_are_drawn_may_weigh_more_than_all():
    weights, drawn = np.array([1.0, 1.0, 1000.0]), np.array([2, 2, 2])
    assert choose_units(weights, drawn).weight_bits == choose_units(weights).weight_bits - 2
    assert int(fix_point(weights[drawn], choose_units(weights, drawn).weight_bits).sum()) <= 2**SUM_BITS


def test_the_unit_of_more_rows_than_fit_in_memory():
    """Ten thousand million rows, as a million blocks count them: no sum outgrows 63 bits."""
    n_rows, weight = 10**10, 0.7
    units = fit_units(10**6 * add_up(np.full(10**4, weight)), n_rows)
    assert 2 ** (SUM_BITS - 2) < n_rows * int(fix_point(np.array([weight]), units.weight_bits)[0]) < 2**62
    assert n_rows << units.row_bits < 2**62


def test_parts_of_rows():
    fixed = weigh_samples(np.array([1.0, 2.0]), np.array([1]), 0.25, FixedUnits(4, 3))
    assert fixed.weight.tolist() == [16, 8, 24]
    assert fixed.rows.tolist() == [8, 2, 6]


def test_a_small_table_draws_all_at_once():
    expected = np.sort(np.random.RandomState(5).randint(1000, size=700))
    np.testing.assert_array_equal(Draw(5, 1000, 700).draw_all(), expected)


@pytest.mark.parametrize("n_rows", [1, 1000, STRETCH_ROWS, STRETCH_ROWS + 1, 3 * STRETCH_ROWS - 5])
def test_pieces_draw_their_own(n_rows):
    generator = np.random.default_rng(n_rows)
    draw = Draw(7, n_rows, max(1, 2 * n_rows // 3))
    whole = draw.draw_all()
    assert len(whole) == draw.n_drawn
    assert (np.diff(whole) >= 0).all()
    ends = np.sort(generator.integers(0, n_rows + 1, 9))
    pieces = [(int(a), int(b - a)) for a, b in zip([0, *ends], [*ends, n_rows], strict=True)]
    for own in (pieces[::2], pieces[1::2], pieces[3:4], []):
        before, parts = 0, []
        for first, size in own:
            inside = whole[(whole >= first) & (whole < first + size)]
            parts.append(inside - first + before)
            before += size
        np.testing.assert_array_equal(draw.draw_pieces(own), np.concatenate([NONE, *parts]))


def test_draws_are_even():
    """Every row is as likely as every other, in stretches of all sizes; another seed draws others."""
    n_rows = 2 * STRETCH_ROWS + 1000
    count = np.zeros(n_rows)
    for seed in range(40):
        count += np.bincount(Draw(seed, n_rows, n_rows).draw_all(), minlength=n_rows)
    for part in (count[:STRETCH_ROWS], count[-1000:]):
        assert abs(part.mean() / 40 - 1.0) < 5.0 / np.sqrt(40 * len(part))
        assert 0.8 < part.var() / 40 < 1.2
    assert len(np.setdiff1d(Draw(0, n_rows, n_rows).draw_all(), Draw(1, n_rows, n_rows).draw_all())) > n_rows // 5


@st.composite
def trees(draw):
    """A tree whose nodes are numbered level by level, all of them known, with gains full of ties."""
    left, gain, is_worth, level = [-1], [draw(st.integers(0, 3))], [draw(st.booleans())], [0]
    for _ in range(draw(st.integers(0, 4))):
        level = [node for node in level if is_worth[node]]
        for node in level:
            left[node] = len(left)
            for _ in range(2):
                left.append(-1)
                gain.append(draw(st.integers(0, 3)))
                is_worth.append(draw(st.booleans()))
        level = [left[node] + right for node in level for right in range(2)]
    is_worth = np.array(is_worth) & (np.array(left) >= 0)
    return np.array(left), np.array(gain, dtype=float), is_worth


def grow_in_memory(left, gain, is_worth, limits):
    """One node after another: the number of every node, in the order in which a grower in memory makes them."""
    made, splits = [0], {}
    heap = [(-gain[0] if limits.best_first else 0.0, 0)] if is_worth[0] else []
    while heap and len(splits) + 1 < limits.max_leaves:
        _, negative = heapq.heappop(heap)
        splits[-negative] = len(made)
        for child in (left[made[-negative]], left[made[-negative]] + 1):
            if is_worth[child]:
                heapq.heappush(heap, (-gain[child] if limits.best_first else 0.0, -len(made)))
            made.append(child)
    return made, [splits.get(number, -1) for number in range(len(made))]


@given(trees(), st.booleans(), st.sampled_from([1, 2, 3, 5, 10**9]))
def test_nodes_are_numbered_as_in_memory(tree, best_first, max_leaves):
    """Also while only some of the nodes are known: what is wanted is split, until nothing is."""
    left, gain, is_worth = tree
    limits = Limits(0, 10, 2.0, 1.0, 0.0, 1, max_leaves, best_first)
    known = np.full(len(left), -1)
    while (found := replay(known, gain, is_worth, limits)).wanted:
        known[found.wanted] = left[found.wanted]
    order, new_left = grow_in_memory(left, gain, is_worth, limits)
    assert found.order.tolist() == order
    assert found.left.tolist() == new_left
