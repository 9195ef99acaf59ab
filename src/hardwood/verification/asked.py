"""What is asked about rows, as everything behind the door hands it on."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.progress import Progress
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import Answers
from hardwood.verification.clock import Clock
from hardwood.verification.settings import SETTINGS, SearchSettings

# Those that make local moves, and prove nothing.
LOCAL_METHODS = ("heuristic", "coordinate", "lowest")


class AskSettings(NamedTuple):
    """How an answer is found, and how long that may take."""

    method: str = "search"  # or "milp"; or for the nearest examples one of LOCAL_METHODS
    time_limit: float = math.inf  # seconds per row, over all means together
    n_threads: int = 1
    progress: Progress | None = None
    search: SearchSettings = SETTINGS  # how the search of several trees spends its time

    @property
    def is_local(self) -> bool:
        """Whether examples are looked for by local moves alone."""
        return self.method in LOCAL_METHODS


@dataclass(frozen=True)
class Decide:
    """Whether each row can be given another class; bounds are of the smallest margin that can be forced."""


@dataclass(frozen=True)
class Nearest:
    """The nearest example of each row; bounds are of its distance. With attack rules the cheapest, and its cost."""

    norm: float
    weight: np.ndarray


@dataclass(frozen=True)
class Extreme:
    """The largest (sign 1) or smallest (-1) output of a regression that each row can be given."""

    sign: int


Goal = Decide | Nearest | Extreme


class Outputs:
    """What an ensemble says of rows: worked out when somebody first asks, and once."""

    def __init__(self, ensemble: TreeEnsemble, matrix: np.ndarray, output: np.ndarray | None = None) -> None:
        self._about, self._output = (ensemble, matrix), output

    def of(self, ensemble: TreeEnsemble, matrix: np.ndarray) -> np.ndarray:
        """Return what an ensemble says of rows, these or any others. Not to be written to."""
        if ensemble is not self._about[0] or matrix is not self._about[1]:
            return ensemble.output(matrix)
        if self._output is None:
            self._output = ensemble.output(matrix)
        return self._output

    def select(self, asked: "Asked", rows: np.ndarray, matrix: np.ndarray) -> "Outputs":
        """Return what is known of some of the rows of a question."""
        known = self._output if asked.ensemble is self._about[0] and asked.matrix is self._about[1] else None
        return Outputs(asked.ensemble, matrix, None if known is None else known[rows])


class Asked(NamedTuple):
    """A question about rows of an encoded matrix.

    are_moved : whether these are not rows as they stand, but points of boxes that rows can become. A row that is wrong
        as it stands is its own example, whichever class the attacker wants; such a point is one if he wants its class.
    """

    goal: Goal
    ensemble: TreeEnsemble
    matrix: np.ndarray
    class_index: np.ndarray
    reach: Reach | PricedReach
    settings: AskSettings
    clock: Clock
    outputs: Outputs
    are_moved: bool = False

    def select(self, rows: np.ndarray) -> "Asked":
        """Return the question about some of the rows."""
        matrix = self.matrix[rows]
        outputs = self.outputs.select(self, rows, matrix)
        return self._replace(
            matrix=matrix, class_index=self.class_index[rows], clock=self.clock.select(rows), outputs=outputs
        )

    def output(self) -> np.ndarray:
        """Return what the model says of the rows. Not to be written to."""
        return self.outputs.of(self.ensemble, self.matrix)

    def predict(self) -> np.ndarray:
        """Return the classes that the model gives to the rows."""
        return self.ensemble.choose(self.output())

    def silent(self) -> "Asked":
        """Return the question as it is asked on the way to answering another: nobody is told how far it got."""
        return self._replace(settings=self.settings._replace(progress=None))

    def with_weight(self, turn: Callable[[np.ndarray], np.ndarray]) -> "Asked":
        """Return the question with the weights of other columns, where it has weights."""
        if not isinstance(self.goal, Nearest):
            return self
        return self._replace(goal=replace(self.goal, weight=turn(self.goal.weight)))

    def find_wrong(self, given: np.ndarray) -> np.ndarray:
        """Say of each row whether it is an example as it stands, if the model gives it these classes."""
        return self.reach.wants(self.class_index, given) if self.are_moved else given != self.class_index


# The door, as those are given it who answer a question by asking others.
Ask = Callable[[Asked], Answers]
