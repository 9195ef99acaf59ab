"""How far attackers get who can only ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from paper.figures.style import GREY, INK, METHOD_COLORS, new_figure, tidy_axes

_LINES = ("o-", "s--", "^:", "d-.")
_OTHER_MARKS = ("X", "P", "*")


def plot_black_box(
    asking: Mapping[str, Mapping[str, Any]],
    exact: Mapping[str, float],
    others: Mapping[str, Mapping[str, tuple[float, float]]],
) -> Any:
    """Draw what is left of each model's accuracy under attackers who cannot see it, and how near their examples are.

    Parameters
    ----------
    asking : dict of dicts of triples of sequences
        By attacker and model: numbers of questions, accuracy, and distance as a multiple of the least one.
    exact : dict of float
        By model: accuracy under an attacker who sees it.
    others : dict of dicts of pairs
        By attacker and model: accuracy and distance under attackers whose questions are not counted.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from paper.figures import plot_black_box
    >>> asking = {"boundary": {"natural": ([10, 100], [0.8, 0.4], [3.0, 1.2])}}
    >>> figure = plot_black_box(asking, {"natural": 0.3}, {"transfer": {"natural": (0.6, 1.5)}})
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['accuracy that is left', 'median distance / least distance']
    """
    figure = new_figure((9.6, 4.4))
    left, right = figure.subplots(1, 2)
    colors = dict(zip(exact, METHOD_COLORS * len(exact), strict=False))
    for models, style in zip(asking.values(), _LINES, strict=False):
        for model, (queries, accuracy, ratio) in models.items():
            look = {"color": colors[model], "markersize": 4.5, "linewidth": 1.6}
            left.plot(queries, accuracy, style, **look)
            right.plot(queries, ratio, style, **look)
    for model, accuracy in exact.items():
        left.axhline(accuracy, color=colors[model], linewidth=0.9, zorder=0)
    for models, mark in zip(others.values(), _OTHER_MARKS, strict=False):
        for model, pair in models.items():
            for ax, value in zip((left, right), pair, strict=True):
                # Beside the axes' right end: these attackers have no place on the scale of questions.
                at = {"transform": ax.get_yaxis_transform(), "clip_on": False}
                if np.isfinite(value):
                    ax.plot([1.03], [value], mark, color=colors[model], markersize=7, markeredgewidth=0, **at)
    _label(left, right)
    _explain(figure, colors, [*zip(asking, _LINES, strict=False), *zip(others, _OTHER_MARKS, strict=False)])
    return figure


def _label(left: Any, right: Any) -> None:
    left.set(ylim=(0.0, 1.0), ylabel="accuracy that is left")
    right.set(ylabel="median distance / least distance")
    for ax in (left, right):
        ax.grid(color="#EEEEEE", zorder=0)
        tidy_axes(ax)
        ax.set(xscale="log", xlabel="answers that the attacker has about a row")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _explain(figure: Any, colors: Mapping[str, str], styles: list[tuple[str, str]]) -> None:
    models = [Line2D([], [], color=color, linewidth=3, label=name) for name, color in colors.items()]
    grey: dict[str, Any] = {"color": GREY, "markersize": 6, "linewidth": 1.6}
    attackers = [Line2D([], [], label=name, **grey, **_split(style)) for name, style in styles]
    sees = Line2D([], [], color=GREY, linewidth=0.9, label="who sees the tree")
    figure.legend(
        handles=[*models, *attackers, sees],
        loc="outside upper center",
        ncols=4,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def _split(style: str) -> dict[str, Any]:
    """Return a short style as marker and line."""
    return {"marker": style[0], "linestyle": style[1:] or "none"}
