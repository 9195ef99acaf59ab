"""Figures that need no screen, and saving them as the same bytes every time."""

from __future__ import annotations

from os import PathLike
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

INK, GREY = "#333333", "#777777"
# From the Okabe-Ito palette, which colour-blind readers can tell apart: of the classes, and of the methods in the order
# in which they are listed.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
METHOD_COLORS = ("#999999", "#56B4E9", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00")


def new_figure(size: tuple[float, float]) -> Any:
    """Return a figure that needs no screen."""
    return Figure(figsize=size, layout="constrained")


def save_picture(figure: Any, path: str | PathLike[str], *, dpi: int = 150) -> None:
    """Save a figure in the format that the suffix says.

    Parameters
    ----------
    figure : matplotlib figure
    path : path
        Where to save.
    dpi : int, default=150
        Dots per inch.

    Examples
    --------
    >>> from paper.figures import plot_concavity, save_picture
    >>> save_picture(plot_concavity(), "concavity.svg")  # doctest: +SKIP
    """
    # Otherwise matplotlib writes the time, and names that are drawn at random.
    metadata = {"Date": None} if str(path).lower().endswith(".svg") else None
    with matplotlib.style.context({"svg.hashsalt": "hardwood"}):
        figure.savefig(path, dpi=dpi, metadata=metadata)


def tidy_axes(ax: Any) -> None:
    """Take away what is not data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=GREY, which="both")
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)
