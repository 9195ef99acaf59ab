"""A threat model as TOML text."""

import json
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from hardwood.quoting import quote, shorten
from hardwood.table.columns import Label

# Options that are lists of records, each a table of its own.
RECORDS = ("rules", "groups")
# Parts of a key such as features.age; a threat model needs three.
MOST_PARTS = 10
# Strings and comments, in which a dot means nothing. Each always matches, to the end of the text if need be, so that no
# text makes the search go back.
_STRING = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5}|\\?\Z)'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MOST_PARTS}}}")


def read_toml(text: str, known: Iterable[str]) -> dict[str, Any]:
    """Return what TOML text says, which has to be under keys that are known."""
    text = text.removeprefix("\ufeff")  # a byte-order mark
    _refuse_long_keys(text)
    try:
        record = tomllib.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deep for a threat model") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not valid TOML: {shorten(error)}") from None
    except ValueError:  # Python reads whole numbers of some thousand digits only
        raise ValueError("there is a number of thousands of digits; expected numbers up to 1.8e308") from None
    keys = tuple(known)
    for key in record:
        if key not in keys:
            raise ValueError(f"unknown key {quote(key)}; the keys are {', '.join(map(repr, keys))}")
    return record


def _refuse_long_keys(text: str) -> None:
    """Refuse keys of many parts: the parser keeps every beginning of a key, which takes memory by the square."""
    plain = _STRING.sub(lambda found: (" " if found[0][0] == "#" else "_") * len(found[0]), text)
    if found := _LONG_KEY.search(plain):
        key, line = text[found.start() : found.end()], text.count("\n", 0, found.start()) + 1
        raise ValueError(
            f"the key {shorten(key)} in line {line} has more than {MOST_PARTS} parts; a name with dots in it stands in "
            "quotes"
        )


def write_toml(features: Any, options: dict[str, Any]) -> str:
    """Write a threat model as TOML text: the options, then the features, then lists of records, such as the rules."""
    records = {key: options[key] for key in RECORDS if isinstance(options.get(key), list)}
    beside = {key: value for key, value in options.items() if key not in records}
    if isinstance(classes := beside.get("attacking_classes"), dict):
        beside["attacking_classes"] = list(classes.items())  # keys of TOML are text, and labels need not be
    lines = [f"{key} = {toml_value(value)}" for key, value in beside.items()]
    if isinstance(features, dict):
        lines += [""] * bool(lines) + ["[features]"]
        lines += [f"{toml_key(key)} = {toml_value(entry)}" for key, entry in features.items()]
    elif features is not None or not records:
        lines += [""] * bool(lines) + [f"features = {toml_value(features)}"]
    for name, several in records.items():
        for one in several:
            lines += ["", f"[[{name}]]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in one.to_record().items()]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """Write a value as TOML does."""
    if value is None or isinstance(value, str):
        # JSON's escapes are TOML's, except that TOML does not allow a bare DEL.
        return json.dumps(value or "", ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value)  # Python spells numbers as TOML does, infinity included


def toml_key(key: Label) -> str:
    """Write a key as TOML does, quoted only where it must be."""
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else toml_value(str(key))
