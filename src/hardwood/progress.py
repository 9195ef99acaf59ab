"""How callers hear how far some work is.

Work in several parts counts from the beginning in each. How many steps there are is 0 while nobody knows.
"""

import sys
from collections.abc import Callable
from typing import Any

from hardwood.quoting import quote

Progress = Callable[[int, int], object]


def read_progress(progress: Any) -> Progress | None:
    """Return what to call with (steps done, steps in all): the caller's own, a line on stderr for True, or nothing."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return _say_on_stderr
    if not callable(progress):
        raise ValueError(
            f"progress={quote(progress)}: expected True for a line on stderr, None for nothing, "
            "or a function that is called with (steps done, steps in all)"
        )
    return progress


def _say_on_stderr(done: int, total: int) -> None:
    """Write one line over and over, and end it when all is done."""
    said = f"\r{done:,} of {total:,}" if total else f"\r{done:,}"
    print(said, end="\n" if 0 < total <= done else "", file=sys.stderr, flush=True)
