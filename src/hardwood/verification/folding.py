"""One-hot groups folded into categories, so that whoever answers questions need not know of them.

The 0/1 columns of a group become one categorical column, whose code says which of them is 1. A split ``x <= t`` on one
of the columns, with ``0 <= t < 1``, sends every category but that one left; with another threshold it sends all to the
same side. The folded ensemble has the same nodes as the ensemble and gives folded rows the same outputs, and the folded
attacker can do to folded rows what the attacker can do to the rows. A changed category counts as a change by 1.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.bit_sets import pack_sets
from hardwood.table import Schema
from hardwood.threat import Reach
from hardwood.threat.group_reach import GroupReach
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import Answers
from hardwood.verification.asked import Ask, Asked, Outputs

# Where there is no limit to either side.
OPEN = (-np.inf, np.inf)


@dataclass(frozen=True)
class Folding:
    """How the columns of groups become one column each, after all columns that are in no group."""

    n_features: int
    groups: GroupReach

    @cached_property
    def kept(self) -> np.ndarray:
        """The positions of the columns that are in no group."""
        return np.setdiff1d(np.arange(self.n_features), self.groups.grouped)

    def fold_rows(self, matrix: np.ndarray) -> np.ndarray:
        """Return encoded rows with a code per group."""
        codes = self.groups.read_codes(matrix)
        if (codes < 0).any():
            raise ValueError(f"row {int((codes < 0).any(axis=1).argmax())} has no category of a one-hot group")
        folded = np.empty((len(matrix), len(self.kept) + codes.shape[1]))
        folded[:, : len(self.kept)], folded[:, len(self.kept) :] = matrix[:, self.kept], codes
        return folded

    def unfold_rows(self, folded: np.ndarray) -> np.ndarray:
        """Return rows with the columns of every group; NaN where the code is."""
        matrix = np.empty((len(folded), self.n_features))
        matrix[:, self.kept] = folded[:, : len(self.kept)]
        self.groups.write_codes(matrix, folded[:, len(self.kept) :])
        return matrix

    def fold_schema(self, schema: Schema) -> Schema:
        """Return the schema of folded rows: a group's labels are its codes."""
        labels = [tuple(range(n_codes)) for n_codes in self.groups.n_codes]
        kept = [schema.categories[j] for j in self.kept.tolist()]
        return Schema(len(kept) + len(labels), None, (*kept, *labels), schema.accepts_missing)

    def fold_reach(self, reach: Reach) -> Reach:
        """Return what the attacker can do to folded rows."""
        assert reach.groups is not None
        pairs = zip(reach.groups.columns, reach.groups.allowed, strict=True)
        allowed = [table for columns, table in pairs if np.isin(columns, self.groups.grouped).all()]
        rest = reach.select(self.kept)
        still, whole, within = np.zeros(len(self.groups.columns)), rest.whole, rest.within
        return replace(
            rest,
            left=np.append(rest.left, still),
            right=np.append(rest.right, still),
            categories=(*rest.categories, *map(_add_unseen, allowed)),
            whole=None if whole is None or not whole.any() else np.append(whole, still > 0.0),
            within=None
            if within is None or np.isinf(within).all()
            else np.hstack([within, np.outer(OPEN, still + 1.0)]),
            share=None if rest.share is None else np.hstack([rest.share, [still, still]]),
            blank=None if rest.blank is None else np.append(rest.blank, still > 0.0),
            fill=None if rest.fill is None else np.append(rest.fill, still > 0.0),
            budget=None if reach.budget is None else reach.budget.select(np.append(self.kept, self.groups.first)),
        )

    def fold_weight(self, weight: np.ndarray) -> np.ndarray:
        """Return what a change by 1 costs in every column of folded rows; the columns of a group weigh the same."""
        return np.append(weight[self.kept], weight[self.groups.first])

    def fold_ensemble(self, ensemble: TreeEnsemble) -> TreeEnsemble:
        """Return the ensemble of folded rows; the last one is kept with the ensemble."""
        last: list[tuple[list[list[int]], TreeEnsemble]] = ensemble.remember("last folded ensemble", lambda _: [])
        key = [[*columns.tolist(), n] for columns, n in zip(self.groups.columns, self.groups.n_codes, strict=True)]
        for known, folded in last:
            if known == key:
                return folded
        folded = _fold_nodes(self, ensemble)
        last[:] = [(key, folded)]
        return folded


