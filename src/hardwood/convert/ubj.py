"""Reading UBJ (universal binary JSON), as far as XGBoost writes it, without trusting a byte of it."""

from typing import Any

import numpy as np

from hardwood.quoting import quote

DEEPEST = 64  # levels of objects in objects; XGBoost's models have ten or so

UBJ_LENGTHS = tuple(bytes([mark]) for mark in b"iUIlL")  # marks of whole numbers, one of which precedes a length

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}


def parse_ubj(raw: bytes) -> Any:
    """Return what UBJ text says, as dictionaries, lists, numbers and strings.

    Floats of four bytes become the shortest decimal numbers that round to them.

    Raises
    ------
    ValueError
        If it is damaged.

    Examples
    --------
    >>> parse_ubj(b"{i\\x01aSi\\x02no}")
    {'a': 'no'}
    """
    reader = _Reader(raw)
    value = reader.read_value(reader.take(1), DEEPEST)
    if reader.at != len(raw):
        raise ValueError(f"something follows its end at byte {reader.at}")
    return value


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def take(self, n_bytes: int) -> bytes:
        if n_bytes < 0 or self.at + n_bytes > len(self.raw):
            raise ValueError(f"it ends too early, after {len(self.raw)} bytes")
        self.at += n_bytes
        return self.raw[self.at - n_bytes : self.at]

    def read_value(self, mark: bytes, depth: int) -> Any:
        if depth == 0:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark in _NUMBERS:
            return self.read_numbers(mark, 1)[0]
        if mark == b"S":
            return self.read_text()
        if mark == b"{":
            return self.read_object(depth)
        if mark == b"[":
            return self.read_array(depth)
        raise ValueError(f"byte {self.at - 1} is {quote(mark)}, where a value should begin")

    def read_numbers(self, mark: bytes, count: int) -> list[Any]:
        dtype = np.dtype(_NUMBERS[mark])
        numbers = np.frombuffer(self.take(count * dtype.itemsize), dtype)
        if mark == b"d":
            return [float(f"{number:.9g}") for number in numbers.tolist()]
        return numbers.tolist()

    def read_count(self) -> int:
        mark = self.take(1)
        if mark not in UBJ_LENGTHS:
            raise ValueError(f"byte {self.at - 1} is {quote(mark)}, where a length should stand")
        count = self.read_numbers(mark, 1)[0]
        if not 0 <= count <= len(self.raw):
            raise ValueError(f"the length before byte {self.at} is {count}, in a file of {len(self.raw)} bytes")
        return count

    def read_text(self) -> str:
        return self.take(self.read_count()).decode()

    def read_object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while self.raw[self.at : self.at + 1] != b"}":
            key = self.read_text()
            if key in members:
                raise ValueError(f"{quote(key)} occurs twice in one object")
            members[key] = self.read_value(self.take(1), depth - 1)
        self.at += 1
        return members

    def read_array(self, depth: int) -> list[Any]:
        mark = self.take(1)
        kind = None
        if mark == b"$":
            kind, mark = self.take(1), self.take(1)
            if kind not in _NUMBERS or mark != b"#":
                raise ValueError(f"byte {self.at - 1} is {quote(mark)}, where the length of an array should stand")
        if mark == b"#":
            count = self.read_count()
            if kind is not None:
                return self.read_numbers(kind, count)
            return [self.read_value(self.take(1), depth - 1) for _ in range(count)]
        items = []
        while mark != b"]":
            items.append(self.read_value(mark, depth - 1))
            mark = self.take(1)
        return items
