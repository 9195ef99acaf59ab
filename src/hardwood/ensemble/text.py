"""A tree as text that a person can read."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from hardwood.ensemble.tree_ensemble import TreeEnsemble
from hardwood.quoting import quote

_INDENT = "    "
# The threshold of a split that only parts what is missing from what is not.
LARGEST = np.finfo(np.float64).max


def export_rules(model: Any, *, tree: int = 0, digits: int = 4, max_depth: int | None = None) -> str:
    """Write one tree as indented rules.

    Parameters
    ----------
    model : estimator or TreeEnsemble
        A `TreeEnsemble`, or a fitted estimator that has one in `ensemble_`.
    tree : int, default=0
        Which tree of the ensemble.
    digits : int, default=4
        Significant digits of thresholds, probabilities and predicted numbers. A feature whose thresholds would
        print alike gets as many more as tell them apart, and the part before the decimal point
        is never rounded.
    max_depth : int, optional
        Show this many levels of conditions and say what was left out. None shows the whole tree.

    Returns
    -------
    str
        One line per condition and per leaf. A leaf names the class it predicts, the probability
        of that class and its cover: the share of the training weight that reached it; a leaf of a
        regression, the number it predicts (of several trees, what it adds) and its cover. A category
        that was never seen in training counts as ``not in`` the listed ones. If values may be missing,
        conditions say where those go.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, export_rules
    >>> X = [[1.0], [2.0], [6.0], [7.0]]
    >>> model = RobustTreeClassifier(threat=1.0).fit(X, ["ham", "ham", "spam", "spam"])
    >>> print(export_rules(model))
    if feature 0 <= 4:
        predict ham (probability 1, cover 50%)
    if feature 0 > 4:
        predict spam (probability 1, cover 50%)
    """
    ensemble = _ensemble_of(model)
    if not 0 <= tree < ensemble.n_trees:
        raise ValueError(f"tree must be between 0 and {ensemble.n_trees - 1}, got {quote(tree)}")
    if digits < 1:
        raise ValueError(f"digits must be at least 1, got {quote(digits)}")
    if max_depth is not None and max_depth < 0:
        raise ValueError(f"max_depth must be None or at least 0, got {quote(max_depth)}")

    root = int(ensemble.root[tree])
    digits_of = _digits_per_feature(ensemble, root, digits)
    left_sets = ensemble.left_sets()
    lines: list[str] = []
    # A stack instead of recursion: a tree may be deeper than Python's own stack. It holds nodes
    # still to be written and condition lines that come after the subtree above them.
    stack: list[tuple[int, int | str]] = [(0, root)]
    while stack:
        depth, entry = stack.pop()
        if isinstance(entry, str):
            lines.append(_INDENT * depth + entry)
        elif ensemble.feature[entry] < 0:
            lines.append(_INDENT * depth + _leaf(ensemble, root, entry, digits))
        elif depth == max_depth:
            lines.append(_INDENT * depth + _left_out(ensemble, root, entry))
        else:
            when_left, when_right = _conditions(ensemble, entry, digits_of, left_sets)
            stack.append((depth + 1, int(ensemble.right[entry])))
            stack.append((depth, f"if {when_right}:"))
            stack.append((depth + 1, int(ensemble.left[entry])))
            stack.append((depth, f"if {when_left}:"))
    return "\n".join(lines)


def describe_conditions(ensemble: TreeEnsemble, path: list[int], digits: int = 4) -> list[str]:
    """Return what a row has to satisfy at each inner node of a path, in words."""
    digits_of, left_sets = _digits_per_feature(ensemble, path[0], digits), ensemble.left_sets()
    return [
        _conditions(ensemble, node, digits_of, left_sets)[int(after == ensemble.right[node])]
        for node, after in pairwise(path)
    ]


def describe_leaf(ensemble: TreeEnsemble, leaf: int, digits: int = 4) -> str:
    """Return what the leaf of a model of one tree predicts, in words."""
    return _leaf(ensemble, int(ensemble.root[0]), leaf, digits)


def _ensemble_of(model: Any) -> TreeEnsemble:
    ensemble = getattr(model, "ensemble_", model)
    if not isinstance(ensemble, TreeEnsemble):
        raise TypeError(f"model must be a TreeEnsemble or an estimator with one, fitted, got {quote(model)}")
    return ensemble


def _nodes_below(ensemble: TreeEnsemble, root: int) -> list[int]:
    """All nodes of the subtree at `root`, `root` first."""
    nodes = [root]
    for node in nodes:  # the list grows while it is walked
        if ensemble.feature[node] >= 0:
            nodes += [int(ensemble.left[node]), int(ensemble.right[node])]
    return nodes


def _digits_per_feature(ensemble: TreeEnsemble, root: int, digits: int) -> dict[int, int]:
    """Per feature, the fewest digits (at least `digits`) that keep its thresholds apart."""
    thresholds: dict[int, set[float]] = {}
    for node in _nodes_below(ensemble, root):
        if ensemble.feature[node] >= 0 and ensemble.category_start[node] < 0:
            thresholds.setdefault(int(ensemble.feature[node]), set()).add(float(ensemble.threshold[node]))
    enough = {}
    for feature, values in thresholds.items():
        enough[feature] = digits
        while len({_number(value, enough[feature]) for value in values}) < len(values):
            enough[feature] += 1
    return enough


def _number(value: float, digits: int) -> str:
    """`value` with `digits` significant digits, but at least one decimal if it has any."""
    if value == 0 or not math.isfinite(value):
        return f"{value + 0.0:g}"  # the sum turns -0 into 0
    magnitude = math.floor(math.log10(abs(value)))
    if not -5 <= magnitude < 15:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(1, digits - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".")


def _conditions(
    ensemble: TreeEnsemble,
    node: int,
    digits_of: dict[int, int],
    left_sets: dict[int, np.ndarray],
) -> tuple[str, str]:
    """What sends a row left at `node`, and what sends it right."""
    sides = _compare(ensemble, node, digits_of, left_sets)
    if not ensemble.schema.accepts_missing:
        return sides
    name, missing_left = ensemble.schema.name(int(ensemble.feature[node])), bool(ensemble.missing_left[node])
    if ensemble.category_start[node] < 0 and ensemble.threshold[node] == LARGEST:  # every number is on the left
        return f"{name} is there" + " or missing" * missing_left, f"{name} is missing"
    left, right = sides
    return (f"{left} or missing", right) if missing_left else (left, f"{right} or missing")


def _compare(
    ensemble: TreeEnsemble,
    node: int,
    digits_of: dict[int, int],
    left_sets: dict[int, np.ndarray],
) -> tuple[str, str]:
    """What sends a value that is there left at `node`, and what sends it right."""
    feature = int(ensemble.feature[node])
    name = ensemble.schema.name(feature)
    if ensemble.category_start[node] < 0:
        threshold = _number(float(ensemble.threshold[node]), digits_of[feature])
        return f"{name} <= {threshold}", f"{name} > {threshold}"

    labels = ensemble.schema.categories[feature] or ()
    *goes_left, unseen_goes_left = left_sets[node]
    # The side that does not take unseen categories is the one that can be listed in full.
    listed = ", ".join(_label(label) for label, left in zip(labels, goes_left, strict=True) if left != unseen_goes_left)
    within, outside = f"{name} in {{{listed}}}", f"{name} not in {{{listed}}}"
    return (outside, within) if unseen_goes_left else (within, outside)


def _label(category: Any) -> str:
    text = str(category)
    ambiguous = not text or text != text.strip() or any(mark in text for mark in ",{}")
    return f'"{text}"' if ambiguous else text


def _addition(ensemble: TreeEnsemble, node: int, digits: int) -> str:
    """Say what a leaf of a boosted model adds to which class."""
    what = "score" if ensemble.link == "score" else "log-odds"
    names = ensemble.labels[-1:] if ensemble.value.shape[1] == 1 else ensemble.labels
    parts = [
        f"{_number(float(value) / ensemble.divisor, digits)} to the {what} of {name}"
        for value, name in zip(ensemble.value[node], names, strict=True)
        if value != 0.0 or len(names) == 1
    ]
    return "add " + (", ".join(parts) or "nothing")


def _leaf(ensemble: TreeEnsemble, root: int, node: int, digits: int) -> str:
    if ensemble.classes is None:
        # What a tree says if it stands alone; of several trees, what it adds.
        value = ensemble.node_output[node, 0] if ensemble.n_trees == 1 else ensemble.value[node, 0] / ensemble.divisor
        return f"predict {_number(float(value), digits)} (cover {_cover(ensemble, root, node)})"
    if ensemble.link != "probability":
        return f"{_addition(ensemble, node, digits)} (cover {_cover(ensemble, root, node)})"
    output = ensemble.value[node] + ensemble.base_score
    winner = ensemble.node_class[node]
    # A tree of a forest holds its share of the average: normalised, it is that tree's own vote.
    probability = _number(float(output[winner] / output.sum()), digits)
    cover = _cover(ensemble, root, node)
    return f"predict {ensemble.labels[winner]} (probability {probability}, cover {cover})"


def _left_out(ensemble: TreeEnsemble, root: int, node: int) -> str:
    leaves = sum(int(ensemble.feature[below]) < 0 for below in _nodes_below(ensemble, node))
    return f"... {leaves} leaves below (cover {_cover(ensemble, root, node)})"


def _cover(ensemble: TreeEnsemble, root: int, node: int) -> str:
    share = 100 * float(ensemble.cover[node] / ensemble.cover[root])
    return "<0.1%" if 0 < share < 0.05 else f"{share:.1f}".removesuffix(".0") + "%"
