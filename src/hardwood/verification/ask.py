"""The one internal door to all that answers exact questions about rows of an encoded matrix.

Who answers depends on the attacker, the model and the method: attack rules have a search of their own (`priced`), one
tree is read off its reachable leaves (`one_tree`), several are searched (`search`), and a mixed-integer solver is asked
on demand (`milp`). Attackers who want certain classes are asked about class by class (`targeted`), one-hot groups as
categories (`folding`). What is asked has been checked before (`question`); every example is checked here before it
leaves.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.missing_columns import Part, part_rows
from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.progress import Progress
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.threat.reach import read_codes
from hardwood.verification import one_tree, related, targeted
from hardwood.verification.answers import (
    FOUND,
    NONE,
    UNFINISHED,
    Answers,
    SearchAnswers,
    ask_where_right,
    measure_margin,
)
from hardwood.verification.blanking import ask_in_parts
from hardwood.verification.budgeted import Budgeted
from hardwood.verification.distance import first_radius, measure
from hardwood.verification.examples import check_examples
from hardwood.verification.folding import fold, unfold_answers
from hardwood.verification.metric import Metric
from hardwood.verification.milp import Milp
from hardwood.verification.milp_distance import ask_nearest
from hardwood.verification.priced import PricedAnswers, attack_priced
from hardwood.verification.search import RowSearch
from hardwood.verification.settings import SETTINGS, SearchSettings
from hardwood.verification.tree_distance import attack_tree


class AskSettings(NamedTuple):
    """How an answer is found, and how long that may take."""

    method: str = "search"  # or "milp"
    time_limit: float = math.inf  # seconds per row
    n_threads: int = 1
    progress: Progress | None = None
    search: SearchSettings = SETTINGS  # how the search of several trees spends its time


def decide(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    settings: AskSettings,
) -> Answers:
    """Ask of every row whether the attacker can give it another class; bounds are of the smallest margin.

    A row that is wrong as it stands is its own example.
    """
    folded = fold(ensemble, reach)
    if reach.targets is not None:
        if folded is not None:
            answers = decide(folded.ensemble, folded.folding.fold_rows(matrix), class_index, folded.reach, settings)
            return unfold_answers(answers, folded, ensemble, matrix, class_index, reach)
        asked = settings._replace(progress=None)
        ask = partial(decide, settings=asked)
        answers = targeted.decide(ask, ensemble, matrix, class_index, reach, settings)
        check_examples(ensemble, reach, matrix, answers.example, class_index, answers.status == FOUND)
        return answers
    output = ensemble.output(matrix)
    predicted = ensemble.choose(output)
    if folded is None:
        answers = _answer(ensemble, matrix, class_index, predicted, reach, settings)
    else:
        rows = folded.folding.fold_rows(matrix)
        answers = _answer(folded.ensemble, rows, class_index, predicted, folded.reach, settings)
        answers = answers._replace(example=folded.folding.unfold_rows(answers.example))
    found = answers.status == FOUND
    output[found] = check_examples(ensemble, reach, matrix, answers.example, class_index, found)
    upper = np.minimum(measure_margin(ensemble, output, class_index), answers.upper)
    lower = np.where(answers.status == NONE, np.maximum(answers.lower, 0.0), answers.lower)
    return answers._replace(lower=np.minimum(lower, upper), upper=upper)


def _answer(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    predicted: np.ndarray,
    reach: Reach | PricedReach,
    settings: AskSettings,
) -> Answers:
    """Answer as `decide` does, by whoever can; the examples have not been checked."""
    if isinstance(reach, Reach) and reach.relations is not None:
        return related.decide(decide, nearest, ensemble, matrix, class_index, reach, settings)
    parts = _part(ensemble, matrix, class_index, reach, settings)
    if parts is not None:
        return ask_in_parts(
            lambda part, changes: decide(
                part.ensemble, part.matrix, class_index[part.rows], part.reach, settings._replace(**changes)
            ),
            parts,
            matrix,
            settings.progress,
        )
    ensemble = ask_in_whole_numbers(ensemble, reach)
    if isinstance(reach, PricedReach):
        priced = _price(ensemble, matrix, class_index, reach, settings, any_will_do=True)
        # One tree's worst margin is known exactly; of several, a bound.
        upper = priced.lower_margin if ensemble.n_trees == 1 else _no_bound(matrix)
        return Answers(priced.status, priced.lower_margin, upper, priced.example, priced.interrupted)
    if settings.method == "milp":
        milp = Milp(ensemble, reach, settings.time_limit, settings.n_threads, settings.progress)
        found = ask_where_right(milp.decide, matrix, class_index, predicted)
        return _read_leads(found, found.bound / -ensemble.divisor)
    if ensemble.n_trees == 1:
        return one_tree.decide(ensemble, matrix, class_index, reach, settings.progress)
    search = _search(ensemble, reach, settings)
    asked = search.decide if reach.budget is None else _within_budget(ensemble, reach, settings).decide
    found = ask_where_right(asked, matrix, class_index, predicted)
    return _read_leads(found, search.bound_margin(found.bound))


def _part(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    settings: AskSettings,
) -> list[Part] | None:
    """Return the rows as numbers alone, where values can be blanked or filled, or where the solver is to be asked."""
    if isinstance(reach, PricedReach):
        return None
    missing = settings.method == "milp" and ensemble.schema.accepts_missing
    return part_rows(ensemble, matrix, class_index, reach, missing=missing)


def ask_in_whole_numbers(ensemble: TreeEnsemble, reach: Reach | PricedReach) -> TreeEnsemble:
    """Return the ensemble to be asked: with whole thresholds, where the attacker moves by whole numbers."""
    return ensemble if isinstance(reach, PricedReach) else round_thresholds(ensemble, reach.whole)


def decide_all(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    time_limit: float = math.inf,
) -> np.ndarray:
    """Say of every row whether the attacker can give it another class; TimeoutError if one stays open."""
    answers = decide(ensemble, matrix, class_index, reach, AskSettings(time_limit=time_limit))
    if answers.interrupted:
        raise KeyboardInterrupt
    undecided = int((answers.status == UNFINISHED).sum())
    if undecided:
        raise TimeoutError(
            f"{undecided} of {len(matrix)} rows are undecided after time_limit={time_limit:g} seconds each; "
            "give them more time, or use verify, which says what is known"
        )
    return np.asarray(answers.status == FOUND)


def nearest(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach | PricedReach,
    norm: float,
    weight: np.ndarray,
    settings: AskSettings,
) -> Answers:
    """Find the nearest example of every row; bounds are of its distance, infinite where there is none.

    With attack rules: the cheapest, and bounds of what it costs.
    """
    folded = fold(ensemble, reach)
    if folded is not None:
        weight = folded.folding.fold_weight(weight)
        answers = nearest(
            folded.ensemble, folded.folding.fold_rows(matrix), class_index, folded.reach, norm, weight, settings
        )
        return unfold_answers(answers, folded, ensemble, matrix, class_index, reach)
    if reach.targets is not None:
        asked = settings._replace(progress=None)
        seek = partial(nearest, norm=norm, weight=weight, settings=asked)
        answers = targeted.nearest(seek, ensemble, matrix, class_index, reach, norm, weight, settings)
        check_examples(ensemble, reach, matrix, answers.example, class_index, answers.status == FOUND)
        return answers
    if isinstance(reach, Reach) and reach.relations is not None:
        metric = Metric(norm, weight, ensemble.schema.categorical)
        return related.nearest(nearest, ensemble, matrix, class_index, reach, metric, settings)
    parts = _part(ensemble, matrix, class_index, reach, settings)
    if parts is not None:
        return ask_in_parts(
            lambda part, changes: nearest(
                part.ensemble, part.matrix, class_index[part.rows], part.reach, norm, part.weigh(weight),
                settings._replace(**changes),
            ),
            parts,
            matrix,
            settings.progress,
        )  # fmt: skip
    ensemble = ask_in_whole_numbers(ensemble, reach)
    if isinstance(reach, PricedReach):
        priced = _price(ensemble, matrix, class_index, reach, settings, any_will_do=False)
        check_examples(ensemble, reach, matrix, priced.example, class_index, priced.status == FOUND)
        return Answers(priced.status, priced.lower_cost, priced.cost, priced.example, priced.interrupted)
    lower, interrupted, work = _no_bound(matrix), False, None
    if settings.method == "milp":
        milp = Milp(ensemble, reach, settings.time_limit, settings.n_threads, settings.progress)
        ask = partial(ask_nearest, milp, norm, weight)
        said = ask_where_right(ask, matrix, class_index, ensemble.decide(matrix))
        found, example, lower, interrupted = said.status == FOUND, said.example, said.certified, said.interrupted
    elif ensemble.n_trees == 1 and reach.budget is not None:
        answers = one_tree.nearest(ensemble, matrix, class_index, reach, norm, weight, settings.progress)
        found, example, lower, interrupted = (
            answers.status == FOUND,
            answers.example,
            answers.lower,
            answers.interrupted,
        )
    elif ensemble.n_trees == 1:
        found, example = attack_tree(ensemble, matrix, class_index, reach, norm, weight)
        if settings.progress is not None:
            settings.progress(len(matrix), len(matrix))
    else:
        if reach.budget is not None:
            ask = partial(_within_budget(ensemble, reach, settings).nearest, norm=norm, weight=weight)
        else:
            search = _search(ensemble, reach, settings, norm, weight)
            ask = partial(search.nearest, guess=first_radius(ensemble, weight, norm))
        said = ask_where_right(ask, matrix, class_index, ensemble.decide(matrix))
        found, example, lower, interrupted = said.status == FOUND, said.example, said.certified, said.interrupted
        work = said.work
    check_examples(ensemble, reach, matrix, example, class_index, found)
    upper = _no_bound(matrix)
    upper[found] = measure(example[found], matrix[found], ensemble.schema, norm, weight)
    status = np.select([found, lower == np.inf], [FOUND, NONE], UNFINISHED)
    return Answers(status, np.minimum(lower, upper), upper, example, interrupted, work)


def extreme(ensemble: TreeEnsemble, matrix: np.ndarray, reach: Reach, sign: int, settings: AskSettings) -> Answers:
    """Find the largest (sign 1) or smallest (-1) output of a regression that each row can be given, and its point."""
    folded = fold(ensemble, reach)
    if folded is not None:
        answers = extreme(folded.ensemble, folded.folding.fold_rows(matrix), folded.reach, sign, settings)
        return answers._replace(example=folded.folding.unfold_rows(answers.example))
    if reach.relations is not None:
        return related.extreme(extreme, ensemble, matrix, reach, sign, settings)
    class_index = np.zeros(len(matrix), dtype=np.intp)
    parts = _part(ensemble, matrix, class_index, reach, settings)
    if parts is not None:
        return ask_in_parts(
            lambda part, changes: extreme(part.ensemble, part.matrix, part.reach, sign, settings._replace(**changes)),
            parts,
            matrix,
            settings.progress,
        )
    ensemble = ask_in_whole_numbers(ensemble, reach)
    if ensemble.n_trees == 1:
        answers = one_tree.extreme(ensemble, matrix, reach, sign, settings.progress)
    else:
        answers = _extreme_of_several(ensemble, matrix, reach, sign, settings)
    # Rows that nobody came to are their own examples.
    example = np.where(np.isnan(answers.example) & ~np.isnan(matrix), matrix, answers.example)
    if not reach.contains(matrix, example, class_index).all():
        raise RuntimeError("a witness failed its own check; please report this with the model and the row")
    reached = ensemble.output(example)[:, 0].astype(np.float64)
    lower, upper = (
        (np.maximum(answers.lower, reached), answers.upper)
        if sign == 1
        else (answers.lower, np.minimum(answers.upper, reached))
    )
    return answers._replace(lower=lower, upper=upper, example=example)


def _extreme_of_several(
    ensemble: TreeEnsemble, matrix: np.ndarray, reach: Reach, sign: int, settings: AskSettings
) -> Answers:
    """Bound the sum of several trees, widened by what rounding may do to the model's own sum and to its division."""
    search = _search(ensemble, reach, settings)
    within = search if reach.budget is None else _within_budget(ensemble, reach, settings)
    said = within.extreme(matrix, sign)
    base, doubt = float(ensemble.base_score[0]), search.doubt
    bound = (base + sign * (said.bound + doubt)) / ensemble.divisor
    bound += sign * float(np.finfo(ensemble.precision).eps) * np.abs(bound)
    exact = (said.status == NONE) & (doubt == 0.0)
    # Sums that are exact, and rows that cannot leave their leaves: the extreme is what the model says of the example.
    still = _cannot_leave(ensemble, matrix, reach)
    example = np.where(still[:, None], matrix, said.example)
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


