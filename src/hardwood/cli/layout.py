"""The layout of a text table: its characters, what separates its values, and how its numbers are written."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from typing import BinaryIO, NamedTuple

# What separates values, the usual one first.
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_ENCODINGS = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252", "latin-1": "Latin-1"}
# How much of a table is looked at to tell what separates its values.
_SAMPLE_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_COMMA_NUMBER, _POINT_NUMBER = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d+\.\d+")


class Layout(NamedTuple):
    """How a text table is to be read."""

    encoding: str
    separator: str
    decimal: str

    def describe(self) -> str:
        """Say what is not as it usually is; nothing if all is."""
        said = []
        if self.encoding != "utf-8-sig":
            said.append(f"it is {_ENCODINGS[self.encoding]} text")
        if self.separator != ",":
            said.append(f"its values are separated by {_SEPARATORS[self.separator]}")
        if self.decimal == ",":
            said.append("its numbers have decimal commas")
        return ", ".join(said)


def find_layout(source: BinaryIO) -> Layout:
    """Tell the layout of a text table, by all of its bytes and by the cells at its beginning."""
    encoding = _find_encoding(source)
    source.seek(0)
    sample = codecs.getincrementaldecoder(encoding)().decode(source.read(_SAMPLE_BYTES))
    # The last line may be cut off.
    lines = sample.splitlines(keepends=True)
    lines = lines[:-1] if len(lines) > 1 and len(sample) >= _SAMPLE_BYTES // 4 else lines
    separator = _find_separator(lines)
    cells = [cell.strip() for row in csv.reader(lines, delimiter=separator) for cell in row]
    with_comma = any(_COMMA_NUMBER.fullmatch(cell) for cell in cells)
    with_point = any(_POINT_NUMBER.fullmatch(cell) for cell in cells)
    decimal = "," if separator != "," and with_comma and not with_point else "."
    return Layout(encoding, separator, decimal)


def open_bytes(source: BinaryIO) -> BinaryIO:
    """Return what is in a file, unpacked if it is compressed by gzip."""
    first = source.read(len(_GZIP))
    source.seek(0)
    return gzip.open(source) if first == _GZIP else source  # type: ignore[return-value]


def _find_encoding(source: BinaryIO) -> str:
    source.seek(0)
    first = source.read(2)
    if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    for encoding in ("utf-8-sig", "cp1252"):
        if _is_encoded(source, encoding):
            return encoding
    return "latin-1"  # in which every byte is a character


def _is_encoded(source: BinaryIO, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    source.seek(0)
    try:
        while chunk := source.read(_CHUNK_BYTES):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _find_separator(lines: list[str]) -> str:
    """Return the first separator that cuts every line into as many values as there are names, two at least."""
    for separator in _SEPARATORS:
        try:
            counts = {len(row) for row in csv.reader(lines, delimiter=separator) if row}
        except csv.Error:
            continue
        if len(counts) == 1 and counts.pop() > 1:
            return separator
    header = next(csv.reader(lines[:1]), [])
    inside = header[0] if len(header) == 1 else ""
    return next((separator for separator in _SEPARATORS if separator in inside), ",")
