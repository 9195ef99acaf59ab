"""Figures of the GROOT paper: its idea, its scores."""

from paper.figures.adversarial_gini import plot_adversarial_gini, plot_concavity
from paper.figures.black_box import plot_black_box
from paper.figures.critical_differences import plot_critical_differences
from paper.figures.scores import plot_average_scores, plot_rho, plot_run_times
from paper.figures.style import save_picture

__all__ = [
    "plot_adversarial_gini",
    "plot_average_scores",
    "plot_black_box",
    "plot_concavity",
    "plot_critical_differences",
    "plot_rho",
    "plot_run_times",
    "save_picture",
]
