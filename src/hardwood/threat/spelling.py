"""The spellings of a threat model: every accepted one is turned into its shortest."""

import math
import numbers
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table.columns import Label, is_label
from hardwood.threat.relative import is_measured, read_relative, scale_relative, write_out

_SHORT = {(0.0, 0.0): None, (np.inf, 0.0): "<", (0.0, np.inf): ">"}
# "<>" is not short for (inf, inf): it speaks of categories too, a distance does not.
INTERVALS = {short: pair for pair, short in _SHORT.items()} | {"<>": (np.inf, np.inf)}
# Entries that a threat model is shown with, and characters if it has more; a few dozen columns would fill a notebook's
# screen.
_SHOWN = 10
_LONGEST = 240
_DISTANCE = "a distance >= 0 (a number, '10%', '0.5 std' or '2 iqr')"
ONE_FEATURE = f"give {_DISTANCE}, a pair (left, right), '<', '>', '<>' or None"
_ALL_FEATURES = f"give {_DISTANCE}, '<', '>', '<>', None, one entry per feature or a dict"


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python number or string that it stands for."""
    is_scalar = isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0
    return value.item() if is_scalar else value


def read_real(value: Any, where: str, accepted: str = "give a number up to 1.8e308") -> float:
    """Return a real number as a float64, and NaN for anything else: no comparison accepts it."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        return math.nan
    try:
        return float(number) + 0.0  # -0.0 becomes 0.0
    except OverflowError:
        raise ValueError(f"{where}: {quote(value)} is too large for a float64; {accepted}") from None


def read_column(value: Any, where: str) -> Label:
    """Return a column as a user names it: its name, or its index."""
    column = plain(value)
    is_index = isinstance(column, int) and not isinstance(column, bool) and abs(column) <= sys.maxsize
    if isinstance(column, str) or is_index:
        label: Label = column
        return label
    raise ValueError(f"{where}: {quote(column)} is neither a column name nor an index")


def shorten_table(features: Any) -> Any:
    """Return the shortest spelling of a whole table: one entry, a list or a dict of entries."""
    features = features.tolist() if isinstance(features, np.ndarray) else features
    if isinstance(features, (list, tuple)):
        return [_shorten(entry, f"threat for feature {j}", ONE_FEATURE) for j, entry in enumerate(features)]
    if not callable(getattr(features, "items", None)):
        return _shorten(features, "threat", _ALL_FEATURES)
    pairs = [(read_column(key, "threat"), entry) for key, entry in features.items()]
    refuse_repeats([key for key, _ in pairs], "threat: feature")
    return {key: _shorten(entry, f"threat for feature {quote(key)}", ONE_FEATURE) for key, entry in pairs} or None


def refuse_repeats(keys: Sequence[Label], what: str) -> None:
    """Refuse keys that TOML would spell alike, such as 1 and "1"."""
    count = Counter(map(str, keys))
    for key in keys:
        if count[str(key)] > 1:
            raise ValueError(f"{what} {quote(key)} is given more than once")


def _shorten(entry: Any, where: str, accepted: str) -> Any:
    """Return the shortest spelling of one entry: None, str, float, pair or dict."""
    entry = plain(entry)
    if entry is None or isinstance(entry, str):
        if not entry or entry in INTERVALS:
            return entry or None
        relative = read_relative(entry, where)
        if relative is None:
            raise ValueError(f"{where}: {quote(entry)} is not understood; {accepted}")
        return relative or None
    if isinstance(entry, Mapping):
        return _shorten_categories(entry, where) or None
    if isinstance(entry, (list, tuple, np.ndarray)):
        if len(entry) != 2:
            raise ValueError(f"{where}: {quote(entry)} is not a pair; {accepted}")
        return _join(*(_distance(side, where, accepted) for side in entry))
    return _distance(entry, where, accepted) or None


def _join(left: Any, right: Any) -> Any:
    """Return the shortest spelling of both sides together."""
    return _SHORT.get((left, right), left if left == right else (left, right))


def scale_table(features: Any, factor: float) -> Any:
    """Return the spelling of a whole table with its distances multiplied; at 0 nothing can be changed."""
    if factor == 0.0:
        return None
    if isinstance(features, dict):
        return {key: _scale(entry, factor) for key, entry in features.items()}
    if isinstance(features, list):
        return [_scale(entry, factor) for entry in features]
    return _scale(features, factor)


