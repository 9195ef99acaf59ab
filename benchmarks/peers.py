"""How to call the published implementation, groot-trees, under NumPy 2."""

import importlib
import sys
import types
from typing import Any

import numpy as np


def groot_tree(epsilon: float, max_depth: int, features: int) -> Any:
    """Make an unfitted tree of groot-trees; both classes move by ``epsilon`` in every feature.

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
        random_state=0,
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


def _stand_in_for_function_base() -> None:
    """Let groot-trees 0.0.17 import ``iterable`` from a module that NumPy 2 has removed.

    The function itself lives on as ``numpy.iterable``; nothing else of that module is used.
    """
    name = "numpy.lib.function_base"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.iterable = np.iterable  # type: ignore[attr-defined]
        sys.modules[name] = module
