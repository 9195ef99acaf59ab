"""Trees read node by node in plain Python, attacks that try every leaf, and models to try both on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema
from hardwood.threat import Reach

NUMBERS: dict[str, Any] = {"float64": np.float64, "float32": np.float32}


def goes_left(trees: TreeEnsemble, node: int, value: float) -> bool:
    """Say where a value goes, by the sentence that defines it."""
    if math.isnan(value):
        return bool(trees.missing_left[node])
    start = int(trees.category_start[node])
    if start < 0:
        return bool(value <= trees.threshold[node])
    code = int(value)
    return int(trees.category_words[start + code // 64]) >> (code % 64) & 1 == 1


def walk(trees: TreeEnsemble, root: int, row: np.ndarray) -> list[int]:
    """Return the nodes a row passes, from the root to its leaf."""
    path = [int(root)]
    while (feature := int(trees.feature[path[-1]])) >= 0:
        node = path[-1]
        left = goes_left(trees, node, float(row[feature]))
        path.append(int(trees.left[node] if left else trees.right[node]))
    return path


def output(trees: TreeEnsemble, leaves: list[int]) -> list[np.floating]:
    """Return base score plus the values of some leaves, added up one after another, over the divisor."""
    number = NUMBERS[trees.precision]
    total = [number(score) for score in trees.base_score]
    for leaf in leaves:
        total = [a + number(b) for a, b in zip(total, trees.value[leaf], strict=True)]
    return [a / number(trees.divisor) for a in total]


def choose(trees: TreeEnsemble, total: list[np.floating]) -> int:
    """Return the index of the class that outputs stand for; the first of equals."""
    if len(total) == 1:
        return int(total[0] > NUMBERS[trees.precision](trees.cut))
    return total.index(max(total))


def predict(trees: TreeEnsemble, row: np.ndarray) -> int:
    """Return the index of the predicted class."""
    return choose(trees, output(trees, [walk(trees, root, row)[-1] for root in trees.root]))


def outputs(trees: TreeEnsemble, points: np.ndarray) -> list[list[np.floating]]:
    """Return the outputs that points have, each combination of leaves once."""
    leaves = np.column_stack([_descend(trees, int(root), points) for root in trees.root])
    return [output(trees, own) for own in np.unique(leaves, axis=0).tolist()]


def _descend(trees: TreeEnsemble, node: int, points: np.ndarray) -> np.ndarray:
    """Return the leaf below a node that each point gets to."""
    feature = int(trees.feature[node])
    if feature < 0 or not len(points):
        return np.full(len(points), node)
    values, which = np.unique(points[:, feature], return_inverse=True)
    left = np.array([goes_left(trees, node, value) for value in values.tolist()])[which]
    leaf = np.empty(len(points), dtype=np.int64)
    leaf[left] = _descend(trees, int(trees.left[node]), points[left])
    leaf[~left] = _descend(trees, int(trees.right[node]), points[~left])
    return leaf


def lead(trees: TreeEnsemble, total: list[np.floating], own: int) -> float:
    """Return how far a class is ahead of the best other one by these outputs."""
    if len(total) == 1:
        above = float(total[0]) - float(NUMBERS[trees.precision](trees.cut))
        return above if own == 1 else -above
    return float(total[own]) - max(float(value) for k, value in enumerate(total) if k != own)


def margin(trees: TreeEnsemble, row: np.ndarray, own: int) -> float:
    """Return how far a class is ahead of the best other one at a row."""
    return lead(trees, output(trees, [walk(trees, root, row)[-1] for root in trees.root]), own)


def rounding(trees: TreeEnsemble) -> float:
    """Return the most that adding up in the model's precision can be wrong by.

    Base score and leaves are rounded and added up, and the sum is divided: two roundings for each tree and two more,
    each by no more than half a unit in the last place of what the largest leaves of all trees come to together.
    """
    n_roundings, unit = 2 * len(trees.root) + 2, float(np.finfo(NUMBERS[trees.precision]).eps) / 2
    largest = float(np.abs(trees.base_score).max()) + len(trees.root) * float(np.abs(trees.value).max())
    return n_roundings * unit * largest / trees.divisor


@dataclass
class Region:
    """What a row must be like to reach a node: numbers in (low, high], categories among `codes`."""

    node: int
    low: list[float]
    high: list[float]
    codes: dict[int, set[int]]

    def holds(self, row: np.ndarray) -> bool:
        """Say whether a row is in here."""
        return all(
            float(x) in self.codes[j] if j in self.codes else self.low[j] < x <= self.high[j] for j, x in enumerate(row)
        )

    @property
    def is_empty(self) -> bool:
        """Say whether no row can be in here."""
        pairs = zip(self.low, self.high, strict=True)
        return any(low >= high for low, high in pairs) or not all(self.codes.values())


def regions(trees: TreeEnsemble, root: int, missing: frozenset[int] = frozenset()) -> dict[int, Region]:
    """Return the region of every node of a tree that rows get to which lack some features, top down."""
    n_features, categories = trees.schema.n_features, trees.schema.categories
    everything = {j: set(range(len(c) + 1)) for j, c in enumerate(categories) if c is not None}
    start = Region(int(root), [-math.inf] * n_features, [math.inf] * n_features, everything)
    found, waiting = {}, [start]
    while waiting:
        region = waiting.pop()
        node = region.node
        found[node] = region
        feature = int(trees.feature[node])
        if feature < 0:
            continue
        if feature in missing:
            child = trees.left[node] if trees.missing_left[node] else trees.right[node]
            waiting.append(Region(int(child), region.low, region.high, region.codes))
            continue
        left = Region(int(trees.left[node]), [*region.low], [*region.high], {**region.codes})
        right = Region(int(trees.right[node]), [*region.low], [*region.high], {**region.codes})
        if feature in region.codes:
            codes = region.codes[feature]
            left.codes[feature] = {code for code in codes if goes_left(trees, node, code)}
            right.codes[feature] = codes - left.codes[feature]
        else:
            threshold = float(trees.threshold[node])
            left.high[feature] = min(left.high[feature], threshold)
            right.low[feature] = max(right.low[feature], threshold)
        waiting += [left, right]
    return found


def nearest_value(x: float, low: float, high: float) -> float | None:
    """Return the float64 in (low, high] that is nearest to x; None if there is no finite one."""
    if low >= high:
        return None
    value = high if x > high else math.nextafter(low, math.inf) if x <= low else x
    return value if math.isfinite(value) else None


def nearest_in_region(region: Region, row: np.ndarray, reach: Reach) -> list[float] | None:
    """Return the point of a region nearest to a row whose class attacks, feature by feature.

    Every norm here grows with the change in each feature, so the nearest value of each is the nearest point.
    """
    point: list[float] = []
    for j, x in enumerate(row.tolist()):
        allowed = reach.categories[j]
        if math.isnan(x):
            point.append(x)
        elif allowed is not None:
            codes = [code for code in sorted(region.codes[j]) if allowed[int(x), code]]
            if not codes:
                return None
            point.append(x if x in codes else float(codes[0]))
        else:
            value = nearest_value(x, region.low[j], region.high[j])
            if value is None or not x - reach.left[j] <= value <= x + reach.right[j]:
                return None
            point.append(value)
    return point


def distance(a: np.ndarray | list[float], b: np.ndarray, schema: Schema, norm: float, weight: list[float]) -> float:
    """Return the weighted distance of two rows; a changed category is a change by 1.

    So is a value that became missing, or was so and is no longer; what stays missing is no change.
    """
    change = [
        float(math.isnan(x) != math.isnan(y))
        if math.isnan(x) or math.isnan(y)
        else abs(float(x) - float(y))
        if labels is None
        else float(x != y)
        for x, y, labels in zip(a, b, schema.categories, strict=True)
    ]
    if norm == 0:
        return sum(w for w, c in zip(weight, change, strict=True) if c != 0.0)
    priced = [w * c for w, c in zip(weight, change, strict=True)]
    if norm == math.inf:
        return max(priced)
    return sum(priced) if norm == 1 else math.hypot(*priced)


def nearest_distance(
    tree: TreeEnsemble, row: np.ndarray, label: int, reach: Reach, norm: float, weight: list[float]
) -> float:
    """Return how far the nearest adversarial example is, by trying every leaf; infinite if there is none."""
    if predict(tree, row) != label:
        return 0.0
    if not reach.attacks[label]:
        return math.inf
    best = math.inf
    missing = frozenset(np.flatnonzero(np.isnan(row)).tolist())
    for node, region in regions(tree, tree.root[0], missing).items():
        if tree.feature[node] < 0 and choose(tree, output(tree, [node])) != label:
            point = nearest_in_region(region, row, reach)
            if point is not None:
                best = min(best, distance(point, row, tree.schema, norm, weight))
    return best


def random_schema(generator: np.random.Generator, *, categorical: bool = True, accepts_missing: bool = False) -> Schema:
    """Return up to four columns; the categorical ones have from 1 to 130 labels, up to three words of bits."""
    sizes = [None, None, 1, 2, 3, 63, 64, 130] if categorical else [None]
    chosen = [sizes[k] for k in generator.integers(len(sizes), size=generator.integers(1, 5))]
    labels = [None if size is None else tuple(f"label {k}" for k in range(size)) for size in chosen]
    return Schema(len(chosen), None, tuple(labels), accepts_missing)


def pack(sizes: list[int], left_sets: dict[int, set[int]]) -> tuple[list[int], list[int]]:
    """Return where each node's set starts, and the sets in words of 64 bits; `sizes` are the numbers of codes."""
    start, words = [-1] * len(sizes), list[int]()
    for node, codes in left_sets.items():
        start[node] = len(words)
        bits = sum(1 << code for code in codes)
        words += [bits >> shift & (2**64 - 1) for shift in range(0, sizes[node], 64)]
    return start, words


