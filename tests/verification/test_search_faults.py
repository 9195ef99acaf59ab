"""What the search once got wrong: numbers of very different sizes, memory, threads."""

import dataclasses
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from hardwood import TreeEnsemble, as_ensemble, attack, verify
from hardwood.threat import ThreatModel
from reference import attacking, enumerating


def grow_forest(seed: int, n_features: int = 2) -> tuple[TreeEnsemble, np.ndarray]:
    """Return a small forest grown on noise, and rows."""
    generator = np.random.default_rng(seed)
    X = np.round(generator.random((40, n_features)), 2)
    forest = RandomForestClassifier(5, max_depth=4, random_state=seed % 1000, n_jobs=1)
    return as_ensemble(forest.fit(X, generator.integers(0, 2, 40))), generator.random((4, n_features))


class TestMemory:
    """The dictionary of prepared ensembles was weak in its keys, and its values held them: no model was ever freed."""

    @pytest.mark.parametrize("n_features", [2, 30])
    def test_a_verified_ensemble_is_freed(self, n_features: int) -> None:
        ensemble, X = grow_forest(0, n_features)
        verify(ensemble, X, None, 0.1)
        attack(ensemble, X, threat=0.1)
        freed = weakref.ref(ensemble)
        gc.disable()  # at once, not when the collector comes along
        try:
            del ensemble
            assert freed() is None
        finally:
            gc.enable()

    def test_what_is_prepared_is_not_pickled(self) -> None:
        ensemble, X = grow_forest(0)
        expected = verify(ensemble, X, None, 0.1)
        assert set(ensemble.__getstate__()) == {field.name for field in dataclasses.fields(ensemble)}
        again = verify(pickle.loads(pickle.dumps(ensemble)), X, None, 0.1)
        np.testing.assert_array_equal(again.status, expected.status)


def two_stumps(**others: Any) -> TreeEnsemble:
    """Return two trees that are 1 where the first feature is positive, and else 0; one output."""
    return attacking.assemble(
        [0, -1, -1] * 2,
        [0.0] * 6,
        [1, -1, -1, 4, -1, -1],
        [2, -1, -1, 5, -1, -1],
        [[0.0], [0.0], [1.0]] * 2,
        root=np.array([0, 3], dtype=np.int32),
        link="score",
        classes=np.arange(2),
        **others,
    )


class TestCut:
    """Where a single output turns from class to class, next to base scores of another size."""

    def test_a_cut_that_vanishes_beside_the_base_score(self) -> None:
        """-2 + 1 + 1 is greater than -5e-324, and so of class 1; the search compared 2 with 2 - 5e-324, which is 2."""
        ensemble = two_stumps(base_score=np.array([-2.0]), cut=-5e-324)
        assert ensemble.predict([[1.0]]).tolist() == [1]
        assert verify(ensemble, [[-1.0]], [0], "<>").status.tolist() == ["vulnerable"]

    def test_a_division_that_rounds_down_to_the_cut(self) -> None:
        """A third is more than the float64 next to it, and the output is that number, which is not above the cut."""
        ensemble = two_stumps(base_score=np.array([0.0]), divisor=6.0, cut=1 / 3)
        assert ensemble.predict([[1.0]]).tolist() == [0]
        assert verify(ensemble, [[1.0]], [0], "<>").status.tolist() == ["robust"]

    @given(
        base=st.sampled_from([-2.0, -1.0, 0.0, 1e-300, -1e-17, 1e16, -1e16, -2.0000000000000004]),
        cut=st.sampled_from([-5e-324, 5e-324, 0.0, -0.0, 1e-17, -1e-17, 1 / 3, -1 / 3, 2.0, 1e16, -1e16]),
        divisor=st.sampled_from([1.0, 2.0, 3.0, 6.0, 1e300, 1e-290]),
        precision=st.sampled_from(["float64", "float32"]),
        x=st.sampled_from([-1.0, 1.0]),
    )
    def test_any_sizes(self, base: float, cut: float, divisor: float, precision: str, x: float) -> None:
        with np.errstate(over="ignore", under="ignore"):  # sizes that float32 has no numbers for
            single = precision == "float32"
            base, cut = (float(np.float32(number)) if single else number for number in (base, cut))
            divisor = min(max(divisor, 1e-20), 1e30) if single else divisor
            ensemble = two_stumps(base_score=np.array([base]), cut=cut, divisor=divisor, precision=precision)
            own, other = ensemble.predict([[x], [-x]])
            status = verify(ensemble, [[x]], [own], "<>").status.tolist()
        assert status == ["vulnerable" if own != other else "robust"]


