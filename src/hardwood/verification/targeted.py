"""Attackers who want certain classes: a row is lost only where the model gives it one of these.

Rows are asked about class by class. Of one tree it is known what every leaf says, so it is asked as a tree of two
classes, those that are wanted and all others. Of several trees each wanted class is asked about against the row's own:
if it cannot get ahead of that, it is not given to the row. If it can, but a third class that nobody wants is ahead of
both in the example that is found, an example where the wanted class beats all others is searched for
(`targeted_search`); a second opinion is that of the solver there, too.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers
from hardwood.verification.asked import Ask, Asked, Decide, Extreme, Nearest
from hardwood.verification.distance import measure
from hardwood.verification.milp import Milp
from hardwood.verification.milp_distance import ask_nearest
from hardwood.verification.nearest_search import NearestSearch
from hardwood.verification.targeted_search import TargetedSearch
from hardwood.verification.two_classes import ask_for_two, merge_classes, pair_classes


def serve_targets(asked: Asked, ask: Ask) -> Answers | None:
    """Ask about the rows of each class whether they can be given a class that the attacker wants.

    The search behind attack rules asks about boxes, and each of these is such a question itself. Local moves go for any
    class, and keep what is wanted.
    """
    reach, ensemble = asked.reach, asked.ensemble
    if reach.targets is None or isinstance(asked.goal, Extreme) or asked.settings.is_local:
        return None
    if isinstance(reach, PricedReach) and ensemble.n_trees > 1:
        return None
    wrong = asked.find_wrong(asked.predict())
    answers = Answers.unknown(asked.matrix)
    # A row of a class that does not attack keeps its margin; the door knows that, and of a wrong row as well.
    answers.status[:] = np.where(wrong, FOUND, NONE)
    answers.example[wrong] = asked.matrix[wrong]
    if isinstance(asked.goal, Nearest):
        answers.lower[:] = answers.upper[:] = np.where(wrong, 0.0, np.inf)
    else:
        answers.lower[~wrong] = np.inf
    for own, rows in _list_classes(asked, ~wrong):
        part = asked.select(rows).silent()
        wanted = reach.targets[own]
        if ensemble.n_trees == 1:
            index = np.zeros(len(rows), dtype=np.intp)
            merged = part._replace(
                ensemble=merge_classes(ensemble, wanted), class_index=index, reach=ask_for_two(reach)
            )
            answers = answers.put(rows, ask(merged._replace(are_moved=False)))
        elif isinstance(asked.goal, Decide):
            answers = answers.put(rows, _decide_several(part, ask, own, wanted))
        else:
            answers = answers.put(rows, _approach_several(part, ask, own, wanted))
    if asked.settings.progress is not None:
        asked.settings.progress(len(asked.matrix), len(asked.matrix))
    return answers


def _list_classes(asked: Asked, is_open: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Go through the classes that attack, with the rows of each that are asked about."""
    assert asked.reach.targets is not None
    for own in np.flatnonzero(asked.reach.targets.any(axis=1)).tolist():
        rows = np.flatnonzero(is_open & (asked.class_index == own))
        if len(rows):
            yield own, rows


def _ask_pair(asked: Asked, ask: Ask, own: int, rival: int) -> Answers:
    """Ask whether one class can get ahead of the rows' own, whatever becomes of the others."""
    index, pair = np.full(len(asked.matrix), int(rival < own)), pair_classes(asked.ensemble, own, rival)
    return ask(asked._replace(ensemble=pair, class_index=index, reach=ask_for_two(asked.reach), are_moved=False))


def _decide_several(asked: Asked, ask: Ask, own: int, wanted: np.ndarray) -> Answers:
    """Ask about rows of one class, which several trees get right, one wanted class after the other."""
    ensemble, rivals = asked.ensemble, np.flatnonzero(wanted).tolist()
    answers = Answers.unknown(asked.matrix, lower=np.inf)
    status = answers.status
    status[:] = NONE
    is_open = np.zeros((len(rivals), len(status)), dtype=bool)  # where the example is given a third class
    for k, rival in enumerate(rivals):
        rows = np.flatnonzero(status != FOUND)
        if not len(rows) or answers.interrupted:
            break
        # Each of those that are left, the search for classes that beat all others among them, may take as long.
        some = asked.select(rows)
        part = _ask_pair(some._replace(clock=some.clock.share(1.0 / (len(rivals) - k + 1))), ask, own, rival)
        answers.lower[rows] = np.minimum(answers.lower[rows], part.lower)
        found = part.status == FOUND
        works = found.copy()
        works[found] = wanted[ensemble.decide(part.example[found])]
        answers.example[rows[works]] = part.example[works]
        status[rows[part.status == UNFINISHED]] = UNFINISHED
        status[rows[works]] = FOUND
        is_open[k, rows] = found & ~works
        answers = answers._replace(interrupted=part.interrupted)
    if asked.settings.method == "milp":
        return _solve_open(asked, answers, own, wanted, is_open)
    return _search_open(asked, answers, own, rivals, is_open)


def _search_open(asked: Asked, answers: Answers, own: int, rivals: list[int], is_open: np.ndarray) -> Answers:
    """Search for examples where a wanted class beats all others, of rows where it can beat their own."""
    assert isinstance(asked.reach, Reach)
    searches = [TargetedSearch(asked.ensemble, asked.reach, rival) for rival in rivals]
    for i in np.flatnonzero(is_open.any(axis=0) & (answers.status != FOUND)).tolist():
        status = answers.status[i]
        answers.status[i] = UNFINISHED  # if it is interrupted
        if answers.interrupted:
            continue
        try:
            with asked.clock.run(i) as clock:
                for k in np.flatnonzero(is_open[:, i]).tolist():
                    options = searches[k].list_options(asked.matrix[i], own)
                    found = searches[k].find_any(asked.matrix[i], own, options, options.every, clock)
                    if found.point is not None:
                        status, answers.example[i] = FOUND, found.point
                        break
                    status = status if found.finished else UNFINISHED
        except KeyboardInterrupt:
            answers = answers._replace(interrupted=True)
            continue
        answers.status[i] = status
    return answers


