"""What the page says of the studies beside the paper's table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

import numpy as np

from paper.black_box import ASKING, Attacker, weigh_attackers
from paper.comparison import signed
from paper.experiment import Outcome
from paper.hardening import ENSEMBLES, ROUNDS, TABLES, TREES, Hardening, weigh_hardening
from paper.methods import EXACT_HARDENING, HARDENED_TREES, HARDENING_ROUNDS, L0_HARDENING
from paper.pieces import Record
from paper.published import DEPTH, EPSILON, OVERVIEW
from paper.studies import growth_exponent


def tell_transfer(outcome: Outcome) -> Iterator[str]:
    """Tell what is left of each method's accuracy if the attacker attacks another's tree."""
    yield "<h2>Transferred attacks</h2>"
    yield (
        "<p>An attacker who cannot see the tree attacks one of his own, fitted to the same rows, and hands in the "
        "nearest examples that fool it. Mean accuracy over the tables of each tree (column) on the examples made for "
        "another (row); where both are the same, that is the adversarial accuracy.</p>"
    )
    header = "".join(f"<th>{escape(method.title)}</th>" for method in outcome.methods)
    yield f"<table><tr><th>examples made for</th>{header}</tr>"
    for own in outcome.methods:
        means = [
            np.mean([record[f"{own.key} to {other.key}"] for record in outcome.transfer]) for other in outcome.methods
        ]
        yield f"<tr><td>{escape(own.title)}</td>{''.join(f'<td>{mean:.3f}</td>' for mean in means)}</tr>"
    yield "</table>"


def tell_black_box(outcome: Outcome) -> Iterator[str]:
    """Tell how far attackers get who only have answers."""
    if not outcome.black_box:
        return
    tables = list(dict.fromkeys(table for table, _ in outcome.black_box))
    rows = sum(len(record[outcome.methods[0].key]) for records in _exact(outcome) for record in records)
    weighed = weigh_attackers(outcome.black_box)
    shown = _list_strongest(weighed)
    yield "<h2>Attackers who cannot see the tree</h2>"
    yield (
        f"<p>The paper asks as future work how its trees stand up to boundary and transfer attacks. Here {rows} test "
        f"rows of {len(tables)} tables ({escape(', '.join(tables))}) are attacked within the radius of {EPSILON:g}: by "
        "the exact attack, which sees the tree, and by others, which have nothing but its answers. The columns: the "
        "accuracy that is left; of the right rows that can be fooled, the share that are; and the median distance of "
        "the examples, as a multiple of the least possible one.</p>"
    )
    yield f"<p><strong>{escape(conclude_black_box(outcome))}</strong></p>"
    if outcome.without_toolbox is not None:
        yield f"<p>HopSkipJump and the boundary attack are left out: {escape(outcome.without_toolbox)}.</p>"
    header = "".join(f'<th class="group" colspan="3">{escape(m.title)}</th>' for m in outcome.methods)
    columns = '<th class="start">accuracy</th><th>fooled</th><th>distance</th>' * len(outcome.methods)
    yield f'<div class="wide"><table><tr><th></th>{header}</tr><tr><th>attacker</th>{columns}</tr>'
    for attacker, title in shown.items():
        figures = [weighed[attacker][method.key] for method in outcome.methods]
        cells = "".join(
            f'<td class="start">{f.accuracy:.3f}</td><td>{_or_dash(f.fooled, ".0%")}</td>'
            f"<td>{_or_dash(f.ratio, '.2f')}</td>"
            for f in figures
        )
        yield f"<tr><td>{escape(title)}</td>{cells}</tr>"
    yield "</table></div>"


def conclude_black_box(outcome: Outcome) -> str:
    """Say in a few sentences what the study of black boxes found."""
    weighed = weigh_attackers(outcome.black_box)
    titles = {method.key: method.title for method in outcome.methods}
    exact = weighed["exact", None]

    def spell(attacker: Attacker) -> str:
        shares = {titles[key]: f.fooled for key, f in weighed[attacker].items() if not np.isnan(f.fooled)}
        return ", ".join(f"{share:.0%} ({title})" for title, share in shares.items())

    asking = [attacker for attacker in weighed if attacker[0] in ASKING]
    sentences = []
    if asking:
        strongest = max(asking, key=lambda attacker: (attacker[1] or 0, attacker[0] == "hopskipjump"))
        least = min((f.fooled for f in weighed[strongest].values() if not np.isnan(f.fooled)), default=1.0)
        verdict = "Hiding a tree hardly protects it" if least >= 0.9 else "Hiding a tree protects some rows"
        sentences.append(
            f"{verdict}: with {strongest[1]:,} answers a row, {ASKING[strongest[0]]} fools {spell(strongest)} of the "
            "rows that can be fooled."
        )
    sentences.append(f"Examples for a surrogate fool {spell(('transfer', None))}.")
    natural = exact.get("natural")
    if natural is not None and all(f.accuracy > natural.accuracy for key, f in exact.items() if key != "natural"):
        sentences.append("What protects a robust tree is that fewer of its rows can be fooled at all.")
    left = ", ".join(f"{figures.accuracy:.0%} ({titles[key]})" for key, figures in exact.items())
    sentences.append(f"An attacker who sees the tree leaves an accuracy of {left}.")
    return " ".join(sentences)


def tell_hardening(outcome: Outcome) -> Iterator[str]:
    """Tell what hardening did to ensembles."""
    yield "<h2>Hardening</h2>"
    if not outcome.hardening:
        yield f"<p>Left out: a run that is not quick hardens ensembles on {escape(', '.join(TABLES))}.</p>"
        return
    weighed = weigh_hardening(outcome.hardening)
    yield (
        f"<p>A forest and boosting by scikit-learn, {TREES} trees of depth {DEPTH} each, on the paper's folds and "
        f"within its radius, before and after {ROUNDS} rounds of attack and retraining (Kantchelian et al., 2016; here "
        "with the worst examples rather than the nearest). The paper has no figures for it. Adversarial accuracy is "
        "exact.</p>"
    )
    tree = {table: score.adversarial.mean for (table, key), score in outcome.scores.items() if key == "groot"}
    yield f"<p><strong>{escape(conclude_hardening(weighed, tree))}</strong></p>"
    header = "".join(f'<th class="group" colspan="4">{escape(ensemble)}</th>' for ensemble in ENSEMBLES)
    columns = '<th class="start">accuracy</th><th>hardened</th><th>adversarial</th><th>hardened</th>' * len(ENSEMBLES)
    yield f'<div class="wide"><table><tr><th></th>{header}<th class="group">GROOT, one tree</th></tr>'
    yield f'<tr><th>table</th>{columns}<th class="start">adversarial</th></tr>'
    for table in dict.fromkeys(table for table, _ in weighed):
        cells = ""
        for ensemble in ENSEMBLES:
            (accuracy, hardened), (adversarial, robust) = (
                weighed[table, ensemble].accuracy,
                weighed[table, ensemble].adversarial,
            )
            cells += f'<td class="start">{accuracy:.3f}</td><td>{hardened:.3f}</td>'
            cells += f"<td>{adversarial:.3f}</td><td>{robust:.3f}</td>"
        beside = f"{tree[table]:.3f}" if table in tree else "–"
        yield f'<tr><td>{escape(table)}</td>{cells}<td class="start">{beside}</td></tr>'
    yield "</table></div>"


def conclude_hardening(weighed: Mapping[tuple[str, str], Hardening], tree: Mapping[str, float]) -> str:
    """Say in a few sentences what hardening bought, beside the adversarial accuracy of a robust tree by table."""
    sentences = []
    for ensemble in ENSEMBLES:
        figures = [hardening for (_, name), hardening in weighed.items() if name == ensemble]
        raised = sum(f.gain > 0 for f in figures)
        gain = float(np.mean([f.gain for f in figures]))
        cost = float(np.mean([f.accuracy[1] - f.accuracy[0] for f in figures]))
        sentences.append(
            f"{ensemble.capitalize()}: hardening raises adversarial accuracy on {raised} of {len(figures)} tables, and "
            f"changes it by {signed(gain)} on average, accuracy by {signed(cost)}."
        )
    compared = [hardening.adversarial[1] < tree[table] for (table, _), hardening in weighed.items() if table in tree]
    if compared:
        sentences.append(
            f"A single GROOT tree has more of it than hardened ensembles in {sum(compared)} of {len(compared)} cases."
        )
    undecided = sum(f.undecided for f in weighed.values())
    if undecided:
        sentences.append(f"{undecided} answers were not found in time, and count as vulnerable.")
    return " ".join(sentences)


def _exact(outcome: Outcome) -> list[list[Record]]:
    return [records for (_, attacker), records in outcome.black_box.items() if attacker == ("exact", None)]


def _list_strongest(weighed: Iterable[Attacker]) -> dict[Attacker, str]:
    """Return the attackers with names, of those who ask the ones with the most answers."""
    attackers = list(weighed)
    shown: dict[Attacker, str] = {("transfer", None): "surrogate"}
    for name, title in ASKING.items():
        queries = [q for asking, q in attackers if asking == name and q is not None]
        if queries:
            shown[name, max(queries)] = f"{title}, {max(queries):,} answers"
    return {**shown, ("exact", None): "sees the tree"}


def _or_dash(value: float, form: str) -> str:
    return "–" if np.isnan(value) else format(value, form)


def tell_overview(outcome: Outcome) -> Iterator[str]:
    """Tell the paper's overview of complexities, with how the time really grew."""
    yield "<h2>Complexity, stated and measured</h2>"
    hardening = (EXACT_HARDENING.key, L0_HARDENING.key)
    spans = _tell_spans([r for r in outcome.growth if r["method"] not in hardening])
    smaller = _tell_spans([r for r in outcome.growth if r["method"] in hardening])
    yield (
        "<p>The paper's overview: <em>n</em> samples, <em>f</em> features, <em>d</em> depth, <em>r</em> rules, "
        "<em>X</em> time of a solver, <em>i</em> rounds of hardening. Measured: the exponent with which the CPU time "
        f"of a fit grew {spans}. 1 is linear; times log n adds about 0.1 at these sizes. The paper has one line for "
        "Chen et al., their greedy search, and says of the four cases that they take GROOT's time. Hardening: "
        f"{HARDENED_TREES} boosted trees, {HARDENING_ROUNDS} rounds, {smaller}; the exact attack is hardwood's own "
        "search, which stands in for the solver. Below 1: what a fit costs at any size still counts.</p>"
    )
    yield '<table><tr><th>algorithm</th><th class="text">stated time</th><th class="text">threat model</th>'
    yield '<th class="start">rows</th><th>features</th><th>per level</th></tr>'
    measured = {record["method"] for record in outcome.growth}
    for line in OVERVIEW:
        figures: Sequence[str] = ("–", "–", "–")
        if line.learner in measured:
            figures = (
                f"n<sup>{_exponent(outcome, line.learner, 'rows'):.2f}</sup>",
                f"f<sup>{_exponent(outcome, line.learner, 'features'):.2f}</sup>",
                f"× {_factor_per_level(outcome, line.learner):.2f}",
            )
        yield (
            f'<tr><td>{escape(line.name)}</td><td class="text">O({escape(line.complexity)})</td>'
            f'<td class="text">{escape(line.threat_model)}</td><td class="start">{figures[0]}</td>'
            f"<td>{figures[1]}</td><td>{figures[2]}</td></tr>"
        )
    yield "</table>"
    if EXACT_HARDENING.key not in measured:
        yield (
            "<p>Hardening by the exact attack is left out of a quick run: the search takes half a minute to compile."
            "</p>"
        )


def _tell_spans(growth: Sequence[Record]) -> str:
    """Say between which sizes fits were timed."""
    rows, features, depth = (
        sorted({r[varies] for r in growth if r["varies"] == varies}) for varies in ("rows", "features", "depth")
    )
    return (
        f"from {rows[0]:,} to {rows[-1]:,} rows and from {features[0]} to {features[-1]} features, and the factor per "
        f"level from depth {depth[0]} to {depth[-1]}"
    )


def _series(outcome: Outcome, learner: str, varies: str) -> tuple[list[int], list[float]]:
    records = [r for r in outcome.growth if r["method"] == learner and r["varies"] == varies]
    return [r[varies] for r in records], [r["fit_seconds"] for r in records]


def _exponent(outcome: Outcome, learner: str, varies: str) -> float:
    return growth_exponent(*_series(outcome, learner, varies))


def _factor_per_level(outcome: Outcome, learner: str) -> float:
    depths, seconds = _series(outcome, learner, "depth")
    return float(np.exp(growth_exponent(np.exp(depths), seconds)))
