"""The one internal door to all that answers exact questions about rows of an encoded matrix.

What an attacker may do besides moving values is dealt with first, by asking simpler questions (`REDUCTIONS`). Who
answers what is left depends on the attacker, the model and the method: attack rules have a search of their own
(`priced`), one tree is read off its reachable leaves (`one_tree`), several are searched (`search`), and on demand a
mixed-integer solver is asked (`milp`), or local moves are made that prove nothing (`local`). What is asked has been
checked before (`question`); every example is checked here before it leaves.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.threat.reach import read_codes
from hardwood.verification import one_tree
from hardwood.verification.answers import (
    FOUND,
    NONE,
    UNFINISHED,
    Answers,
    SearchAnswers,
    ask_where_right,
    measure_margin,
)
from hardwood.verification.asked import Ask, Asked, AskSettings, Decide, Extreme, Goal, Nearest, Outputs
from hardwood.verification.blanking import show_hidden
from hardwood.verification.budgeted import Budgeted
from hardwood.verification.clock import Clock
from hardwood.verification.distance import first_radius, measure
from hardwood.verification.examples import find_wrong, withdraw
from hardwood.verification.folding import fold_groups
from hardwood.verification.local import attack_locally
from hardwood.verification.milp import Milp
from hardwood.verification.milp_distance import ask_nearest
from hardwood.verification.priced import attack_priced
from hardwood.verification.related import keep_relations
from hardwood.verification.search import RowSearch
from hardwood.verification.targeted import serve_targets
from hardwood.verification.tree_distance import attack_tree

__all__ = ["AskSettings", "ask_in_whole_numbers", "decide", "decide_all", "extreme", "extremes", "nearest"]

# Weights whose largest is a power of two with no larger an exponent are left as they are.
ORDINARY = 64

# What can be said of a question by asking simpler ones, in the order in which it is tried. Each answers in the terms of
# the question that it was given, asks others that are without what it deals with, and says None if there is none of it:
# one-hot groups, values that can be blanked or filled, relations between columns, classes that are wanted.
REDUCTIONS: tuple[Callable[[Asked, Ask], Answers | None], ...] = (
    fold_groups,
    show_hidden,
    keep_relations,
    serve_targets,
)


def decide(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    settings: AskSettings,
    outputs: Outputs | None = None,
) -> Answers:
    """Ask of every row whether the attacker can give it another class; bounds are of the smallest margin.

    A row that is wrong as it stands is its own example. `outputs`: what is known of what the model says of the rows.
    """
    return _begin(Decide(), ensemble, matrix, class_index, reach, settings, outputs)


def nearest(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    norm: float,
    weight: np.ndarray,
    settings: AskSettings,
    outputs: Outputs | None = None,
) -> Answers:
    """Find the nearest example of every row; bounds are of its distance, infinite where there is none.

    With attack rules: the cheapest, and bounds of what it costs. Very large and very small weights are multiplied by a
    power of two, so that distances remain ordinary numbers on the way.
    """
    exponent = 0 if isinstance(reach, PricedReach) else math.frexp(float(weight.max(initial=0.0)))[1]
    about = ensemble, matrix, class_index, reach, settings, outputs
    if abs(exponent) <= ORDINARY:
        return _begin(Nearest(norm, weight), *about)
    answers = _begin(Nearest(norm, np.ldexp(weight, -exponent)), *about)
    with np.errstate(over="ignore"):
        return answers._replace(lower=np.ldexp(answers.lower, exponent), upper=np.ldexp(answers.upper, exponent))


def extreme(ensemble: TreeEnsemble, matrix: np.ndarray, reach: Reach, sign: int, settings: AskSettings) -> Answers:
    """Find the largest (sign 1) or smallest (-1) output of a regression that each row can be given, and its point."""
    class_index = np.zeros(len(matrix), dtype=np.intp)
    return _begin(Extreme(sign), ensemble, matrix, class_index, reach, settings)


def extremes(
    ensemble: TreeEnsemble, matrix: np.ndarray, reach: Reach, settings: AskSettings
) -> tuple[Answers, Answers]:
    """Find the smallest and the largest output that each row can be given; both take no more than its time."""
    clock, class_index = Clock(settings.time_limit, len(matrix)), np.zeros(len(matrix), dtype=np.intp)
    outputs = Outputs(ensemble, matrix)
    asked = Asked(Extreme(1), ensemble, matrix, class_index, reach, settings, clock, outputs)
    highest = _answer(asked._replace(clock=clock.share(0.5)))
    if highest.interrupted:
        clock = clock.stop()  # cheap bounds only: what has been found need not wait
    return _answer(asked._replace(goal=Extreme(-1), clock=clock)), highest


def decide_all(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    time_limit: float = math.inf,
    outputs: Outputs | None = None,
) -> np.ndarray:
    """Say of every row whether the attacker can give it another class; TimeoutError if one stays open."""
    answers = decide(ensemble, matrix, class_index, reach, AskSettings(time_limit=time_limit), outputs)
    if answers.interrupted:
        raise KeyboardInterrupt
    undecided = int((answers.status == UNFINISHED).sum())
    if undecided:
        raise TimeoutError(
            f"{undecided} of {len(matrix)} rows are undecided after time_limit={time_limit:g} seconds each; "
            "give them more time, or use verify, which says what is known"
        )
    return np.asarray(answers.status == FOUND)


def _begin(
    goal: Goal,
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    settings: AskSettings,
    outputs: Outputs | None = None,
) -> Answers:
    """Ask a question; from now on the time of its rows is counted."""
    clock, outputs = Clock(settings.time_limit, len(matrix)), outputs or Outputs(ensemble, matrix)
    return _answer(Asked(goal, ensemble, matrix, class_index, reach, settings, clock, outputs))


def _answer(asked: Asked) -> Answers:
    """Answer by asking simpler questions, or else by whoever can; every example is checked."""
    for reduction in REDUCTIONS:
        answers = reduction(asked, _answer)
        if answers is not None:
            break
    else:
        answers = _ask_engine(asked._replace(ensemble=ask_in_whole_numbers(asked.ensemble, asked.reach)))
    if isinstance(asked.goal, Extreme):
        return _check_extremes(asked, answers)
    return _check_examples(asked, answers)


def ask_in_whole_numbers(ensemble: TreeEnsemble, reach: Reach | PricedReach) -> TreeEnsemble:
    """Return the ensemble to be asked: with whole thresholds, where the attacker moves by whole numbers."""
    return ensemble if isinstance(reach, PricedReach) else round_thresholds(ensemble, reach.whole)


def _check_examples(asked: Asked, answers: Answers) -> Answers:
    """Check every example, and bring what is known of a margin or a distance in line with it."""
    ensemble, class_index = asked.ensemble, asked.class_index
    found = np.flatnonzero(answers.status == FOUND)
    given = ensemble.output(answers.example[found])
    if len(found):
        wrong = find_wrong(asked.select(found), answers.example[found], ensemble.choose(given))
        if wrong.any():
            answers = withdraw(asked, answers, found[wrong])
            found, given = found[~wrong], given[~wrong]
    if isinstance(asked.goal, Nearest):
        return answers._replace(lower=np.minimum(np.maximum(answers.lower, 0.0), answers.upper))
    output = asked.output().copy()
    output[found] = given
    margin = measure_margin(ensemble, output, class_index, asked.reach.targets)
    upper = np.minimum(margin, answers.upper)
    lower = np.where(answers.status == NONE, np.maximum(answers.lower, 0.0), answers.lower)
    return answers._replace(lower=np.minimum(lower, upper), upper=upper)


def _check_extremes(asked: Asked, answers: Answers) -> Answers:
    """Check the point of every row, and bring what is reached in line with it."""
    goal, matrix, example = asked.goal, asked.matrix, answers.example
    assert isinstance(goal, Extreme)
    wrong = np.flatnonzero(~asked.reach.contains(matrix, example, asked.class_index))
    if len(wrong):
        answers = withdraw(asked, answers, wrong)
        example[wrong] = matrix[wrong]
    reached = asked.ensemble.output(example)[:, 0].astype(np.float64)
    if goal.sign == 1:
        lower, upper = np.maximum(answers.lower, reached), answers.upper
    else:
        lower, upper = answers.lower, np.minimum(answers.upper, reached)
    return answers._replace(lower=lower, upper=upper, example=example)


def _ask_engine(asked: Asked) -> Answers:
    """Ask whoever can answer; the examples have not been checked."""
    if isinstance(asked.goal, Extreme):
        return _ask_for_extremes(asked, asked.goal.sign)
    if isinstance(asked.reach, PricedReach):
        return attack_priced(asked, _answer)
    if asked.settings.is_local:
        return attack_locally(asked)
    if isinstance(asked.goal, Nearest):
        return _ask_for_nearest(asked, asked.goal)
    return _ask_to_decide(asked)


def _ask_to_decide(asked: Asked) -> Answers:
    ensemble, matrix, class_index, reach, settings, clock = asked[1:7]
    assert isinstance(reach, Reach)
    if ensemble.n_trees == 1 and settings.method == "search":
        return one_tree.decide(ensemble, matrix, class_index, reach, settings.progress)
    predicted = asked.predict()
    if settings.method == "milp":
        milp = Milp(ensemble, reach, settings.n_threads, settings.progress)
        found = ask_where_right(milp.decide, matrix, class_index, clock, predicted)
        return _read_leads(found, found.bound / -ensemble.divisor)
    search = _search(asked)
    ask = search.decide if reach.budget is None else _within_budget(asked).decide
    found = ask_where_right(ask, matrix, class_index, clock, predicted)
    return _read_leads(found, search.bound_margin(found.bound))


def _ask_for_nearest(asked: Asked, goal: Nearest) -> Answers:
    ensemble, matrix, class_index, reach, settings, clock = asked[1:7]
    assert isinstance(reach, Reach)
    if settings.method == "milp":
        milp = Milp(ensemble, reach, settings.n_threads, settings.progress)
        ask: Callable[..., SearchAnswers] = partial(ask_nearest, milp, goal.norm, goal.weight)
    elif ensemble.n_trees == 1:
        about = ensemble, matrix, class_index, reach, goal.norm, goal.weight
        if reach.budget is not None:
            return one_tree.nearest(*about, settings.progress)
        found, example = attack_tree(*about)
        if settings.progress is not None:
            settings.progress(len(matrix), len(matrix))
        distance = np.full(len(matrix), np.inf)
        distance[found] = measure(example[found], matrix[found], ensemble.schema, goal.norm, goal.weight)
        return Answers(np.where(found, FOUND, NONE), distance, distance.copy(), example)
    elif reach.budget is not None:
        ask = partial(_within_budget(asked).nearest, norm=goal.norm, weight=goal.weight)
    else:
        search = _search(asked, goal.norm, goal.weight)
        ask = partial(search.nearest, guess=first_radius(ensemble, goal.weight, goal.norm))
    said = ask_where_right(ask, matrix, class_index, clock, asked.predict())
    status = np.select([said.status == FOUND, said.certified == np.inf], [FOUND, NONE], UNFINISHED)
    upper, found = np.full(len(matrix), np.inf), status == FOUND
    upper[found] = measure(said.example[found], matrix[found], ensemble.schema, goal.norm, goal.weight)
    return Answers(status, said.certified, upper, said.example, said.interrupted, said.work)


def _ask_for_extremes(asked: Asked, sign: int) -> Answers:
    assert isinstance(asked.reach, Reach)
    if asked.ensemble.n_trees > 1:
        return _bound_sums(asked, asked.reach, sign)
    answers = one_tree.extreme(asked.ensemble, asked.matrix, asked.reach, sign, asked.settings.progress)
    return answers._replace(example=_stay_where_unknown(answers.example, asked.matrix))


def _stay_where_unknown(example: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return points, of rows that nobody came to the rows themselves. What is missing is so in both here."""
    return np.where(np.isnan(example) & ~np.isnan(matrix), matrix, example)


