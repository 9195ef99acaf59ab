"""Joining the trees of several ensembles, each of which may see columns of its own, into one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble
from hardwood.quoting import shorten
from hardwood.table import Schema


class Member(NamedTuple):
    """A part of a larger model: its trees, what their nodes add to the outputs, and the columns that it sees."""

    ensemble: TreeEnsemble
    value: np.ndarray
    columns: np.ndarray


def join(members: Sequence[Member], schema: Schema, **fields: Any) -> TreeEnsemble:
    """Return the ensemble of all trees of all members, one member after the other.

    Parameters
    ----------
    members : sequence of Member
    schema : Schema
        The columns of the table, and whether values may be missing; the labels of categories are gathered here.
    **fields
        What `assemble` is told of the outputs.
    """
    categories = _gather_labels(members, schema)
    joined = Schema(schema.n_features, schema.feature_names, categories, schema.accepts_missing)
    nodes, left_sets, first = [], [], 0
    for member in members:
        nodes.append(_place(member))
        left_sets += _relabel(member, categories, first)
        first += member.ensemble.n_nodes
    return assemble(Nodes(*map(np.concatenate, zip(*nodes, strict=True))), joined, left_sets, **fields)


def _place(member: Member) -> Nodes:
    """Return the nodes of a member, in the columns of the whole table."""
    ensemble = member.ensemble
    size = np.diff(np.append(ensemble.root, ensemble.n_nodes))
    first = np.repeat(ensemble.root, size)
    is_leaf = ensemble.feature < 0
    feature = np.full(ensemble.n_nodes, -1)
    feature[~is_leaf] = member.columns[ensemble.feature[~is_leaf]]
    return Nodes(
        size=size,
        feature=feature,
        threshold=ensemble.threshold,
        left=np.where(is_leaf, -1, ensemble.left - first),
        right=np.where(is_leaf, -1, ensemble.right - first),
        value=member.value,
        cover=ensemble.cover,
        missing_left=ensemble.missing_left,
    )


def _gather_labels(members: Sequence[Member], schema: Schema) -> tuple[tuple | None, ...]:
    """Return per column all labels that a member knows, in the order in which they turn up."""
    gathered: list[tuple | None] = list(schema.categories)
    is_number = np.zeros(schema.n_features, dtype=bool)
    for member in members:
        for column, labels in zip(member.columns.tolist(), member.ensemble.schema.categories, strict=True):
            if labels is None:
                is_number[column] = True
            else:
                gathered[column] = tuple(dict.fromkeys([*(gathered[column] or ()), *labels]))
    for column, labels in enumerate(gathered):
        if labels is not None and is_number[column]:
            raise ValueError(
                f"model: {shorten(schema.name(column))} is a number for one of its members and categories for another"
            )
    return tuple(gathered)


def _relabel(member: Member, categories: Sequence[tuple | None], first: int) -> list[LeftSets]:
    """Return the sets of a member's categorical nodes, by the labels of all. What it has not seen stays unseen."""
    sets = []
    for node, left in member.ensemble.left_sets().items():
        own = int(member.ensemble.feature[node])
        known, labels = member.ensemble.schema.categories[own], categories[member.columns[own]]
        assert known is not None
        assert labels is not None
        code_of = {label: code for code, label in enumerate(known)}
        codes = [code_of.get(label, len(known)) for label in (*labels, None)]
        sets.append(LeftSets(np.array([first + node]), left[codes][None, :]))
    return sets
