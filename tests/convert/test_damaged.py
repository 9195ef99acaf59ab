"""Damaged files of other libraries end in a sentence, not in the end of the process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import as_ensemble
from hardwood.convert.lightgbm_validation import check_text
from hardwood.convert.ubj import parse_ubj
from hardwood.convert.xgboost_validation import check_document

N_COPIES = 60


def make_table() -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"a": generator.normal(size=200), "b": generator.normal(size=200)})
    X["c"] = pd.Categorical(generator.choice(list("uvwxyz"), 200))
    return X, (X["a"] * X["b"] > 0).to_numpy().astype(int) ^ X["c"].isin(["u", "x"]).to_numpy()


def save_xgboost(path: Path, **parameters: Any) -> None:
    xgb = pytest.importorskip("xgboost")
    X, y = make_table()
    if parameters:
        X, y = X[["a", "b"]], y + (X["c"] == "v")
    model = xgb.XGBClassifier(
        n_estimators=3, max_depth=3, n_jobs=1, enable_categorical=True, max_cat_to_onehot=1, **parameters
    )
    model.fit(X, y).save_model(path)
    if path.stem == "indented":
        path.write_text(json.dumps(json.loads(path.read_bytes()), indent=1))


def save_lightgbm(path: Path, **parameters: Any) -> None:
    lgb = pytest.importorskip("lightgbm")
    X, y = make_table()
    eager = {"num_leaves": 5, "min_data_per_group": 2, "cat_smooth": 1.0, "cat_l2": 1.0}
    options = {"verbose": -1, "num_threads": 1, "objective": "binary", **eager, **parameters}
    booster = lgb.train(options, lgb.Dataset(X, y + (X["c"] == "v") * ("num_class" in parameters)), 3)
    booster.save_model(path)


FILES = {
    "binary.txt": lambda path: save_lightgbm(path),
    "several.txt": lambda path: save_lightgbm(path, objective="multiclass", num_class=3),
    "binary.ubj": lambda path: save_xgboost(path),
    "binary.json": lambda path: save_xgboost(path),
    "indented.json": lambda path: save_xgboost(path),
}


@pytest.mark.filterwarnings("ignore:the model does not hold the labels")  # of XGBoost before 3.1
@pytest.mark.parametrize("name", FILES)
def test_no_damage_ends_the_process(name: str, tmp_path: Path) -> None:
    """A line missing in LightGBM's text was a SIGABRT, a bit in XGBoost's UBJ a SIGSEGV, a wrong child a hang."""
    FILES[name](tmp_path / name)
    as_ensemble(tmp_path / name)
    program = Path(__file__).with_name("damage.py")
    run = subprocess.run(
        [sys.executable, program, tmp_path / name, str(N_COPIES)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert 0 < int(run.stdout.split()[-1]) <= N_COPIES


@pytest.mark.parametrize("opening", [b'{"a":', b"["], ids=["objects", "lists"])
def test_endless_nesting_of_json(opening: bytes, tmp_path: Path) -> None:
    """XGBoost's reader goes down 50,000 levels until the stack is gone: SIGSEGV."""
    pytest.importorskip("xgboost")
    path = tmp_path / "model.json"
    path.write_bytes(b'{"learner": {"gradient_booster": ' + opening * 50_000)
    with pytest.raises(ValueError, match=r"model\.json is not a valid XGBoost model"):
        as_ensemble(path)


@pytest.mark.parametrize("opening", [b"{i\x01a", b"["], ids=["objects", "lists"])
def test_endless_nesting_of_ubj(opening: bytes, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    path = tmp_path / "model.ubj"
    path.write_bytes(b"{i\x01a" + opening * 50_000)
    with pytest.raises(ValueError, match=r"model\.ubj is not a valid XGBoost model: it is nested more than 64 levels"):
        as_ensemble(path)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "model.txt"
    save_lightgbm(path)
    return path.read_text()


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "model.json"
    save_xgboost(path)
    return path.read_text()


class TestLightGBM:
    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("\nend of trees", "", "ends before the end of its trees"),
            ("\nTree=1", "\nTree=2", "tree 1 is called '2'"),
            ("\nmax_feature_idx=2", "", "max_feature_idx is missing"),
            ("\nmax_feature_idx=2", "\nmax_feature_idx=7", "feature_names has 3 entries for 8 features"),
            ("\nnum_class=1", "\nnum_class=2", "2 classes and 1 trees per round"),
            ("\nnum_leaves=5", "\nnum_leaves=6", "entries, expected"),
            ("\nleft_child=", "\nleft_child=0 ", "entries, expected 4"),
            ("\nleaf_value=", "\nleaf_values=", "leaf_value is missing"),
            ("\nshrinkage=1\n", "\nshrinkage=1\nshrinkage=1\n", "shrinkage occurs twice"),
            ("\nshrinkage=1\n", "\nshrinkage\n", "the line 'shrinkage' says nothing"),
            ("\nend of parameters", "", "before the end of its parameters"),
            ("\n[boosting: gbdt]", "\n[boosting", "is not a parameter"),
        ],
        ids=repr,
    )
    def test_what_is_wrong(self, text: str, old: str, new: str, message: str) -> None:
        check_text(text)
        assert old in text
        with pytest.raises(ValueError, match=message):
            check_text(text.replace(old, new, 1))

    def test_children_that_go_round_in_a_circle(self, text: str) -> None:
        """LightGBM would follow them for ever."""
        line = next(line for line in text.splitlines() if line.startswith("left_child="))
        with pytest.raises(ValueError, match="a node has two parents"):
            check_text(text.replace(line, "left_child=" + " ".join("0" for _ in line.split()), 1))


class TestXGBoost:
    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            ("left_children", -7, "tree 0: a child is out of range"),
            ("left_children", 0, "tree 0: a node has two parents"),
            ("left_children", 10**6, "tree 0: a child is out of range"),
            ("right_children", 1, "tree 0: a node has two parents"),
            ("split_indices", 3, "tree 0: a split is on a feature that does not exist"),
            ("split_type", 2, "tree 0: a split is of an unknown kind"),
            ("split_conditions", "x", "split_conditions holds something other than numbers"),
            ("loss_changes", float("inf"), "loss_changes holds a number out of range"),
            ("default_left", 0.5, "default_left holds something other than whole numbers"),
            ("parents", 10**6, "a parent is out of range"),
        ],
        ids=repr,
    )
    def test_nodes(self, document: str, field: str, value: Any, message: str) -> None:
        record = json.loads(document)
        check_document(record)
        record["learner"]["gradient_booster"]["model"]["trees"][0][field][0] = value
        with pytest.raises(ValueError, match=message):
            check_document(record)

    @pytest.mark.parametrize("field", ["left_children", "base_weights", "sum_hessian", "categories", "tree_param"])
    def test_what_is_missing(self, document: str, field: str) -> None:
        record = json.loads(document)
        del record["learner"]["gradient_booster"]["model"]["trees"][1][field]
        with pytest.raises(ValueError, match=f"tree 1: {field} is missing"):
            check_document(record)

    @given(st.binary(max_size=60))
    def test_any_bytes(self, raw: bytes) -> None:
        """What is not UBJ is refused, and nothing else happens."""
        with contextlib.suppress(ValueError):
            assert isinstance(parse_ubj(b"{" + raw), dict)
