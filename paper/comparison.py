"""Ours beside the published: what holds, what differs, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paper.experiment import MethodScore, Outcome
from paper.methods import REFINED, Learner, Method
from paper.published import FOLDS


@dataclass(frozen=True)
class Verdict:
    """Whether a method reproduces its column, in a sentence."""

    holds: bool
    sentence: str


def judge(outcome: Outcome) -> list[Verdict]:
    """Say of each method whether it reproduces the paper: natural trees table by table, the others on average."""
    return [_judge_tables(outcome, m) if m.key == "natural" else _judge_mean(outcome, m) for m in outcome.methods]


def _judge_tables(outcome: Outcome, method: Method) -> Verdict:
    differences = {table.name: outcome.scores[table.name, method.key].difference for table in outcome.tables}
    worst = max(differences, key=lambda name: abs(differences[name]))
    holds = abs(differences[worst]) <= method.bar
    return Verdict(
        holds,
        f"{method.title}: {'every table is' if holds else 'not every table is'} within {method.bar:g} of the published "
        f"figure; the largest difference is {signed(differences[worst])} ({worst}).",
    )


def _judge_mean(outcome: Outcome, method: Method) -> Verdict:
    ours, published = mean_scores(outcome, method)
    difference = ours - published
    holds = difference >= -method.bar
    kind = f"{'no more' if holds else 'more'} than {method.bar:g} below"
    return Verdict(
        holds, f"{method.title}: the mean is {ours:.3f}, published {published:.3f} ({signed(difference)}; {kind})."
    )


def signed(difference: float) -> str:
    """Return a difference with its sign, to three digits; what rounds to nothing has none.

    Examples
    --------
    >>> signed(-0.0124), signed(-0.0001)
    ('-0.012', '0.000')
    """
    text = f"{difference:+.3f}"
    return text[1:] if float(text) == 0 else text


def mean_scores(outcome: Outcome, method: Method) -> tuple[float, float]:
    """Return the mean adversarial accuracy over the tables, ours and the published one."""
    scores = [outcome.scores[table.name, method.key] for table in outcome.tables]
    return float(np.mean([s.adversarial.mean for s in scores])), float(np.mean([s.published.mean for s in scores]))


def mean_refined(outcome: Outcome, learner: Learner) -> float:
    """Return the mean adversarial accuracy of refined trees over the tables."""
    return float(np.mean([outcome.refined[table.name, learner.key].adversarial.mean for table in outcome.tables]))


def conclude_refinement(outcome: Outcome) -> str:
    """Say in a few sentences how refined trees stand to the best of the paper's columns, and to the constant."""
    best = {
        table.name: max(outcome.scores[table.name, method.key].published.mean for method in outcome.methods)
        for table in outcome.tables
    }
    sentences = []
    for learner in REFINED:
        scores = {table: outcome.refined[table, learner.key].adversarial.mean for table in best}
        # The paper has three digits.
        reached = sum(round(scores[table], 3) >= best[table] for table in best)
        above = sum(scores[table.name] > table.constant_accuracy for table in outcome.tables)
        sentences.append(
            f"{learner.title}: the mean is {np.mean(list(scores.values())):.3f}; at or above the best of the paper's "
            f"columns on {reached} of {len(best)} tables, above the constant on {above}."
        )
    return " ".join(sentences)


def explain_difference(outcome: Outcome, table: str, method: Method) -> str | None:
    """Say why a score differs from the published one by more than the bar; None if it does not.

    There are two kinds of evidence. A method that nothing random enters depends on the order of the columns in one way
    only: of splits that are equally good it takes the first. So scores with the columns shuffled tell how much of the
    figure is chance. And what the authors' code gives on the same folds tells whether the published figure is one that
    can be had.
    """
    orders = outcome.column_orders.get((table, method.key))
    if orders is None:
        return None
    score = outcome.scores[table, method.key]
    n_rows = next(len(t.y) for t in outcome.tables if t.name == table)
    rows = round(abs(score.difference) * n_rows)
    size = f"{method.title} {signed(score.difference)}: {rows} of {n_rows} rows over the {FOLDS} folds."
    among, ties = _weigh_ties(score, orders)
    return " ".join([size, ties, *_weigh_authors_code(score, ties_explain=among)])


def _weigh_ties(score: MethodScore, orders: list[float]) -> tuple[bool, str]:
    """Say what the order of the columns does to a score, and whether the published one comes up."""
    low, high = min(*orders, score.adversarial.mean), max(*orders, score.adversarial.mean)
    if low == high:
        ties = f"In {len(orders)} other orders of the columns, which decide ties between splits, the mean is the same"
    else:
        ties = (
            f"With the columns in {len(orders)} other orders, which decides nothing but ties between splits, the mean "
            f"runs from {low:.3f} to {high:.3f}"
        )
    if low <= score.published.mean <= high:
        return True, f"{ties}: the published {score.published.mean:.3f} is among them."
    side = "above" if score.difference > 0 else "below"
    is_usual = abs(score.difference) <= score.published.deviation
    deviation = f"the published deviation from fold to fold, {score.published.deviation:.3f}"
    rest = f"but it is less than {deviation}" if is_usual else f"and it is more than {deviation}"
    return False, f"{ties}, {side} the published {score.published.mean:.3f}: ties do not explain it all, {rest}."


def _weigh_authors_code(score: MethodScore, *, ties_explain: bool) -> list[str]:
    """Say what groot-trees makes of the published figure, if it has been asked."""
    if score.authors_code is None:
        return []
    low, high = score.authors_code
    gives = f"groot-trees, the authors' own code, gives {_span(low, high)} on these folds"
    published, ours = (_gap(mean, low, high) for mean in (score.published.mean, score.adversarial.mean))
    if published == 0.0:
        reason = "" if ties_explain else ", so its search makes the difference, not the data"
        return [f"{gives}: the published figure is among them{reason}."]
    if ours == 0.0:
        return [f"{gives}: ours is among them, the published figure is not."]
    if published * ours < 0:
        return [f"{gives}: between the published figure and ours."]
    if abs(published) < abs(ours):
        return [f"{gives}: nearer to the published figure than ours, so its search makes most of the difference."]
    return [f"{gives}: nearer to ours. The published figure is not what that code gives."]


def _span(low: float, high: float) -> str:
    return f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}"


def _gap(mean: float, low: float, high: float) -> float:
    """Return how far above (below, if negative) a range a mean lies; its ends were rounded to three digits."""
    rounding = 0.0005
    return max(0.0, mean - high - rounding) + min(0.0, mean - low + rounding)
