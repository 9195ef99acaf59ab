"""One adversarial example: which features moved, by how much, and how much further they could have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardwood.attacks import attack
from hardwood.convert import as_ensemble
from hardwood.plot.backend import matplotlib_module
from hardwood.plot.regions import COLORS, INK
from hardwood.quoting import quote
from hardwood.results import unless_interrupted
from hardwood.table import Schema
from hardwood.table.likeness import find_whole_columns
from hardwood.threat import Reach, ThreatModel
from hardwood.threat.priced_reach import PricedReach
from hardwood.threat.spelling import plain
from hardwood.verification.question import read_class_index

_GREY = "#777777"
_BAR = "#DDDDDD"


@dataclass(frozen=True)
class FeatureChange:
    """What happened to one feature, in the units of the table.

    `before` and `after` have the type of the column: whole numbers, truth values, categories; None is a missing value.
    `low` and `high` are the ends of its reach, and `scale` is the change that is drawn as 1; None for a category and
    where a value is made missing, or a missing one is filled in.
    """

    name: str
    before: Any
    after: Any
    low: float | None = None
    high: float | None = None
    scale: float | None = None

    @property
    def shift(self) -> float:
        """How far it moved, as a share of the scale; a change of category or from or to a missing value is 1."""
        return 1.0 if self.scale is None else (self.after - self.before) / self.scale


@dataclass
class AdversarialExampleDisplay:
    """An adversarial example of one row: the features that moved, from where to where, within which reach.

    Use `from_estimator` to compute a display and `plot` to draw it.

    Attributes
    ----------
    changes : list of FeatureChange
        The features that moved, the largest change first, as shares of their reach.
    n_movable : int
        How many features the attacker could have changed.
    label, prediction : label
        The true class of the row, and the class the model gives to the example.
    distance : float
        How far the example is from the row.
    row : int
        Which row it is.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier
    >>> from hardwood.plot import AdversarialExampleDisplay
    >>> X, y = [[1.0, 0.0], [2.0, 1.0], [6.0, 0.0], [7.0, 1.0]], ["no", "no", "yes", "yes"]
    >>> model = RobustTreeClassifier().fit(X, y)
    >>> display = AdversarialExampleDisplay.from_estimator(model, X, y, threat=2.5, row=2)
    >>> display.changes
    [FeatureChange(name='feature 0', before=6.0, after=4.0, low=3.5, high=8.5, scale=2.5)]
    >>> display.label, display.prediction, display.distance
    ('yes', 'no', 2.0)
    """

    changes: list[FeatureChange]
    n_movable: int
    label: Any
    prediction: Any
    distance: float
    row: int

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, threat: Any = None, *, row: int = 0, **options: Any
    ) -> AdversarialExampleDisplay:
        """Attack one row of a table.

        Parameters
        ----------
        estimator : fitted tree model
            Anything :func:`as_ensemble` takes.
        X : table
            The row is one of these; where a feature has no limit, the range of all of them gives the scale.
        y : array-like of labels, optional
            By default the model's own predictions.
        threat : any spelling of a threat model, optional
            By default what the estimator was trained against; if it does not say, any value will do.
        row : int, default=0
            Which row to attack.
        **options
            Passed on to :func:`attack`, such as ``norm`` or ``time_limit``.

        Returns
        -------
        AdversarialExampleDisplay
            Call its `plot`.

        Raises
        ------
        ValueError
            If no adversarial example was found.
        """
        ensemble = as_ensemble(estimator, X)
        matrix = ensemble.schema.encode(X)
        if not 0 <= row < len(matrix):
            raise ValueError(f"row={quote(row)}: expected a row of X, from 0 to {len(matrix) - 1}")
        threat = ThreatModel.coerce(getattr(estimator, "threat_", "<>") if threat is None else threat)
        threat = threat.settle(X, matrix, ensemble.schema)
        label = ensemble.decide(matrix) if y is None else read_class_index(y, ensemble.labels, len(matrix))
        own = ensemble.labels[label[[row]]]
        reach = (threat.price if threat.rules else threat.resolve)(ensemble.schema, ensemble.labels)
        result = attack(ensemble, ensemble.schema.decode(matrix[[row]]), own, threat, **options)
        unless_interrupted(result)
        if not result.found[0]:
            known = "has no" if np.isinf(result.lower[0]) else "has, as far as the search got, no"
            raise ValueError(f"row={row}: the row {known} adversarial example within {threat}")
        example = ensemble.schema.encode(result.X_adv)[0]
        changes = _changes(_read_rows(X, ensemble.schema, matrix, label, reach), row, example, reach)
        prediction = ensemble.labels[ensemble.decide(example[None])[0]]
        n_movable = _count_movable(ensemble.schema, reach, matrix[[row]], label[[row]])
        return cls(changes, n_movable, plain(own[0]), plain(prediction), float(result.distance[0]), row)

    def plot(self, ax: Any = None, *, max_features: int = 15) -> AdversarialExampleDisplay:
        """Draw an arrow per feature that moved, over a bar of what its reach is.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if not given.
        max_features : int, default=15
            Draw these many at most, those first that moved furthest.

        Returns
        -------
        AdversarialExampleDisplay
            This display, with the axes it drew on in `ax_` and their figure in `figure_`.
        """
        shown = self.changes[:max_features]
        if ax is None:
            height = 1.5 + 0.55 * max(1, len(shown))
            ax = matplotlib_module("pyplot").subplots(figsize=(7.6, height), layout="constrained")[1]
        for place, change in enumerate(shown):
            _draw_change(ax, place, change)
        ax.set(xlim=(-1.2, 1.2), ylim=(max(1, len(shown)) - 0.4, -0.6))
        ax.set_yticks(range(len(shown)), [change.name for change in shown], color=INK)
        ax.set_xticks([-1, 0, 1], ["furthest down", "as it was", "furthest up"], color=_GREY)
        ax.tick_params(length=0)
        ax.axvline(0.0, color=_BAR, linewidth=1.0, zorder=0)
        ax.spines[:].set_visible(False)
        ax.set_title(self._title(len(shown)), loc="left", fontsize=11, color=INK)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _title(self, n_shown: int) -> str:
        if not self.changes:
            return f"Row {self.row}: {self.label}, taken for {self.prediction} as it stands"
        hidden = len(self.changes) - n_shown
        more = f", {hidden} of them not shown" if hidden else ""
        count = f"{len(self.changes)} of {self.n_movable} feature{'s' if self.n_movable > 1 else ''}"
        return f"Row {self.row}: {self.label}, taken for {self.prediction} with {count} changed{more}"


class _Rows(NamedTuple):
    """Encoded rows, their classes, and how a cell of each column is shown."""

    schema: Schema
    matrix: np.ndarray
    label: np.ndarray
    whole: set[int]  # columns whose numbers are shown as whole ones
    truths: set[int]  # columns of truth values

    def read_cell(self, value: float, column: int) -> Any:
        """Return an encoded value as one of the column's own type; None if it is missing."""
        labels = self.schema.categories[column]
        if np.isnan(value):
            return None
        if labels is not None:
            return labels[int(value)] if value < len(labels) else "unknown"
        if column in self.truths and value in (0.0, 1.0):
            return bool(value)
        return int(value) if column in self.whole and value == np.floor(value) else float(value)


