"""A TreeEnsemble as a JSON document: a versioned schema, checked in full when it is read."""

import json
import sys
from typing import Any

import numpy as np

from hardwood.ensemble.bit_sets import pack_sets
from hardwood.quoting import quote, shorten
from hardwood.table import Schema
from hardwood.texts import parse_json

FORMAT = "hardwood.TreeEnsemble"
VERSION = 2
# Version 1 did not say whether a model accepts missing values: such a model is read as one that does not.
READABLE = (1, 2)
LINKS = ("probability", "logistic", "softmax", "score", "value")

_NODE_ARRAYS = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "cover": np.float64,
    "value": np.float64,
}


def write_document(ensemble: Any, left_sets: dict[int, np.ndarray], threat: str | None) -> str:
    """Return a TreeEnsemble as JSON text; `left_sets` are the categories that its categorical nodes send left.

    threat : what it was trained against, as text; the ensemble itself does not know.
    """
    document = {
        "format": FORMAT,
        "version": VERSION,
        "link": ensemble.link,
        "classes": None if ensemble.classes is None else ensemble.classes.tolist(),
        "precision": ensemble.precision,
        "divisor": ensemble.divisor,
        "cut": ensemble.cut,
        "base_score": ensemble.base_score.tolist(),
        "schema": ensemble.schema.to_dict(),
        "root": ensemble.root.tolist(),
        "nodes": {name: getattr(ensemble, name).tolist() for name in _NODE_ARRAYS},
        "left_categories": {str(node): np.flatnonzero(codes).tolist() for node, codes in left_sets.items()},
    }
    if threat is not None:
        document["threat"] = threat
    return json.dumps(document, allow_nan=False)


def read_document(text: str | bytes, source: str) -> dict[str, Any]:
    """Return the fields of the TreeEnsemble that JSON text describes; `source` names the text in errors.

    Raises
    ------
    ValueError
        If the text is not such a document, is damaged, or was written by a later version.
    """
    source = shorten(source)
    try:
        document = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{source} is not a JSON file: {error}") from None
    try:
        return _read(document)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        what = f"{shorten(error)} is missing" if isinstance(error, KeyError) else shorten(error, 1000)
        raise ValueError(f"{source} is not a valid hardwood model: {what}") from None


def _read(document: Any) -> dict[str, Any]:
    _require(isinstance(document, dict) and document.get("format") == FORMAT, f"its 'format' is not {FORMAT!r}")
    version = document["version"]
    _require(
        type(version) is int and version in READABLE,
        f"its version is {quote(version)}; this hardwood reads versions up to {VERSION}",
    )
    schema = Schema.from_dict(document["schema"])
    for key in ("nodes", "left_categories"):
        _require(isinstance(document[key], dict), f"{key} must be an object")
    nodes = {name: _read_array(document["nodes"][name], name, dtype) for name, dtype in _NODE_ARRAYS.items()}
    feature = nodes["feature"]
    root = _read_array(document["root"], "root", np.int32)
    _check_trees(feature, nodes["left"], nodes["right"], root, schema)
    left_sets = _read_left_sets(document["left_categories"], feature, schema)
    fields = {name: document[name] for name in ("link", "precision", "divisor", "cut")}
    classes = document["classes"]
    if classes is not None:
        one_kind = isinstance(classes, list) and len({type(label) for label in classes}) == 1
        _require(one_kind, "classes must be labels of one kind: strings, numbers or booleans")
    fields["classes"] = None if classes is None else _read_classes(classes)
    fields["base_score"] = _read_array(document["base_score"], "base_score", np.float64)
    _check_outputs(**fields)
    n_outputs = len(fields["base_score"])
    for name, array in nodes.items():
        shape = (len(feature), n_outputs) if name == "value" else (len(feature),)
        _require(array.shape == shape, f"{name} has shape {array.shape}, expected {shape}")
    start, words = pack_sets(len(feature), left_sets)
    return fields | nodes | {"root": root, "schema": schema, "category_start": start, "category_words": words}


def _read_classes(labels: list[Any]) -> np.ndarray:
    """Return the labels of classes, none of them changed."""
    is_huge = type(labels[0]) is int and max(labels) > np.iinfo(np.int64).max
    try:
        classes = np.array(labels, dtype=np.uint64 if is_huge else None)
    except (OverflowError, ValueError):
        classes = np.empty(0)
    _require(classes.tolist() == labels, "classes has a label with a zero character or too many digits")
    return classes


