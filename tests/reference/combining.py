"""Attackers who may do several things at once, and models of small whole numbers: every point can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood import OneHotGroup, ThreatModel
from hardwood.table import Schema
from reference import attacking, enumerating
from reference.cases import LINKS, Case

WHOLE = ["a", "b", "c"]  # each from 0 to 3
GROUP = ["p", "q", "r"]
# What an attacker may be given besides reach.
MEANS = ("relations", "hides", "groups", "budget", "targets", "category", "number")
RELATIONS = [
    "a + b <= c + 1",
    "c = a + b",
    "2 * a - b <= 2",
    "a <= c",
    "0 <= c - a <= 2",
    "a + b + c <= 5",
    "b >= c - 1",
]
OF_GROUPS = ["a <= 1 + 2 * p", "b >= q", "p <= c"]
THRESHOLDS = [-0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 1e10]


def combined_case(seed: int, means: Sequence[str], n_trees: int | None = None, *, link: str | None = None) -> Case:
    """Return a model that takes missing values, rows with some, and an attacker with some means, at random."""
    generator = np.random.default_rng(seed)
    names: list[str] = [*WHOLE, *(["x"] if "number" in means else [])]
    labels: list[Any] = [None] * len(names)
    if "category" in means:
        names, labels = [*names, "k"], [*labels, ("u", "v", "w")]
    if "groups" in means:
        names, labels = [*names, *GROUP], [*labels, *[None] * 3]
    schema = Schema(len(names), tuple(names), tuple(labels), accepts_missing=True)
    has_targets = "targets" in means
    links = [name for name in LINKS if name != "logistic"] if has_targets else LINKS
    link = str(generator.choice(links)) if link is None else link
    n_classes = (
        2 if link == "logistic" else int(generator.integers(3, 5)) if has_targets else int(generator.integers(2, 4))
    )
    n_trees = int(generator.integers(2, 5)) if n_trees is None else n_trees
    trees = attacking.random_trees(generator, schema, n_trees, 3, n_classes, link)
    is_number = trees.category_start < 0
    trees = replace(trees, threshold=np.where(is_number, generator.choice(THRESHOLDS, len(is_number)), 0.0))
    rows = generator.integers(0, 4, (4, len(names))).astype(np.float64)
    rows[:2, 2] = np.minimum(rows[:2, 0] + rows[:2, 1], 3.0)
    if "category" in means:
        rows[:, names.index("k")] %= 3.0
    rows[generator.random(rows.shape) < (0.15 if "hides" in means else 0.05)] = np.nan
    if "groups" in means:
        rows[:, -3:] = np.eye(3)[generator.integers(0, 3, len(rows))]
    own = np.zeros(len(rows), dtype=np.intp) if link == "value" else trees.decide(rows)
    return Case(trees, rows, own, _draw_threat(generator, names, means, trees))


def _draw_threat(generator: np.random.Generator, names: list[str], means: Sequence[str], trees: Any) -> ThreatModel:
    entries: dict[Any, Any] = {name: generator.choice([0, 1, 2, 3]).item() for name in WHOLE}
    options: dict[str, Any] = {"whole_numbers": WHOLE, "within": dict.fromkeys(WHOLE, (0, 3))}
    if "number" in means:
        entries["x"] = [0.5, 1.5, "<>", ">", "50%"][generator.integers(5)]
    if "category" in means:
        entries["k"] = ["<>", {"u": ["v"], "w": ["u", "v"]}][generator.integers(2)]
    movable = [*WHOLE, *(name for name in ("x", "k") if name in names)]
    if "hides" in means:
        for how in ("blank", "fill"):
            options[how] = [name for name in movable if generator.random() < 0.5]
    if "groups" in means:
        options["groups"] = [OneHotGroup(GROUP, False, ["<>", {"p": ["q"], "r": ["p", "q"]}][generator.integers(2)])]
    if "relations" in means:
        pool = [*RELATIONS, *(OF_GROUPS * 2 if "groups" in means else [])]
        options["relations"] = generator.choice(pool, size=generator.integers(1, 3), replace=False).tolist()
    if "budget" in means:
        if generator.random() < 0.6:
            options["max_changes"] = int(generator.integers(1, 3))
        if generator.random() < 0.6 or "max_changes" not in options:
            options |= {"radius": float(generator.choice([1.0, 1.5, 2.0])), "norm": int(generator.integers(1, 3))}
    if "targets" in means:
        options["attacking_classes"] = _draw_targets(generator, trees.labels.tolist())
    return ThreatModel(entries, **options)


def _draw_targets(generator: np.random.Generator, classes: list[Any]) -> dict[Any, list[Any]]:
    """Say who wants to be taken for whom; never all for all others."""
    targets = {}
    for own in classes:
        others = [other for other in classes if other != own]
        targets[own] = generator.choice(others, size=generator.integers(1, len(others)), replace=False).tolist()
    return targets


def list_points(case: Case, k: int) -> np.ndarray:
    """Return what a row can become: all whole numbers and categories, and one value per cell of other numbers."""
    trees, reach, row, own = case.trees, case.reach, case.rows[k], int(case.class_index[k])
    low, high = (end[0] for end in reach.box(row[None], np.array([own])))
    axes = enumerating.reachable_values(trees, row, own, reach)
    names = trees.schema.feature_names
    assert names is not None
    for j, name in enumerate(names):
        if name in WHOLE or name in GROUP:
            most = 3.0 if name in WHOLE else 1.0
            values = np.arange(most + 1.0)
            if np.isnan(row[j]):
                values = values if reach.fill is not None and reach.fill[j] and reach.attacks[own] else values[:0]
            else:
                values = np.union1d(values[(low[j] <= values) & (values <= high[j])], row[[j]])
            hidden = np.isnan(axes[j])
            axes[j] = np.append(values, axes[j][hidden])
    points = np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")], axis=1)
    return points[reach.contains(np.repeat(row[None], len(points), axis=0), points, np.full(len(points), own))]


def list_examples(case: Case, k: int) -> np.ndarray:
    """Return the points that are given a class that the attacker wants; the row itself if it is wrong as it stands."""
    row, own = case.rows[[k]], case.class_index[[k]]
    if case.trees.decide(row)[0] != own[0]:
        return row
    points = list_points(case, k)
    return points[case.reach.wants(np.repeat(own, len(points)), case.trees.decide(points))]


def find_nearest(case: Case, k: int, points: np.ndarray, norm: float) -> float:
    """Return the distance of the nearest of some points; a changed category, group or hidden value is a change by 1."""
    row, names = case.rows[k], case.trees.schema.feature_names
    assert names is not None
    change = np.abs(points - row)
    change[np.isnan(change)] = 1.0
    change[np.isnan(points) & np.isnan(row)] = 0.0
    if "k" in names:
        change[:, names.index("k")] = change[:, names.index("k")] != 0.0
    if "p" in names:
        change[:, -3] = change[:, -3:].any(axis=1)
        change[:, -2:] = 0.0
    return float(np.linalg.norm(change, ord=norm, axis=1).min(initial=np.inf))
