"""The paper's figures show what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paper.figures import plot_adversarial_gini, plot_critical_differences, save_picture
from paper.figures.adversarial_gini import SplitCounts


def test_pictures_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_picture(plot_adversarial_gini(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_critical_differences_show_ranks_and_groups() -> None:
    """Every method is named with its rank, and a bar joins those that do not differ, at their ranks."""
    swapping = np.arange(12) % 2 * 0.1
    scores = {"last": np.arange(12) / 100, "first": 0.5 + swapping, "second": 0.6 - swapping}
    figure = plot_critical_differences({"raw": scores, "scaled": scores})
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["raw", "scaled"]
    for ax in figure.axes:
        labels = [text.get_text() for text in ax.texts]
        assert {"first  1.50", "second  1.50", "3.00  last"} <= set(labels)
        bars = [line for line in ax.lines if line.get_linewidth() > 3]
        assert len(bars) == 1
        assert bars[0].get_xdata() == pytest.approx([1.46, 1.54])


@pytest.mark.parametrize("seed", range(20))
def test_the_solution_line_is_a_line_of_maxima(seed: int) -> None:
    """On the line both sides have the same mix of classes, which no choice beats."""
    numbers = np.random.default_rng(seed).integers(1, 30, 6).tolist()
    counts = SplitCounts((numbers[0], numbers[1]), (numbers[2], numbers[3]), (numbers[4], numbers[5]))
    x = np.linspace(0, counts.movable[1], 50)
    y = counts.solution_line(x)
    inside = (y >= 0) & (y <= counts.movable[0])
    everywhere = counts.impurity(x[None, :], np.linspace(0, counts.movable[0], 50)[:, None])
    on_line = counts.impurity(x[inside], y[inside])
    assert np.all(on_line >= everywhere.max() - 1e-12)
    assert counts.impurity(*counts.worst((0, 0))) <= (on_line.max() if inside.any() else everywhere.max()) + 1e-12
