"""TreeEnsemble: where rows go, what comes out, and which part of the input space each leaf is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardwood import RobustTreeClassifier, TreeEnsemble
from hardwood.table import Schema
from reference import attacking as reference

SEEDS = st.integers(0, 2**32 - 1)


LINKS = ["probability", "logistic", "softmax", "score", "value"]


def random_ensemble(
    seed: int, n_rows: int = 40, *, missing: bool = False, link: str = "probability"
) -> tuple[TreeEnsemble, np.ndarray]:
    """Return a random ensemble of up to three trees and four classes, and rows that hug its thresholds."""
    generator = np.random.default_rng(seed)
    n_trees, n_classes = generator.integers([1, 2], [4, 5]).tolist()
    n_classes = 2 if link == "logistic" else n_classes
    schema = reference.random_schema(generator)
    trees = reference.random_trees(generator, schema, n_trees, n_classes=n_classes, link=link)
    return trees, reference.random_rows(generator, trees, n_rows, missing=missing)


class TestRouting:
    @given(SEEDS)
    def test_leaves_equal_the_oracle_with_missing_values(self, seed: int) -> None:
        trees, rows = random_ensemble(seed, missing=True)
        expected = [[reference.walk(trees, root, row)[-1] for root in trees.root] for row in rows]
        assert trees.leaves(rows).tolist() == expected

    @pytest.mark.parametrize("link", LINKS)
    @given(seed=SEEDS)
    def test_outputs_and_classes_equal_the_oracle(self, link: str, seed: int) -> None:
        trees, rows = random_ensemble(seed, link=link)
        table = trees.schema.decode(rows)
        leaves = [[reference.walk(trees, root, row)[-1] for root in trees.root] for row in rows]
        output = [reference.output(trees, path) for path in leaves]
        assert trees.apply(table).tolist() == leaves
        assert trees.output(rows).dtype == trees.precision
        assert trees.output(rows).tolist() == output
        if link == "value":
            assert trees.predict(table).tolist() == [total[0] for total in output]
            return
        decided = [reference.choose(trees, total) for total in output]
        assert trees.decide(rows).tolist() == decided
        assert trees.predict(table).tolist() == trees.labels[decided].tolist()

    @given(st.floats(-10, 10), st.floats(-10, 10, width=32), st.sampled_from(["float32", "float64"]))
    @example(0.7, -0.5, "float32")
    def test_one_tree_decides_by_its_output(self, base: float, value: float, precision: str) -> None:
        """What each leaf decides is worked out once: in the same precision and order as the outputs."""
        number = np.dtype(precision).type
        trees = reference.assemble(
            *([0, -1, -1], [0.0, 0.0, 0.0], [1, -1, -1], [2, -1, -1], [[0.0], [value], [-value]]),
            base_score=np.array([base]),
            link="logistic",
            classes=np.array([0, 1]),
            precision=precision,
            cut=float(number(base) + number(value)),
        )
        rows = np.array([[-1.0], [1.0]])
        assert trees.decide(rows).tolist() == trees.choose(trees.output(rows)).tolist()

    @given(SEEDS)
    def test_probabilities(self, seed: int) -> None:
        trees, rows = random_ensemble(seed, link="probability")
        assert trees.predict_proba(trees.schema.decode(rows)).tolist() == trees.output(rows).tolist()
        trees, rows = random_ensemble(seed, link="logistic")
        second = 1.0 / (1.0 + np.exp(-trees.output(rows)[:, 0].astype(float)))
        probability = trees.predict_proba(trees.schema.decode(rows))
        assert np.allclose(probability, np.column_stack([1.0 - second, second]), rtol=1e-14)
        trees, rows = random_ensemble(seed, link="softmax")
        power = np.exp(trees.output(rows).astype(float))
        probability = trees.predict_proba(trees.schema.decode(rows))
        assert np.allclose(probability, power / power.sum(axis=1, keepdims=True), rtol=1e-14)

    @pytest.mark.parametrize("link", ["score", "value"])
    def test_scores_and_values_are_no_probabilities(self, link: str) -> None:
        trees, rows = random_ensemble(0, link=link)
        with pytest.raises(ValueError, match=f"no class probabilities.*{link}"):
            trees.predict_proba(trees.schema.decode(rows))

    def test_a_regression_has_no_labels(self) -> None:
        trees, _ = random_ensemble(0, link="value")
        with pytest.raises(TypeError, match="regression"):
            _ = trees.labels

    @given(SEEDS)
    def test_decision_path_holds_the_nodes_passed(self, seed: int) -> None:
        trees, rows = random_ensemble(seed)
        path = trees.decision_path(trees.schema.decode(rows))
        assert path.shape == (len(rows), trees.n_nodes)
        for indicator, row in zip(path.toarray(), rows, strict=True):
            passed = [node for root in trees.root for node in reference.walk(trees, root, row)]
            assert np.flatnonzero(indicator).tolist() == sorted(passed)
            assert set(indicator.tolist()) <= {0, 1}

    @pytest.mark.parametrize("threshold", [0.0, 0.1, -7.25, 1e300, 5e-324, -1e10])
    def test_a_value_equal_to_the_threshold_goes_left(self, threshold: float) -> None:
        stump = reference.build((0, threshold, 0, 1))
        values = [
            np.nextafter(threshold, -np.inf),
            threshold,
            np.nextafter(threshold, np.inf),
        ]
        assert stump.leaves(np.array(values)[:, None]).ravel().tolist() == [1, 1, 2]

    def test_an_infinite_value_is_refused(self) -> None:
        with pytest.raises(ValueError, match="infinity"):
            reference.build((0, 0.0, 0, 1)).predict([[np.inf]])

    def test_every_bit_of_a_long_set_counts(self) -> None:
        """Sets of more than 63 categories and the unseen one span several words."""
        n_categories = 200
        schema = Schema(1, None, (tuple(range(n_categories)),))
        rows = np.arange(n_categories + 1.0)[:, None]
        for code in range(n_categories + 1):
            members = np.arange(n_categories + 1) == code
            tree = reference.build((0, {code}, 0, 1), schema)
            assert (tree.leaves(rows)[:, 0] == 1).tolist() == members.tolist()
            assert tree.left_sets()[0].tolist() == members.tolist()

    def test_more_rows_do_not_change_a_row(self, ensemble: TreeEnsemble) -> None:
        rows = np.random.default_rng(3).normal(size=(1000, 3))
        alone = np.concatenate([ensemble.predict_proba(row[None]) for row in rows])
        assert np.array_equal(ensemble.predict_proba(rows), alone)


class TestBoxes:
    @given(SEEDS)
    def test_node_boxes_equal_the_oracle(self, seed: int) -> None:
        trees, _ = random_ensemble(seed)
        boxes = trees.node_boxes()
        assert boxes.leaf.tolist() == list(range(trees.n_nodes))
        n_seen = 0
        for root in trees.root:
            for node, region in reference.regions(trees, root).items():
                n_seen += 1
                assert boxes.low[node].tolist() == region.low
                assert boxes.high[node].tolist() == region.high
                codes = {j: set(np.flatnonzero(sets[node]).tolist()) for j, sets in boxes.allowed.items()}
                assert codes == region.codes
        assert n_seen == trees.n_nodes

    @given(SEEDS)
    def test_contradictions_are_what_makes_a_box_empty(self, seed: int) -> None:
        """No input gets to a node iff there is a contradiction on the way to it."""
        trees, _ = random_ensemble(seed)
        contradicts = trees.contradictions()
        for root in trees.root:
            region = reference.regions(trees, root)
            assert not contradicts[root]
            for node in region:
                if trees.feature[node] >= 0:
                    for child in (trees.left[node], trees.right[node]):
                        assert region[child].is_empty == (region[node].is_empty or contradicts[child])

    @given(SEEDS)
    def test_leaf_boxes_partition_the_space(self, seed: int) -> None:
        trees, rows = random_ensemble(seed)
        boxes = trees.leaf_boxes()
        categorical = sorted(boxes.allowed)
        for row, leaves in zip(rows, trees.leaves(rows), strict=True):
            inside = (boxes.low < row) & (row <= boxes.high)
            for j in categorical:
                inside[:, j] = boxes.allowed[j][:, int(row[j])]
            assert sorted(boxes.leaf[inside.all(axis=1)].tolist()) == sorted(leaves.tolist())


class TestShape:
    @given(SEEDS)
    def test_counts(self, seed: int) -> None:
        trees, rows = random_ensemble(seed)
        paths = [reference.walk(trees, root, row) for row in rows for root in trees.root]
        assert trees.n_trees == len(trees.root)
        assert trees.n_nodes == len(trees.feature)
        assert trees.n_leaves == (trees.n_nodes + trees.n_trees) // 2
        assert max(map(len, paths)) - 1 <= trees.max_depth <= 4

    def test_depth_of_a_tree_far_deeper_than_the_recursion_limit(self) -> None:
        chain = reference.chain(50_000)
        assert chain.max_depth == 50_000
        assert chain.n_leaves == 50_001
        assert chain.predict([[49_999.5]]).tolist() == chain.labels[[0]].tolist()

    def test_repr(self, ensemble: TreeEnsemble) -> None:
        n_leaves = ensemble.n_leaves
        assert repr(ensemble) == f"TreeEnsemble(1 tree, {n_leaves} leaves, 3 features)"
        trees, _ = random_ensemble(4)
        assert repr(trees).startswith(f"TreeEnsemble({trees.n_trees} tree")


class TestFrozen:
    def test_attributes_cannot_be_set(self, ensemble: TreeEnsemble) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            ensemble.link = "logit"  # type: ignore[misc]

    @pytest.mark.parametrize(
        "remake",
        [
            lambda trees: trees,
            copy.copy,
            copy.deepcopy,
            lambda trees: pickle.loads(pickle.dumps(trees)),
            lambda trees: TreeEnsemble.parse_json(trees.to_json()),
        ],
        ids=["itself", "copy", "deepcopy", "pickle", "json"],
    )
    def test_arrays_are_read_only_and_predictions_survive(self, remake: Any) -> None:
        trees, rows = random_ensemble(11, n_rows=200)
        trees.decide(rows)  # fills what is computed once and kept
        other = remake(trees)
        for field in dataclasses.fields(trees):
            array = getattr(other, field.name)
            if isinstance(array, np.ndarray):
                assert array.tolist() == getattr(trees, field.name).tolist()
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = array
        assert other.schema == trees.schema
        assert np.array_equal(other.output(rows), trees.output(rows))
        assert np.array_equal(other.leaf_boxes().high, trees.leaf_boxes().high)

    def test_fitting_again_leaves_an_earlier_ensemble_alone(self, numbers: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = numbers
        model = RobustTreeClassifier(max_depth=2).fit(X, y)
        earlier = model.ensemble_
        text = earlier.to_json()
        model.fit(-X, y)
        assert earlier.to_json() == text