# Powers of two: the scaled model is the same, bit for bit. Their squares, or sums of some, are no numbers any more.
SIZES = {2: [2.0**-560, 2.0**530], 1: [2.0**-560, 2.0**1018], np.inf: [2.0**-560, 2.0**1022], 0: [2.0**-560, 2.0**1022]}


class TestSizes:
    """Costs were squared as they are: 1e-170 to 0, and 1e160 to infinity."""

    @pytest.mark.parametrize("norm", [np.inf, 2, 1, 0])
    @given(seed=st.integers(0, 2**32))
    def test_tables_of_any_scale(self, norm: float, seed: int) -> None:
        """Leaf widths of 1e-160 used to be an endless loop, and thresholds of 1e160 gave wrong distances."""
        ensemble, X = grow_forest(seed)
        expected = attack(ensemble, X, norm=norm)
        for size in SIZES[norm]:
            scaled = dataclasses.replace(ensemble, threshold=ensemble.threshold * size)
            result = attack(scaled, X * size, norm=norm)
            assert (result.lower == result.distance).all()
            scale = 1.0 if norm == 0 else size
            np.testing.assert_allclose(result.distance, expected.distance * scale, rtol=1e-12, atol=0.0)

    @pytest.mark.parametrize("norm", [np.inf, 2, 1, 0])
    @pytest.mark.parametrize("weight", [2.0**-560, 2.0**660])
    @given(seed=st.integers(0, 2**32))
    def test_weights_of_any_scale(self, norm: float, weight: float, seed: int) -> None:
        """With weights of 1e-170, all 20 of 20 distances were wrong; with 1e200, 15 of 20 examples were not found."""
        ensemble, X = grow_forest(seed)
        expected = attack(ensemble, X, norm=norm)
        result = attack(ensemble, X, norm=norm, feature_weight=[weight] * 2)
        np.testing.assert_array_equal(result.found, expected.found)
        np.testing.assert_allclose(result.distance, expected.distance * weight, rtol=1e-12, atol=0.0)

    @pytest.mark.parametrize("norm", [2, 1])
    @given(seed=st.integers(0, 2**32))
    @example(seed=0)
    def test_features_of_different_scales(self, norm: float, seed: int) -> None:
        """One feature by 1e-170 as dear as the other: distances along it are no less exact."""
        ensemble, X = grow_forest(seed)
        weight = [1.0, 2.0**-560]
        result = attack(ensemble, X, norm=norm, feature_weight=weight)
        reach = ThreatModel("<>").resolve(ensemble.schema, ensemble.labels)
        for row, own, distance in zip(X, ensemble.decide(X), result.distance, strict=True):
            points = enumerating.adversarial_points(ensemble, row, own, reach)
            nearest = min(
                (attacking.distance(point, row, ensemble.schema, norm, weight) for point in points), default=np.inf
            )
            np.testing.assert_allclose(distance, nearest, rtol=1e-12, atol=0.0)


@given(seed=st.integers(0, 2**32))
def test_margins_are_never_below_their_bound(seed: int) -> None:
    """Leaves of mixed sizes in float32: a margin of 3.36 was claimed where 0.67 could be reached.

    The bound was that of sums in float64, and the model's own differ.
    """
    generator = np.random.default_rng(seed)
    ensemble, X = grow_forest(seed)
    size = 10.0 ** generator.integers(-2, 8, ensemble.value.shape[0])
    value = (generator.normal(size=ensemble.value.shape) * size[:, None]).astype(np.float32).astype(np.float64)
    ensemble = dataclasses.replace(ensemble, value=value, precision="float32", link="score", divisor=3.0)
    certificate = verify(ensemble, X, None, 0.3)
    reach = ThreatModel(0.3).resolve(ensemble.schema, ensemble.labels)
    for row, own, lower in zip(X, ensemble.decide(X), certificate.lower, strict=True):
        output = ensemble.output(enumerating.reachable_points(ensemble, row, own, reach)).astype(np.float64)
        assert lower <= (output[:, own] - output[:, 1 - own]).min()


class Contested(list):
    """Room that another thread takes between a look and a grab."""

    def pop(self, *position: Any) -> Any:
        self.clear()
        return super().pop(*position)


def test_another_thread_takes_the_last_room() -> None:
    """Whether there was room was asked before it was taken: an IndexError where threads really run side by side."""
    from hardwood.verification.search import prepare

    ensemble, X = grow_forest(0)
    expected = verify(ensemble, X, None, 0.1).status
    prepared = prepare(ensemble)
    prepared.spare = Contested(prepared.spare)
    assert prepared.spare
    np.testing.assert_array_equal(verify(ensemble, X, None, 0.1).status, expected)