def _read_rows(X: Any, schema: Schema, matrix: np.ndarray, label: np.ndarray, reach: Reach | PricedReach) -> _Rows:
    """Find out of what types columns are: by the types of a DataFrame, or by what the threat model says."""
    typed = [column for column in find_whole_columns(X) if schema.categories[column.position] is None]
    said = getattr(reach, "whole", None)
    whole = {column.position for column in typed} | (set() if said is None else set(np.flatnonzero(said).tolist()))
    return _Rows(schema, matrix, label, whole, {column.position for column in typed if column.most == 1.0})


def _count_movable(schema: Schema, reach: Reach | PricedReach, x: np.ndarray, label: np.ndarray) -> int:
    """Count the features of one row that the attacker can change."""
    low, high = reach.box(x, label)
    sizes = [len(labels) + 1 for labels in schema.categories if labels is not None]
    codes = np.split(reach.open_codes(x, label)[0], np.cumsum(sizes)[:-1]) if sizes else []
    return int((low < high).sum()) + sum(bool(allowed.sum() > 1) for allowed in codes)


def _changes(rows: _Rows, row: int, example: np.ndarray, reach: Reach | PricedReach) -> list[FeatureChange]:
    """List the features that moved, the largest change first."""
    x = rows.matrix[row]
    low, high = (ends[0] for ends in reach.box(rows.matrix[[row]], rows.label[[row]]))
    # Rules may reach as far as there are numbers: no limit worth drawing.
    low, high = (np.where(np.abs(end) < np.finfo(np.float64).max, end, np.copysign(np.inf, end)) for end in (low, high))
    changes = []
    for j in np.flatnonzero((example != x) & ~(np.isnan(example) & np.isnan(x))).tolist():
        before, after = (rows.read_cell(values[j], j) for values in (x, example))
        if rows.schema.categories[j] is not None or before is None or after is None:
            changes.append(FeatureChange(rows.schema.name(j), before, after))
            continue
        scale = max(x[j] - low[j], high[j] - x[j])
        if not np.isfinite(scale):
            column = rows.matrix[:, j]
            scale = max(np.nanmax(column) - np.nanmin(column), abs(example[j] - x[j]))
        changes.append(FeatureChange(rows.schema.name(j), before, after, float(low[j]), float(high[j]), float(scale)))
    return sorted(changes, key=lambda change: -abs(change.shift))


def _draw_change(ax: Any, place: int, change: FeatureChange) -> None:
    ax.plot(0.0, place, marker="o", markersize=7, color=INK, zorder=4)
    where = {"transform": ax.get_yaxis_transform(), "clip_on": False, "va": "center"}
    if change.scale is None or change.low is None or change.high is None:
        ax.text(1.02, place, f"{_say(change.before)} → {_say(change.after)}", color=INK, fontsize=10, **where)
        what = "made missing" if change.after is None else "filled in" if change.before is None else "another category"
        ax.text(0.06, place, what, color=COLORS[5], fontsize=10, va="center")
        return
    left = max((change.low - change.before) / change.scale, -1.2)
    right = min((change.high - change.before) / change.scale, 1.2)
    ax.barh(place, right - left, left=left, height=0.34, color=_BAR, zorder=1)
    arrow = {"arrowstyle": "-|>", "color": COLORS[5], "linewidth": 2.2, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (change.shift, place), (0.0, place), arrowprops=arrow, zorder=3)
    ax.text(1.02, place - 0.12, f"{_say(change.before)} → {_say(change.after)}", color=INK, fontsize=10, **where)
    ax.text(1.02, place + 0.2, _say_reach(change.low, change.high), color=_GREY, fontsize=8, **where)


def _say(value: Any) -> str:
    """Return a cell as a person writes it."""
    return "missing" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _say_reach(low: float, high: float) -> str:
    if np.isinf(low) and np.isinf(high):
        return "any value"
    if np.isinf(high):
        return f"{low:.5g} or more"
    return f"{high:.5g} or less" if np.isinf(low) else f"from {low:.5g} to {high:.5g}"
