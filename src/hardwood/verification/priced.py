"""Rows under attack by rules and a budget: one tree leaf by leaf, several by branching on what is paid for."""

import numpy as np

from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers
from hardwood.verification.asked import Ask, Asked, Decide
from hardwood.verification.priced_search import PricedSearch
from hardwood.verification.priced_tree import attack_priced_tree


def attack_priced(asked: Asked, ask: Ask) -> Answers:
    """Find the cheapest adversarial example of every row, or just any within the budget."""
    reach, progress, matrix = asked.reach, asked.settings.progress, asked.matrix
    assert isinstance(reach, PricedReach)
    decides = isinstance(asked.goal, Decide)
    if asked.ensemble.n_trees == 1:
        found, example, cost, worst = attack_priced_tree(asked.ensemble, reach, matrix, asked.class_index)
        if progress is not None:
            progress(len(matrix), len(matrix))
        bounds = (worst, worst.copy()) if decides else (cost, cost.copy())
        return Answers(np.where(found, FOUND, NONE), *bounds, example)
    search, answers = PricedSearch(asked, ask, any_will_do=decides), Answers.unknown(matrix)
    try:
        for k in range(len(matrix)):
            with asked.clock.run(k) as clock:
                said = search.ask(matrix[k], int(asked.class_index[k]), clock)
            answers.status[k] = FOUND if said.example is not None else NONE if said.finished else UNFINISHED
            if said.example is not None:
                answers.example[k] = said.example
            answers.lower[k] = said.lower_margin if decides else said.lower_cost
            answers.upper[k] = np.inf if decides else said.cost
            if progress is not None:
                progress(k + 1, len(matrix))
    except KeyboardInterrupt:  # what has been found is kept; the rest is unknown
        return answers._replace(interrupted=True)
    return answers
