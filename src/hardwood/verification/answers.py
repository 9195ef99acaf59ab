"""What the search and the solver say of rows."""

from typing import NamedTuple

import numpy as np


class Answers(NamedTuple):
    """What was found out about rows."""

    status: np.ndarray  # FOUND, NONE or UNFINISHED
    bound: np.ndarray  # an upper bound of the lead of another class over the label; or of the sum
    example: np.ndarray
    certified: np.ndarray  # there is no example nearer than this (squared in the L2 norm)
