"""Adversarial accuracy, or the error of a regression, as the attacker grows stronger."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from hardwood.evaluation import evaluate
from hardwood.plot.backend import matplotlib_module
from hardwood.plot.regions import COLORS, INK
from hardwood.results import RegressionReport, RobustnessReport

_GREY = "#777777"
_UP_TO, _POINTS = 2.0, 11
_CURVE = "hardwood curve"  # marks the lines of models, so that a second one finds the first


@dataclass
class RobustnessCurveDisplay:
    """Adversarial accuracy, or the error of a regression, under multiples of a threat model.

    Use `from_estimator` or `from_report` to compute a display and `plot` to draw it; several displays can be drawn on
    one axes. Beside the model stand the two figures to judge it by: a constant classifier, which no attacker can fool,
    and the ceiling that no classifier can exceed. For a regression it is the mean squared error under attack, beside
    that of the best constant.

    Attributes
    ----------
    epsilons : ndarray
        Multiples of the threat model: 0 is no attacker, 1 the threat model itself.
    lower, upper : ndarray
        The adversarial accuracy, or the error, at each epsilon lies between these; they are equal where every row is
        decided.
    ceiling : ndarray or None
        What no classifier can exceed, at each epsilon.
    constant : float
        The accuracy of a constant classifier, or the error of the best constant.
    name : str
        What the curve is called in the legend.
    ceiling_lower : ndarray or None
        How low the ceiling might be, at each epsilon: as `ceiling`, unless time ran out while it was worked out.

    is_error : bool
        Whether it is the error of a regression.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier
    >>> from hardwood.plot import RobustnessCurveDisplay
    >>> X, y = [[0.0], [1.0], [2.0], [6.0], [7.0]], ["no", "no", "no", "yes", "yes"]
    >>> model = RobustTreeClassifier(threat=1.0).fit(X, y)
    >>> display = RobustnessCurveDisplay.from_estimator(model, X, y, threat=1.0, epsilons=[0, 1, 2, 3])
    >>> display.lower.tolist()
    [1.0, 1.0, 0.8, 0.4]
    """

    epsilons: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    ceiling: np.ndarray | None
    constant: float
    name: str
    ceiling_lower: np.ndarray | None = None
    is_error: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        threat: Any = None,
        *,
        epsilons: Any = None,
        name: str | None = None,
        **options: Any,
    ) -> RobustnessCurveDisplay:
        """Evaluate a model under multiples of a threat model.

        Parameters
        ----------
        estimator : fitted tree model
            Anything :func:`as_ensemble` takes.
        X, y : table, array
            The rows and their labels, or numbers.
        threat : any spelling of a threat model, optional
            By default what the estimator was trained against.
        epsilons : array-like of numbers >= 0, optional
            The multiples of the threat model; by default eleven from 0 to 2.
        name : str, optional
            What the curve is called; by default the class of the estimator.
        **options
            Passed on to :func:`evaluate`, such as ``time_limit`` or ``n_jobs``.

        Returns
        -------
        RobustnessCurveDisplay
            Call its `plot`.
        """
        threat = getattr(estimator, "threat_", None) if threat is None else threat
        grid = np.linspace(0.0, _UP_TO, _POINTS) if epsilons is None else epsilons
        report = evaluate(estimator, X, y, threat, epsilons=grid, **options)
        return cls.from_report(report, name=type(estimator).__name__ if name is None else name)

    @classmethod
    def from_report(cls, report: RobustnessReport | RegressionReport, *, name: str = "model") -> RobustnessCurveDisplay:
        """Take the curve out of a report.

        Parameters
        ----------
        report : RobustnessReport or RegressionReport
            What :func:`evaluate` returned, best with some ``epsilons``.
        name : str, default="model"
            What the curve is called.
        """
        if isinstance(report, RegressionReport):
            errors = [report.squared_error_at(epsilon) for epsilon in report.epsilons]
            lower, upper = (np.array(side) for side in zip(*errors, strict=True))
            return cls(report.epsilons, lower, upper, None, report.constant_squared_error, name, is_error=True)
        bounds = [report.accuracy_at(epsilon) for epsilon in report.epsilons]
        lower, upper = (np.array(side) for side in zip(*bounds, strict=True))
        ceilings = report.ceilings, report.ceilings_lower
        return cls(report.epsilons, lower, upper, ceilings[0], report.constant_accuracy, name, ceilings[1])

    def plot(self, ax: Any = None, *, color: str | None = None) -> RobustnessCurveDisplay:
        """Draw the curve; a band where rows are undecided.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given. On axes that show another model already, the constant classifier
            and the ceiling are not drawn again.
        color : str, optional
            The colour of the curve; by default the next one that is not in use.

        Returns
        -------
        RobustnessCurveDisplay
            This display, with the axes it drew on in `ax_` and their figure in `figure_`.
        """
        if ax is None:
            ax = matplotlib_module("pyplot").subplots(figsize=(6.4, 4.4), layout="constrained")[1]
        others = [line for line in ax.lines if line.get_gid() == _CURVE]
        if not others:
            self._draw_surroundings(ax)
        if color is None:
            color = COLORS[len(others) % len(COLORS)]
        if (self.lower < self.upper).any():
            band = {"color": color, "alpha": 0.25, "linewidth": 0, "zorder": 3, "label": f"{self.name}: undecided rows"}
            ax.fill_between(self.epsilons, self.lower, self.upper, **band)
        line = {"color": color, "linewidth": 2.2, "marker": "o", "markersize": 5, "label": self.name, "zorder": 4}
        # Of an interval, the side that is proved.
        ax.plot(self.epsilons, self.upper if self.is_error else self.lower, gid=_CURVE, **line)
        furthest = self.epsilons.max()
        ax.set(xlim=(0.0, max(furthest, ax.get_xlim()[1]) if others else furthest))
        if self.is_error:
            highest = 1.05 * max(float(self.upper.max()), self.constant)
            ax.set_ylim(0.0, max(highest, ax.get_ylim()[1]) if others else highest)
        else:
            ax.set_ylim(0.0, 1.0)
        self._label_axes(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_surroundings(self, ax: Any) -> None:
        area = {"linewidth": 0, "zorder": 0}
        if self.ceiling is not None and (self.ceiling < 1.0).any():  # otherwise there is no area to be named
            ax.fill_between(self.epsilons, self.ceiling, 1.0, color="#E4E4E4", label="no classifier gets here", **area)
            ax.plot(self.epsilons, self.ceiling, color="#B5B5B5", linewidth=1.2, zorder=1)
        if self.ceiling is not None and self.ceiling_lower is not None and (self.ceiling_lower < self.ceiling).any():
            doubt = {"color": "#F2F2F2", "label": "perhaps no classifier (time ran out)"}
            ax.fill_between(self.epsilons, self.ceiling_lower, self.ceiling, **doubt, **area)
        label = "best constant" if self.is_error else "constant classifier"
        dashed = {"linestyle": (0, (4, 3)), "linewidth": 1.2, "zorder": 1, "label": label}
        ax.axhline(self.constant, color=_GREY, **dashed)
        ax.axvline(1.0, color="#CCCCCC", linewidth=1.0, zorder=1)

    def _label_axes(self, ax: Any) -> None:
        ax.set_xlabel("strength of the attacker (1: the threat model)", color=INK)
        if self.is_error:
            ax.set_ylabel("mean squared error under attack", color=INK)
        else:
            ax.set_ylabel("accuracy under attack", color=INK)
            ax.yaxis.set_major_formatter(matplotlib_module("ticker").PercentFormatter(1.0))
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(_GREY)
        ax.tick_params(colors=_GREY)
        ax.legend(frameon=False, loc="best", labelcolor=INK)


def save_robustness_curve(
    report: RobustnessReport | RegressionReport, path: str | PathLike[str], *, name: str = "model", dpi: int = 150
) -> None:
    """Save the curve of a report as a picture, with no need for a screen.

    Parameters
    ----------
    report : RobustnessReport or RegressionReport
        What :func:`evaluate` returned, best with some ``epsilons``.
    path : path
        Where to save; the suffix says in which format.
    name : str, default="model"
        What the curve is called.
    dpi : int, default=150
        Dots per inch.

    Examples
    --------
    >>> from hardwood.plot import save_robustness_curve
    >>> save_robustness_curve(report, "curve.png")  # doctest: +SKIP
    """
    figure = matplotlib_module("figure").Figure(figsize=(6.4, 4.4), layout="constrained")
    RobustnessCurveDisplay.from_report(report, name=name).plot(figure.subplots())
    figure.savefig(path, dpi=dpi)
