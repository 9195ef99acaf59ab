"""Histograms of nodes: integers by column and code, and by group and statistic as the target lays them out.

A sample sits in one child only and its codes never change, so a parent's histogram is the sum of its children's: the
smaller child is counted, the larger one is what is left. Where there is no room for the histogram of a node that waits,
its children are both counted.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part


class Histograms(NamedTuple):
    """Memory for some histograms, and scratch for splits."""

    cells: np.ndarray  # int64 (slot, cell)
    free: np.ndarray  # int64: how many slots are free, and which
    features: np.ndarray  # int64: the features in the order they are tried
    limits: np.ndarray  # int64 per group: see `nodes.find_limits`
    movable: np.ndarray  # int64 (group, code, statistic): see `nodes.find_limits`


@part
def subtract(cells, others):
    """Take one histogram away from another."""
    for cell in range(cells.shape[0]):
        cells[cell] -= others[cell]


@part
def take_slot(histograms):
    """Return a free slot, which is free no longer."""
    free = histograms.free
    slot = free[free[0]]
    free[0] -= 1
    return slot


@inner
def release_slot(histograms, here):
    """Give a node's slot back, if it has one."""
    free = histograms.free
    if here.slot >= 0:
        free[0] += 1
        free[free[0]] = here.slot
        here.slot = -1
