"""How many threads `n_jobs` stands for."""

from numbers import Integral
from typing import Any

import joblib

from hardwood.quoting import quote

# More would wait for a core, and each takes memory.
MOST_THREADS = 1024


def count_threads(n_jobs: Any, n_tasks: int | None = None) -> int:
    """Return the number of threads that `n_jobs` asks for, in joblib's manner; a single task needs but one."""
    is_number = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs != 0
    if n_jobs is not None and not is_number:
        raise ValueError(f"n_jobs={quote(n_jobs)}: expected None, a number of threads, or -1 for one per core")
    if n_tasks == 1:
        return 1
    return min(int(joblib.effective_n_jobs(n_jobs)), MOST_THREADS)
