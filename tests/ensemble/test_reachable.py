"""The leaves of one tree that rows can be moved into."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import RobustTreeClassifier, ThreatModel
from hardwood.ensemble import reachable
from hardwood.ensemble.reachable import list_reachable
from reference import attacking, enumerating


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_reachable_leaves_are_those_of_reachable_points(seed, missing):
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator, accepts_missing=missing)
    trees = attacking.random_trees(generator, schema, n_trees=2)
    rows = attacking.random_rows(generator, trees, 4, missing=missing)
    threat = ThreatModel(attacking.random_threat(generator, schema), attacking_classes=["b"])
    reach = threat.resolve(schema, trees.labels)
    class_index = generator.integers(0, len(trees.labels), len(rows))
    for tree in range(2):
        found = list_reachable(trees, reach, rows, class_index, tree)
        for i, (row, label) in enumerate(zip(rows, class_index, strict=True)):
            points = enumerating.reachable_points(trees, row, label, reach)
            expected = {attacking.walk(trees, int(trees.root[tree]), point)[-1] for point in points}
            leaves = found.leaf[found.start[i] : found.start[i + 1]].tolist()
            assert len(leaves) == len(set(leaves))
            assert set(leaves) == expected


def test_chunks_make_no_difference(model, numbers, monkeypatch):
    X, y = numbers
    reach = ThreatModel(0.3).resolve(model.ensemble_.schema, model.classes_)
    whole = list_reachable(model.ensemble_, reach, X, y)
    monkeypatch.setattr(reachable, "CHUNK", 7)
    parts = list_reachable(model.ensemble_, reach, X, y)
    np.testing.assert_array_equal(whole.start, parts.start)
    np.testing.assert_array_equal(whole.leaf, parts.leaf)
    assert len(whole.leaf) > len(X)
    assert whole.row.tolist() == sorted(whole.row.tolist())


@pytest.mark.parametrize("n_rows", [0, 1])
def test_few_rows(n_rows):
    model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    reach = ThreatModel(0.1).resolve(model.ensemble_.schema, model.classes_)
    found = list_reachable(model.ensemble_, reach, np.zeros((n_rows, 1)), np.zeros(n_rows, dtype=int))
    assert found.start.tolist() == list(range(n_rows + 1))
    assert found.leaf.tolist() == [1] * n_rows
