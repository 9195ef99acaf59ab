"""A robustness report as text and as HTML."""

import html
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from hardwood.results.records import Bounds

if TYPE_CHECKING:
    from hardwood.results.report import RobustnessReport


def as_text(report: "RobustnessReport") -> str:
    """Return a report as text: what was asked, tables, and how long it took."""
    blocks = [_say_question(report)]
    for table in _make_tables(report):
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for first, *others in table:
            # Numbers flush right; the remarks of the first table flush left.
            cells = [first.ljust(widths[0])]
            for k, (cell, width) in enumerate(zip(others, widths[1:], strict=True)):
                cells.append(cell if len(blocks) == 1 and k == 1 else cell.rjust(width))
            lines.append("  ".join(cells).rstrip())
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, _say_seconds(report)])


def as_html(report: "RobustnessReport") -> str:
    """Return a report as HTML, for notebooks."""
    blocks = [f"<p>{html.escape(_say_question(report))}</p>"]
    for k, table in enumerate(_make_tables(report)):
        lines = []
        for i, line in enumerate(table):
            tag = "th" if k and i == 0 else "td"
            lines.append("<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) + "</tr>")
        blocks.append("<table>" + "".join(lines) + "</table>")
    return "<div>" + "".join([*blocks, f"<p>{html.escape(_say_seconds(report))}</p>"]) + "</div>"


def _say_question(report: "RobustnessReport") -> str:
    threat = textwrap.shorten(repr(report.threat), 80, placeholder=" ...)")
    return f"{report.n_samples:,} row{'s' if report.n_samples > 1 else ''} under {threat}"


def _say_seconds(report: "RobustnessReport") -> str:
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items())
    return f"{parts}; interrupted" if report.interrupted else parts


def _make_tables(report: "RobustnessReport") -> list[list[list[str]]]:
    """Return tables of text, of which all but the first have a heading."""
    tables = [_list_figures(report), [["class", "rows", "accuracy", "under attack"]]]
    for name, rows, accuracy, *bounds in zip(*report.to_columns("classes").values(), strict=True):
        tables[-1].append([str(name), f"{rows:,}", f"{accuracy:.1%}", str(Bounds(*bounds))])
    if report.positive is not None:
        tables.append(_list_rates(report))
    if len(report.epsilons) > 2:
        tables.append([["times the threat", "under attack", *([] if report.ceilings is None else ["ceiling"])]])
        for epsilon, lower, upper, *ceiling in zip(*report.to_columns("curve").values(), strict=True):
            shown = [str(Bounds(*pair)) for pair in ([lower, upper], ceiling) if pair]
            tables[-1].append([f"{epsilon:g}", *shown])
    if report.distance is not None:
        tables.append(_list_distances(report))
    return tables


def _list_figures(report: "RobustnessReport") -> list[list[str]]:
    unknown = int((report.status == "unknown").sum())
    undecided = f"{unknown} row{'s' if unknown > 1 else ''} undecided" if unknown else ""
    commonest = report.classes[np.bincount(report.label).argmax()]
    figures = [
        ["accuracy", f"{report.accuracy:.1%}", ""],
        ["adversarial accuracy", str(report.adversarial_accuracy), undecided],
        ["constant classifier", f"{report.constant_accuracy:.1%}", f"always {commonest}"],
    ]
    if report.ceiling_bounds is not None:
        threat = report.threat
        by_pairs = threat.max_changes is not None or threat.radius is not None or threat.relations
        doubt = "; a bound" if by_pairs else "; time ran out"
        remark = "the best that any classifier can do" + ("" if report.ceiling_bounds.is_exact else doubt)
        figures.append(["ceiling", str(report.ceiling_bounds), remark])
    return figures


def _list_rates(report: "RobustnessReport") -> list[list[str]]:
    """Return how well the positive class is detected."""
    lines = [[f"detecting {report.classes[report.positive]}", "as it stands", "under attack"]]
    names = ("precision", "recall", "false alarms")
    for name, *both in zip(names, report.detection_at(0.0), report.detection_at(1.0), strict=True):
        lines.append([name, *map(str, both)])
    if report.roc_auc is not None:
        attacked = "" if report.adversarial_roc_auc is None else str(report.adversarial_roc_auc)
        lines.append(["ROC AUC", f"{report.roc_auc:.1%}", attacked])
    return lines


def _list_distances(report: "RobustnessReport") -> list[list[str]]:
    """Return quantiles of the distances of the rows that are classified correctly as they stand."""
    right = report.prediction == report.label
    lines = [["of the rows that are right", "have an example within"]]
    for share in (0.1, 0.25, 0.5, 0.75, 0.9) if right.any() else ():
        least, most = (
            np.quantile(values[right], share, method="inverted_cdf")
            for values in (report.distance_lower, report.distance)
            if values is not None
        )
        lines.append([f"{share:.0%}", f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}"])
    return lines