def _scale(entry: Any, factor: float) -> Any:
    """Return one entry with its distances multiplied; what has no size stays as it is."""
    if isinstance(entry, tuple):
        return _join(*(_scale(side, factor) or 0.0 for side in entry))
    if isinstance(entry, float):
        return (entry * factor if entry else 0.0) or None  # 0 times infinity is not 0
    if isinstance(entry, str) and entry not in INTERVALS:
        return scale_relative(entry, factor) or None
    return entry


def needs_table(features: Any) -> bool:
    """Say whether anything in the spelling of a whole table is measured on the table."""
    entries = (
        features.values() if isinstance(features, dict) else features if isinstance(features, list) else [features]
    )
    return any(is_measured(side) for entry in entries for side in (entry if isinstance(entry, tuple) else (entry,)))


def write_out_entry(entry: Any, column: np.ndarray, where: str) -> Any:
    """Return one entry with what is measured on a column as numbers."""
    try:
        if isinstance(entry, tuple):
            return _join(*(write_out(side, column) for side in entry))
        return write_out(entry, column) or None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _distance(value: Any, where: str, accepted: str) -> float | str:
    value = plain(value)
    relative = read_relative(value, where) if isinstance(value, str) else None
    if relative is not None:
        return relative
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{where}: {quote(value)} is not a distance; {accepted}")
    distance = read_real(value, where, accepted)
    if not distance >= 0.0:
        problem = "negative" if distance < 0.0 else "not a number"
        raise ValueError(f"{where}: {quote(value)} is {problem}; {accepted}")
    return distance


def _shorten_categories(entry: Mapping[Any, Any], where: str) -> dict[Label, list[Label]]:
    refuse_repeats([read_label(category, where) for category in entry], f"{where}: category")
    moves: dict[Label, list[Label]] = {}
    for category, targets in entry.items():
        many = isinstance(targets, (list, tuple, set, frozenset, np.ndarray))
        labels = {read_label(target, where) for target in (targets if many else [targets])}
        in_order = sorted(labels, key=lambda label: (type(label).__name__, label))
        moves[read_label(category, where)] = in_order
    return moves


def read_label(value: Any, where: str) -> Label:
    """Return a label as plain Python."""
    value = plain(value)
    if is_label(value):
        label: Label = value
        return label
    raise ValueError(f"{where}: {quote(value)} is not a label; give a str, bool, or number up to 1.8e308")


def label_codes(labels: tuple[Label, ...]) -> dict[Label, int]:
    """Return the codes of labels, under their own name and under that which TOML gives them."""
    return {str(label): code for code, label in enumerate(labels)} | {label: code for code, label in enumerate(labels)}


def with_string_keys(spelling: Any) -> Any:
    """Return a spelling with the string keys that TOML would give it."""
    if isinstance(spelling, dict):
        return {str(key): with_string_keys(value) for key, value in spelling.items()}
    if isinstance(spelling, list):
        return [with_string_keys(entry) for entry in spelling]
    return spelling


def abbreviate(parts: Sequence[tuple[str, Any]]) -> str:
    """Return what `repr` does of named values, but only the first of many entries: tables may have hundreds of columns.

    What has few entries is shown in full, however long; of what has more, so few that all fits in two lines.
    """
    for n_shown in (_SHOWN - 2, 4, 2, 1):
        text = ", ".join(name + _abbreviate(value, n_shown) for name, value in parts)
        if len(text) <= _LONGEST or not any(_has_many(value) for _, value in parts):
            break
    return text


def _has_many(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return isinstance(value, (dict, list)) and (len(value) > _SHOWN or any(map(_has_many, inside)))


def _abbreviate(value: Any, n_shown: int) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + _list_some([f"{quote(key)}: {_abbreviate(entry, n_shown)}" for key, entry in value.items()], n_shown)
            + "}"
        )
    if isinstance(value, list):
        return "[" + _list_some([_abbreviate(entry, n_shown) for entry in value], n_shown) + "]"
    return quote(value, _LONGEST)


def _list_some(entries: list[str], n_shown: int) -> str:
    if len(entries) <= _SHOWN:
        return ", ".join(entries)
    return ", ".join([*entries[:n_shown], f"... {len(entries) - n_shown} more"])
