"""The cheap certificate, where it is exact: models in which one point is the worst for all trees, and ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwood import RobustBoostingClassifier, ThreatModel, TreeEnsemble, verify
from hardwood.verification.cheap import certify_classes
from reference import attacking, enumerating


def draw_stumps(seed: int) -> tuple[TreeEnsemble, np.ndarray, ThreatModel]:
    """Return stumps that all favour the same classes on their right, by few amounts, so that ties abound; and rows."""
    generator = np.random.default_rng(seed)
    n_trees, n_classes, n_features = (int(generator.integers(low, high)) for low, high in ((1, 6), (2, 4), (1, 4)))
    n_outputs = 1 if n_classes == 2 and generator.random() < 0.5 else n_classes
    favour = generator.integers(-2, 3, n_outputs) if n_outputs > 1 else np.ones(1)
    node = np.arange(3 * n_trees)
    amount = np.where(node % 3 == 2, generator.choice([0.0, 0.25, 0.5], 3 * n_trees), 0.0)
    trees = attacking.assemble(
        np.where(node % 3 == 0, generator.integers(0, n_features, 3 * n_trees), -1),
        generator.choice([-1.0, 0.0, 0.5], 3 * n_trees),
        np.where(node % 3 == 0, node + 1, -1),
        np.where(node % 3 == 0, node + 2, -1),
        amount[:, None] * favour,
        root=np.arange(n_trees, dtype=np.int32) * 3,
        base_score=generator.choice([0.0, 0.25, -0.25, -0.5], n_outputs),
        classes=np.arange(n_classes),
        link="score",
        precision=str(generator.choice(["float64", "float32"])),
        divisor=float(generator.choice([1.0, 2.0, 3.0, float(n_trees)])),
        cut=float(generator.choice([0.0, 0.25, 0.5])) if n_outputs == 1 else 0.0,
    )
    rows = generator.choice([-1.5, -1.0, 0.0, 0.25, 1.0], (4, trees.schema.n_features))
    return trees, rows, ThreatModel(generator.choice([0.0, 0.5, 1.0, np.inf], trees.schema.n_features).tolist())


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_ties_fall_as_in_predictions(seed: int) -> None:
    """A row of the first class keeps it at a margin of 0, as the first of equals wins; it was not certified."""
    trees, rows, threat = draw_stumps(seed)
    reach = threat.resolve(trees.schema, trees.labels)
    for own in range(len(trees.labels)):
        said = certify_classes(trees, rows, np.full(len(rows), own), threat)
        for k, row in enumerate(rows):
            points = enumerating.reachable_points(trees, row, own, reach)
            assert said.certified[k] == (trees.decide(points) == own).all()
            assert said.lower[k] <= enumerating.worst_margin(trees, points, own)


@pytest.mark.parametrize("mode", ["free", "ordered"])
@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2], ["no", "yes", "maybe", "never"]])
def test_a_constant_model_of_balanced_classes(mode: str, labels: list[object]) -> None:
    """It always says the first class; `certify` was sure of no row, though ordered boosting is said to be exact."""
    y = np.array(labels * 6)
    model = RobustBoostingClassifier(0.1, n_estimators=1, early_stopping=False, min_child_weight=1000.0, mode=mode)
    model.fit(np.zeros((len(y), 1)), y)
    rows, classes = np.zeros((len(labels), 1)), model.classes_
    certificate, proof = model.certify(rows, classes), verify(model, rows, classes, 0.1)
    assert certificate.certified.tolist() == [True] + [False] * (len(labels) - 1)
    assert proof.status.tolist() == ["robust"] + ["vulnerable"] * (len(labels) - 1)
