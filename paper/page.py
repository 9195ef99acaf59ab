"""One HTML page with everything in it: no other file is needed to read it."""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterator, Mapping
from html import escape

import numpy as np
import sklearn

import hardwood
from paper.black_box import SURROGATE_TREES
from paper.comparison import (
    conclude_refinement,
    explain_difference,
    judge,
    mean_refined,
    mean_scores,
    signed,
)
from paper.experiment import MethodScore, Outcome
from paper.methods import HARDENED_TREES, HARDENING_ROUNDS, REFINED, Method
from paper.page_studies import tell_black_box, tell_hardening, tell_overview, tell_transfer
from paper.published import DEPTH, EPSILON, FOLDS

_STYLE = """
body { font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #333; max-width: 88rem;
       margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; }
p, li, figcaption { max-width: 54rem; }
table { border-collapse: collapse; font-size: .82rem; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .5rem; text-align: right; border-bottom: 1px solid #e6e6e6; white-space: nowrap; }
th { font-weight: 600; } th.group { text-align: center; border-bottom: 0; }
td:first-child, th:first-child, td.text, th.text { text-align: left; }
tr.reason td { white-space: normal; padding: 0 .6rem .5rem 2rem; color: #555; } tr.explained td { border-bottom: 0; }
td.start, th.group, th.start { border-left: 1px solid #ccc; }
tr.mean td { border-top: 2px solid #999; font-weight: 600; }
small { color: #777; } .scores td small { display: block; line-height: 1.1; } tr.reason div { max-width: 58rem; }
td.differs { background: #fbe3c8; font-weight: 600; }
.wide { overflow-x: auto; }
.holds::before { content: "✓ "; color: #00735a; font-weight: 700; }
.misses::before { content: "✗ "; color: #b34700; font-weight: 700; }
ul.verdicts { list-style: none; padding: 0; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: .9rem; }
"""

_HEADINGS = {
    "average_scores": "Average scores",
    "critical_differences": "Ranks over the tables",
    "run_times": "Time to fit",
    "rho": "What rho buys",
    "threat_models": "Threat models",
    "adversarial_gini": "The adversarial Gini impurity",
    "concavity": "Concavity",
}
_CAPTIONS = {
    "average_scores": "Mean accuracy before and after attacks. The paper shows accuracy before attacks in a figure "
    "only: there is no published number to set beside it.",
    "critical_differences": "Mean ranks of adversarial accuracy over the tables, 1 is the best. Bars join methods that "
    "do not differ significantly: Wilcoxon's signed-rank test with Holm's correction, at 0.05.",
    "run_times": "CPU seconds of one fit on one thread, the least of three, by hardwood's own code (natural trees: "
    "scikit-learn's). Left: the training folds of the paper's tables. Right: tables made for it, with 10 features, "
    f"and hardening ({HARDENED_TREES} boosted trees, {HARDENING_ROUNDS} rounds) beside the single trees.",
    "threat_models": "The same samples under four attackers, who move the orange samples only.",
    "adversarial_gini": "The adversarial Gini impurity. Samples within reach of the threshold (LI and RI) can be put "
    "on either side; below is the worst of all choices, found by trying them all.",
    "concavity": "The function that the attacker maximises, for random counts of samples that stay left (L), stay "
    "right (R), or can be moved (I). It is largest where both sides have the same mix of classes: the paper's line, "
    "in red. Where the line misses the rectangle, the maximum is a corner.",
    "rho": "Above: accuracy and adversarial accuracy as rho goes from 0, a natural tree, to 1. Below: the expected "
    "accuracy if each row is attacked with the probability on the axis, for trees whose rho is that share, and for "
    "the two extremes.",
    "black_box": "Left: the accuracy that attackers leave, who know nothing but the answers they get; the thin lines "
    "are exact. Right: how far their examples are from the rows, as a multiple of the least possible distance. Both "
    "attacks that ask begin by guessing up to a hundred points within reach, and go on from one that works. The "
    f"crosses at the right ends: examples for a surrogate, {SURROGATE_TREES} trees that learn the answers on training "
    "rows.",
}