def _check_outputs(
    link: Any, precision: Any, divisor: Any, cut: Any, classes: np.ndarray | None, base_score: np.ndarray
) -> None:
    """Check what the outputs are and how they become classes."""
    _require(link in LINKS, f"unknown link {quote(link)}; known: {', '.join(LINKS)}")
    _require(precision in ("float32", "float64"), f"unknown precision {quote(precision)}; known: float32, float64")
    for name, number in (("divisor", divisor), ("cut", cut)):
        is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
        is_finite = is_number and abs(number) <= sys.float_info.max
        _require(is_finite, f"{name} must be a finite number, not {quote(number)}")
    _require(divisor > 0, f"divisor must be positive, not {quote(divisor)}")
    _require(base_score.ndim == 1, "base_score must be a list of numbers")
    if link == "value":
        _require(classes is None, "a regression has no classes")
        _require(len(base_score) == 1, "a regression has one base_score")
        return
    _require(classes is not None, "classes are missing")
    assert classes is not None
    fewest = 1 if link == "probability" else 2
    _require(classes.ndim == 1 and len(classes) >= fewest, f"classes must list at least {fewest} labels")
    _require(classes.dtype.kind in "biufU", "classes must be labels of one kind: strings, numbers or booleans")
    _require(classes.dtype.kind != "f" or bool(np.isfinite(classes).all()), "classes has a label that is not finite")
    _require(len(np.unique(classes)) == len(classes), "classes has a label twice")
    if link in ("probability", "softmax"):
        allowed = {len(classes)}
    elif link == "logistic" or len(classes) == 2:
        allowed = {1} if link == "logistic" else {1, 2}
        _require(len(classes) == 2, "a single output is for two classes")
    else:
        allowed = {len(classes)}
    _require(len(base_score) in allowed, f"base_score has {len(base_score)} entries for {len(classes)} classes")


def _check_trees(feature: np.ndarray, left: np.ndarray, right: np.ndarray, root: np.ndarray, schema: Schema) -> None:
    """Check that children and roots describe trees: no cycle, nothing shared, nothing lost."""
    _require(feature.ndim == 1 and left.shape == right.shape == feature.shape, "node arrays differ in length")
    _require(root.ndim == 1 and len(root) > 0, "root must list at least one tree")
    _require(bool((feature >= -1).all()), "feature has an entry below -1")
    in_range = bool((feature < schema.n_features).all())
    _require(in_range, f"feature has an entry out of range; the model has {schema.n_features} features")
    inner, leaf = np.flatnonzero(feature >= 0), np.flatnonzero(feature < 0)
    _require(bool((left[leaf] == -1).all() and (right[leaf] == -1).all()), "a leaf has children")
    children = np.concatenate([left[inner], right[inner], root])
    _require(bool(((children >= 0) & (children < len(feature))).all()), "a root or child is out of range")
    _require(bool((np.bincount(children, minlength=len(feature)) == 1).all()), "a node has no parent, or several")
    # Every node has one way in, so whatever cannot be reached from the roots is a cycle.
    n_reached, level = 0, root
    while len(level):
        n_reached += len(level)
        level = level[feature[level] >= 0]
        level = np.concatenate([left[level], right[level]])
    _require(n_reached == len(feature), "some nodes form a cycle")


def _read_left_sets(record: dict[str, Any], feature: np.ndarray, schema: Schema) -> dict[int, np.ndarray]:
    """Return the categories that categorical nodes send left, as bool arrays."""
    categorical = {node for node, j in enumerate(feature.tolist()) if j >= 0 and schema.categories[j] is not None}
    named = {int(key) for key in record}
    _require(named == categorical, "left_categories must name exactly the nodes that split on a categorical feature")
    left_sets = {}
    for key, codes in record.items():
        labels = schema.categories[feature[int(key)]]
        assert labels is not None
        members = np.zeros(len(labels) + 1, dtype=bool)
        integers = isinstance(codes, list) and all(type(code) is int for code in codes)
        in_range = integers and all(0 <= code < len(members) for code in codes)
        _require(in_range, f"left_categories of node {shorten(key)} must list codes from 0 to {len(labels)}")
        members[codes] = True
        left_sets[int(key)] = members
    return left_sets


def _read_array(items: Any, name: str, dtype: Any) -> np.ndarray:
    """Turn a JSON list into an array without letting anything be cast silently."""
    kinds = {np.int32: "i", np.bool_: "b"}.get(dtype, "if")
    try:
        array = np.asarray(items)
    except ValueError:  # lists of different lengths
        array = np.empty(0)
    _require(array.dtype.kind in kinds and array.size > 0, f"{name} must be a list of {np.dtype(dtype).name}")
    if dtype is np.int32:
        largest = np.iinfo(np.int32).max
        _require(bool(((-largest <= array) & (array <= largest)).all()), f"{name} has an entry out of range")
    else:
        _require(bool(np.isfinite(array).all()), f"{name} has an entry that is not finite")
    return array.astype(dtype)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
