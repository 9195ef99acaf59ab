"""Several methods over many tables, by their mean ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paper.figures.style import GREY, INK, new_figure
from paper.ranks import RankComparison, compare_ranks

_ROW, _LINE = 0.26, 0.13  # inches between names, and between the bars of groups


def plot_critical_differences(panels: Mapping[str, Mapping[str, Sequence[float]]], *, level: float = 0.05) -> Any:
    """Draw methods by their mean rank over tables, with bars over those that cannot be told apart.

    A critical-difference diagram: see :func:`paper.ranks.compare_ranks` for the tests.

    Parameters
    ----------
    panels : dict of dicts of sequences of float
        By title and method, scores on each table; higher is better.
    level : float, default=0.05
        What counts as significant.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from paper.figures import plot_critical_differences
    >>> scores = {"natural": [0.3, 0.2, 0.4], "robust": [0.7, 0.6, 0.8], "refined": [0.7, 0.7, 0.9]}
    >>> figure = plot_critical_differences({"three tables": scores})
    >>> [text.get_text() for text in figure.axes[0].texts][-3:]
    ['refined  1.17', 'robust  1.83', '3.00  natural']
    """
    found = {title: compare_ranks(scores, level=level) for title, scores in panels.items()}
    heights = [_measure(ranks) for ranks in found.values()]
    figure = new_figure((8.6, sum(heights)))
    axes = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for ax, height, (title, ranks) in zip(axes, heights, found.items(), strict=True):
        _draw(ax, height, title, ranks)
    figure.supxlabel(
        f"mean rank, 1 is the best; bars join methods that do not differ significantly (p > {level:g})",
        fontsize=9,
        color=GREY,
    )
    return figure


def _measure(ranks: RankComparison) -> float:
    """Return the height of a panel in inches: title, scale, bars, names on both sides."""
    return 0.95 + _LINE * len(ranks.groups) + _ROW * ((len(ranks.mean_ranks) + 1) // 2)


def _draw(ax: Any, height: float, title: str, ranks: RankComparison) -> None:
    """Draw one panel; its vertical axis is in inches below the scale."""
    n_methods = len(ranks.mean_ranks)
    margin = 0.35 * (n_methods - 1)
    ax.set(xlim=(1.0 - margin, n_methods + margin), ylim=(height - 0.75, -0.3))
    ax.axis("off")
    ax.set_title(title, loc="left", fontsize=11, color=INK, pad=12)
    ax.plot([1, n_methods], [0, 0], color=INK, linewidth=1.2)
    for tick in range(1, n_methods + 1):
        ax.plot([tick, tick], [0, -0.06], color=INK, linewidth=1.2)
        ax.annotate(str(tick), (tick, -0.08), ha="center", va="bottom", fontsize=9, color=GREY, annotation_clip=False)
    names = list(ranks.mean_ranks)
    first_row = 0.2 + _LINE * len(ranks.groups) + _ROW / 2
    on_left = (n_methods + 1) // 2
    for place, name in enumerate(names):
        is_left = place < on_left
        row = place if is_left else n_methods - 1 - place
        _point(ax, ranks.mean_ranks[name], name, first_row + _ROW * row, end=1 if is_left else n_methods)
    for level, group in enumerate(ranks.groups):
        ends = [ranks.mean_ranks[group[0]] - 0.04, ranks.mean_ranks[group[-1]] + 0.04]
        ax.plot(ends, [0.14 + _LINE * level] * 2, color="#D55E00", linewidth=3.6, solid_capstyle="butt", zorder=3)


def _point(ax: Any, rank: float, name: str, row: float, *, end: float) -> None:
    """Lead a line from a rank on the scale down and out to the name of its method."""
    is_left = end == 1
    reach = end - 0.15 if is_left else end + 0.15
    ax.plot([rank, rank, reach], [0, row, row], color=GREY, linewidth=0.9, zorder=1)
    label = f"{name}  {rank:.2f}" if is_left else f"{rank:.2f}  {name}"
    gap = -0.1 if is_left else 0.1
    ax.text(reach + gap, row, label, ha="right" if is_left else "left", va="center", fontsize=10, color=INK)
