"""Checking a text before LightGBM sees it: its own reader trusts what it reads, and may take the process along."""

import re
from typing import Any

import numpy as np

from hardwood.convert.tree_shapes import check_shape, require
from hardwood.quoting import quote

_MOST = 2**31 - 1
_HEADER = ("num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "feature_names", "feature_infos")
_PER_SPLIT = ("split_feature", "threshold", "decision_type", "left_child", "right_child", "internal_count")
_MAYBE_PER_SPLIT = ("split_gain", "internal_value", "internal_weight")
_MAYBE_PER_LEAF = ("leaf_weight", "leaf_count")
_INFO = re.compile(r"none|\[[^\s:\[\]]+:[^\s:\[\]]+\]|-?\d{1,10}(:-?\d{1,10})*")
_PARAMETER = re.compile(r"\[[A-Za-z_0-9]+: ?[^\]]*\]")


def check_text(text: str) -> str:
    """Return the text of a model as LightGBM can be given it, or raise ``ValueError``.

    All that a reader follows blindly has to be in place: lengths, indices, trees. The line that says at which byte a
    tree begins is left out: with it the trees are read by several threads, one of which ends the process if it
    stumbles.
    """
    require("\0" not in text, "it holds a zero byte")
    trees, end, rest = text.replace("\r\n", "\n").partition("\nend of trees")
    require(bool(end), "it ends before the end of its trees")
    head, *blocks = trees.split("\nTree=")
    header = _read_lines(head, plain=("tree", "average_output"))
    for field in _HEADER:
        require(field in header, f"{field} is missing")
    n_features = _number(header["max_feature_idx"], "max_feature_idx", 0, _MOST - 1) + 1
    n_outputs = _number(header["num_tree_per_iteration"], "num_tree_per_iteration", 1, _MOST)
    _check_header(header, n_features, n_outputs)
    require(len(blocks) % n_outputs == 0, f"it has {len(blocks)} trees for {n_outputs} outputs")
    for number, block in enumerate(blocks):
        name, _, lines = block.partition("\n")
        require(name == str(number), f"tree {number} is called {quote(name)}")
        try:
            _check_tree(_read_lines(lines), n_features)
        except ValueError as error:
            raise ValueError(f"tree {number}: {error}") from None
    _check_rest(rest)
    kept = "\n".join(line for line in head.split("\n") if not line.startswith("tree_sizes="))
    return "\nTree=".join([kept.rstrip("\n") + "\n", *blocks]) + end + rest


def _check_header(header: dict[str, str], n_features: int, n_outputs: int) -> None:
    for field in ("feature_names", "feature_infos"):
        n_words = len(header[field].split(" "))
        require(n_words == n_features, f"{field} has {n_words} entries for {n_features} features")
    for info in header["feature_infos"].split(" "):
        require(_INFO.fullmatch(info) is not None, f"feature_infos holds {quote(info)}")
    n_classes = _number(header["num_class"], "num_class", 1, _MOST)
    require(n_classes == n_outputs, f"it has {n_classes} classes and {n_outputs} trees per round")
    _number(header["label_index"], "label_index", 0, _MOST)
    words = header.get("objective", "").split(" ")
    pairs = [word.split(":") for word in words[1:] if ":" in word]
    require(all(len(pair) == 2 for pair in pairs), "its objective is not valid")
    facts = dict(pairs)
    own = facts.get("num_class", "1" if words[0] not in ("multiclass", "multiclassova") else "0")
    require(own == str(n_outputs) or "objective" not in header, f"its objective has {own} classes, not {n_outputs}")
    require(np.isfinite(float(facts.get("sigmoid", "1"))), "its sigmoid is not finite")


def _check_tree(tree: dict[str, str], n_features: int) -> None:
    for field in ("num_leaves", "num_cat", "leaf_value", "shrinkage"):
        require(field in tree, f"{field} is missing")
    n_leaves = _number(tree["num_leaves"], "num_leaves", 1, _MOST)
    n_splits = n_leaves - 1
    _numbers(tree["leaf_value"], "leaf_value", n_leaves)
    _numbers(tree["shrinkage"], "shrinkage", 1)
    require(tree.get("is_linear", "0") in ("0", "1"), "is_linear is neither 0 nor 1")
    for field in _MAYBE_PER_LEAF:
        if n_splits and field in tree:
            _numbers(tree[field], field, n_leaves)
    if n_splits == 0:
        return
    for field in (*_PER_SPLIT, *_MAYBE_PER_SPLIT):
        if field in _PER_SPLIT or field in tree:
            require(field in tree, f"{field} is missing")
            _numbers(tree[field], field, n_splits)
    feature = _integers(tree["split_feature"], "split_feature", n_splits)
    require(bool(((feature >= 0) & (feature < n_features)).all()), "a split is on a feature that does not exist")
    _check_children(tree, n_leaves)
    _check_sets(tree, n_splits)


def _check_children(tree: dict[str, str], n_leaves: int) -> None:
    """Check the shape; leaf k is written as -1 - k, and numbered after the splits here."""
    n_splits = n_leaves - 1
    children = []
    for field in ("left_child", "right_child"):
        child = _integers(tree[field], field, n_splits)
        require(bool(((child >= -n_leaves) & (child < n_splits)).all()), "a child is out of range")
        node = np.where(child < 0, n_splits - 1 - child, child)
        children.append(np.concatenate([node, np.full(n_leaves, -1)]))
    require(bool(check_shape(*children).all()), "a node has no parent")


def _check_sets(tree: dict[str, str], n_splits: int) -> None:
    decision = _integers(tree["decision_type"], "decision_type", n_splits)
    require(bool(((decision >= 0) & (decision < 12)).all()), "a split is of an unknown kind")
    n_sets = _number(tree["num_cat"], "num_cat", 0, n_splits)
    is_categorical = decision & 1 == 1
    require(is_categorical.sum() == n_sets, f"it has {n_sets} sets of categories for {is_categorical.sum()} splits")
    if n_sets == 0:
        return
    for field in ("cat_boundaries", "cat_threshold"):
        require(field in tree, f"{field} is missing")
    ends = _integers(tree["cat_boundaries"], "cat_boundaries", n_sets + 1)
    words = _integers(tree["cat_threshold"], "cat_threshold", None)
    ordered = ends[0] == 0 and ends[-1] == len(words) and bool((np.diff(ends) > 0).all())
    require(ordered, "cat_boundaries does not divide cat_threshold")
    require(bool(((words >= 0) & (words < 2**32)).all()), "cat_threshold is out of range")
    index = _numbers(tree["threshold"], "threshold", n_splits)[is_categorical]
    require(bool((np.isin(index, np.arange(n_sets))).all()), "a split names a set of categories that does not exist")


def _check_rest(rest: str) -> None:
    """Check what follows the trees: how the model was trained."""
    _, begin, parameters = rest.partition("\nparameters:\n")
    if not begin:
        return
    parameters, end, _ = parameters.partition("\nend of parameters")
    require(bool(end), "it ends before the end of its parameters")
    for line in parameters.split("\n"):
        require(not line or _PARAMETER.fullmatch(line) is not None, f"{quote(line)} is not a parameter")


def _read_lines(block: str, plain: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the fields of lines such as ``field=value``; `plain` lines stand for themselves."""
    fields: dict[str, str] = {}
    for line in block.split("\n"):
        if not line or line in plain:
            continue
        field, equals, value = line.partition("=")
        require(bool(equals), f"the line {quote(line[:40])} says nothing")
        require(field not in fields, f"{field} occurs twice")
        fields[field] = value
    return fields


def _number(word: str, field: str, least: int, most: int) -> int:
    number = int(word)
    require(least <= number <= most, f"{field} is {number}, expected {least} to {most}")
    return number


def _numbers(text: str, field: str, count: int) -> np.ndarray:
    words = text.split(" ")
    require(len(words) == count, f"{field} has {len(words)} entries, expected {count}")
    numbers = np.array([_real(word) for word in words])
    require(not np.isnan(numbers).any(), f"{field} holds something that is not a number")
    return numbers


def _real(word: str) -> float:
    if "_" in word:
        raise ValueError(f"{quote(word)} is not a number")
    return float(word)


def _integers(text: str, field: str, count: int | None) -> Any:
    words = text.split(" ")
    require(count is None or len(words) == count, f"{field} has {len(words)} entries, expected {count}")
    numbers = [int(word) for word in words]
    require(all(-(2**40) < number < 2**40 for number in numbers), f"{field} holds a number out of range")
    return np.array(numbers, dtype=np.int64)
