"""What hypothesis draws from, for the tests of every room."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def arrays(dtype: type, shape: Any, elements: st.SearchStrategy) -> st.SearchStrategy[np.ndarray]:
    """Arrays of which every element is drawn: left to itself, hypothesis likes them constant."""
    return hnp.arrays(dtype, shape, elements=elements, fill=st.nothing())
