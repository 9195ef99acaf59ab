"""How large the sums of an ensemble can become; models that floating point has no room for are refused at each door."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.tree import DecisionTreeRegressor

from hardwood import TreeEnsemble, as_ensemble, verify
from hardwood.ensemble.sums import HEADROOM, find_largest_sum, find_trees
from hardwood.table import Schema
from reference import attacking

X, Y = np.array([[0.0], [1.0], [2.0], [3.0]] * 5), np.array([0, 0, 1, 1] * 5)


def make_stumps(*leaves: tuple[list[float], list[float]], **others: Any) -> TreeEnsemble:
    """Return one stump per feature, at 0, with these leaves."""
    n = len(leaves)
    node = np.arange(3 * n)
    value = [row for left, right in leaves for row in ([0.0] * len(left), left, right)]
    return attacking.assemble(
        np.where(node % 3 == 0, node // 3, -1),
        np.zeros(3 * n),
        np.where(node % 3 == 0, node + 1, -1),
        np.where(node % 3 == 0, node + 2, -1),
        value,
        schema=Schema.numeric(n),
        root=np.arange(n, dtype=np.int32) * 3,
        **{"link": "score", "classes": np.arange(max(2, len(leaves[0][0])))} | others,
    )


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_the_largest_sum_is_that_of_the_largest_leaves(seed: int) -> None:
    generator = np.random.default_rng(seed)
    trees = attacking.random_trees(generator, attacking.random_schema(generator), 3, 3, 3, "softmax")
    leaves = [[node for node in attacking.regions(trees, root) if trees.feature[node] < 0] for root in trees.root]
    tree_of = find_trees(trees)
    for tree, own in enumerate(leaves):
        assert (tree_of[own] == tree).all()
    totals = [np.abs(trees.value[list(chosen)]).max(axis=1).sum() for chosen in product(*leaves)]
    assert find_largest_sum(trees) == pytest.approx(max(totals) + np.abs(trees.base_score).max())


# What has no room, and what is said of it. Each predicted one class and was certified another, or ended in a traceback.
TOO_LARGE: dict[str, tuple[Callable[[], TreeEnsemble], str]] = {
    "leaves in float64": (
        lambda: make_stumps(([1.7e308], [1.0]), ([1.7e308], [-1.0])),
        r"value: leaves and base_score may add up to inf; float64 has room for outputs of 2.25e\+307. Divide leaves",
    ),
    "leaves in float32": (
        lambda: make_stumps(*[([0.0, 1e38], [3e38, 3.1e38])] * 2, precision="float32"),
        r"value: leaves and base_score may add up to 6.2e\+38; float32 has room for outputs of 4.25e\+37. Divide",
    ),
    "a small divisor": (
        lambda: make_stumps(*[([0.0, 1e-3], [1.0, 2.0])] * 2, divisor=1e-308),
        "value: leaves and base_score may add up to 4, to be divided by 1e-308; float64 has room for outputs of",
    ),
    "a divisor beyond float32": (
        lambda: make_stumps(*[([0.0, 0.5], [0.0, 0.5e-20])] * 2, divisor=1e39, precision="float32"),
        "divisor: expected a positive number that float32 can hold; it is inf there",
    ),
    "a divisor below float32": (
        lambda: make_stumps(*[([0.0, 0.5], [0.0, 0.5e-20])] * 2, divisor=1e-46, precision="float32"),
        "divisor: expected a positive number that float32 can hold; it is 0.0 there",
    ),
    "a cut": (lambda: make_stumps(([1.0], [2.0]), cut=1e308), r"cut=1e\+308: expected at most 2.25e\+307 for outputs"),
    "a base score": (
        lambda: make_stumps(([0.0, 1.0], [1.0, 0.0]), base_score=np.array([0.0, 1e39]), precision="float32"),
        "value: leaves and base_score may add up to inf; float32 has room for outputs of",
    ),
    "numbers": (
        lambda: make_stumps(([1.7e308], [1.0]), link="value", classes=None),
        r"value: leaves and base_score may add up to 1.7e\+308; .* Scale the target that the model predicts",
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.filterwarnings("error")
def test_a_model_is_refused_when_it_is_made(name: str) -> None:
    """Outputs overflowed: `verify` proved a class that `predict` does not give, or raised OverflowError."""
    make, words = TOO_LARGE[name]
    with pytest.raises(ValueError, match=words):
        make()


def write(trees: TreeEnsemble, **changes: Any) -> str:
    """Return the JSON of a model with other numbers in it."""
    document = json.loads(trees.to_json())
    document["nodes"]["value"] = changes.pop("value", document["nodes"]["value"])
    return json.dumps(document | changes)


def test_a_file_is_refused_when_it_is_read(tmp_path: Path) -> None:
    trees = make_stumps(([0.0, 0.5], [1.0, 0.5]), ([0.0, 0.5], [1.0, 0.5]))
    larger = [[1.7e308 * number for number in row] for row in json.loads(trees.to_json())["nodes"]["value"]]
    for changes in ({"value": larger}, {"divisor": 1e-308}, {"precision": "float32", "divisor": 1e39}):
        (tmp_path / "model.json").write_text(write(trees, **changes))
        with pytest.raises(ValueError, match=r"model.json is not a valid hardwood model: (value|divisor): .*"):
            TreeEnsemble.from_json(tmp_path / "model.json")
    assert TreeEnsemble.parse_json(write(trees)).n_trees == 2


def test_a_pickle_is_refused_when_it_is_read() -> None:
    trees = make_stumps(([0.0, 0.5], [1.0, 0.5]))
    state = trees.__getstate__() | {"value": trees.value * 1.7e308}
    damaged = object.__new__(TreeEnsemble)
    with pytest.raises(ValueError, match="value: leaves and base_score may add up to"):
        damaged.__setstate__(state)
    assert pickle.loads(pickle.dumps(trees)).n_trees == 1


def scale_leaves(model: Any, factor: float) -> Any:
    for tree in [model] if hasattr(model, "tree_") else model.estimators_.ravel():
        tree.tree_.value[:] = factor * np.sign(tree.tree_.value)
    return model


def test_models_of_scikit_learn_are_refused() -> None:
    """A tree, and boosting for classes, whose leaves are as large as numbers get."""
    for model in (
        scale_leaves(DecisionTreeRegressor().fit(X, Y + 1.0), 1.7e308),
        scale_leaves(GradientBoostingClassifier(n_estimators=3).fit(X, Y), 1.6e308),
    ):
        with pytest.raises(ValueError, match=r"model: value: leaves and base_score may add up to .*e\+30[78]; "):
            as_ensemble(model)


@pytest.mark.parametrize("number", ["XGBRegressor", "XGBClassifier"])
def test_models_of_xgboost_are_refused(number: str, tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    path = tmp_path / "model.json"
    getattr(xgboost, number)(n_estimators=3, max_depth=2, n_jobs=1).fit(X, Y).save_model(path)
    document = json.loads(path.read_text())
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        pairs = zip(tree["split_conditions"], tree["left_children"], strict=True)
        tree["split_conditions"] = [3e38 if child == -1 else number for number, child in pairs]
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"model: value: leaves and base_score may add up to 9e\+38; float32 has room"):
        as_ensemble(path)


@pytest.mark.parametrize("number", ["LGBMRegressor", "LGBMClassifier"])
def test_models_of_lightgbm_are_refused(number: str, tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    path = tmp_path / "model.txt"
    model = getattr(lightgbm, number)(n_estimators=3, num_leaves=3, min_child_samples=2, verbose=-1, n_jobs=1)
    model.fit(X, Y).booster_.save_model(path)
    large = re.sub(r"(?<=leaf_value=)(.*)", lambda found: re.sub(r"\S+", "1.6e308", found[0]), path.read_text())
    path.write_text(large)
    with pytest.raises(ValueError, match="model: value: leaves and base_score may add up to inf; float64 has room"):
        as_ensemble(path)


def test_what_there_is_room_for() -> None:
    """An eighth of the largest number; whatever an inner node holds does not count."""
    most = float(np.finfo(np.float64).max) / HEADROOM
    trees = make_stumps(([0.5 * most, 0.0], [0.0, 0.5 * most]), ([0.0, 0.5 * most], [0.5 * most, 0.0]))
    assert verify(trees, [[-1.0, 1.0]], [0], "<>").status.tolist() == ["vulnerable"]
    value = trees.value.copy()
    value[trees.feature >= 0] = 1.7e308
    trees = TreeEnsemble(**trees.__getstate__() | {"value": value})
    assert verify(trees, [[-1.0, 1.0]], [0], "<>").status.tolist() == ["vulnerable"]
