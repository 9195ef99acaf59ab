"""How every kernel is compiled: the settings are decided once, here.

Compiling is a cost users feel, once per installation. Three things keep it low: only what Python calls is given a
Python wrapper (`kernel`), what only kernels call is not (`inner`), and short functions are pasted into their callers
instead of being compiled, linked and optimised again at every level (`part`). For the same reason kernels allocate
nothing: the caller does. Numba compiles a function anew for every constant it is handed (`int64(0)` is none, `0` is)
and for every use of `min` and `max` on new types: a choice (`a if a < b else b`) costs nothing.
"""

import numpy as np
from numba import njit

# cache: compiled once per installation. nogil: threads run kernels side by side.
# error_model="numpy": a division by zero gives inf or nan instead of a branch that raises.
# _nrt: nothing is allocated, so references to arrays need not be counted: a tenth less to compile, and to call.
_settings = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}

kernel = njit(**_settings)
inner = njit(**_settings, no_cpython_wrapper=True)
part = njit(**_settings, inline="always")


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view.

    Numba compiles a kernel anew for a read-only argument. Inputs that may come either way (a memory-mapped
    table, for one) are therefore always handed over read-only.
    """
    view = array.view()
    view.flags.writeable = False
    return view
