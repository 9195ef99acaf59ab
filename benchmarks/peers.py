"""How to call the published implementation, groot-trees, under NumPy 2."""

import contextlib
import importlib
import os
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood import TreeEnsemble
from hardwood.table import Schema


def groot_tree(
    epsilon: float, max_depth: int, features: int, *, chen_heuristic: bool = False, random_state: int = 0
) -> Any:
    """Make an unfitted tree of groot-trees; both classes move by ``epsilon`` in every feature.

    With ``chen_heuristic`` its splits are scored by the four cases of Chen et al.

    Raises
    ------
    ImportError
        If groot-trees is not installed.
    """
    _stand_in_for_function_base()
    model = importlib.import_module("groot.model")
    return model.GrootTreeClassifier(
        max_depth=max_depth,
        attack_model=[epsilon] * features,
        one_adversarial_class=False,
        chen_heuristic=chen_heuristic,
        random_state=random_state,
    )


def groot_forest(epsilon: float, features: int, *, n_estimators: int = 50, max_depth: int = 4) -> Any:
    """Make an unfitted forest of groot-trees; both classes move by ``epsilon`` in every feature."""
    _stand_in_for_function_base()
    model = importlib.import_module("groot.model")
    return model.GrootRandomForestClassifier(
        n_estimators=n_estimators,
        max_depth=max_depth,
        attack_model=[epsilon] * features,
        one_adversarial_class=False,
        random_state=0,
    )


def fit_provably_robust_boosting(X: np.ndarray, y: np.ndarray, epsilon: float, n_trees: int, max_depth: int) -> Any:
    """Fit the provably robust boosting inside groot-trees, as its authors set it but for the number of trees."""
    _stand_in_for_function_base()
    wrapper = importlib.import_module("groot.provably_robust_boosting.wrapper")
    _stand_in_for_comparison(wrapper.TreeEnsemble)
    return wrapper.fit_provably_robust_boosting(X, y, n_trees=n_trees, epsilon=epsilon, max_depth=max_depth)


def count_nodes(root: Any) -> int:
    """Count the nodes of a tree of groot-trees, which keeps them as linked objects."""
    pending, count = [root], 0
    while pending:
        node = pending.pop()
        count += 1
        if not node.is_leaf():
            pending += [node.left_child, node.right_child]
    return count


def treant_tree(epsilon: float, max_depth: int, features: int) -> Any:
    """Make an unfitted TREANT of groot-trees, with the rules that the GROOT paper gave it.

    Every feature can be moved down or up by ``epsilon`` at cost 1, once, and the budget is the depth of the tree.

    Raises
    ------
    ImportError
        If groot-trees is not installed.
    """
    module = _import_treant()
    rules = [
        module.AttackerRule((feature, (-np.inf, np.inf)), (feature, step), cost=1, is_numerical=True)
        for feature in range(features)
        for step in (-epsilon, epsilon)
    ]
    return module.RobustDecisionTree(
        attacker=module.Attacker(rules, budget=max_depth),
        split_optimizer=module.SplitOptimizer(split_function_name="sse"),
        max_depth=max_depth,
        min_instances_per_node=2,
        affine=False,
    )


def read_treant(tree: Any, features: int, classes: Any) -> TreeEnsemble:
    """Turn a fitted TREANT of groot-trees into a TreeEnsemble."""
    nodes, left = _unlink(tree.root, lambda node: [node.left, node.right])
    score = np.array([node.prediction_score for node in nodes])
    splits = [None if n.is_leaf() else (n.best_split_feature_id, n.best_split_feature_value) for n in nodes]
    return _assemble(splits, left, np.column_stack([1.0 - score, score]), features, classes)


def read_groot(tree: Any, features: int, classes: Any) -> TreeEnsemble:
    """Turn a fitted tree of groot-trees into a TreeEnsemble."""
    nodes, left = _unlink(tree.root_, lambda node: [node.left_child, node.right_child])
    value = np.array([node.value if node.is_leaf() else (0.5, 0.5) for node in nodes])
    splits = [None if node.is_leaf() else (node.feature, node.threshold) for node in nodes]
    return _assemble(splits, left, value, features, classes)


def read_groot_forest(forest: Any, features: int, classes: Any) -> TreeEnsemble:
    """Turn a fitted forest of groot-trees into a TreeEnsemble: the mean of its trees' probabilities."""
    trees = [read_groot(tree, features, classes) for tree in forest.estimators_]
    return _join(trees, divisor=float(len(trees)))


