"""Random trees, rows and attackers to refine: every form of a threat, weights and shares of attackers."""

from __future__ import annotations

import numpy as np

from hardwood import ThreatModel, TreeEnsemble
from hardwood.refinement.rows import Rows
from reference import attacking


def general_case(
    seed: int, n_classes: int = 3, *, holes: bool = False, whole_weights: bool = False
) -> tuple[TreeEnsemble, Rows]:
    """Return the same of several classes; with `holes` values are missing, and can be blanked and filled.

    Some attackers want certain classes only.
    """
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator, accepts_missing=holes)
    tree = attacking.random_trees(generator, schema, n_classes=n_classes)
    n_rows = int(generator.integers(2, 20))
    matrix = attacking.random_rows(generator, tree, n_rows, missing=holes)
    names = list("abcd"[:n_classes])
    attackers = [None, None, ["a"], names[1:], {"a": ["b"], names[-1]: names[:1]}][generator.integers(5)]
    options = {}
    if holes:
        columns = list(range(schema.n_features))
        hidden = [None, "all", [int(generator.choice(columns))]]
        options = {"blank": hidden[generator.integers(3)], "fill": hidden[generator.integers(3)]}
        if generator.random() < 0.3 and schema.categories[0] is None:
            options["within"] = {0: (-1.2, 0.7)}
    threat = ThreatModel(attacking.random_threat(generator, schema), attacking_classes=attackers, **options)
    label = generator.integers(0, n_classes, n_rows)
    weight = generator.integers(1, 4, n_rows).astype(float)
    if not whole_weights and generator.random() < 0.5:
        weight = generator.uniform(0.1, 2.0, n_rows)
    rho = float(generator.choice([1.0, 1.0, 0.5, 0.0]))
    return tree, Rows(matrix, label, weight, threat.resolve(schema, tree.labels), rho)


def random_case(seed: int, *, categorical: bool = True, whole_weights: bool = False) -> tuple[TreeEnsemble, Rows]:
    """Return a random tree, and rows of a random table whose values hug its thresholds."""
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator, categorical=categorical)
    tree = attacking.random_trees(generator, schema)
    n_rows = int(generator.integers(2, 30))
    matrix = attacking.random_rows(generator, tree, n_rows)
    attackers = [None, ["a"], ["b"]][generator.integers(3)]
    threat = ThreatModel(attacking.random_threat(generator, schema), attacking_classes=attackers)
    label = generator.integers(0, 2, n_rows)
    weight = generator.integers(1, 4, n_rows).astype(float)
    if not whole_weights and generator.random() < 0.5:
        weight = generator.uniform(0.1, 2.0, n_rows)
    rho = float(generator.choice([1.0, 1.0, 0.5, 0.3, 0.0]))
    return tree, Rows(matrix, label, weight, threat.resolve(schema, tree.labels), rho)


def loss_by_attack(tree: TreeEnsemble, rows: Rows) -> float:
    """Return the loss by its definition: a leaf after the other, whether each row can be moved there."""
    loss = 0.0
    weight = [1.0] * tree.schema.n_features
    for row, label, row_weight in zip(rows.matrix, rows.label.tolist(), rows.weight.tolist(), strict=True):
        stands = attacking.predict(tree, row) == label
        survives = attacking.nearest_distance(tree, row, label, rows.reach, np.inf, weight) == np.inf
        loss += row_weight * (rows.rho * (not survives) + (1.0 - rows.rho) * (not stands))
    return loss
