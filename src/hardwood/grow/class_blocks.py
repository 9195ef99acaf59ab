"""A block of rows of classes, in codes: what a machine keeps of its share of a table."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hardwood.grow.coded_rows import CodePlan

# Pieces of a table: the number of the first row of each, and how many rows it has.
Pieces = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ClassBlock:
    """The rows of one or more pieces of a table that weigh something, in codes.

    Rows are numbered among all those of the table that weigh something. Numbers decide which rows a tree of a forest
    draws, and nothing else.
    """

    codes: np.ndarray  # uint8 or uint16 (sample, column), read-only: of every row, then of the parts that stay
    class_index: np.ndarray  # unsigned integers, one per row
    sample_weight: np.ndarray | None  # float64 per row, positive; None: all the same
    pieces: Pieces  # together they have as many rows as there are classes

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self.class_index)


def code_block(
    plan: CodePlan,
    batches: Iterable[np.ndarray],
    class_index: np.ndarray,
    sample_weight: np.ndarray | None,
    pieces: Pieces,
) -> ClassBlock:
    """Code a block of rows, which may be none.

    Parameters
    ----------
    plan : CodePlan
    batches : the rows of all pieces, one piece after another, encoded by the table's schema, but for those that weigh
        nothing; in batches of any size
    class_index : their classes, as in `Problem`
    sample_weight : what they weigh; None where no row of the table has a weight of its own
    pieces : where the rows are in the table
    """
    if sum(n_rows for _, n_rows in pieces) != len(class_index):
        raise ValueError(f"pieces: expected {len(class_index)} rows in all, one per class index, got {pieces}")
    return ClassBlock(plan.code(batches, class_index), class_index, sample_weight, pieces)


def check_size(block: ClassBlock, most: int) -> None:
    """Refuse a block of more samples than a grower can number."""
    if len(block.codes) > most:
        raise ValueError(
            f"X: a block has {block.n_rows} rows, {len(block.codes)} samples, and at most {most} are supported; "
            "use more partitions and workers"
        )
