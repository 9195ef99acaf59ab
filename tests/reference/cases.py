"""Random questions to ask of a model: trees, rows at their thresholds, their classes, and what an attacker may do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach, ThreatModel
from reference import attacking

LINKS = ["probability", "logistic", "softmax", "score"]


class Case(NamedTuple):
    """A model, encoded rows, the class that the model gives each of them, and an attacker."""

    trees: TreeEnsemble
    rows: np.ndarray
    class_index: np.ndarray
    threat: ThreatModel

    @property
    def reach(self) -> Reach:
        """The attacker in numbers."""
        reach = self.threat.resolve(self.trees.schema, None if self.trees.classes is None else self.trees.labels)
        assert isinstance(reach, Reach)
        return reach


def random_case(
    seed: int,
    n_trees: int | None = None,
    *,
    max_depth: int = 2,
    n_rows: int = 3,
    most_classes: int = 3,
    missing: bool = False,
    hides: bool = False,
    link: str | None = None,
) -> Case:
    """Return a case with categories, every form of a threat and classes that do not attack, by default of 2 to 5 trees.

    With `missing`, the model takes missing values and the rows have some; with `hides` as well, the attacker can blank
    and fill some of them. A model of the link "value" is a regression.
    """
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator, accepts_missing=missing)
    if link is None:
        link = LINKS[generator.integers(len(LINKS))]
    n_classes = 2 if link == "logistic" else int(generator.integers(2, most_classes + 1))
    if n_trees is None:
        n_trees = int(generator.integers(2, 6))
    trees = attacking.random_trees(generator, schema, n_trees, max_depth, n_classes, link)
    rows = attacking.random_rows(generator, trees, n_rows, missing=missing)
    entries = attacking.random_threat(generator, schema)
    options = {name: random_columns(generator, schema.n_features) for name in ("blank", "fill")} if hides else {}
    if link == "value":
        return Case(trees, rows, np.zeros(n_rows, dtype=np.intp), ThreatModel(entries, **options))
    attackers = None if generator.random() < 0.7 else [trees.labels[0]]
    class_index = np.array([attacking.predict(trees, row) for row in rows], dtype=np.intp)
    return Case(trees, rows, class_index, ThreatModel(entries, attacking_classes=attackers, **options))


def random_columns(generator: np.random.Generator, n_features: int) -> list[int] | str | None:
    """Return some columns, all, or none."""
    some = np.flatnonzero(generator.random(n_features) < 0.5).tolist()
    return [None, "all", some][generator.integers(3)]
