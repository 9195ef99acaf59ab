"""Attackers who want certain classes: a row is lost only where the model gives it one of these.

Rows are asked about class by class. Of one tree it is known what every leaf says, so it is asked as a tree of two
classes, those that are wanted and all others. Of several trees each wanted class is asked about against the row's own:
if it cannot get ahead of that, it is not given to the row. If it can, but a third class that nobody wants is ahead of
both in the example that is found, the mixed-integer solver is asked for one where the wanted class beats all others.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers
from hardwood.verification.asked import Ask, Asked, Decide, Extreme, Nearest
from hardwood.verification.distance import measure
from hardwood.verification.milp import Milp
from hardwood.verification.milp_distance import ask_nearest


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
            merged = part._replace(ensemble=_merge(ensemble, wanted), class_index=index, reach=_free(reach))
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


def _free(reach: Reach | PricedReach) -> Reach | PricedReach:
    """Return what the attacker may do to rows of one class that attacks, if he is asked for two classes."""
    if isinstance(reach, PricedReach):
        free = _free(reach.free)
        assert isinstance(free, Reach)
        return replace(reach, free=free)
    return replace(reach, targets=None, attacks=np.ones(2, dtype=bool))


def _merge(tree: TreeEnsemble, wanted: np.ndarray) -> TreeEnsemble:
    merged: TreeEnsemble = tree.remember((_make_merged, wanted.tobytes()), partial(_make_merged, wanted=wanted))
    return merged


def _make_merged(tree: TreeEnsemble, wanted: np.ndarray) -> TreeEnsemble:
    """Return one tree as it is for an attacker: the best class that he does not want, and the best that he does.

    Of equal outputs the first wins. Where that is one that he wants, its output is raised by next to nothing.
    """
    output = tree.node_output.astype(np.float64)
    others, best = output[:, ~wanted].max(axis=1), output[:, wanted].max(axis=1)
    best = np.where((best == others) & wanted[tree.node_class], np.nextafter(best, np.inf), best)
    return replace(
        tree,
        value=np.column_stack([others, best]),
        base_score=np.zeros(2),
        link="score",
        classes=np.arange(2),
        precision="float64",
        divisor=1.0,
        cut=0.0,
    )


def _pair(ensemble: TreeEnsemble, own: int, rival: int) -> TreeEnsemble:
    both = sorted([own, rival])
    pair: TreeEnsemble = ensemble.remember((_make_pair, *both), partial(_make_pair, both=both))
    return pair


def _make_pair(ensemble: TreeEnsemble, both: list[int]) -> TreeEnsemble:
    """Return the ensemble as it tells two classes apart."""
    link = "score" if ensemble.link == "probability" else ensemble.link
    return replace(
        ensemble, value=ensemble.value[:, both], base_score=ensemble.base_score[both], link=link, classes=np.arange(2)
    )


def _ask_pair(asked: Asked, ask: Ask, own: int, rival: int) -> Answers:
    """Ask whether one class can get ahead of the rows' own, whatever becomes of the others."""
    index = np.full(len(asked.matrix), int(rival < own))
    pair = asked._replace(ensemble=_pair(asked.ensemble, own, rival), class_index=index, reach=_free(asked.reach))
    return ask(pair._replace(are_moved=False))


