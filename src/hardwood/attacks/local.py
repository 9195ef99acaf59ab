"""Attacks by local moves, for models of any size: they find an example or do not, and prove nothing."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hardwood._kernels.search import descent
from hardwood.attacks.grid import locate_rows, make_grid, make_points, make_scratch
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.verification.distance import first_radius
from hardwood.verification.search import prepare

NORMS = {np.inf: descent.INF, 0: 0, 1: 1, 2: 2}

LOCAL_METHODS = ("heuristic", "coordinate", "lowest")

# Rows handed to a thread at a time.
CHUNK = 256


def attack_locally(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    norm: float,
    weight: np.ndarray,
    method: str,
    n_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Look for an example of every row of an encoded matrix, of attackers who move values: (found, examples).

    method : one of LOCAL_METHODS; see `attack`.
    """
    ensemble = round_thresholds(ensemble, reach.whole)
    prepared = prepare(ensemble)
    used = prepared.used
    radius = first_radius(ensemble, weight, np.inf)  # to begin with, for the heuristic
    grid, reach, weight = make_grid(prepared), reach.select(used), weight[used]
    x = matrix.take(used, axis=1)  # in the order of rows, whatever the caller's table is in
    found = np.zeros(len(x), dtype=bool)
    examples = np.full_like(x, np.nan)

    def attack_chunk(start: int) -> None:
        rows = slice(start, start + CHUNK)
        work = (make_points(grid), make_scratch(grid, ensemble.max_depth), found[rows], examples[rows])
        cells = locate_rows(grid, reach, x[rows], class_index[rows])
        if method == "heuristic":
            descent.attack_nearby(grid, cells, class_index[rows], NORMS[norm], weight, radius, *work)
        elif method == "coordinate":
            descent.attack_coordinates(grid, cells, class_index[rows], weight, *work)
        else:
            descent.attack_deeply(grid, cells, class_index[rows], weight, *work)

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(attack_chunk, range(0, len(x), CHUNK)))
    wide = np.full_like(matrix, np.nan)
    wide[found] = matrix[found]
    wide[np.ix_(found, used)] = examples[found]
    return found, wide
