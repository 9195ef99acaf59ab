"""Thresholds, codes and histograms, against comparing every value with every threshold."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.frame.kernels import BlockColumns
from hardwood.grow import bins
from hardwood.grow.bins import encode_rows, find_bins, find_gaps, halve
from hardwood.grow.classes import TARGETS, make_samples
from hardwood.grow.fixed_point import ROW_EACH
from hardwood.grow.workers import Workers, run_in_turn
from hardwood.rows.sampling import draw_rows
from hardwood.threat import Reach
from reference import binning
from strategies import arrays

WORKERS = Workers(1, run_in_turn)
STAYS = np.zeros(2, dtype=bool)
EXTREME = st.sampled_from([0.0, -0.0, 1e-320, 1.0, np.nextafter(1.0, 2.0), 1e300, -1e308, 1.7e308])
values = st.integers(-8, 8).map(float) | st.floats(-1e6, 1e6) | EXTREME
distances = st.sampled_from([0.0, 0.1, 0.5, 1.0, 1e307, np.inf])


@given(st.integers(1, 40).flatmap(lambda n: arrays(np.float64, n, values)), distances, distances, st.integers(2, 300))
def test_codes_count_thresholds(x: np.ndarray, left: float, right: float, max_bins: int) -> None:
    """Every code is the number of thresholds below an end, however far apart or close together they are."""
    X, label = x[:, None], np.arange(len(x)) % 2
    reach = Reach(np.array([left]), np.array([right]), (None,), np.array([True, True]))
    found = find_bins(X, label, reach, STAYS, max_bins)
    n = int(found.n_thresholds[0])
    assert n < max_bins
    thresholds = halve(found.below, found.above)[0, :n]
    assert (np.diff(thresholds) > 0.0).all()
    codes = encode_rows(X, label, reach, STAYS, found, WORKERS)
    lo, hi = reach.interval(X)
    for column, ends in zip(found.columns[0], (lo, hi), strict=True):
        np.testing.assert_array_equal(codes[:, column], binning.encode(ends[:, 0], thresholds))


@given(st.integers(1, 40).flatmap(lambda n: arrays(np.float64, n, values)), st.sampled_from([0.0, 0.1, 3.0]))
def test_every_gap_is_found(ends: np.ndarray, largest: float) -> None:
    below, above = find_gaps([ends[:7], ends[7:]], largest, 100)
    assert list(zip(below.tolist(), above.tolist(), strict=True)) == binning.find_gaps(ends, largest)


def test_planted_bins() -> None:
    """Uniform values: as many bins as asked for, of about the same number of ends each."""
    x = np.random.default_rng(0).permutation(100_000) / 100_000
    reach = Reach(np.zeros(1), np.zeros(1), (None,), np.array([True, True]))
    found = find_bins(x[:, None], np.zeros(len(x), dtype=np.int64), reach, STAYS, 255)
    assert found.n_thresholds.tolist() == [254]
    codes = encode_rows(x[:, None], np.zeros(len(x), dtype=np.int64), reach, STAYS, found, WORKERS)
    assert codes.dtype == np.uint8
    held = np.bincount(codes[:, 0], minlength=255)
    assert held.min() > 200
    assert held.max() < 600


def test_the_sample_is_the_same_for_whoever_has_the_row() -> None:
    """Which rows are drawn depends on their numbers only, and they come from everywhere."""
    drawn = draw_rows(100_000, 1000)
    assert len(np.unique(drawn)) == 1000
    assert np.bincount(drawn // 10_000, minlength=10).min() > 60
    first_half = draw_rows(50_000, 1000)
    assert np.isin(drawn[drawn < 50_000], first_half).all()
    np.testing.assert_array_equal(draw_rows(10, 1000), np.arange(10))


def fill(codes: np.ndarray, label: np.ndarray, chosen: np.ndarray, statistics: np.ndarray, target: str) -> np.ndarray:
    """Make a histogram by the kernel that makes those of a block; codes are below 9, and there are two classes."""
    own = TARGETS[target]
    samples = make_samples(own, codes, frozen(own.make_entries(label[chosen], chosen)), statistics)
    none = frozen(np.zeros((codes.shape[1], 2), dtype=bool))
    columns = BlockColumns(frozen(np.arange(codes.shape[1])[:, None].repeat(2, axis=1)), 9, -1, none, none)
    cells = np.full(codes.shape[1] * 9 * own.count_words(2, statistics.shape[1]), -1)
    own.kernels.count_all(samples, columns, cells)
    return cells


def test_a_parent_is_the_sum_of_its_children() -> None:
    generator = np.random.default_rng(0)
    codes, label = generator.integers(0, 9, (300, 5)).astype(np.uint8), generator.integers(0, 2, 300)
    statistics = generator.integers(1, 1 << 40, (300, 2))
    left = np.flatnonzero(generator.random(300) < 0.3)
    right = np.setdiff1d(np.arange(300), left)
    for target, own in product(TARGETS, (ROW_EACH, statistics)):
        parent, *children = (fill(codes, label, rows, own, target) for rows in (np.arange(300), left, right))
        np.testing.assert_array_equal(parent, children[0] + children[1])


def test_cells_are_counts() -> None:
    """Of two classes packed in one word; else by class; and with statistics, rows come before weight."""
    generator = np.random.default_rng(0)
    codes, label = generator.integers(0, 9, (300, 5)).astype(np.uint8), generator.integers(0, 2, 300)
    counts, everyone = binning.count(codes, label, 9), np.arange(300)
    packed = fill(codes, label, everyone, ROW_EACH, "two").reshape(5, 9)
    np.testing.assert_array_equal(np.stack([packed & 0xFFFFFFFF, packed >> 32], axis=-1), counts)
    np.testing.assert_array_equal(fill(codes, label, everyone, ROW_EACH, "plain").reshape(5, 9, 2), counts)
    statistics = np.array([[1, 7]]).repeat(300, axis=0)
    for target in TARGETS:
        cells = fill(codes, label, everyone, statistics, target).reshape(5, 9, 2, 2)
        np.testing.assert_array_equal(cells, counts[..., None] * [1, 7])


def test_what_can_be_left_holds_what_is_left() -> None:
    """At every threshold: rows surely left <= rows on the left by their own values <= rows that can get there."""
    generator = np.random.default_rng(0)
    X, label = generator.normal(size=(2000, 3)), np.zeros(2000, dtype=np.int64)
    reach = Reach(np.array([0.1, 0.0, np.inf]), np.array([0.2, 0.3, 0.0]), (None,) * 3, np.array([True, True]))
    found = find_bins(X, label, reach, STAYS, 50)
    codes = encode_rows(X, label, reach, STAYS, found, WORKERS)
    for feature in range(3):
        thresholds = halve(found.below, found.above)[feature, : found.n_thresholds[feature]]
        own = (X[:, feature, None] <= thresholds).sum(axis=0)
        can, surely = (
            (codes[:, column, None] <= np.arange(len(thresholds))).sum(axis=0) for column in found.columns[feature]
        )
        assert (surely <= own).all()
        assert (own <= can).all()
        assert (surely < can).any()


def test_one_column_for_a_feature_that_nobody_moves() -> None:
    reach = Reach(np.array([0.0, 1.0]), np.array([0.0, 0.0]), (None,) * 2, np.array([True, True]))
    found = find_bins(np.random.default_rng(0).random((50, 2)), np.arange(50) % 2, reach, STAYS, 10)
    assert found.columns.tolist() == [[0, 0], [1, 2]]
    assert bins.MOST_BINS == 255