def _decide_several(asked: Asked, ask: Ask, own: int, wanted: np.ndarray) -> Answers:
    """Ask about rows of one class, which several trees get right, one wanted class after the other."""
    ensemble, rivals = asked.ensemble, np.flatnonzero(wanted).tolist()
    answers = Answers.unknown(asked.matrix, lower=np.inf)
    status = answers.status
    status[:] = NONE
    passed_over = np.zeros(len(status), dtype=bool)  # rows whose example is given a third class
    for k, rival in enumerate(rivals):
        rows = np.flatnonzero(status != FOUND)
        if not len(rows) or answers.interrupted:
            break
        # Each of those that are left, the solver among them, may take as long as the others.
        some = asked.select(rows)
        part = _ask_pair(some._replace(clock=some.clock.share(1.0 / (len(rivals) - k + 1))), ask, own, rival)
        answers.lower[rows] = np.minimum(answers.lower[rows], part.lower)
        found = part.status == FOUND
        works = found.copy()
        works[found] = wanted[ensemble.decide(part.example[found])]
        answers.example[rows[works]] = part.example[works]
        status[rows[part.status == UNFINISHED]] = UNFINISHED
        status[rows[works]] = FOUND
        passed_over[rows[found & ~works]] = True
        answers = answers._replace(interrupted=part.interrupted)
    rows = np.flatnonzero(passed_over & (status != FOUND))
    status[rows] = UNFINISHED
    if len(rows) and not answers.interrupted:
        some = asked.select(rows)
        said = _make_milp(some, wanted).decide(some.matrix, np.full(len(rows), own), some.clock)
        status[rows], answers.example[rows] = said.status, said.example
        answers = answers._replace(interrupted=said.interrupted)
    return answers


def _approach_several(asked: Asked, ask: Ask, own: int, wanted: np.ndarray) -> Answers:
    """Find the nearest examples of rows of one class, which several trees get right."""
    ensemble, rivals = asked.ensemble, np.flatnonzero(wanted).tolist()
    answers = Answers.unknown(asked.matrix, lower=np.inf)
    _, lower, upper, example = answers[:4]
    for k, rival in enumerate(rivals):
        hurried = asked._replace(clock=asked.clock.share(1.0 / (len(rivals) - k + 1)))
        part = _ask_pair(hurried, ask, own, rival)
        lower[:] = np.minimum(lower, part.lower)
        answers = answers._replace(interrupted=answers.interrupted or part.interrupted)
        found = np.flatnonzero((part.status == FOUND) & (part.upper < upper))
        nearer = found[wanted[ensemble.decide(part.example[found])]] if len(found) else found
        upper[nearer], example[nearer] = part.upper[nearer], part.example[nearer]
    rows = np.flatnonzero(lower < upper)
    if len(rows) and not answers.interrupted:
        said = _solve_nearest(asked.select(rows), own, wanted)
        nearer = said.upper < upper[rows]
        upper[rows[nearer]], example[rows[nearer]] = said.upper[nearer], said.example[nearer]
        lower[rows] = np.maximum(lower[rows], said.lower)
        answers = answers._replace(interrupted=said.interrupted)
    answers.status[:] = np.select([upper < np.inf, lower == np.inf], [FOUND, NONE], UNFINISHED)
    lower[:] = np.minimum(lower, upper)
    return answers


def _make_milp(asked: Asked, wanted: np.ndarray) -> Milp:
    reach = asked.reach
    assert isinstance(reach, Reach)  # without groups, relations, or anything that is hidden: these have been dealt with
    everybody = replace(reach, targets=None, attacks=np.ones(len(wanted), dtype=bool))
    numbers = replace(asked.ensemble, schema=replace(asked.ensemble.schema, accepts_missing=False))
    return Milp(round_thresholds(numbers, reach.whole), everybody, asked.settings.n_threads, None, wanted)


def _solve_nearest(asked: Asked, own: int, wanted: np.ndarray) -> Answers:
    """Find the nearest points where a wanted class beats all others, by the solver."""
    goal = asked.goal
    assert isinstance(goal, Nearest)
    milp = _make_milp(asked, wanted)
    about = asked.matrix, np.full(len(asked.matrix), own), asked.clock
    said = ask_nearest(milp, goal.norm, goal.weight, *about)
    upper, found = np.full(len(asked.matrix), np.inf), said.status == FOUND
    upper[found] = measure(said.example[found], asked.matrix[found], asked.ensemble.schema, goal.norm, goal.weight)
    return Answers(said.status, said.certified, upper, said.example, said.interrupted)