def _solve_open(asked: Asked, answers: Answers, own: int, wanted: np.ndarray, is_open: np.ndarray) -> Answers:
    """Ask the solver for examples where a wanted class beats all others, of rows where it can beat their own."""
    rows = np.flatnonzero(is_open.any(axis=0) & (answers.status != FOUND))
    answers.status[rows] = UNFINISHED
    if not len(rows) or answers.interrupted:
        return answers
    some = asked.select(rows)
    said = _make_milp(some, wanted).decide(some.matrix, np.full(len(rows), own), some.clock)
    answers.status[rows], answers.example[rows] = said.status, said.example
    return answers._replace(interrupted=said.interrupted)


def _approach_several(asked: Asked, ask: Ask, own: int, wanted: np.ndarray) -> Answers:
    """Find the nearest examples of rows of one class, which several trees get right."""
    ensemble, rivals = asked.ensemble, np.flatnonzero(wanted).tolist()
    answers = Answers.unknown(asked.matrix, lower=np.inf)
    _, lower, upper, example = answers[:4]
    least = np.zeros((len(rivals), len(lower)))  # nearer than this no row can be given the class
    for k, rival in enumerate(rivals):
        if answers.interrupted:
            break
        part = _ask_pair(asked._replace(clock=asked.clock.share(1.0 / (len(rivals) - k + 1))), ask, own, rival)
        least[k] = part.lower
        answers = answers._replace(interrupted=part.interrupted)
        found = np.flatnonzero((part.status == FOUND) & (part.upper < upper))
        nearer = found[wanted[ensemble.decide(part.example[found])]] if len(found) else found
        upper[nearer], example[nearer] = part.upper[nearer], part.example[nearer]
    lower[:] = least.min(axis=0)
    rows = np.flatnonzero(lower < upper)
    if len(rows) and not answers.interrupted:
        ask_open = _solve_nearest if asked.settings.method == "milp" else _search_nearest
        answers = ask_open(asked, answers, own, rows, least)
    answers.status[:] = np.select([upper < np.inf, lower == np.inf], [FOUND, NONE], UNFINISHED)
    lower[:] = np.minimum(lower, upper)
    return answers


def _search_nearest(asked: Asked, answers: Answers, own: int, rows: np.ndarray, least: np.ndarray) -> Answers:
    """Search for the nearest examples where a wanted class beats all others."""
    goal, reach, schema = asked.goal, asked.reach, asked.ensemble.schema
    assert isinstance(goal, Nearest)
    assert isinstance(reach, Reach)
    assert reach.targets is not None
    _, lower, upper, example = answers[:4]
    searches = [TargetedSearch(asked.ensemble, reach, rival) for rival in np.flatnonzero(reach.targets[own]).tolist()]
    nearest = [NearestSearch(search, goal.norm, goal.weight, search.find_any) for search in searches]
    try:
        for i in rows.tolist():
            with asked.clock.run(i) as clock:
                for k in np.argsort(least[:, i], kind="stable").tolist():
                    if least[k, i] >= upper[i]:
                        break
                    known = example[i].copy() if upper[i] < np.inf else None
                    found = nearest[k].find(asked.matrix[i], own, known, float(least[k, i]), clock)
                    least[k, i] = found.bound
                    if found.point is not None:
                        example[i] = found.point
                        upper[[i]] = measure(example[[i]], asked.matrix[[i]], schema, goal.norm, goal.weight)
            lower[i] = least[:, i].min()
    except KeyboardInterrupt:
        return answers._replace(interrupted=True)
    return answers


def _solve_nearest(asked: Asked, answers: Answers, own: int, rows: np.ndarray, least: np.ndarray) -> Answers:
    """Find the nearest examples where a wanted class beats all others, by the solver."""
    goal, some = asked.goal, asked.select(rows)
    assert isinstance(goal, Nearest)
    assert asked.reach.targets is not None
    _, lower, upper, example = answers[:4]
    milp, index = _make_milp(some, asked.reach.targets[own]), np.full(len(rows), own)
    said = ask_nearest(milp, goal.norm, goal.weight, some.matrix, index, some.clock)
    found = np.flatnonzero(said.status == FOUND)
    distance = measure(said.example[found], some.matrix[found], asked.ensemble.schema, goal.norm, goal.weight)
    is_nearer = distance < upper[rows[found]]
    nearer = rows[found[is_nearer]]
    upper[nearer], example[nearer] = distance[is_nearer], said.example[found[is_nearer]]
    lower[rows] = np.maximum(least[:, rows].min(axis=0), said.certified)
    return answers._replace(interrupted=said.interrupted)


def _make_milp(asked: Asked, wanted: np.ndarray) -> Milp:
    reach = asked.reach
    assert isinstance(reach, Reach)  # without groups, relations, or anything that is hidden: these have been dealt with
    everybody = replace(reach, targets=None, attacks=np.ones(len(wanted), dtype=bool))
    numbers = replace(asked.ensemble, schema=replace(asked.ensemble.schema, accepts_missing=False))
    return Milp(round_thresholds(numbers, reach.whole), everybody, asked.settings.n_threads, None, wanted)
