"""The verifiers that verify.py compares, each behind the same two questions."""

import contextlib
import importlib
import io
import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hardwood import ThreatModel, TreeEnsemble, attack, verify
from hardwood._kernels.search.branching import FOUND, NONE
from hardwood.verification.clock import Clock
from hardwood.verification.distance import first_radius
from hardwood.verification.search import RowSearch
from verify_tasks import RADIUS

Row = NDArray[np.float64]

OURS, PEER, MILP = "hardwood", "veritas", "milp"


class Answer(NamedTuple):
    """What a verifier says of a row: its status, what it knows of the distance, and the point it shows."""

    status: str  # robust, vulnerable or unknown; of a distance: exact, bracket or unknown
    lower: float = np.nan
    upper: float = np.nan
    witness: Row | None = None


class Verifier(Protocol):
    """Something that can be asked about one row at a time."""

    name: str

    def decide(self, row: Row, label: int, epsilon: float) -> Answer:
        """Say whether the row can be given another class within epsilon."""

    def distance(self, row: Row, label: int) -> Answer:
        """Say how far the nearest example is, up to RADIUS."""


class Hardwood:
    """The exact search, made ready once for a model as `verify` and `attack` do it, and asked row by row."""

    def __init__(self, ensemble: TreeEnsemble, time_limit: float) -> None:
        self.name = OURS
        self.ensemble, self.time_limit = ensemble, time_limit
        self.searches: dict[float, RowSearch] = {}
        self.guess = first_radius(ensemble, np.ones(ensemble.schema.n_features), np.inf)

    def _search(self, radius: float) -> RowSearch:
        if radius not in self.searches:
            reach = ThreatModel(radius).resolve(self.ensemble.schema, self.ensemble.labels)
            weight = np.ones(self.ensemble.schema.n_features)
            self.searches[radius] = RowSearch(self.ensemble, reach, weight)
        return self.searches[radius]

    def decide(self, row: Row, label: int, epsilon: float) -> Answer:
        """Say whether the row can be given another class within epsilon."""
        said = self._search(epsilon).decide(row[None], np.array([label]), Clock(self.time_limit))
        if said.status[0] == FOUND:
            return Answer("vulnerable", witness=said.example[0])
        return Answer("robust" if said.status[0] == NONE else "unknown")

    def distance(self, row: Row, label: int) -> Answer:
        """Say how far the nearest example is, up to RADIUS."""
        said = self._search(RADIUS).nearest(row[None], np.array([label]), Clock(self.time_limit), self.guess)
        found = said.status[0] == FOUND
        upper = float(np.abs(said.example[0] - row).max()) if found else np.inf
        exact = math.isinf(said.certified[0])
        lower = upper if exact else float(said.certified[0])
        return Answer("exact" if exact else "unknown", lower, upper, said.example[0] if found else None)


class Solver:
    """The mixed-integer solver, as `verify` and `attack` ask it."""

    def __init__(self, ensemble: TreeEnsemble, time_limit: float) -> None:
        self.name = MILP
        self.ensemble = ensemble
        self.options: dict[str, Any] = {"time_limit": time_limit, "method": "milp"}

    def decide(self, row: Row, label: int, epsilon: float) -> Answer:
        """Say whether the row can be given another class within epsilon."""
        said = verify(self.ensemble, row[None], [label], epsilon, **self.options)
        vulnerable = said.status[0] == "vulnerable"
        return Answer(str(said.status[0]), said.lower[0], said.upper[0], said.witness[0] if vulnerable else None)

    def distance(self, row: Row, label: int) -> Answer:
        """Say how far the nearest example is, up to RADIUS."""
        said = attack(self.ensemble, row[None], [label], RADIUS, **self.options)
        lower, upper = float(said.lower[0]), float(said.distance[0])
        exact = lower > upper * (1.0 - 1e-4)  # its lower bound stays a millionth below the distance
        return Answer("exact" if exact else "unknown", lower, upper, said.X_adv[0] if said.found[0] else None)


class Veritas:
    """Veritas, with the settings of its own robustness search, and its known faults avoided where that can be done.

    Its box is half open, so it is given the float after the last that can be reached. A tie is adversarial for a row of
    class 1 and not for one of class 0, which a small shift of its threshold tells it. Models that compare in float32
    get boxes in float32.
    """

    def __init__(self, model: Any, time_limit: float, *, single: bool) -> None:
        self.name = PEER
        self.library = importlib.import_module("veritas")
        with contextlib.redirect_stdout(io.StringIO()):
            self.trees = self.library.get_addtree(model, silent=True)
        self.toward = (self.trees, self.trees.negate_leaf_values())
        self.time_limit = time_limit
        self.dtype: Any = np.float32 if single else np.float64

    def decide(self, row: Row, label: int, epsilon: float) -> Answer:
        """Say whether the row can be given another class within epsilon."""
        config = self.library.Config(self.library.HeuristicType.MAX_OUTPUT)
        config.stop_when_optimal = True
        config.ignore_state_when_worse_than = 1e-9 if label == 0 else -1e-9
        config.stop_when_num_solutions_exceeds = 1
        config.max_focal_size = 1000
        config.focal_eps = 0.2
        config.max_memory = 1 << 30
        low = (row - epsilon).astype(self.dtype)
        high = np.nextafter((row + epsilon).astype(self.dtype), self.dtype(np.inf))
        box = [self.library.Interval(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        search = config.get_search(self.toward[label], box)
        reason = search.step_for(self.time_limit, 100)
        if search.num_solutions() > 0:
            return Answer("vulnerable", witness=self._nearest(row, search.get_solution(0).box()))
        return Answer("robust" if reason.name == "NO_MORE_OPEN" else "unknown")

    def distance(self, row: Row, label: int) -> Answer:
        """Say how far the nearest example is, up to RADIUS: the bracket that its robustness search ends with."""
        source, target = (None, self.trees) if label == 0 else (self.trees, None)
        options = {"silent": True, "max_time": self.time_limit}
        search = self.library.VeritasRobustnessSearch(row, RADIUS, source, target, **options)
        _, lower, upper = search.search()
        points = search.generated_examples
        nearest = min(points, key=lambda point: float(np.abs(point - row).max())) if points else None
        nothing_found = nearest is None and upper == RADIUS
        return Answer("bracket", float(lower), np.inf if nothing_found else float(upper), nearest)

    def _nearest(self, row: Row, box: dict[int, Any]) -> Row:
        """Return the point of a solution's box that is nearest to the row, in the precision the model compares in."""
        point = row.astype(self.dtype)
        for feature, side in box.items():
            low, high = self.dtype(side.lo), self.dtype(side.hi)
            if low < side.lo:
                low = np.nextafter(low, self.dtype(np.inf))
            if high >= side.hi:
                high = np.nextafter(high, self.dtype(-np.inf))
            point[feature] = min(max(point[feature], low), high)
        return point.astype(np.float64)
