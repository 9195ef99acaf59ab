"""Models as JSON: the round trip is exact, and a damaged file is refused in one sentence."""

from __future__ import annotations

import contextlib
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import RobustTreeClassifier, TreeEnsemble
from hardwood.table import Schema
from reference import attacking as reference

SEEDS = st.integers(0, 2**32 - 1)
INT64_MIN = -(2**63)

# One numerical and one categorical split:  0 (number) -> 1 (category) -> 2, 3;  4
SCHEMA = Schema(2, ("size", "color"), (None, ("blue", "green", "red")))
SMALL = reference.build((0, 1.5, (1, {0, 2}, 0, 1), 1), SCHEMA)


def damaged(*changes: tuple[str, Any]) -> str:
    """Return the text of SMALL with other values at some paths, such as ``nodes.left.0``."""
    document = json.loads(SMALL.to_json())
    for path, value in changes:
        *steps, last = path.split(".")
        place = document
        for step in steps:
            place = place[int(step) if isinstance(place, list) else step]
        place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(document)


class TestRoundTrip:
    @given(SEEDS)
    def test_predictions_and_text_survive(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        schema = reference.random_schema(generator)
        link = str(generator.choice(["probability", "logistic", "softmax", "score", "value"]))
        n_trees = int(generator.integers(1, 4))
        trees = reference.random_trees(generator, schema, n_trees, link=link)
        rows = reference.random_rows(generator, trees, 50, missing=True)
        text = trees.to_json()
        again = TreeEnsemble.parse_json(text)
        assert again.to_json() == text
        assert np.array_equal(again.leaves(rows), trees.leaves(rows))
        assert np.array_equal(again.output(rows), trees.output(rows))
        assert again.schema == trees.schema

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_every_finite_threshold_is_kept_to_the_last_bit(self, threshold: float) -> None:
        stump = reference.build((0, threshold, 0, 1))
        again = TreeEnsemble.parse_json(stump.to_json())
        assert again.threshold.tobytes() == stump.threshold.tobytes()

    @pytest.mark.parametrize(
        "classes",
        [
            np.array([0, 1], dtype=np.int8),
            np.array([3, 2**40]),
            np.array([1, 2], dtype=np.uint16),
            np.array([False, True]),
            np.array([-1.0, 0.5]),
            np.array([0.0, 1.0], dtype=np.float32),
            np.array(["ham", "spam"]),
            np.array(["ja", "nein \u2713 \U0001f333"]),
            np.array(["no", "yes"], dtype=object),
            np.array([0, 1], dtype=object),
        ],
        ids=lambda classes: f"{classes.dtype}",
    )
    def test_class_labels_of_every_kind(self, classes: np.ndarray) -> None:
        stump = reference.build((0, 0.5, 0, 1), classes=classes)
        again = TreeEnsemble.parse_json(stump.to_json())
        predicted = again.predict([[0.0], [1.0]])
        assert predicted.tolist() == classes.tolist()
        kind = {"u": "i", "O": "iU"}.get(classes.dtype.kind, classes.dtype.kind)
        assert predicted.dtype.kind in kind

    def test_a_fitted_model_through_a_file(
        self, mixed: RobustTreeClassifier, frame: tuple[pd.DataFrame, pd.Series], tmp_path: Path
    ) -> None:
        X, _ = frame
        path = tmp_path / "model.json"
        text = mixed.ensemble_.to_json(path)
        assert path.read_text(encoding="utf-8") == text
        assert (mixed.ensemble_.category_start >= 0).any()
        for where in (path, str(path)):
            again = TreeEnsemble.from_json(where)
            assert np.array_equal(again.predict(X), mixed.predict(X))
            assert np.array_equal(again.predict_proba(X), mixed.predict_proba(X))
        # A category that training never saw goes the same way too.
        unseen = X.assign(town=pd.Categorical(["nowhere"] * len(X)))
        assert np.array_equal(again.apply(unseen)[:, 0], mixed.apply(unseen))

    def test_what_the_first_version_wrote(self) -> None:
        """It said nothing about missing values: its models take none."""
        document = json.loads(SMALL.to_json())
        assert document["version"] == 2
        document["version"] = 1
        del document["schema"]["accepts_missing"]
        again = TreeEnsemble.parse_json(json.dumps(document))
        assert again.schema == SMALL.schema
        assert again.to_json() == SMALL.to_json()

    def test_whether_values_may_be_missing(self) -> None:
        accepting = replace(SMALL, schema=replace(SCHEMA, accepts_missing=True))
        again = TreeEnsemble.parse_json(accepting.to_json())
        assert again.schema.accepts_missing
        assert again.predict([[np.nan, "red"]]).tolist() == accepting.predict([[np.nan, "red"]]).tolist()

    def test_a_single_leaf(self) -> None:
        leaf = reference.build(1)
        again = TreeEnsemble.parse_json(leaf.to_json())
        assert again.predict([[0.0]]).tolist() == [1]
        assert again.max_depth == 0

    def test_a_deep_tree(self) -> None:
        deep = reference.chain(5_000)
        assert TreeEnsemble.parse_json(deep.to_json()).max_depth == 5_000


MANY = 10**30
DAMAGE = [
    # (what is changed, words that the message must hold)
    ([("format", "something else")], "format"),
    ([("format", None)], "format"),
    ([("version", 3)], "version is 3; this hardwood reads versions up to 2"),
    ([("version", 0)], "version"),
    ([("version", True)], "version"),
    ([("schema.accepts_missing", 1)], "accepts_missing"),
    ([("schema.accepts_missing", None)], "accepts_missing"),
    ([("schema.missing", True)], "schema: expected an object with the keys"),
    ([("version", "1")], "version"),
    ([("version", None)], "version"),
    ([("link", "logit")], "link"),
    ([("link", "logistic")], "base_score|output"),
    ([("link", "value")], "classes"),
    ([("link", None)], "link"),
    ([("precision", "float16")], "precision"),
    ([("precision", None)], "precision"),
    ([("precision", ["float64"])], "precision"),
    ([("divisor", 0)], "divisor"),
    ([("divisor", -1.0)], "divisor"),
    ([("divisor", "1")], "divisor"),
    ([("divisor", True)], "divisor"),
    ([("divisor", float("inf"))], "divisor"),
    ([("divisor", MANY**20)], "divisor|large"),
    ([("cut", float("nan"))], "cut"),
    ([("cut", None)], "cut"),
    ([("cut", [0.0])], "cut"),
    ([("link", ["probability"])], "link"),
    ([("classes", [])], "classes"),
    ([("classes", [0])], "classes"),
    ([("classes", [0, 0])], "classes"),
    ([("classes", [0, 1, 2])], "classes|value"),
    ([("classes", [[0, 1]])], "classes"),
    ([("classes", [[0, 1], [2, 3]])], "classes"),
    ([("classes", "ab")], "classes"),
    ([("classes", None)], "classes"),
    ([("classes", 7)], "classes"),
    ([("classes", {"0": 0, "1": 1})], "classes"),
    ([("classes", [None, 1])], "classes"),
    ([("classes", [0, "a"])], "classes"),
    ([("classes", [float("nan"), 1.0])], "classes"),
    ([("classes", [0.0, float("inf")])], "classes"),
    ([("classes", [{}, {}])], "classes"),
    ([("classes", [0, [1]])], "classes|sequence"),
    ([("base_score", [0.0])], "base_score"),
    ([("base_score", [0.0, float("nan")])], "base_score"),
    ([("base_score", [[0.0, 0.0]])], "base_score"),
    ([("base_score", ["0", "0"])], "base_score"),
    ([("base_score", None)], "base_score"),
    ([("base_score", 0.0)], "base_score"),
    ([("schema", [])], "schema"),
    ([("schema", None)], "schema"),
    ([("schema.n_features", 3)], "feature_names|categories"),
    ([("schema.n_features", -1)], "n_features"),
    ([("schema.n_features", MANY)], "feature_names|n_features"),
    ([("schema.n_features", 2.0)], "n_features"),
    ([("schema.n_features", True)], "n_features"),
    ([("schema.feature_names", ["size", "size"])], "feature_names"),
    ([("schema.feature_names", [1, 2])], "feature_names"),
    ([("schema.feature_names", [["size"], ["color"]])], "feature_names"),
    ([("schema.feature_names", "ab")], "feature_names"),
    ([("schema.categories", [None])], "categories"),
    ([("schema.categories", [None, ["red", "red"]])], "categories"),
    ([("schema.categories", [None, [["red"]]])], "categories"),
    ([("schema.categories", [None, [float("nan")]])], "categories"),
    ([("schema.categories", [None, {}])], "categories"),
    ([("schema.categories", [None, None])], "left_categories"),
    ([("schema.categories", [["small"], ["red", "green", "blue"]])], "left_categories"),
    ([("schema.extra", 1)], "schema"),
    ([("root", [])], "root"),
    ([("root", [5])], "root"),
    ([("root", [-1])], "root"),
    ([("root", [INT64_MIN])], "root"),
    ([("root", [2**32])], "root"),
    ([("root", [MANY])], "root"),
    ([("root", [0.0])], "root"),
    ([("root", [True])], "root"),
    ([("root", ["0"])], "root"),
    ([("root", [None])], "root"),
    ([("root", 0)], "root"),
    ([("root", None)], "root"),
    ([("root", {})], "root"),
    ([("root", [[0]])], "root"),
    ([("root", [0, 0])], "parent"),
    ([("root", [1])], "parent|cycle"),
    ([("nodes", [])], "nodes"),
    ([("nodes", None)], "nodes"),
    ([("nodes", "feature")], "nodes"),
    ([("nodes.feature.0", 2)], "feature"),
    ([("nodes.feature.0", -2)], "feature"),
    ([("nodes.feature.0", -1)], "leaf"),
    ([("nodes.feature.0", INT64_MIN)], "feature"),
    ([("nodes.feature.0", 0.0)], "feature"),
    ([("nodes.feature.0", None)], "feature"),
    ([("nodes.feature.0", [0])], "feature|sequence"),
    ([("nodes.feature.4", 0)], "child"),
    ([("nodes.feature.1", 0)], "left_categories"),
    ([("nodes.feature", [])], "feature"),
    ([("nodes.feature", 0)], "feature|length"),
    ([("nodes.feature", [[0], [1], [-1], [-1], [-1]])], "feature|length|shape"),
    ([("nodes.feature", [0, 1, -1, -1])], "length|shape"),
    ([("nodes.left.0", 0)], "parent|cycle"),
    ([("nodes.left.1", 0)], "parent|cycle"),
    ([("nodes.left.0", 4)], "parent"),
    ([("nodes.left.1", 4)], "parent"),
    ([("nodes.left.0", -1)], "child"),
    ([("nodes.left.0", 5)], "child"),
    ([("nodes.left.0", 2**31)], "left"),
    ([("nodes.left.0", 2**63)], "left"),
    ([("nodes.left.0", INT64_MIN)], "left"),
    ([("nodes.left.0", MANY)], "left"),
    ([("nodes.left.0", 1.5)], "left"),
    ([("nodes.left.2", 3)], "leaf"),
    ([("nodes.right.2", 0)], "leaf"),
    # Node 1 is its own child, out of reach of the root.
    ([("nodes.left.0", 2), ("nodes.left.1", 1)], "cycle"),
    ([("nodes.threshold.0", float("nan"))], "threshold"),
    ([("nodes.threshold.0", float("-inf"))], "threshold"),
    ([("nodes.threshold.0", "1.5")], "threshold"),
    ([("nodes.threshold.0", None)], "threshold"),
    ([("nodes.threshold.0", MANY)], "threshold"),
    ([("nodes.threshold.0", [1.5])], "threshold|sequence"),
    ([("nodes.threshold", 1.5)], "threshold"),
    ([("nodes.value", [0.5] * 10)], "value"),
    ([("nodes.value", [[0.5]] * 5)], "value"),
    ([("nodes.value", [[[0.5, 0.5]]] * 5)], "value"),
    ([("nodes.value.2", [1.0])], "value|shape|sequence"),
    ([("nodes.value.2.0", float("inf"))], "value"),
    ([("nodes.cover.0", float("nan"))], "cover"),
    ([("nodes.cover", {"0": 1.0})], "cover"),
    ([("nodes.missing_left.0", 1)], "missing_left"),
    ([("nodes.missing_left.0", "true")], "missing_left"),
    ([("nodes.missing_left", True)], "missing_left"),
    ([("left_categories", {})], "left_categories"),
    ([("left_categories", [])], "left_categories"),
    ([("left_categories", None)], "left_categories"),
    ([("left_categories", "01")], "left_categories"),
    ([("left_categories.0", [0])], "left_categories"),
    ([("left_categories.2", [0])], "left_categories"),
    ([("left_categories.5", [0])], "left_categories"),
    ([("left_categories.-1", [0])], "left_categories"),
    ([("left_categories.one", [0])], "left_categories|one"),
    ([(f"left_categories.{'9' * 30}", [0])], "left_categories"),
    ([(f"left_categories.{'9' * 5000}", [0])], ""),
    ([("left_categories.1", [-1])], "node 1"),
    ([("left_categories.1", [4])], "node 1"),
    ([("left_categories.1", [MANY])], "node 1"),
    ([("left_categories.1", [0.0])], "node 1"),
    ([("left_categories.1", ["red"])], "node 1"),
    ([("left_categories.1", [None])], "node 1"),
    ([("left_categories.1", [True])], "node 1"),
    ([("left_categories.1", [True, False, True, False])], "node 1"),
    ([("left_categories.1", [[0]])], "node 1"),
    ([("left_categories.1", 0)], "node 1|left_categories"),
    ([("left_categories.1", None)], "node 1|left_categories"),
    ([("left_categories.1", {})], "node 1|left_categories"),
    ([("left_categories.1", "")], "node 1|left_categories"),
]


def name(changes: Any) -> str:
    shown = ", ".join(f"{path}={value!r}" for path, value in changes)
    return shown if len(shown) < 60 else shown[:57] + "..."


def check_refused_or_usable(text: str | bytes) -> None:
    """Nothing but ValueError may come of it, and what is read must predict and be written as any model."""
    refusal = None
    try:
        trees = TreeEnsemble.parse_json(text)
    except ValueError as error:
        refusal = str(error)
    if refusal is not None:
        assert refusal.startswith("the text is not a ")
        return
    rows = reference.random_rows(np.random.default_rng(0), trees, 20)
    expected = [[reference.walk(trees, root, row)[-1] for root in trees.root] for row in rows]
    assert trees.leaves(rows).tolist() == expected
    assert TreeEnsemble.parse_json(trees.to_json()).to_json() == trees.to_json()


class TestDamage:
    def test_the_undamaged_text_is_read(self) -> None:
        assert TreeEnsemble.parse_json(damaged()).n_leaves == 3

    @pytest.mark.parametrize(("changes", "words"), [pytest.param(c, w, id=name(c)) for c, w in DAMAGE])
    def test_a_wrong_field_is_named(self, changes: list[tuple[str, Any]], words: str) -> None:
        with pytest.raises(ValueError, match=f"(?s)^model.json .*({words})"):
            TreeEnsemble.parse_json(damaged(*changes), source="model.json")

    @pytest.mark.parametrize(
        "path",
        [
            *("format", "version", "link", "classes", "base_score", "schema", "root", "nodes"),
            *(
                "precision",
                "divisor",
                "cut",
                "left_categories",
                "schema.n_features",
                "schema.feature_names",
                "schema.categories",
            ),
            *(f"nodes.{key}" for key in ("feature", "threshold", "left", "right", "value")),
            *("nodes.cover", "nodes.missing_left"),
        ],
    )
    def test_a_missing_key_is_named(self, path: str) -> None:
        document = json.loads(SMALL.to_json())
        *steps, last = path.split(".")
        del (document[steps[0]] if steps else document)[last]
        with pytest.raises(ValueError, match=last):
            TreeEnsemble.parse_json(json.dumps(document))

    def test_a_node_nobody_leads_to(self) -> None:
        document = json.loads(SMALL.to_json())
        for items in document["nodes"].values():
            items.append(items[-1])
        with pytest.raises(ValueError, match="parent"):
            TreeEnsemble.parse_json(json.dumps(document))

    def test_truncated_anywhere(self, mixed: RobustTreeClassifier) -> None:
        text = mixed.ensemble_.to_json()
        for length in range(0, len(text), 5):
            with pytest.raises(ValueError, match="is not a JSON file"):
                TreeEnsemble.parse_json(text[:length])

    @pytest.mark.parametrize(
        "text",
        [
            *("", " ", "null", "[]", "{}", "1", '"model"', "NaN", "[" * 100_000, '{"a":' * 100_000),
            *("[" * 500 + "]" * 500, "[" * 990 + "]" * 990, b"\xff\xfe\x00", b"\x80\x04\x95"),
            "1" * 10_000,
        ],
        ids=lambda text: repr(text[:12]),
    )
    def test_something_else_entirely(self, text: str | bytes) -> None:
        with pytest.raises(ValueError, match=r"^the text is not a "):
            TreeEnsemble.parse_json(text)

    @pytest.mark.parametrize("depth", [50, 70, 500, 900])
    @pytest.mark.parametrize(
        "path", ["version", "classes", "root", "nodes", "nodes.value", "left_categories.1", "schema"]
    )
    def test_nesting_in_a_field(self, path: str, depth: int) -> None:
        nest: list[Any] = []
        for _ in range(depth):
            nest = [nest]
        with pytest.raises(ValueError, match=r"^the text is not a "):
            TreeEnsemble.parse_json(damaged((path, nest)))

    @given(st.data())
    def test_any_field_replaced_by_anything(self, data: st.DataObject) -> None:
        """Either the text is refused with ValueError, or it is a model like any other."""
        document = json.loads(SMALL.to_json())
        paths = list(_paths(document))
        for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=2)):
            # An earlier change may have taken the place away.
            with contextlib.suppress(LookupError, TypeError):
                _put(document, path, data.draw(st.sampled_from(ANYTHING)))
        check_refused_or_usable(json.dumps(document))

    @given(st.data())
    def test_any_byte_replaced_by_any_other(self, data: st.DataObject) -> None:
        text = bytearray(SMALL.to_json().encode())
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(text) - 1))
            text[at] = data.draw(st.sampled_from(b'0123456789-.eE[]{},:"ntfNI \xc3\x00'))
        check_refused_or_usable(bytes(text))

    def test_files(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="nowhere"):
            TreeEnsemble.from_json(tmp_path / "nowhere.json")
        for content in (b"", b"\x93NUMPY\x01\x00", b'{"format": "onnx"}'):
            (tmp_path / "model.json").write_bytes(content)
            with pytest.raises(ValueError, match=r"model\.json is not a "):
                TreeEnsemble.from_json(tmp_path / "model.json")

    def test_a_failed_write_leaves_the_old_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "model.json"
        text = SMALL.to_json(path)

        def fail_halfway(self: Path, content: str, encoding: str) -> None:
            self.write_bytes(content.encode(encoding)[:100])
            raise OSError("the disk is full")

        monkeypatch.setattr(Path, "write_text", fail_halfway)
        with pytest.raises(OSError, match="disk is full"):
            reference.chain(3).to_json(path)
        assert path.read_bytes() == text.encode()
        assert list(tmp_path.iterdir()) == [path]


ANYTHING: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, -2, 7, 2**31, 2**63, INT64_MIN, MANY, 0.0, 0.5, 1e300),
    *(float("nan"), float("inf"), "", "0", "a", [], {}, [0], [1], [0, 1], ["a", "b"], [True, False]),
    *([[]], [[0.5, 0.5]] * 5, [0] * 5, [-1] * 5, [0.0] * 5, {"0": [0]}, {"1": []}, [None, ["a"]]),
]


def _paths(node: Any, path: tuple[Any, ...] = ()) -> Any:
    """Return every place in a document."""
    if path:
        yield path
    items = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
    for key, child in items:
        yield from _paths(child, (*path, key))


def _put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = copy.deepcopy(value)
