"""The adversarial Gini impurity: what an attacker does to one split, and the function it climbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paper.figures.style import COLORS, GREY, INK, new_figure

# The sketch: a threshold at 0, a reach of 1, and where the samples of class 0 and of class 1 are.
_BENIGN = (-2.6, -2.2, -1.7, -1.4, -0.6, 0.75, 2.0)
_MALICIOUS = (-2.0, 0.6, 1.3, 1.6, 1.9, 2.4, 2.7)
_REACH = 1.0


@dataclass(frozen=True)
class SplitCounts:
    """Samples of class 0 and class 1 that stay left, stay right, or can be on either side."""

    left: tuple[int, int]
    right: tuple[int, int]
    movable: tuple[int, int]

    def impurity(self, x: Any, y: Any) -> Any:
        """Return the weighted Gini impurity with `x` of class 1 and `y` of class 0 put on the left.

        Examples
        --------
        >>> SplitCounts((4, 0), (0, 4), (0, 0)).impurity(0, 0)
        0.0
        """
        left_0, left_1 = self.left[0] + y, self.left[1] + x
        right_0 = self.right[0] + self.movable[0] - y
        right_1 = self.right[1] + self.movable[1] - x
        total = sum(self.left) + sum(self.right) + sum(self.movable)
        return 2 * (left_0 * left_1 / (left_0 + left_1) + right_0 * right_1 / (right_0 + right_1)) / total

    def worst(self, start: tuple[int, int]) -> tuple[int, int]:
        """Return the worst (x, y), by trying all; of equals the one that is the fewest moves from `start`."""
        choices = [(x, y) for x in range(self.movable[1] + 1) for y in range(self.movable[0] + 1)]
        return max(choices, key=lambda c: (round(self.impurity(*c), 12), -abs(c[0] - start[0]) - abs(c[1] - start[1])))

    def solution_line(self, x: Any) -> Any:
        """Return the `y` at which both sides have the same mix of classes: the paper's line of maxima."""
        in_0 = self.left[0] + self.right[0] + self.movable[0]
        in_1 = self.left[1] + self.right[1] + self.movable[1]
        constant = self.left[1] * (self.right[0] + self.movable[0]) - self.left[0] * (self.right[1] + self.movable[1])
        return (constant + in_0 * x) / in_1


def plot_adversarial_gini() -> Any:
    """Draw what the attacker does to one split: the samples within reach, and the move that hurts most.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from paper.figures import plot_adversarial_gini
    >>> figure = plot_adversarial_gini()
    >>> len(figure.axes)
    2
    """
    samples = (np.array(_BENIGN), np.array(_MALICIOUS))
    counts = SplitCounts(
        left=_count(samples, lambda v: v <= -_REACH),
        right=_count(samples, lambda v: v > _REACH),
        movable=_count(samples, lambda v: abs(v) < _REACH),
    )
    start_0, start_1 = _count(samples, lambda v: (v > -_REACH) & (v <= 0))
    worst = counts.worst((start_1, start_0))
    figure = new_figure((8.4, 4.6))
    before, after = figure.subplots(2, 1, sharex=True)
    _draw_samples(before, samples, f"before the attack: impurity {counts.impurity(start_1, start_0):.3f}")
    moved = (_move(samples[0], start_0, worst[1]), _move(samples[1], start_1, worst[0]))
    _draw_samples(after, moved, f"after the worst of all moves: impurity {counts.impurity(*worst):.3f}")
    for old, new, row in zip(samples, moved, (0, 1), strict=True):
        for k in np.flatnonzero(old != new):
            after.annotate("", (new[k], row), (old[k], row), arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.6})
            after.plot(old[k], row, "o", markersize=11, markerfacecolor="none", markeredgecolor=COLORS[row])
    for row, values in enumerate(samples):
        for value in values[abs(values) < _REACH]:
            both = {"arrowstyle": "<->", "color": COLORS[row], "lw": 1.4}
            before.annotate("", (value - _REACH, row + 0.28), (value + _REACH, row + 0.28), arrowprops=both)
    for x, name in ((-2.1, "L"), (-0.5, "LI"), (0.5, "RI"), (2.1, "R")):
        before.text(x, 1.62, name, ha="center", color=GREY, fontsize=12)
    return figure


def _count(samples: Any, where: Any) -> tuple[int, int]:
    return int(where(samples[0]).sum()), int(where(samples[1]).sum())


def _move(values: np.ndarray, on_left: int, wanted: int) -> np.ndarray:
    """Carry the movable samples nearest to the threshold over it until `wanted` of them are on the left."""
    values = values.copy()
    source = (values > 0) & (values < _REACH) if wanted > on_left else (values <= 0) & (values > -_REACH)
    nearest = sorted(np.flatnonzero(source), key=lambda k: abs(values[k]))[: abs(wanted - on_left)]
    values[nearest] = -0.3 if wanted > on_left else 0.3
    return values


def _draw_samples(ax: Any, samples: tuple[np.ndarray, np.ndarray], title: str) -> None:
    ax.axvspan(-_REACH, _REACH, color="#F2F2F2", zorder=0)
    ax.axvline(0.0, color=INK, linewidth=1.6, zorder=1)
    for row, values in enumerate(samples):
        ax.plot(values, [row] * len(values), "o", color=COLORS[row], markersize=11, zorder=2)
    ax.set(ylim=(-0.6, 2.0), xlim=(-3.1, 3.1), xticks=[0.0], xticklabels=["threshold"])
    ax.set_yticks([0, 1], ["class 0", "class 1"])
    ax.set_title(title, loc="left", fontsize=11, color=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.tick_params(colors=GREY, length=0)


def plot_concavity(seed: int = 0) -> Any:
    """Draw the function that the attacker maximises, for random counts: it is concave, its maxima lie on a line.

    Parameters
    ----------
    seed : int, default=0
        Draws the counts.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> from paper.figures import plot_concavity
    >>> figure = plot_concavity()
    >>> len(figure.axes)
    6
    """
    generator = np.random.default_rng(seed)
    figure = new_figure((9.6, 6.4))
    for ax in figure.subplots(2, 3).flat:
        left_0, left_1, right_0, right_1 = generator.integers(1, 40, 4).tolist()
        movable_0, movable_1 = generator.integers(20, 60, 2).tolist()
        _draw_function(ax, SplitCounts((left_0, left_1), (right_0, right_1), (movable_0, movable_1)))
    return figure


def _draw_function(ax: Any, counts: SplitCounts) -> None:
    x = np.linspace(0, counts.movable[1], 121)
    y = np.linspace(0, counts.movable[0], 121)
    values = counts.impurity(x[None, :], y[:, None])
    ax.imshow(values, origin="lower", extent=(x[0], x[-1], y[0], y[-1]), aspect="auto", cmap="viridis")
    ax.contour(x, y, values, levels=12, colors="white", linewidths=0.4, alpha=0.6)
    line = counts.solution_line(x)
    inside = (line >= y[0]) & (line <= y[-1])
    ax.plot(x[inside], line[inside], color="#D55E00", linewidth=2.2)
    names = ("L", counts.left), ("R", counts.right), ("I", counts.movable)
    title = ",  ".join(f"${name}_0$={a} ${name}_1$={b}" for name, (a, b) in names)
    ax.set_title(title, fontsize=8.5, color=INK)
    ax.set_xlabel("x: class 1 on the left", fontsize=9, color=INK)
    ax.set_ylabel("y: class 0 on the left", fontsize=9, color=INK)
    ax.tick_params(colors=GREY, labelsize=8)