def assemble(
    feature: Any,
    threshold: Any,
    left: Any,
    right: Any,
    value: Any,
    *,
    schema: Schema | None = None,
    left_sets: dict[int, set[int]] | None = None,
    **others: Any,
) -> TreeEnsemble:
    """Return a model from its node arrays, with something ordinary for all that is not given."""
    n_nodes, n_outputs = np.shape(value)
    schema = Schema.numeric(int(np.max(feature, initial=0)) + 1) if schema is None else schema
    sizes = [len(schema.categories[j] or ()) + 1 for j in feature]
    start, words = pack(sizes, left_sets or {})
    arrays: dict[str, Any] = {
        "root": np.zeros(1, dtype=np.int32),
        "feature": np.array(feature, dtype=np.int32),
        "threshold": np.where(np.array(start) < 0, threshold, 0.0),
        "left": np.array(left, dtype=np.int32),
        "right": np.array(right, dtype=np.int32),
        "value": np.array(value, dtype=np.float64),
        "cover": np.ones(n_nodes),
        "missing_left": np.zeros(n_nodes, dtype=bool),
        "category_start": np.array(start, dtype=np.int64),
        "category_words": np.array(words, dtype=np.uint64),
        "base_score": np.zeros(n_outputs),
        "link": "probability",
        "classes": np.arange(n_outputs),
        "schema": schema,
    }
    return TreeEnsemble(**(arrays | others))


