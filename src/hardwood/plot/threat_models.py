"""The threat-model figure: one set of samples, four attackers, four different trees."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from sklearn.datasets import make_moons

from hardwood.estimators import RobustTreeClassifier
from hardwood.evaluation import adversarial_accuracy
from hardwood.plot.backend import matplotlib_module
from hardwood.plot.regions import COLORS, INK, DecisionRegionDisplay

_PANELS: tuple[tuple[str, Any], ...] = (
    ("No attacker: an ordinary tree", None),
    ("x can only grow, y can only shrink", [">", "<"]),
    ("x and y can move by 0.5", [0.5, 0.5]),
    ("x can be anything, y 0.7 less or 0.3 more", ["<>", (0.7, 0.3)]),
)
_ATTACKING_CLASS = 1
_REACH_NEAR = (2.9, 1.0)  # the reach of the orange sample nearest to this point is drawn
_SIZE = (9.0, 7.8)
_GREY = "#666666"


def plot_threat_models(figure: Any = None) -> Any:
    """Draw how the threat model shapes the tree: the same samples under four attackers.

    Only the orange samples are moved. Each panel shows the decision regions of a robust tree,
    the reach of one orange sample, and as hollow dots the samples that the tree gets wrong once
    the attacker has moved them.

    Parameters
    ----------
    figure : matplotlib figure, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from hardwood.plot import plot_threat_models
    >>> figure = plot_threat_models()
    >>> len(figure.axes)
    4
    """
    if figure is None:
        figure = matplotlib_module("pyplot").figure(figsize=_SIZE)
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1, hspace=0.04, rect=(0, 0.06, 1, 0.94))
    X, y = make_moons(160, noise=0.2, random_state=0)
    # Upside down, so that all four attackers push orange samples towards blue ones, and twice the
    # size, so that the distances matter without swamping the data.
    X = X * [2, -2]
    natural = _fit(None, X, y)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, (title, threat) in zip(axes.flat, _PANELS, strict=True):
        _draw_panel(ax, title, threat, natural, X, y)
    _draw_legend(figure)
    return figure


def save_threat_models(path: str | PathLike[str], *, dpi: int = 150) -> None:
    """Save the figure of `plot_threat_models` as a picture, with no need for a screen.

    Parameters
    ----------
    path : path
        Where to save; the suffix says in which format.
    dpi : int, default=150
        Dots per inch.

    Examples
    --------
    >>> from hardwood.plot import save_threat_models
    >>> save_threat_models("threat-models.png")  # doctest: +SKIP
    """
    figure = matplotlib_module("figure").Figure(figsize=_SIZE)
    plot_threat_models(figure).savefig(path, dpi=dpi)


def _fit(threat: Any, X: np.ndarray, y: np.ndarray) -> RobustTreeClassifier:
    tree = RobustTreeClassifier(threat, attacking_classes=[_ATTACKING_CLASS], max_depth=4)
    return tree.fit(X, y)


def _draw_panel(ax: Any, title: str, threat: Any, natural: RobustTreeClassifier, X: np.ndarray, y: np.ndarray) -> None:
    model = _fit(threat, X, y)
    distance = np.linalg.norm(X - _REACH_NEAR, axis=1)
    shown = int(np.argmin(np.where(y == _ATTACKING_CLASS, distance, np.inf)))
    display = DecisionRegionDisplay.from_estimator(model, X, y)
    display.plot(ax, reach_of=[shown] if threat else [], legend=False)

    scores = f"adversarial accuracy {adversarial_accuracy(model, X, y, model.threat_):.0%}"
    if threat:
        without = adversarial_accuracy(natural, X, y, model.threat_)
        scores += f" (ordinary tree {without:.0%})"
    ax.set_title(title, loc="left", fontsize=12.5, fontweight="bold", color=INK, pad=22)
    ax.text(
        *(0, 1.025),
        f"threat = {threat}".replace("'", '"'),
        transform=ax.transAxes,
        family="monospace",
        fontsize=10,
        color=_GREY,
    )
    ax.set_xlabel(scores, loc="left", fontsize=11, color=INK, labelpad=6)
    ax.set(ylabel="", aspect="equal")
    ax.tick_params(colors=_GREY, length=0, labelsize=8.5)
    ax.spines[:].set_color(_GREY)


def _draw_legend(figure: Any) -> None:
    lines, patches = matplotlib_module("lines"), matplotlib_module("patches")
    dot = {"linestyle": "", "marker": "o", "markersize": 7.5}
    hollow = {"markerfacecolor": "white", "markeredgecolor": INK, "markeredgewidth": 1.5}
    box = {"facecolor": COLORS[1], "edgecolor": INK, "linestyle": (0, (3, 2)), "alpha": 0.45}
    handles = [
        lines.Line2D([], [], color=COLORS[0], **dot, label="stays"),
        lines.Line2D([], [], color=COLORS[1], **dot, label="moved by the attacker"),
        lines.Line2D([], [], **dot, **hollow, label="misclassified after the attack"),
        patches.Patch(**box, label="reach of one sample"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=4, frameon=False, fontsize=11)
