"""Repeating what a user gave, in errors: in full where it is short, otherwise its beginning and how long it is."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

# Characters of one thing that is repeated, and things of a list: several of both fit on a screen.
LONGEST = 200
MOST = 10
_LINE_END = re.compile(r"\s*\n\s*")


def shorten(text: object, longest: int = LONGEST) -> str:
    """Return a text in one line, in full if it is short, otherwise its beginning and its length.

    Examples
    --------
    >>> shorten("spam"), shorten("spam" * 1000, 20)
    ('spam', 'spamspamsp... (4,000 characters)')
    """
    whole = text if isinstance(text, str) else _spell(text, str)
    shown = whole if len(whole) <= longest else f"{whole[: longest // 2]}... ({len(whole):,} characters)"
    return _LINE_END.sub(" ", shown)


def quote(value: Any, longest: int = LONGEST) -> str:
    """Return what `repr` says of a value, in one line and shortened.

    Examples
    --------
    >>> quote("spam"), quote([1, 2]), quote(10**5000)
    ("'spam'", '[1, 2]', 'int too long to write out')
    """
    return shorten(_spell(value, repr), longest)


def _spell(value: Any, spell: Any) -> str:
    try:
        return str(spell(value))
    except ValueError:  # Python writes out whole numbers of some thousand digits only
        return f"{type(value).__name__} too long to write out"
    except RecursionError:
        return f"{type(value).__name__} nested too deep to write out"


@contextmanager
def shortening(longest: int = 5 * LONGEST) -> Iterator[None]:
    """Shorten what somebody else's ``ValueError`` says, such as scikit-learn's, which repeats whole tables."""
    try:
        yield
    except ValueError as error:
        if len(str(error)) <= longest:
            raise
        raise ValueError(shorten(error, longest)) from None


def list_some(values: Collection[Any], most: int = MOST, spell: Any = quote) -> str:
    """Return the first of many values, in quotes, and how many more there are.

    Examples
    --------
    >>> list_some(["ham", "spam"]), list_some(range(1000), 3)
    ("'ham', 'spam'", '0, 1, 2, ... 997 more')
    """
    shown: Iterable[str] = [spell(value, 4 * LONGEST // most) for value in islice(values, most)]
    more = [f"... {len(values) - most:,} more"] if len(values) > most else []
    return ", ".join([*shown, *more])
