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
    are_moved: bool = False

    def select(self, rows: np.ndarray) -> "Asked":
        """Return the question about some of the rows."""
        return self._replace(
            matrix=self.matrix[rows], class_index=self.class_index[rows], clock=self.clock.select(rows)
        )

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
