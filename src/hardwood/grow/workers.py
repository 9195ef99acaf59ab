"""Threads that call kernels side by side."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Runner = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]


@dataclass(frozen=True)
class Workers:
    """A way to call a kernel on several argument tuples: one after another, or each in a thread."""

    n_threads: int
    run: Runner

    def share(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Divide a range into one contiguous share per thread."""
        n_shares = min(end - begin, self.n_threads)
        return list(pairwise(begin + (end - begin) * k // n_shares for k in range(n_shares + 1)))


def run_in_turn(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a function on several argument tuples, one after another."""
    return [function(*call) for call in calls]


@contextmanager
def hire(n_threads: int) -> Iterator[Workers]:
    """Have threads at hand for as long as a tree grows."""
    if n_threads == 1:
        yield Workers(1, run_in_turn)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield Workers(n_threads, lambda function, calls: list(pool.map(lambda call: function(*call), calls)))
