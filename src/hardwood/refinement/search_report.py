"""What a search for the most robust tree has tried, and what it has chosen."""

from dataclasses import dataclass
from typing import NamedTuple


class Candidate(NamedTuple):
    """A tree that a search has come to.

    Losses are shares of the training weight. `training_loss` is the exact adversarial loss on all training rows.
    `out_of_bag_loss` is that of the tree before it was refined on all rows, measured on the rows that the start was
    grown without; NaN for a tree that saw all rows from the start. Of tables with more than 10,000 rows, only the
    start on all rows and the two best others are refined on all of them, with one smoothing; the others were refined on
    the rows that they were grown on, and the rest of their figures is of all rows.
    """

    start: str  # "all rows", "bootstrap 1", ..., "constant"
    smoothing: str  # "none", or "wider": rows were also counted at slightly larger reach
    seed: int
    training_loss: float
    objective: float  # what was minimised: with the price of leaves, and with rows as they were smoothed
    out_of_bag_loss: float
    n_leaves: int
    chosen: bool


@dataclass(frozen=True)
class SearchReport:
    """All that a search has tried: ``pandas.DataFrame(report.candidates)`` is a table of it.

    Attributes
    ----------
    candidates : tuple of Candidate
        In the order in which they were planned.
    out_of_bag_loss : dict
        Per smoothing, the mean over training rows of how often they were lost by trees that had not seen them. The
        smoothing with the least was chosen, and of its candidates the one with the least objective.
    constant_loss : float
        The loss of the better constant classifier, which no attacker can raise.
    interrupted : bool
        Whether Ctrl-C has cut it short: the best candidate so far was taken.
    """

    candidates: tuple[Candidate, ...]
    out_of_bag_loss: dict[str, float]
    constant_loss: float
    interrupted: bool = False

    @property
    def chosen(self) -> Candidate:
        """The candidate that became the tree."""
        return next(candidate for candidate in self.candidates if candidate.chosen)

    def __repr__(self) -> str:
        best = self.chosen
        return (
            f"SearchReport({len(self.candidates)} candidates; chosen: start={best.start!r}, "
            f"smoothing={best.smoothing!r}, training_loss={best.training_loss:.3f}, n_leaves={best.n_leaves})"
        )
