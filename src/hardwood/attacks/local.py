"""Attacks by local moves, for models of any size: they find an example or do not, and prove nothing."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hardwood._kernels import descent
from hardwood.attacks.distance import first_radius
from hardwood.attacks.grid import find_rooms, make_grid, make_points, make_scratch
from hardwood.ensemble import TreeEnsemble
from hardwood.reach import Reach

NORMS = {np.inf: descent.INF, 0: 0, 1: 1, 2: 2}

# Rows handed to a thread at a time.
CHUNK = 256


def attack_locally(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    label: np.ndarray,
    reach: Reach,
    norm: float,
    weight: np.ndarray,
    *,
    nearby: bool,
    n_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Look for an example of every row of an encoded matrix: (found, examples).

    nearby : whether to bring it as near as possible in the norm, or to stop at the first that a descent comes across.
    """
    grid = make_grid(ensemble)
    guess = 2.0 * first_radius(ensemble, weight, np.inf)
    found = np.zeros(len(matrix), dtype=bool)
    examples = np.full_like(matrix, np.nan)

    def attack_chunk(start: int) -> None:
        rows = slice(start, start + CHUNK)
        work = (make_points(grid), make_scratch(grid, ensemble.max_depth), found[rows], examples[rows])
        rooms = find_rooms(grid, reach, matrix[rows], label[rows])
        if nearby:
            descent.attack_nearby(grid, rooms, label[rows], NORMS[norm], weight, guess, *work)
        else:
            descent.attack_coordinates(grid, rooms, label[rows], weight, *work)

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(attack_chunk, range(0, len(matrix), CHUNK)))
    return found, examples