def read_provably_robust_boosting(model: Any, features: int, classes: Any) -> TreeEnsemble:
    """Turn provably robust boosting into a TreeEnsemble; it sends ``x < b`` left."""
    trees = []
    for tree in model.trees:
        nodes: list[Any] = [tree]  # its nodes, and the values of its leaves
        left: list[int] = []
        for node in nodes:
            if isinstance(node, float):
                left.append(-1)
                continue
            left.append(len(nodes))
            nodes.append(float(node.w_l) if node.left is None else node.left)
            nodes.append(float(node.w_l + node.w_r) if node.right is None else node.right)
        splits = [
            None if isinstance(n, float) else (int(n.coord), float(np.nextafter(float(n.b), -np.inf))) for n in nodes
        ]
        value = np.array([[node if isinstance(node, float) else 0.0] for node in nodes])
        trees.append(_assemble(splits, np.array(left, dtype=np.int32), value, features, classes))
    return _join(trees)


def _join(trees: Sequence[TreeEnsemble], divisor: float = 1.0) -> TreeEnsemble:
    """Return the sum of trees, divided by a number."""
    first = np.cumsum([0, *(tree.n_nodes for tree in trees)])
    joined: dict[str, np.ndarray] = {
        name: np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("feature", "threshold", "value", "cover", "missing_left", "category_start")
    }
    for name in ("left", "right"):
        joined[name] = np.concatenate(
            [np.where(tree.left < 0, -1, getattr(tree, name) + n) for tree, n in zip(trees, first, strict=False)]
        ).astype(np.int32)
    return replace(trees[0], root=first[:-1].astype(np.int32), divisor=divisor, **joined)


def _unlink(root: Any, children_of: Callable[[Any], list[Any]]) -> tuple[list[Any], np.ndarray]:
    """Return linked nodes as a list, and the place of each left child; the right one follows it."""
    nodes, left, position = [root], [], 0
    while position < len(nodes):
        node = nodes[position]
        left.append(-1 if node.is_leaf() else len(nodes))
        if not node.is_leaf():
            nodes += children_of(node)
        position += 1
    return nodes, np.array(left, dtype=np.int32)


def _assemble(
    splits: Sequence[tuple[int, float] | None], left: np.ndarray, value: np.ndarray, features: int, classes: Any
) -> TreeEnsemble:
    return TreeEnsemble(
        root=np.zeros(1, dtype=np.int32),
        feature=np.array([-1 if split is None else split[0] for split in splits], dtype=np.int32),
        threshold=np.array([0.0 if split is None else split[1] for split in splits]),
        left=left,
        right=np.where(left < 0, -1, left + 1).astype(np.int32),
        value=value,
        cover=np.ones(len(splits)),
        missing_left=np.zeros(len(splits), dtype=bool),
        category_start=np.full(len(splits), -1),
        category_words=np.empty(0, dtype=np.uint64),
        base_score=np.zeros(value.shape[1]),
        link="probability" if value.shape[1] == 2 else "score",
        classes=np.asarray(classes),
        schema=Schema.numeric(features),
    )


def _import_treant() -> Any:
    """Import TREANT, which opens a log file in a folder ``out`` of the working directory when it is imported."""
    _stand_in_for_function_base()
    if "groot.treant" not in sys.modules:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            os.mkdir("out")
            return importlib.import_module("groot.treant")
    return sys.modules["groot.treant"]


def _stand_in_for_comparison(ensemble: Any) -> None:
    """Let provably robust boosting scale a tree, which compares an array with an empty list: NumPy 2 raises there."""
    scale = ensemble.add_weak_learner
    if scale.__name__ == "scale_tree":
        return

    def scale_tree(self: Any, tree: Any, apply_lr: bool = True) -> None:
        nodes = [] if tree is None else tree.node_list
        if len(nodes):
            tree.node_list = []  # as its authors leave the nodes below the root
        scale(self, tree, apply_lr)
        if len(nodes):
            nodes[:, 3:5] *= self.lr if apply_lr else 1.0  # what they do to both values of every node
            tree.node_list = nodes

    ensemble.add_weak_learner = scale_tree


def _stand_in_for_function_base() -> None:
    """Let groot-trees 0.0.17 import ``iterable`` from a module that NumPy 2 has removed.

    The function itself lives on as ``numpy.iterable``; nothing else of that module is used.
    """
    name = "numpy.lib.function_base"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.iterable = np.iterable  # type: ignore[attr-defined]
        sys.modules[name] = module
