"""How long the parts of an evaluation take: compiling is a part of its own, whichever part waited for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from hardwood._kernels.compiling import count_compiling, working_time

COMPILING = "compiling"


@contextmanager
def timed(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Write down for how many seconds a part of the work takes, and for how many it waits for the compiler, if any."""
    start, before = working_time(), count_compiling()
    yield
    compiling = seconds.pop(COMPILING, 0.0) + count_compiling() - before
    seconds[name] = working_time() - start
    if compiling > 0.0:
        seconds[COMPILING] = compiling  # the last
