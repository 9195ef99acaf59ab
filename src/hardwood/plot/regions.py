"""Decision regions of a model on two features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hardwood.attacks import is_vulnerable
from hardwood.convert import as_ensemble
from hardwood.ensemble import TreeEnsemble
from hardwood.plot.backend import matplotlib_module
from hardwood.threat import ThreatModel
from hardwood.verification.question import read_class_index

# Blue and orange from the Okabe-Ito palette, which colour-blind readers can tell apart, and more
# of it for models with more classes.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

INK = "#333333"


@dataclass
class DecisionRegionDisplay:
    """Decision regions of a model on a table with two numerical features.

    The regions are exact: their borders are the thresholds of the trees, not a mesh of samples.
    Use `from_estimator` to compute a display and `plot` to draw it again on other axes.

    Attributes
    ----------
    edges : tuple of two arrays
        Where the predicted class can change along each feature, with the limits of the picture
        at both ends.
    regions : array of shape (len(edges[1]) - 1, len(edges[0]) - 1)
        Index of the class that is predicted in each cell between the edges.
    classes : array
        The labels of the classes.
    feature_names : tuple of two str
        What the axes are called.
    X, class_index : array, array
        The samples and the index of the class of each.
    reach : tuple of two arrays
        The lowest and the highest value that the attacker can give to each feature of each
        sample.
    fooled : array of bool
        Whether the attacker can have the sample misclassified (a sample that is misclassified
        where it stands counts).

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier
    >>> from hardwood.plot import DecisionRegionDisplay
    >>> X, y = [[1.0, 0.0], [2.0, 1.0], [6.0, 0.0], [7.0, 1.0]], [0, 0, 1, 1]
    >>> model = RobustTreeClassifier(threat=1.0).fit(X, y)
    >>> display = DecisionRegionDisplay.from_estimator(model, X, y)
    >>> display.regions
    array([[0, 1]])
    """

    edges: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    regions: npt.NDArray[np.intp]
    classes: npt.NDArray[Any]
    feature_names: tuple[str, str]
    X: npt.NDArray[np.float64]
    class_index: npt.NDArray[np.intp]
    reach: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    fooled: npt.NDArray[np.bool_]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        threat: Any = None,
        margin: float = 0.08,
    ) -> DecisionRegionDisplay:
        """Compute the regions around the samples, and what the attacker can do to each sample.

        Parameters
        ----------
        estimator : estimator or TreeEnsemble
            Anything that `as_ensemble` takes, with two numerical features.
        X, y : table, array
            The samples and their labels.
        threat : any spelling of a threat model, optional
            What the attacker may do. By default what the estimator was trained against, and
            nothing if it does not say.
        margin : float, default=0.08
            Empty border around the samples, as a share of their range.

        Returns
        -------
        DecisionRegionDisplay
            Call its `plot`.
        """
        ensemble = as_ensemble(estimator, X)
        _check_two_numerical_features(ensemble)
        threat = ThreatModel.coerce(getattr(estimator, "threat_", None) if threat is None else threat)
        matrix = ensemble.schema.encode(X)
        if np.isnan(matrix).any():
            raise ValueError("X: a row with a missing value has no place in the plane; leave out such rows")
        threat = threat.settle(X, matrix, ensemble.schema)
        class_index = read_class_index(y, ensemble.labels, len(matrix))
        edges = (_edges(ensemble, matrix, 0, margin), _edges(ensemble, matrix, 1, margin))
        return cls(
            edges=edges,
            regions=_predict_cells(ensemble, edges),
            classes=ensemble.labels,
            feature_names=(ensemble.schema.name(0), ensemble.schema.name(1)),
            X=matrix,
            class_index=class_index,
            reach=threat.resolve(ensemble.schema, ensemble.labels).box(matrix, class_index),
            fooled=is_vulnerable(ensemble, matrix, y, threat),
        )

    def plot(
        self,
        ax: Any = None,
        *,
        colors: Sequence[str] = COLORS,
        reach_of: Sequence[int] = (),
        legend: bool = True,
    ) -> DecisionRegionDisplay:
        """Draw regions and samples; samples that the attacker gets past the model are hollow.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        colors : sequence of str
            One colour per class.
        reach_of : sequence of int, default=()
            Rows whose reach is drawn: a box of every place the attacker can move the sample to.
        legend : bool, default=True
            Whether to say above the picture which colour is which class and what hollow dots and boxes are.

        Returns
        -------
        DecisionRegionDisplay
            This display, with the axes it drew on in `ax_` and their figure in `figure_`.
        """
        if ax is None:
            ax = matplotlib_module("pyplot").subplots(layout="constrained")[1]
        self._draw_regions(ax, colors)
        for row in reach_of:
            self._draw_reach(ax, row, colors[self.class_index[row]])
        self._draw_samples(ax, colors)
        if legend:
            self._draw_legend(ax, colors, has_reach=len(reach_of) > 0)
        ax.set(
            xlim=self.edges[0][[0, -1]],
            ylim=self.edges[1][[0, -1]],
            xlabel=self.feature_names[0],
            ylabel=self.feature_names[1],
        )
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_regions(self, ax: Any, colors: Sequence[str]) -> None:
        to_rgb = matplotlib_module("colors").to_rgb
        tint = np.array([0.26 * np.array(to_rgb(color)) + 0.74 for color in colors])
        ax.pcolormesh(*self.edges, tint[self.regions], antialiased=False, zorder=0)
        borders = matplotlib_module("collections").LineCollection(
            _borders(self.edges, self.regions), colors=INK, linewidths=1.2, zorder=1
        )
        borders.set_capstyle("projecting")  # so that corners close
        ax.add_collection(borders, autolim=False)

    def _draw_reach(self, ax: Any, row: int, color: str) -> None:
        low, high = (
            np.clip(bound[row], [axis[0] for axis in self.edges], [axis[-1] for axis in self.edges])
            for bound in self.reach
        )
        box = matplotlib_module("patches").Rectangle(
            low, *(high - low), facecolor=color, edgecolor=INK, linestyle=(0, (3, 2)), alpha=0.45
        )
        ax.add_patch(box).set_zorder(2)
        arrow = {"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0}
        for axis in (0, 1):
            for end in (low, high):
                if end[axis] != self.X[row, axis]:
                    tip = self.X[row].copy()
                    tip[axis] = end[axis]
                    ax.annotate("", tip, self.X[row], arrowprops=arrow, zorder=3)

    def _draw_samples(self, ax: Any, colors: Sequence[str]) -> None:
        ink = np.array(colors)[self.class_index]
        ax.scatter(
            *self.X.T,
            s=26,
            c=np.where(self.fooled, "white", ink),
            edgecolors=np.where(self.fooled, ink, "white"),
            linewidths=np.where(self.fooled, 1.6, 0.6),
            zorder=4,
        )

    def _draw_legend(self, ax: Any, colors: Sequence[str], *, has_reach: bool) -> None:
        """Name what is there: classes that have a region or a sample, hollow samples, boxes."""
        lines, patches = matplotlib_module("lines"), matplotlib_module("patches")
        dot = {"linestyle": "", "marker": "o", "markersize": 6}
        shown = np.union1d(self.regions, self.class_index)
        handles = [lines.Line2D([], [], color=colors[k], **dot, label=str(self.classes[k])) for k in shown]
        if self.fooled.any():
            hollow = {"markerfacecolor": "white", "markeredgecolor": INK, "markeredgewidth": 1.6}
            handles.append(lines.Line2D([], [], **dot, **hollow, label="wrong under attack"))
        if has_reach:
            box = {"facecolor": "none", "edgecolor": INK, "linestyle": (0, (3, 2))}
            handles.append(patches.Patch(**box, label="reach"))
        above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.3}
        ax.legend(handles=handles, ncols=2 if len(handles) > 3 else 3, frameon=False, labelcolor=INK, **above)


def _check_two_numerical_features(ensemble: TreeEnsemble) -> None:
    if ensemble.schema.n_features != 2:
        raise ValueError(
            f"decision regions need a model of exactly two features, this one has {ensemble.schema.n_features}"
        )
    if ensemble.schema.categorical:
        raise ValueError("decision regions need numerical features, this model has a categorical one")


def _edges(
    ensemble: TreeEnsemble, matrix: npt.NDArray[np.float64], feature: int, margin: float
) -> npt.NDArray[np.float64]:
    low, high = matrix[:, feature].min(), matrix[:, feature].max()
    border = margin * ((high - low) or 1.0)
    low, high = low - border, high + border
    thresholds = np.unique(ensemble.threshold[ensemble.feature == feature])
    inside = thresholds[(thresholds > low) & (thresholds < high)]
    return np.concatenate([[low], inside, [high]])


def _predict_cells(
    ensemble: TreeEnsemble, edges: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
) -> npt.NDArray[np.intp]:
    # A cell includes its upper edge, because `x <= threshold` goes left: one corner decides it.
    across, up = np.meshgrid(edges[0][1:], edges[1][1:])
    corners = np.column_stack([across.ravel(), up.ravel()])
    return ensemble.predict_proba(corners).argmax(axis=1).reshape(across.shape)


def _borders(
    edges: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    regions: npt.NDArray[np.intp],
) -> list[list[tuple[float, float]]]:
    """Line segments between neighbouring cells that are predicted differently."""
    x, y = edges
    upright = [
        [(x[column + 1], y[row]), (x[column + 1], y[row + 1])]
        for row, column in np.argwhere(regions[:, 1:] != regions[:, :-1])
    ]
    level = [
        [(x[column], y[row + 1]), (x[column + 1], y[row + 1])]
        for row, column in np.argwhere(regions[1:] != regions[:-1])
    ]
    return upright + level
