"""What one split is worth, against everything an attacker can do; and where a threshold may be."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from hardwood import RobustTreeClassifier
from hardwood._kernels.grow.criteria import PLATEAU_WEIGHT, gain
from hardwood.ensemble import TreeEnsemble
from hardwood.grow.criteria import CRITERIA
from reference.growing import check_fit, impurity, robust_gain, searched_gain

# Every way to have 0 to 3 of each: (left, right, movable) x (class 0, class 1).
COUNTS = np.array(list(itertools.product(range(4), repeat=6)), dtype=float).reshape(-1, 3, 2)
COUNTS = COUNTS[(COUNTS.sum(axis=1) > 0.0).all(axis=1)]
# No weights, class weights, and the parts of rows that rho = 0.3 makes of a class that attacks.
CLASS_WEIGHTS = [(1.0, 1.0), (0.3, 2.5), (1.0, 1e6)]
RHO = 0.3


@njit
def _gains(criterion, sign, left, node, gains):
    for i in range(len(gains)):
        gains[i] = gain(criterion, sign, left[i, 0], left[i, 1], node[i, 0], node[i, 1])


def kernel_gain(criterion: str, left: np.ndarray, right: np.ndarray, movable: np.ndarray) -> np.ndarray:
    """The better of both orientations, each at the corner where the attacker goes."""
    node = left + right + movable
    gains = np.empty((2, len(left)))
    for orientation in (0, 1):
        hurt = np.array([orientation, 1 - orientation])  # the class that goes left if it can
        sign = 1.0 - 2.0 * orientation
        _gains(CRITERIA[criterion], sign, left + movable * hurt, node, gains[orientation])
    assert (gains.min(axis=0) == 0.0).all(), "both orientations hold at once"
    return gains.max(axis=0)


def weighted(class_weight: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = COUNTS * class_weight
    return counts[:, 0], counts[:, 1], counts[:, 2]


def with_rho(attackers: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the movable rows as (1 - rho) staying on the left, the rest moving; non-attackers all stay."""
    moving = np.array([RHO if c in attackers else 0.0 for c in (0, 1)])
    left, right, movable = COUNTS[:, 0], COUNTS[:, 1], COUNTS[:, 2]
    return left + movable * (1.0 - moving), right, movable * moving


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("class_weight", CLASS_WEIGHTS)
def test_gain_is_what_the_attacker_leaves(criterion: str, class_weight: tuple[float, float]) -> None:
    """The best the attacker can do, found by a search over his whole box, leaves just the gain of the kernel."""
    left, right, movable = weighted(class_weight)
    total = COUNTS.sum(axis=1) @ class_weight
    searched = searched_gain(criterion, left, right, movable)
    found = kernel_gain(criterion, left, right, movable)
    np.testing.assert_allclose(found / total, searched / total, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(robust_gain(criterion, left, right, movable), found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("attackers", [[0], [1], [0, 1]])
def test_gain_with_a_share_of_attackers(criterion: str, attackers: list[int]) -> None:
    left, right, movable = with_rho(attackers)
    searched = searched_gain(criterion, left, right, movable)
    np.testing.assert_allclose(kernel_gain(criterion, left, right, movable), searched, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_gain_by_enumeration_of_whole_samples(criterion: str) -> None:
    """Where the gain is positive the worst attack moves whole samples: trying all of them finds it."""
    for left, right, movable in COUNTS[::7]:
        moves = itertools.product(*(range(int(m) + 1) for m in movable))
        worst = max(
            impurity(criterion, left + move) + impurity(criterion, right + movable - move)
            for move in map(np.array, moves)
        )
        found = kernel_gain(criterion, left[None], right[None], movable[None])[0]
        if found > 0.0:
            least = impurity(criterion, left + right + movable) - worst
            np.testing.assert_allclose(found, least, rtol=1e-9)


@pytest.mark.parametrize("class_weight", CLASS_WEIGHTS)
def test_error_gain_by_enumeration(class_weight: tuple[float, float]) -> None:
    """The loss of "left predicts c, right predicts the other" over all places of the movable samples."""
    left, right, movable = weighted(class_weight)
    node = left + right + movable
    found = kernel_gain("error", left, right, movable)
    plateau = PLATEAU_WEIGHT * kernel_gain("gini", left, right, movable)
    for i, counts in enumerate(COUNTS):
        moves = [np.array(m) * class_weight for m in itertools.product(*(range(int(k) + 1) for k in counts[2]))]
        losses = [max((left[i] + m)[1 - c] + (right[i] + movable[i] - m)[c] for m in moves) for c in (0, 1)]
        saved = node[i].min() - min(losses)
        expected = saved + plateau[i] if saved > 1e-9 else 0.0
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9, err_msg=str(counts))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_gain_of_a_feature_that_nobody_moves(criterion: str) -> None:
    """Either orientation will do (sign 0), and with nothing movable that is the plain impurity decrease."""
    left, right = COUNTS[:, 0], COUNTS[:, 1]
    some = (left + right > 0.0).all(axis=1)
    left, right = left[some], right[some]
    found = np.empty(len(left))
    _gains(CRITERIA[criterion], 0.0, left, left + right, found)
    expected = robust_gain(criterion, left, right, np.zeros_like(left))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def stump(class_zero: float, class_one: float, **parameters: Any) -> TreeEnsemble:
    """Grow a tree on one row of each class."""
    return RobustTreeClassifier(**parameters).fit([[class_zero], [class_one]], [0, 1]).ensemble_


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_equal_decimals_are_not_parted(sign: float) -> None:
    """7.0 + 0.1 and 7.2 - 0.1 differ in the last bit only, and so do -7.0 - 0.1 and -7.2 + 0.1."""
    assert 7.0 + 0.1 < 7.2 - 0.1
    assert stump(sign * 7.0, sign * 7.2, threat=0.1).n_leaves == 1
    assert stump(sign * 7.0, sign * 7.2, threat=0.0999).n_leaves == 2
    assert stump(sign * 7.0, sign * 7.2, threat=0.1, attacking_classes=1).n_leaves == 2


@pytest.mark.parametrize(
    ("at", "distance"),
    [(1000.0, 1.0), (0.0, 1000.0), (-1000.0, 1.0), (1e12, 1e3), (1e300, 1e299), (1.7e9, 3600.0)],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("endless", [False, True])
def test_values_that_count_as_equal(at: float, distance: float, sign: float, endless: bool) -> None:
    """As documented: if they are no further apart than 1e-9 times the largest of both and the reach."""
    width = 1e-9 * max(abs(at), distance)
    for factor, n_leaves in ((-1.0, 1), (0.0, 1), (0.99, 1), (1.01, 2), (2.0, 2)):
        towards, away = distance, np.inf if endless else 0.0
        pair = (towards, away) if sign > 0 else (away, towards)
        other = at + distance + factor * width
        tree = stump(sign * at, sign * other, threat=[pair], attacking_classes=1)
        assert tree.n_leaves == n_leaves, factor


def test_the_tolerance_is_relative_to_a_finite_reach() -> None:
    """Around zero the values themselves say nothing about how exact they are; the distance does."""
    assert stump(0.0, 1.0 + 0.5e-9, threat=[(1.0, 0.0)], attacking_classes=1).n_leaves == 1
    assert stump(0.0, 1e-6 + 0.5e-9, threat=[(1e-6, 0.0)], attacking_classes=1).n_leaves == 2


@pytest.mark.parametrize("value", [1.0, -7.1, 1e300, 5e-324, 0.0, 1.7e18])
def test_fixed_features_are_compared_exactly(value: float) -> None:
    """One bit is enough where nobody can move, whatever the threat to other features."""
    above = np.nextafter(value, np.inf)
    fixed = [
        RobustTreeClassifier(),
        RobustTreeClassifier(threat=[None, 0.1]),
        RobustTreeClassifier(threat=0.1, rho=0.0),
        RobustTreeClassifier(threat=0.0),
    ]
    X = [[value, 0.0], [above, 0.0]]
    for model in fixed:
        tree = model.fit(X, [0, 1]).ensemble_
        assert tree.n_leaves == 2
        assert tree.threshold[0] == value
        np.testing.assert_array_equal(model.predict(X), [0, 1])
    assert RobustTreeClassifier(threat=0.1).fit(X, [0, 1]).get_n_leaves() == 1


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=14),
    st.sampled_from(["<", ">", "<>"]),
    st.sampled_from([0.1, 0.3]),
)
def test_a_reach_without_limit_needs_no_tolerance(rows: list[tuple[int, bool]], threat: str, rho: float) -> None:
    """Nothing is added that could be rounded: times in nanoseconds are told apart, in every node.

    A fit used to compare exactly at the root and with the tolerance below a split by the same feature.
    """
    X = 1.7e18 + 1e4 * np.array([[at] for at, _ in rows])
    y = np.array([0, 1, *(label for _, label in rows[2:])], dtype=int)
    check_fit(RobustTreeClassifier(threat=[threat], rho=rho, attacking_classes=0), X, y)


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1.0, 1e8), (1e-3, 0.0), (1e300, 0.0), (1e292, -1e300), (5e-324, 0.0), (1e-310, 0.0), (60.0, 1.7e9)],
)
@pytest.mark.parametrize("distance", [0, 1, (2, 1), (0, np.inf)])
def test_any_magnitude(scale: float, offset: float, distance: Any) -> None:
    """Huge, tiny and subnormal numbers, and times in seconds, are numbers like any others."""
    rng = np.random.default_rng(0)
    X = offset + scale * rng.integers(-20, 20, (80, 2))
    y = (X[:, 0] + scale * rng.integers(-5, 5, 80) > offset).astype(int)
    one = (distance, distance) if isinstance(distance, int) else distance
    threat = [tuple(scale * side if np.isfinite(side) else side for side in one)] * 2
    assert check_fit(RobustTreeClassifier(threat=threat, rho=0.8), X, y).n_leaves > 1