class Folded(NamedTuple):
    """An ensemble and an attacker without groups, and how rows come to them and back."""

    folding: Folding
    ensemble: TreeEnsemble
    reach: Reach


def fold(ensemble: TreeEnsemble, reach: Reach | PricedReach) -> Folded | None:
    """Fold the one-hot groups of an attacker but those whose columns are related to others; None if there are none.

    The last one is kept with the ensemble: whoever asks row by row repeats it every time.
    """
    if isinstance(reach, PricedReach) or reach.groups is None:
        return None
    last: list[tuple[Reach, Folded]] = ensemble.remember("last folded", lambda _: [])
    for known, folded in last:
        if known is reach:
            return folded
    related = np.empty(0, dtype=np.intp) if reach.relations is None else reach.relations.columns
    free = reach.groups.drop(related)
    if free is None:
        return None
    folding = Folding(len(reach.left), free)
    folded = Folded(folding, folding.fold_ensemble(ensemble), folding.fold_reach(reach))
    last[:] = [(reach, folded)]
    return folded


def fold_groups(asked: Asked, ask: Ask) -> Answers | None:
    """Ask about rows whose one-hot groups are categories."""
    folded = fold(asked.ensemble, asked.reach)
    if folded is None:
        return None
    folding = folded.folding
    rows = folding.fold_rows(asked.matrix)
    outputs = Outputs(folded.ensemble, rows, asked.output())
    asked = asked.with_weight(folding.fold_weight)
    answers = ask(asked._replace(ensemble=folded.ensemble, matrix=rows, reach=folded.reach, outputs=outputs))
    return answers._replace(example=folding.unfold_rows(answers.example))


def _fold_nodes(folding: Folding, ensemble: TreeEnsemble) -> TreeEnsemble:
    """Turn thresholds on the columns of groups into sets of categories."""
    looks = ensemble.feature >= 0
    position = np.full(folding.n_features, -1, dtype=np.int32)
    position[folding.kept] = np.arange(len(folding.kept))
    start = ensemble.category_start.copy()
    threshold, words = ensemble.threshold.copy(), [ensemble.category_words]
    groups = zip(folding.groups.columns, folding.groups.n_codes, strict=True)
    for k, (columns, n_codes) in enumerate(groups, start=len(folding.kept)):
        position[columns] = k
        rank = np.full(folding.n_features, -1)
        rank[columns] = np.arange(len(columns))
        nodes = np.flatnonzero(looks & (rank[ensemble.feature] >= 0))
        # Per column three sets: what goes left of a threshold below 0, from 0 to below 1, and from 1 on.
        sets = np.zeros((len(columns), 3, n_codes + 1), dtype=bool)
        sets[:, 1] = ~np.eye(len(columns), n_codes + 1, dtype=bool)
        sets[:, 2] = True
        set_start, set_words = pack_sets(sets[..., 0].size, dict(enumerate(sets.reshape(-1, n_codes + 1))))
        kind = (threshold[nodes] >= 0.0).astype(np.intp) + (threshold[nodes] >= 1.0)
        start[nodes] = sum(map(len, words)) + set_start[3 * rank[ensemble.feature[nodes]] + kind]
        threshold[nodes] = 0.0
        words.append(set_words)
    return replace(
        ensemble,
        feature=np.where(looks, position[ensemble.feature], -1).astype(np.int32),
        threshold=threshold,
        category_start=start,
        category_words=np.concatenate(words),
        schema=folding.fold_schema(ensemble.schema),
    )


def _add_unseen(allowed: np.ndarray) -> np.ndarray:
    """Return which category may become which, with one that was never seen, as `Reach` has them."""
    n_codes = len(allowed)
    wide = np.eye(n_codes + 1, dtype=bool)
    wide[:n_codes, :n_codes] = allowed
    return wide


def check_group_weights(weight: np.ndarray, reach: Reach | PricedReach) -> None:
    """Refuse weights that differ within a group: a change of it is one change, which has one weight."""
    groups = None if isinstance(reach, PricedReach) else reach.groups
    for columns in () if groups is None else groups.columns:
        own = weight[columns]
        if (own != own[0]).any():
            raise ValueError(
                f"feature_weight: the columns {columns.tolist()} (counted from 0) are a one-hot group, whose "
                f"change is one change; give them the same weight, got {own.tolist()}"
            )