def write_page(outcome: Outcome, pictures: Mapping[str, bytes]) -> str:
    """Return the page. `pictures` are SVG files by name."""
    sections = [*_introduce(outcome), *_compare(outcome)]
    for name, heading in _HEADINGS.items():
        if name in pictures:
            sections += [f"<h2>{heading}</h2>", _embed(name, pictures[name])]
    sections += [*tell_transfer(outcome), *tell_black_box(outcome)]
    if "black_box" in pictures:
        sections.append(_embed("black_box", pictures["black_box"]))
    sections += [*tell_hardening(outcome), *tell_overview(outcome), *_close()]
    body = "\n".join(sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>The GROOT paper, reproduced</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _introduce(outcome: Outcome) -> Iterator[str]:
    yield "<h1>The GROOT paper, reproduced</h1>"
    yield (
        "<p><em>Efficient Training of Robust Decision Trees Against Adversarial Examples</em> (Vos and Verwer, 2021), "
        f"run again by hardwood {escape(hardwood.__version__)}. {len(outcome.tables)} tables in raw units, {FOLDS} "
        f"stratified folds, trees of depth {DEPTH}, attackers of both classes who move every feature by up to "
        f"{EPSILON:g}. Adversarial accuracy is exact.</p>"
    )
    yield '<ul class="verdicts">'
    for verdict in judge(outcome):
        yield f'<li class="{"holds" if verdict.holds else "misses"}">{escape(verdict.sentence)}</li>'
    yield "</ul>"
    if outcome.skipped:
        yield "<p>Not available, and left out of all means, the published ones too:</p><ul>"
        yield from (f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in outcome.skipped.items())
        yield "</ul>"


def _compare(outcome: Outcome) -> Iterator[str]:
    """Tell the scores, table by table."""
    yield "<h2>Adversarial accuracy, table by table</h2>"
    bars = ", ".join(f"{method.title} {method.bar:g}" for method in outcome.methods)
    yield (
        "<p>Means and standard deviations over the folds, the paper's beside them. Marked: further from the published "
        f"figure than {bars}; the line below says why. Beside them: the constant classifier, which no attacker can "
        "fool; GROOT's trees refined at the same depth, which are not in the paper; and the ceiling, which no "
        "classifier whatsoever exceeds on these test rows.</p>"
    )
    yield f"<p><strong>{escape(conclude_refinement(outcome))}</strong></p>"
    header = "".join(f'<th class="group" colspan="3">{escape(m.title)}</th>' for m in outcome.methods)
    columns = '<th class="start">ours</th><th>paper</th><th>difference</th>' * len(outcome.methods)
    header += f'<th class="group" colspan="{len(REFINED)}">Refined</th><th class="group">Any</th>'
    columns += "".join(f'<th class="start">{escape(name)}</th>' for name in (*(r.key for r in REFINED), "ceiling"))
    yield f'<div class="wide"><table class="scores"><tr><th></th><th></th>{header}</tr>'
    yield f"<tr><th>table</th><th>constant</th>{columns}</tr>"
    for table in outcome.tables:
        cells = "".join(_score_cells(outcome.scores[table.name, m.key], m) for m in outcome.methods)
        cells += _refined_cells(outcome, table.name)
        reasons = [explain_difference(outcome, table.name, method) for method in outcome.methods]
        why = "<br>".join(escape(reason) for reason in reasons if reason)
        kind = ' class="explained"' if why else ""
        yield f"<tr{kind}><td>{escape(table.name)}</td><td>{table.constant_accuracy:.3f}</td>{cells}</tr>"
        if why:
            width = 3 + 3 * len(outcome.methods) + len(REFINED)
            yield f'<tr class="reason"><td colspan="{width}"><div>{why}</div></td></tr>'
    cells = ""
    for method in outcome.methods:
        ours, published = mean_scores(outcome, method)
        cells += f'<td class="start">{ours:.3f}</td><td>{published:.3f}</td><td>{signed(ours - published)}</td>'
    cells += "".join(f'<td class="start">{mean_refined(outcome, learner):.3f}</td>' for learner in REFINED)
    cells += f'<td class="start">{np.mean(list(outcome.ceilings.values())):.3f}</td>'
    constant = np.mean([table.constant_accuracy for table in outcome.tables])
    yield f'<tr class="mean"><td>mean</td><td>{constant:.3f}</td>{cells}</tr></table></div>'
    yield from _tell_searches(outcome)
    yield from _tell_accuracy(outcome)


def _tell_searches(outcome: Outcome) -> Iterator[str]:
    """Tell in which ways the paper's trees are not the same as ours."""
    if not {"chen", "groot"} & {method.key for method in outcome.methods}:
        return
    yield (
        "<p>Two things differ from the paper's code by design. <em>Chen et al.</em>: the paper scored the four cases "
        "within GROOT's own search, with thresholds at shifted values and rows sent down as the attacker moves them; "
        "here they are as Chen et al. describe them, with thresholds midway between values and rows where they are. "
        "<em>GROOT</em>: the paper drew at random which rows are moved; here nothing is random. groot-trees 0.0.17, "
        "the authors' own code, has the paper's search for both: the figures quoted from it are the least and the "
        "greatest mean over the same folds with six seeds, as <code>benchmarks/paper_protocol.py</code> prints them "
        "(for Chen et al. with <code>--attacker chen</code>).</p>"
    )


def _score_cells(score: MethodScore, method: Method) -> str:
    differs = ' class="differs"' if abs(score.difference) > method.bar else ""
    return (
        f'<td class="start">{score.adversarial.mean:.3f} <small>±{score.adversarial.deviation:.3f}</small></td>'
        f"<td>{score.published.mean:.3f} <small>±{score.published.deviation:.3f}</small></td>"
        f"<td{differs}>{signed(score.difference)}</td>"
    )


def _refined_cells(outcome: Outcome, table: str) -> str:
    scores = [outcome.refined[table, learner.key].adversarial for learner in REFINED]
    cells = "".join(f'<td class="start">{s.mean:.3f} <small>±{s.deviation:.3f}</small></td>' for s in scores)
    return f'{cells}<td class="start">{outcome.ceilings[table]:.3f}</td>'


def _tell_accuracy(outcome: Outcome) -> Iterator[str]:
    yield "<h2>Accuracy without an attacker, and time to fit</h2>"
    header = "".join(f'<th class="group" colspan="2">{escape(m.title)}</th>' for m in outcome.methods)
    columns = '<th class="start">accuracy</th><th>fit, ms</th>' * len(outcome.methods)
    yield f'<div class="wide"><table><tr><th></th><th></th><th></th>{header}</tr>'
    yield f"<tr><th>table</th><th>rows</th><th>features</th>{columns}</tr>"
    for table in outcome.tables:
        cells = ""
        for method in outcome.methods:
            score = outcome.scores[table.name, method.key]
            cells += (
                f'<td class="start">{score.accuracy.mean:.3f} <small>±{score.accuracy.deviation:.3f}</small></td>'
                f"<td>{1000 * score.fit_seconds:.1f}</td>"
            )
        yield f"<tr><td>{escape(table.name)}</td><td>{len(table.y):,}</td><td>{table.X.shape[1]}</td>{cells}</tr>"
    means = ""
    for method in outcome.methods:
        scores = [outcome.scores[table.name, method.key] for table in outcome.tables]
        means += f'<td class="start">{np.mean([s.accuracy.mean for s in scores]):.3f}</td>'
        means += f"<td>{1000 * np.mean([s.fit_seconds for s in scores]):.1f}</td>"
    yield f'<tr class="mean"><td>mean</td><td></td><td></td>{means}</tr></table></div>'


def _embed(name: str, picture: bytes) -> str:
    code = base64.b64encode(picture).decode("ascii")
    caption = escape(_CAPTIONS[name])
    return (
        f'<figure id="{name}"><img alt="{caption}" src="data:image/svg+xml;base64,{code}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _close() -> Iterator[str]:
    yield "<h2>How this was made</h2>"
    yield (
        f"<p><code>python -m paper</code>: hardwood {escape(hardwood.__version__)}, scikit-learn "
        f"{escape(sklearn.__version__)}, Python {platform.python_version()}, {escape(platform.system())} on "
        f"{escape(platform.machine())}. The numbers are in the CSV files beside this page, fold by fold, "
        "and the figures as PNG and SVG. TREANT's rules are the paper's: each feature down or up by the radius at "
        "cost 1, once per feature, and a budget that is the depth of the tree.</p>"
    )
