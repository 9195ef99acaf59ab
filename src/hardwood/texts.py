"""Reading texts from anywhere: with any byte-order mark, and JSON that is refused in a sentence whatever is wrong."""

import codecs
import json
import os
from pathlib import Path
from typing import Any

from hardwood.files import naming
from hardwood.quoting import shorten

# What a text may begin with: the longer marks first, as one is the beginning of another.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text(path: str | os.PathLike[str]) -> str:
    """Return what is in a text file."""
    return decode(read_bytes(path))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return what is in a file; errors name it, shortened."""
    with naming(path):
        return Path(path).read_bytes()


def decode(raw: bytes) -> str:
    r"""Return bytes as text: UTF-8 or, if a byte-order mark says so, UTF-16 or UTF-32; the mark is left out.

    Examples
    --------
    >>> decode(b"\xef\xbb\xbfspam"), decode("spam".encode("utf-16")), decode(b"spam")
    ('spam', 'spam', 'spam')
    """
    encoding = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), "utf-8")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise ValueError(f"byte {error.start} is not {name} text: {error.reason}; save it as UTF-8") from None


def drop_mark(raw: bytes, source: str) -> bytes:
    """Return what is in a file as UTF-8 if it begins with a byte-order mark, otherwise as it is; `source` names it."""
    try:
        return decode(raw).encode() if raw.startswith(tuple(_MARKS)) else raw
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """Return what JSON text says, or raise ``ValueError``, whatever is wrong with it.

    Examples
    --------
    >>> parse_json("\\ufeff[1, 2]")
    [1, 2]
    """
    text = decode(text) if isinstance(text, bytes) else text
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(shorten(error)) from None
    except ValueError:  # Python reads whole numbers of some thousand digits only
        raise ValueError("it has a number of thousands of digits; expected numbers up to 1.8e308") from None