@pytest.mark.parametrize("exponent", [-900, -40, 40, 900])
def test_units_do_not_matter(exponent: int) -> None:
    """Data and threat in other units, by a power of two: the same tree in those units."""
    rng = np.random.default_rng(1)
    X, unit = rng.integers(-50, 50, (300, 2)) / 10.0, 2.0**exponent
    y = (X.sum(axis=1) + rng.normal(0.0, 2.0, 300) > 0.0).astype(int)
    tree = RobustTreeClassifier(threat=0.3).fit(X, y).ensemble_
    scaled = RobustTreeClassifier(threat=0.3 * unit).fit(X * unit, y).ensemble_
    np.testing.assert_array_equal(tree.feature, scaled.feature)
    np.testing.assert_array_equal(tree.threshold * unit, scaled.threshold)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=30, unique=True))
def test_thresholds_part_any_two_numbers(values: list[float]) -> None:
    """A threshold t between neighbours p and q has p <= t < q, however close they are."""
    X, y = np.array(values).reshape(-1, 1), np.arange(len(values)) % 2
    tree = RobustTreeClassifier().fit(X, y).ensemble_
    at = np.sort(X[:, 0])
    for threshold in tree.threshold[tree.feature >= 0]:
        k = np.searchsorted(at, threshold, side="right")
        assert 0 < k < len(at)
    np.testing.assert_array_equal(tree.predict(X), y)
