"""Reading models from files, recognised by what is in them."""

import os
from pathlib import Path

from hardwood.convert.source import Source
from hardwood.convert.ubj import UBJ_LENGTHS
from hardwood.ensemble import TreeEnsemble
from hardwood.quoting import shorten
from hardwood.texts import drop_mark, read_bytes

_PICKLES = (".pkl", ".pickle", ".joblib", ".skops")
# How pickles begin, and what joblib and skops compress with: gzip, zlib, bzip2, xz, lz4, zip.
_PICKLE_STARTS = (b"\x80", b"\x1f\x8b", b"x\x01", b"x\x5e", b"x\x9c", b"x\xda", b"BZh", b"\xfd7z", b"\x04\x22M", b"PK")


def is_pickle(path: str | os.PathLike[str]) -> bool:
    """Say whether a file looks like a pickle, by its name or by how it begins."""
    if Path(path).suffix.lower() in _PICKLES:
        return True
    with Path(path).open("rb") as file:
        return file.read(8).startswith(_PICKLE_STARTS)


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble | Source:
    """Read a saved model: hardwood's JSON, XGBoost's JSON or UBJ, or LightGBM's text."""
    source = shorten(os.fspath(path))
    raw = drop_mark(read_bytes(path), source)
    if is_pickle(path):
        raise ValueError(
            f"{source} looks like a pickle, and to load a pickle is to run the code in it; if you trust it, load it "
            "yourself and give hardwood the model"
        )
    if raw[:1] == b"{" and raw[1:2] in UBJ_LENGTHS:  # an object of UBJ goes on with the length of its first key
        return _read_xgboost(raw, source)
    if raw[:1] == b"{":
        is_xgboost = b'"gradient_booster"' in raw and b'"hardwood.TreeEnsemble"' not in raw
        return _read_xgboost(raw, source) if is_xgboost else TreeEnsemble.parse_json(raw, source)
    if raw.startswith((b"tree\n", b"tree\r\n")):
        from hardwood.convert.lightgbm_models import read_text

        return read_text(raw, source)
    raise ValueError(
        f"{source} is not a JSON file of hardwood, a JSON or UBJ file of XGBoost, or a text file of LightGBM; "
        "these are the saved models hardwood reads"
    )


def _read_xgboost(raw: bytes, source: str) -> Source:
    from hardwood.convert.xgboost_models import read_bytes

    return read_bytes(raw, source)
