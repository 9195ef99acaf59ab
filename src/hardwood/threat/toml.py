"""A threat model as TOML text."""

import json
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from hardwood.table.columns import Label

# Options that are lists of records, each a table of its own.
RECORDS = ("rules", "groups")


def read_toml(text: str, known: Iterable[str]) -> dict[str, Any]:
    """Return what TOML text says, which has to be under keys that are known."""
    try:
        record = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not valid TOML: {error}") from None
    except RecursionError:
        raise ValueError("brackets are nested too deep for a threat model") from None
    keys = tuple(known)
    for key in record:
        if key not in keys:
            raise ValueError(f"unknown key {key!r}; the keys are {', '.join(map(repr, keys))}")
    return record


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