def _within_budget(ensemble: TreeEnsemble, reach: Reach, settings: AskSettings) -> Budgeted:
    limit, n_threads, progress = settings.time_limit, settings.n_threads, settings.progress
    return Budgeted(ensemble, reach, limit, n_threads, progress, settings.search)


def _search(
    ensemble: TreeEnsemble,
    reach: Reach,
    settings: AskSettings,
    norm: float = np.inf,
    weight: np.ndarray | None = None,
) -> RowSearch:
    weight = np.ones(ensemble.schema.n_features) if weight is None else weight
    limit, n_threads, progress = settings.time_limit, settings.n_threads, settings.progress
    return RowSearch(ensemble, reach, weight, limit, n_threads, progress, norm, settings.search)


def _price(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: PricedReach,
    settings: AskSettings,
    *,
    any_will_do: bool,
) -> PricedAnswers:
    return attack_priced(
        ensemble, reach, matrix, class_index, settings.time_limit, settings.progress, any_will_do=any_will_do
    )


def _read_leads(found: SearchAnswers, lower: np.ndarray) -> Answers:
    """Return margins, which are known from below."""
    upper = np.full(len(found.bound), np.inf)
    return Answers(found.status, lower, upper, found.example, found.interrupted, found.work)


def _no_bound(matrix: np.ndarray) -> np.ndarray:
    return np.full(len(matrix), np.inf)
