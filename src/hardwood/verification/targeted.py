"""The layer for attackers who want certain classes: a row is lost only where the model gives it one of these.

Rows are asked about class by class. Of one tree it is known what every leaf says, so it is asked as a tree of two
classes, those that are wanted and all others. Of several trees each wanted class is asked about against the row's own:
if it cannot get ahead of that, it is not given to the row. If it can, but a third class that nobody wants is ahead of
both in the example that is found, the mixed-integer solver is asked for one where the wanted class beats all others.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers, measure_margin
from hardwood.verification.distance import measure
from hardwood.verification.milp import Milp
from hardwood.verification.milp_distance import ask_nearest

AnyReach = Reach | PricedReach
# Asks about rows of one ensemble without targets: (ensemble, matrix, class_index, reach) -> Answers.
Ask = Callable[[TreeEnsemble, np.ndarray, np.ndarray, AnyReach], Answers]


def decide(
    ask: Ask, ensemble: TreeEnsemble, matrix: np.ndarray, class_index: np.ndarray, reach: AnyReach, settings: Any
) -> Answers:
    """Ask of every row whether the attacker can give it a class that he wants; bounds are of the smallest margin.

    The margin is that of the best class he does not want over the best he does.
    """
    output = ensemble.output(matrix)
    wrong = ensemble.choose(output) != class_index
    margin = measure_margin(ensemble, output, class_index)
    status, example = np.where(wrong, FOUND, NONE), np.where(wrong[:, None], matrix, np.nan)
    answers = Answers(status, np.where(wrong, -np.inf, margin), margin, example)
    for k, rows in _list_classes(class_index, ~wrong, reach):
        wanted = _read_targets(reach)[k]
        own = ensemble.output(matrix[rows])
        answers.upper[rows] = own[:, ~wanted].max(axis=1) - own[:, wanted].max(axis=1)
        if ensemble.n_trees == 1:
            part = ask(_merge(ensemble, wanted), matrix[rows], np.zeros(len(rows), dtype=np.intp), _free(reach))
        else:
            part = _decide_several(ask, ensemble, matrix[rows], k, wanted, reach, settings)
        _put(answers, rows, part)
        answers = answers._replace(interrupted=answers.interrupted or part.interrupted)
    found = answers.status == FOUND
    moved = found & ~wrong
    if moved.any():
        given = ensemble.output(answers.example[moved])
        for i, values in zip(np.flatnonzero(moved), given, strict=True):
            wanted = _read_targets(reach)[class_index[i]]
            answers.upper[i] = min(answers.upper[i], float(values[~wanted].max()) - float(values[wanted].max()))
    if settings.progress is not None:
        settings.progress(len(matrix), len(matrix))
    return answers._replace(lower=np.minimum(answers.lower, answers.upper))


def nearest(
    ask: Ask,
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: AnyReach,
    norm: float,
    weight: np.ndarray,
    settings: Any,
) -> Answers:
    """Find the nearest example of every row that is given a class that the attacker wants."""
    wrong = ensemble.decide(matrix) != class_index
    distance = np.where(wrong, 0.0, np.inf)
    status, example = np.where(wrong, FOUND, NONE), np.where(wrong[:, None], matrix, np.nan)
    answers = Answers(status, distance.copy(), distance, example)
    for k, rows in _list_classes(class_index, ~wrong, reach):
        wanted = _read_targets(reach)[k]
        if ensemble.n_trees == 1:
            part = ask(_merge(ensemble, wanted), matrix[rows], np.zeros(len(rows), dtype=np.intp), _free(reach))
        else:
            solve = partial(_ask_solver_nearest, ensemble, k, wanted, reach, settings, norm, weight)
            part = _approach_several(ask, ensemble, matrix[rows], k, wanted, reach, solve, settings)
        _put(answers, rows, part)
        answers = answers._replace(interrupted=answers.interrupted or part.interrupted)
    if settings.progress is not None:
        settings.progress(len(matrix), len(matrix))
    return answers


def _list_classes(class_index: np.ndarray, asked: np.ndarray, reach: AnyReach) -> list[tuple[int, np.ndarray]]:
    """Return the classes that attack, with the rows of each that are asked about."""
    attacks = _read_targets(reach).any(axis=1)
    found = [(k, np.flatnonzero(asked & (class_index == k))) for k in np.flatnonzero(attacks).tolist()]
    return [(k, rows) for k, rows in found if len(rows)]


def _read_targets(reach: AnyReach) -> np.ndarray:
    assert reach.targets is not None
    return reach.targets


def _free(reach: AnyReach) -> AnyReach:
    """Return what the attacker may do to rows of one class that attacks, if he is asked for two classes."""
    if isinstance(reach, PricedReach):
        free = _free(reach.free)
        assert isinstance(free, Reach)
        return replace(reach, free=free)
    return replace(reach, targets=None, attacks=np.ones(2, dtype=bool))


def _put(answers: Answers, rows: np.ndarray, part: Answers) -> None:
    answers.status[rows], answers.example[rows] = part.status, part.example
    answers.lower[rows], answers.upper[rows] = part.lower, part.upper


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


def _decide_several(
    ask: Ask, ensemble: TreeEnsemble, matrix: np.ndarray, own: int, wanted: np.ndarray, reach: AnyReach, settings: Any
) -> Answers:
    n_rows = len(matrix)
    status, lower, upper = np.full(n_rows, NONE), np.full(n_rows, np.inf), np.full(n_rows, np.inf)
    answers = Answers(status, lower, upper, np.full_like(matrix, np.nan))
    passed_over = np.zeros(n_rows, dtype=bool)  # rows whose example is given a third class
    for rival in np.flatnonzero(wanted).tolist():
        rows = np.flatnonzero(status != FOUND)
        if not len(rows) or answers.interrupted:
            break
        index = np.full(len(rows), int(rival < own))
        part = ask(_pair(ensemble, own, rival), matrix[rows], index, _free(reach))
        lower[rows] = np.minimum(lower[rows], part.lower)
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
    rows = _keep_solvable(rows, matrix, reach)
    if len(rows) and not answers.interrupted:
        said = _make_milp(ensemble, wanted, reach, settings).decide(matrix[rows], np.full(len(rows), own))
        status[rows], answers.example[rows] = said.status, said.example
        answers = answers._replace(interrupted=said.interrupted)
    lower[:] = np.where(status == NONE, np.maximum(lower, 0.0), lower)
    return answers


def _approach_several(
    ask: Ask,
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    own: int,
    wanted: np.ndarray,
    reach: AnyReach,
    solve: Callable[[np.ndarray], Answers],
    settings: Any,
) -> Answers:
    n_rows = len(matrix)
    lower, upper, example = np.full(n_rows, np.inf), np.full(n_rows, np.inf), np.full_like(matrix, np.nan)
    interrupted = False
    for rival in np.flatnonzero(wanted).tolist():
        index = np.full(n_rows, int(rival < own))
        part = ask(_pair(ensemble, own, rival), matrix, index, _free(reach))
        lower, interrupted = np.minimum(lower, part.lower), interrupted or part.interrupted
        found = np.flatnonzero((part.status == FOUND) & (part.upper < upper))
        nearer = found[wanted[ensemble.decide(part.example[found])]] if len(found) else found
        upper[nearer], example[nearer] = part.upper[nearer], part.example[nearer]
    rows = _keep_solvable(np.flatnonzero(lower < upper), matrix, reach)
    if len(rows) and not interrupted:
        said = solve(matrix[rows])
        nearer = said.upper < upper[rows]
        upper[rows[nearer]], example[rows[nearer]] = said.upper[nearer], said.example[nearer]
        lower[rows] = np.maximum(lower[rows], said.lower)
        interrupted = said.interrupted
    status = np.select([upper < np.inf, lower == np.inf], [FOUND, NONE], UNFINISHED)
    return Answers(status, np.minimum(lower, upper), upper, example, interrupted)


def _keep_solvable(rows: np.ndarray, matrix: np.ndarray, reach: AnyReach) -> np.ndarray:
    """Return those of some rows that the solver understands: complete ones, of attackers who move values."""
    if isinstance(reach, PricedReach):
        return rows[:0]
    if any(part is not None for part in (reach.groups, reach.relations, reach.blank, reach.fill)):
        return rows[:0]
    return rows[~np.isnan(matrix[rows]).any(axis=1)]


def _make_milp(ensemble: TreeEnsemble, wanted: np.ndarray, reach: AnyReach, settings: Any) -> Milp:
    assert isinstance(reach, Reach)
    everybody = replace(reach, targets=None, attacks=np.ones(len(wanted), dtype=bool))
    numbers = replace(ensemble, schema=replace(ensemble.schema, accepts_missing=False))
    numbers = round_thresholds(numbers, reach.whole)
    return Milp(numbers, everybody, settings.time_limit, settings.n_threads, None, wanted)


def _ask_solver_nearest(
    ensemble: TreeEnsemble,
    own: int,
    wanted: np.ndarray,
    reach: AnyReach,
    settings: Any,
    norm: float,
    weight: np.ndarray,
    matrix: np.ndarray,
) -> Answers:
    """Find the nearest points where a wanted class beats all others, by the solver."""
    milp = _make_milp(ensemble, wanted, reach, settings)
    said = ask_nearest(milp, norm, weight, matrix, np.full(len(matrix), own))
    upper, found = np.full(len(matrix), np.inf), said.status == FOUND
    upper[found] = measure(said.example[found], matrix[found], ensemble.schema, norm, weight)
    return Answers(said.status, said.certified, upper, said.example, said.interrupted)
