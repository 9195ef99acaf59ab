"""Rows under attack by rules and a budget: one tree leaf by leaf, several by branching on what is paid for."""

import math
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.progress import Progress
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED
from hardwood.verification.priced_search import Answer, PricedSearch
from hardwood.verification.priced_tree import attack_priced_tree


class PricedAnswers(NamedTuple):
    """What is known of every row."""

    status: np.ndarray  # FOUND, NONE or UNFINISHED
    example: np.ndarray  # float64 (row, feature); NaN where none was found
    cost: np.ndarray  # float64: of the example; inf where none was found
    lower_cost: np.ndarray  # float64: no example costs less
    lower_margin: np.ndarray  # float64: the attacker cannot force a smaller margin
    interrupted: bool = False


def attack_priced(
    ensemble: TreeEnsemble,
    reach: PricedReach,
    matrix: np.ndarray,
    class_index: np.ndarray,
    time_limit: float = math.inf,
    progress: Progress | None = None,
    *,
    any_will_do: bool,
) -> PricedAnswers:
    """Find the cheapest adversarial example of every row, or just any within the budget."""
    if ensemble.n_trees == 1:
        found, example, cost, worst = attack_priced_tree(ensemble, reach, matrix, class_index)
        if progress is not None:
            progress(len(matrix), len(matrix))
        return PricedAnswers(np.where(found, FOUND, NONE), example, cost, cost, worst)
    search = PricedSearch(ensemble, reach, time_limit, any_will_do=any_will_do)
    answers: list[Answer] = []
    try:
        for k in range(len(matrix)):
            answers.append(search.ask(matrix[k], int(class_index[k])))
            if progress is not None:
                progress(k + 1, len(matrix))
    except KeyboardInterrupt:
        pass  # what has been found is kept; the rest is unknown
    interrupted = len(answers) < len(matrix)
    answers += [Answer(None, math.inf, 0.0, -math.inf, False)] * (len(matrix) - len(answers))
    found = np.array([answer.example is not None for answer in answers], dtype=bool)
    finished = np.array([answer.finished for answer in answers], dtype=bool)
    example = np.full_like(matrix, np.nan)
    for k in np.flatnonzero(found).tolist():
        example[k] = answers[k].example
    return PricedAnswers(
        status=np.select([found, finished], [FOUND, NONE], UNFINISHED),
        example=example,
        cost=np.array([answer.cost for answer in answers], dtype=np.float64),
        lower_cost=np.array([answer.lower_cost for answer in answers], dtype=np.float64),
        lower_margin=np.array([answer.lower_margin for answer in answers], dtype=np.float64),
        interrupted=interrupted,
    )