def _bound_sums(asked: Asked, reach: Reach, sign: int) -> Answers:
    """Bound the sum of several trees, widened by what rounding may do to the model's own sum and to its division."""
    ensemble, matrix, search = asked.ensemble, asked.matrix, _search(asked)
    within = search if reach.budget is None else _within_budget(asked)
    said = within.extreme(matrix, sign, asked.clock)
    bound = sign * search.rounding.bound_outputs(ensemble, sign * float(ensemble.base_score[0]) + said.bound)
    exact = (said.status == NONE) & (search.rounding.doubt == 0.0)
    # Sums that are exact, and rows that cannot leave their leaves: the extreme is what the model says of the example.
    still = _cannot_leave(ensemble, matrix, reach)
    example = np.where(still[:, None], matrix, _stay_where_unknown(said.example, matrix))
    status = np.where(still, NONE, said.status)
    settled = exact | still
    bound[settled] = ensemble.output(example[settled])[:, 0]
    far = np.full(len(matrix), -sign * np.inf)
    lower, upper = (far, bound) if sign == 1 else (bound, far)
    return Answers(status, lower, upper, example, said.interrupted, said.work)


def _cannot_leave(ensemble: TreeEnsemble, matrix: np.ndarray, reach: Reach) -> np.ndarray:
    """Say of each row whether it stays in its leaf of every tree, wherever its numbers are moved.

    A leaf is a box: if both corners of a row's reach are in it, all of the reach is. Rows whose categories can be
    changed are not looked at.
    """
    class_index = np.zeros(len(matrix), dtype=np.intp)
    largest = np.finfo(np.float64).max
    low, high = (np.clip(end, -largest, largest) for end in reach.box(matrix, class_index))
    still = (ensemble.leaves(low) == ensemble.leaves(high)).all(axis=1)
    for feature in reach.categorical:
        allowed = reach.categories[feature]
        assert allowed is not None
        own = read_codes(matrix[:, feature])
        still &= np.isnan(matrix[:, feature]) | (allowed[own].sum(axis=1) == 1)
    return still


def _within_budget(asked: Asked) -> Budgeted:
    assert isinstance(asked.reach, Reach)
    settings = asked.settings
    return Budgeted(asked.ensemble, asked.reach, settings.n_threads, settings.progress, settings.search)


def _search(asked: Asked, norm: float = np.inf, weight: np.ndarray | None = None) -> RowSearch:
    assert isinstance(asked.reach, Reach)
    settings = asked.settings
    weight = np.ones(asked.ensemble.schema.n_features) if weight is None else weight
    return RowSearch(asked.ensemble, asked.reach, weight, settings.n_threads, settings.progress, norm, settings.search)


def _read_leads(found: SearchAnswers, lower: np.ndarray) -> Answers:
    """Return margins, which are known from below."""
    upper = np.full(len(found.bound), np.inf)
    return Answers(found.status, lower, upper, found.example, found.interrupted, found.work)
