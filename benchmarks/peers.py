"""How to call the published implementation, groot-trees, under NumPy 2."""

import contextlib
import importlib
import os
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
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
        base_score=np.zeros(2),
        link="probability",
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


def _stand_in_for_function_base() -> None:
    """Let groot-trees 0.0.17 import ``iterable`` from a module that NumPy 2 has removed.

    The function itself lives on as ``numpy.iterable``; nothing else of that module is used.
    """
    name = "numpy.lib.function_base"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.iterable = np.iterable  # type: ignore[attr-defined]
        sys.modules[name] = module
