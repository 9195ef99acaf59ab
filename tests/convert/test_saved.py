"""Files are recognised by what is in them; what would run code is not opened."""

from __future__ import annotations

import gzip
import pickle
import zlib
from pathlib import Path

import pytest
from sklearn.tree import DecisionTreeClassifier

from hardwood import TreeEnsemble, as_ensemble


@pytest.fixture
def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])


def test_hardwoods_own_under_any_name(tree: DecisionTreeClassifier, tmp_path: Path) -> None:
    """Even with a feature of the name of a key in XGBoost's files."""
    ensemble = as_ensemble(tree)
    named = TreeEnsemble.parse_json(
        ensemble.to_json().replace('"feature_names": null', '"feature_names": ["gradient_booster"]')
    )
    path = tmp_path / "model"
    path.write_text(named.to_json())
    assert as_ensemble(path).schema.feature_names == ("gradient_booster",)


@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_are_not_loaded(tree: DecisionTreeClassifier, protocol: int, tmp_path: Path) -> None:
    raw = pickle.dumps(tree, protocol)
    files = {
        "model.pkl": b"{}",
        "model.joblib": raw,
        "model": raw,
        "m.gz": gzip.compress(raw),
        "m.z": zlib.compress(raw),
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=f"{name} looks like a pickle, and to load a pickle is to run the code in it"
        ):
            as_ensemble(path)


@pytest.mark.parametrize("content", [b"", b"x,y\n1,2\n", b"binf\x00\x00", b"\xff\xfe"], ids=repr)
def test_something_else(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.csv is not a JSON file of hardwood"):
        as_ensemble(path)


def test_json_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"a": 1}')
    with pytest.raises(ValueError, match="not a valid hardwood model"):
        as_ensemble(path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        as_ensemble(tmp_path / "model.txt")
