"""Files that begin with a byte-order mark, as editors and spreadsheets write them: every reader of texts takes them."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hardwood import RobustTreeClassifier, ThreatModel, TreeEnsemble, as_ensemble

X = pd.DataFrame({"age": np.arange(24.0), "income": np.arange(24.0) * 7 % 5})
Y = np.arange(24) // 5 % 2
OWN = RobustTreeClassifier(1.0, max_depth=2).fit(X, Y).ensemble_

MARKS: dict[str, Callable[[str], bytes]] = {
    "UTF-8": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-16, little-endian": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "UTF-16, big-endian": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "UTF-32": lambda text: codecs.BOM_UTF32_LE + text.encode("utf-32-le"),
}
each_mark = pytest.mark.parametrize("mark", MARKS)


def predict_alike(path: Path, own: TreeEnsemble) -> bool:
    return np.array_equal(as_ensemble(path).predict(X.to_numpy()), own.predict(X.to_numpy()))


class TestMarks:
    """A threat file or model that began with a mark was refused: "Invalid statement (at line 1, column 1)"."""

    @each_mark
    def test_of_a_threat_file(self, tmp_path: Path, mark: str) -> None:
        path = tmp_path / "threat.toml"
        path.write_bytes(MARKS[mark]('[features]\n"größe" = 2\n'))
        assert ThreatModel.from_toml(path) == ThreatModel({"größe": 2})

    def test_of_texts(self) -> None:
        """Whoever reads a file as UTF-8 has the mark as its first character."""
        assert ThreatModel.parse("\ufefffeatures = 2\n") == ThreatModel(2)
        assert TreeEnsemble.parse_json("\ufeff" + OWN.to_json()).to_json() == OWN.to_json()

    @each_mark
    def test_of_a_model(self, tmp_path: Path, mark: str) -> None:
        path = tmp_path / "model.json"
        raw = MARKS[mark](OWN.to_json())
        path.write_bytes(raw)
        assert TreeEnsemble.from_json(path).to_json() == TreeEnsemble.parse_json(raw).to_json() == OWN.to_json()
        assert predict_alike(path, OWN)

    @each_mark
    def test_of_a_model_of_xgboost(self, tmp_path: Path, mark: str) -> None:
        xgb = pytest.importorskip("xgboost")
        path = tmp_path / "model.json"
        xgb.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X.to_numpy(), Y).save_model(path)
        own = as_ensemble(path)
        path.write_bytes(MARKS[mark](path.read_text(encoding="utf-8")))
        assert predict_alike(path, own)

    @each_mark
    def test_of_a_model_of_lightgbm(self, tmp_path: Path, mark: str) -> None:
        lgb = pytest.importorskip("lightgbm")
        path = tmp_path / "model.txt"
        lgb.LGBMClassifier(n_estimators=2, min_child_samples=2, verbose=-1, n_jobs=1).fit(X, Y).booster_.save_model(
            path
        )
        own = as_ensemble(path)
        path.write_bytes(MARKS[mark](path.read_text(encoding="utf-8")))
        assert predict_alike(path, own)

    def test_a_model_can_have_one_in_a_name(self) -> None:
        """Only the first character of a text is a mark."""
        model = RobustTreeClassifier().fit(X.rename(columns={"age": "\ufeffage"}), np.where(Y, "\ufeffyes", "no"))
        again = TreeEnsemble.parse_json(model.ensemble_.to_json())
        assert again.schema.feature_names == ("\ufeffage", "income")
        assert again.labels.tolist() == ["no", "\ufeffyes"]


DAMAGED = {
    "a byte that is none of UTF-8": (b'{"a": "\xff"}', r"byte 7 is not UTF-8 text: .*; save it as UTF-8"),
    "half a character": (codecs.BOM_UTF16_LE + b"{\0}", r"byte \d+ is not UTF-16 text: .*; save it as UTF-8"),
    "no text": (codecs.BOM_UTF8 + b"\0", "Expecting value"),
}


class TestDamage:
    @pytest.mark.parametrize("case", DAMAGED)
    def test_is_named(self, tmp_path: Path, case: str) -> None:
        raw, words = DAMAGED[case]
        path = tmp_path / "model.json"
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=rf"(?s)model\.json is not a JSON file: .*{words}"):
            TreeEnsemble.from_json(path)
        with pytest.raises(ValueError, match=r"model\.json"):
            as_ensemble(path)
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"model\.json"):
            ThreatModel.from_toml(path)

    def test_digits_and_brackets(self) -> None:
        """What Python says of them is about Python: the reader of a file cannot set its limit on digits."""
        text = OWN.to_json()
        with pytest.raises(
            ValueError, match="not a JSON file: it has a number of thousands of digits; expected numbers"
        ):
            TreeEnsemble.parse_json(text.replace('"version": 2', '"version": ' + "2" * 5000))
        with pytest.raises(ValueError, match="not a JSON file: its brackets are nested too deep"):
            TreeEnsemble.parse_json("[" * 200_000)
        with pytest.raises(ValueError, match=r"divisor must be a finite number, not 9.* \(400 characters\)"):
            TreeEnsemble.parse_json(text.replace('"divisor": 1.0', '"divisor": ' + "9" * 400))
        with pytest.raises(ValueError, match="value must be a list of float64"):
            TreeEnsemble.parse_json(text.replace('"value": [[', '"value": [[1.0], ['))