def build(tree: Any, schema: Schema | None = None, n_classes: int = 2, **others: Any) -> TreeEnsemble:
    """Return a tree written as ``(feature, threshold or set of codes, left, right)``, a leaf as its class index."""
    nodes: list[tuple[int, float, int, int]] = []
    leaf_class: list[int] = []
    left_sets: dict[int, set[int]] = {}

    def plant(branch: Any) -> int:
        node = len(nodes)
        nodes.append((-1, 0.0, -1, -1))
        leaf_class.append(0 if isinstance(branch, tuple) else branch)
        if isinstance(branch, tuple):
            feature, test, left, right = branch
            if isinstance(test, set):
                left_sets[node] = test
            threshold = 0.0 if isinstance(test, set) else test
            nodes[node] = (feature, threshold, plant(left), plant(right))
        return node

    plant(tree)
    feature, threshold, left, right = zip(*nodes, strict=True)
    value = np.eye(n_classes)[leaf_class]
    return assemble(feature, threshold, left, right, value, schema=schema, left_sets=left_sets, **others)


def chain(depth: int) -> TreeEnsemble:
    """Return a tree on one feature that splits at 0, 1, 2, ..., always the right child; the classes alternate."""
    node = np.arange(2 * depth + 1)
    is_inner = (node % 2 == 0) & (node < 2 * depth)
    return assemble(
        feature=np.where(is_inner, 0, -1),
        threshold=np.where(is_inner, node // 2, 0.0),
        left=np.where(is_inner, node + 1, -1),
        right=np.where(is_inner, node + 2, -1),
        value=np.eye(2)[node // 2 % 2],
    )


def random_outputs(generator: np.random.Generator, n_nodes: int, n_classes: int, link: str) -> dict[str, Any]:
    """Return what the nodes are worth and how that becomes a class."""
    single = link in ("logistic", "value") or (link == "score" and n_classes == 2)
    n_outputs = 1 if single else n_classes
    return {
        # Few values, all exact in binary, so that classes tie.
        "value": generator.integers(-1, 3, (n_nodes, n_outputs)) / 4,
        "base_score": generator.choice([0.0, 0.25, -0.25, 0.1], n_outputs),
        "link": link,
        "classes": None if link == "value" else np.array(["a", "b", "c", "d"][:n_classes]),
        "precision": str(generator.choice(["float64", "float32"])),
        "divisor": float(generator.choice([1.0, 2.0, 3.0])),
        "cut": float(generator.choice([0.0, 0.25, 0.1])),
    }


def random_trees(
    generator: np.random.Generator,
    schema: Schema,
    n_trees: int = 1,
    max_depth: int = 4,
    n_classes: int = 2,
    link: str = "probability",
) -> TreeEnsemble:
    """Return trees with thresholds from a few numbers, so that ties abound and some splits contradict each other."""
    thresholds = [-1.5, -1.0, 0.0, 0.1, 0.30000000000000004, 1.0, 1e10]
    feature: list[int] = []
    children: list[list[int]] = []
    left_sets: dict[int, set[int]] = {}

    def plant(depth: int) -> int:
        node = len(feature)
        is_leaf = depth == max_depth or (depth > 0 and generator.random() < 0.2)
        feature.append(-1 if is_leaf else int(generator.integers(schema.n_features)))
        children.append([-1, -1])
        if not is_leaf:
            labels = schema.categories[feature[node]]
            if labels is not None:
                left_sets[node] = {k for k in range(len(labels) + 1) if generator.random() < 0.5}
            # The order in which children are numbered must not matter.
            for side in generator.permutation(2):
                children[node][side] = plant(depth + 1)
        return node

    root = [plant(0) for _ in range(n_trees)]
    left, right = zip(*children, strict=True)
    n_nodes = len(feature)
    return assemble(
        feature,
        generator.choice(thresholds, n_nodes),
        left,
        right,
        schema=schema,
        left_sets=left_sets,
        root=np.array(root, dtype=np.int32),
        cover=generator.integers(1, 9, n_nodes).astype(np.float64),
        missing_left=generator.random(n_nodes) < 0.5,
        **random_outputs(generator, n_nodes, n_classes, link),
    )


def random_rows(
    generator: np.random.Generator, trees: TreeEnsemble, n_rows: int, *, missing: bool = False
) -> np.ndarray:
    """Return encoded rows whose values are thresholds, the next floats beside them, or anything; any category code."""
    rows = generator.normal(size=(n_rows, trees.schema.n_features))
    for j, labels in enumerate(trees.schema.categories):
        if labels is not None:
            rows[:, j] = generator.integers(0, len(labels) + 1, n_rows)
            continue
        at = generator.choice(np.append(trees.threshold[trees.feature == j], 0.0), n_rows)
        above = np.nextafter(at, np.inf)
        near = [at, above, np.nextafter(at, -np.inf), at - 0.1, at + 0.1, above - 0.1, above - 1.5, rows[:, j]]
        rows[:, j] = np.choose(generator.integers(len(near), size=n_rows), near)
    if missing:
        rows[generator.random(rows.shape) < 0.2] = np.nan
    return rows


def random_threat(generator: np.random.Generator, schema: Schema) -> list[Any]:
    """Return one entry per feature, of every form there is."""
    entries: list[Any] = []
    forms: list[Any]
    for labels in schema.categories:
        if labels is None:
            forms = [None, 0.1, 0.2, 1.5, (0.1, 0.0), (0.0, 0.30000000000000004), (1.0, 2.5), "<", ">", "<>"]
        else:
            some = [labels[k] for k in generator.integers(len(labels), size=3)]
            forms = [None, "<>", {some[0]: some[1:], some[2]: some[0]}, {some[0]: list(labels)}]
        entries.append(forms[generator.integers(len(forms))])
    return entries
