"""Scores and times of several methods: averages, fit times, and what rho buys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from paper.figures.style import COLORS, GREY, INK, METHOD_COLORS, new_figure, tidy_axes


def plot_average_scores(
    names: Sequence[str],
    accuracy: Sequence[float],
    adversarial: Sequence[float],
    published: Sequence[float] | None = None,
    n_tables: int | None = None,
) -> Any:
    """Draw mean accuracy before and after attacks, method by method.

    Parameters
    ----------
    names : sequence of str
        The methods.
    accuracy, adversarial : sequences of float
        Their means before and after attacks.
    published : sequence of float, optional
        Means after attacks to compare with.
    n_tables : int, optional
        Over how many tables the means are.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from paper.figures import plot_average_scores
    >>> figure = plot_average_scores(["natural", "robust"], [0.79, 0.79], [0.56, 0.77])
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['natural', 'robust']
    """
    figure = new_figure((6.4, 4.2))
    ax = figure.subplots()
    x = np.arange(len(names))
    for shift, values, color, label in (
        (-0.19, accuracy, METHOD_COLORS[1], "accuracy"),
        (0.19, adversarial, METHOD_COLORS[2], "adversarial accuracy"),
    ):
        bars = ax.bar(x + shift, values, width=0.36, color=color, label=label, zorder=2)
        ax.bar_label(bars, fmt="%.3f", padding=4, color=INK, fontsize=9)
    if published is not None:
        ends = {"color": "#D55E00", "linewidth": 2.4, "zorder": 3}
        ax.hlines(published, x + 0.01, x + 0.37, **ends, label="adversarial accuracy in the paper")
    ax.set_xticks(x, names)
    ax.set(ylim=(0.0, 1.0), ylabel="mean" if n_tables is None else f"mean over {n_tables} tables")
    ax.grid(axis="y", color="#EEEEEE", zorder=0)
    tidy_axes(ax)
    ax.tick_params(axis="x", length=0, labelsize=11, colors=INK)
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=3, fontsize=9, labelcolor=INK)
    return figure


def plot_run_times(tables: Mapping[str, Any], growth: Mapping[str, Any]) -> Any:
    """Draw the time to fit against rows, on logarithmic scales, for several methods.

    Parameters
    ----------
    tables, growth : dicts of pairs of sequences
        Rows and seconds by method: on real tables (dots), and on tables of growing size (lines). The methods of
        `tables` come first in `growth`, which may have more.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from paper.figures import plot_run_times
    >>> figure = plot_run_times({"robust": ([300, 4600], [0.001, 0.01])}, {"robust": ([1000, 2000], [0.002, 0.004])})
    >>> len(figure.axes)
    2
    """
    figure = new_figure((9.6, 4.2))
    left, right = figure.subplots(1, 2, sharey=True)
    for index, (name, (rows, seconds)) in enumerate(tables.items()):
        look = {"color": METHOD_COLORS[index % len(METHOD_COLORS)], "label": name}
        left.plot(rows, seconds, "o", markersize=6.5, alpha=0.85, markeredgewidth=0, **look)
    for index, (name, (rows, seconds)) in enumerate(growth.items()):
        look = {"color": METHOD_COLORS[index % len(METHOD_COLORS)], "label": "_" if name in tables else name}
        right.plot(rows, seconds, "o-", linewidth=2, markersize=5, **look)
    number = FuncFormatter(lambda value, _: f"{value:,.0f}")
    for ax, title in ((left, "the paper's tables"), (right, "made tables of growing size")):
        ax.set(xscale="log", yscale="log", xlabel="rows")
        ax.set_title(title, loc="left", fontsize=11, color=INK)
        ax.grid(color="#EEEEEE", zorder=0)
        # Where there are two decades or more, labels at 50,000 and 100,000 would meet.
        low, high = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0, 3.0)))
        ax.xaxis.set_major_formatter(number)
        ax.xaxis.set_minor_formatter(NullFormatter())
        tidy_axes(ax)
    left.set_ylabel("CPU seconds to fit")
    left.legend(frameon=False, labelcolor=INK, loc="upper left")
    if set(growth) - set(tables):
        right.legend(frameon=False, labelcolor=INK, loc="lower right")
    return figure


def plot_rho(curves: Mapping[str, Any]) -> Any:
    """Draw what rho buys: scores as it grows, and the expected accuracy when that share of attackers attacks.

    Parameters
    ----------
    curves : dict of triples of sequences
        By table: rho, accuracy, and adversarial accuracy of the trees trained with it. The first rho is 0, the last 1.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from paper.figures import plot_rho
    >>> figure = plot_rho({"mail": ([0.0, 0.5, 1.0], [0.9, 0.89, 0.88], [0.3, 0.8, 0.87])})
    >>> len(figure.axes)
    2
    """
    figure = new_figure((3.0 * len(curves) + 0.6, 5.6))
    axes = figure.subplots(2, len(curves), sharex=True, squeeze=False)
    for column, (name, triple) in enumerate(curves.items()):
        rho, accuracy, adversarial = (np.asarray(values) for values in triple)
        above, below = axes[:, column]
        above.plot(rho, accuracy, "o-", color=COLORS[4], markersize=4, label="accuracy")
        above.plot(rho, adversarial, "o-", color=COLORS[0], markersize=4, label="adversarial accuracy")
        above.set_title(name, loc="left", fontsize=11, color=INK)
        for first, color, label in ((0, GREY, "natural (rho 0)"), (-1, COLORS[0], "robust (rho 1)")):
            below.plot(rho, (1 - rho) * accuracy[first] + rho * adversarial[first], "--", color=color, label=label)
        below.plot(
            rho, (1 - rho) * accuracy + rho * adversarial, "o-", color="#D55E00", markersize=4, label="rho = share"
        )
        above.set_xlabel("rho of the tree")
        above.tick_params(labelbottom=True)
        below.set_xlabel("share of attackers who attack")
        for ax in (above, below):
            ax.grid(color="#EEEEEE", zorder=0)
            tidy_axes(ax)
    axes[0, 0].set_ylabel("score")
    axes[1, 0].set_ylabel("expected accuracy")
    for row in axes:
        row[-1].legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="best")
    return figure
