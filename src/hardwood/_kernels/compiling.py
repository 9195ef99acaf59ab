"""How every kernel is compiled: the settings are decided once, here.

Compiling is a cost users feel, once per installation. Three things keep it low: only what Python calls is given a
Python wrapper and stored (`kernel`), what only kernels call is not (`inner`), and short functions are pasted into their
callers instead of being compiled, linked and optimised again at every level (`part`). For the same reason kernels
allocate nothing: the caller does. Numba compiles a function anew for every constant it is handed (`int64(0)` is none,
`0` is) and for every use of `min` and `max` on new types: a choice (`a if a < b else b`) costs nothing.
"""

import gc
import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit, typeof

# nogil: threads run kernels side by side.
# error_model="numpy": a division by zero gives inf or nan instead of a branch that raises.
# _nrt: nothing is allocated, so references to arrays need not be counted: a tenth less to compile, and to call.
_settings = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


# Whoever waits longer than so many seconds is told why, once.
PATIENCE = 2.0
NOTICE = (
    "hardwood is compiling its kernels for this machine: once per installation, some ten seconds for training, half a "
    "minute for ensembles"
)
_logger = logging.getLogger("hardwood")
_has_said = threading.Event()


@cache
def _read_sources(room: Path) -> str:
    """Sum up the text of the kernels of one room, and of those that all rooms share."""
    digest = hashlib.sha256()
    for folder in sorted({Path(__file__).parent, room}):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _call(function: Callable, argument: Any) -> Any:
    return function(argument)


# CPython keeps the frames of a chain of calls in chunks of 16 KiB. A call that comes where a chunk is full takes a new
# one from the system and gives it back, every time: a hundred times slower than other calls, and a compiler makes
# millions. A frame that is too large for a chunk is given one of twice its size, and all it calls finds room there.
_call_with_room = FunctionType(_call.__code__.replace(co_stacksize=1 << 16), globals())


def _say() -> None:
    if not _has_said.is_set():
        _has_said.set()
        _logger.warning(NOTICE)


@contextmanager
def _saying_so() -> Iterator[None]:
    """Log what is going on if it goes on for long: by default, that is a line on stderr."""
    timer = threading.Timer(PATIENCE, _say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _undisturbed(compiler: Callable) -> Callable:
    """Let the compiler have a chunk of the stack to itself, and the garbage collector rest.

    The collector would look a thousand times through what the compiler has made, a tenth of the time, and find next to
    nothing.
    """

    def compile_signature(signature: Any) -> Any:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            with _saying_so():
                return _call_with_room(compiler, signature)
        finally:
            if was_enabled:
                gc.enable()

    return compile_signature


def kernel(function: Callable) -> Any:
    """Compile a function that Python calls, once per installation.

    Numba holds what it has stored to be current as long as the file of the function itself is unchanged, by its time
    and size. What the function calls, and the records it is handed, are in other files; after an upgrade it would run
    old code on new records. So here all kernels of a room are current or none is.
    """
    dispatcher = njit(**_settings, cache=True)(function)
    # There is no public way to say it; without these attributes numba's own rule holds (or nothing is compiled).
    stored = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if stored is not None:
        stored._source_stamp = _read_sources(Path(function.__code__.co_filename).parent)
    if hasattr(dispatcher, "compile"):
        dispatcher.compile = _undisturbed(dispatcher.compile)
    return dispatcher


inner = njit(**_settings, no_cpython_wrapper=True)
part = njit(**_settings, inline="always")


def settle_types(dispatcher: Any, *arguments: Any) -> Callable:
    """Return a kernel as it is compiled for arguments of these types, which does not look at types again.

    For kernels that are asked small questions again and again with dozens of arrays: telling their types apart takes
    longer than the answer. Whoever calls what is returned sees to it that arrays are of the same types.
    """
    if not hasattr(dispatcher, "compile"):  # numba is told to compile nothing
        return dispatcher
    signature = tuple(typeof(argument) for argument in arguments)
    known = dispatcher.overloads.get(signature)
    return dispatcher.compile(signature) if known is None else known.entry_point


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view.

    Numba compiles a kernel anew for a read-only argument. Inputs that may come either way (a memory-mapped
    table, for one) are therefore always handed over read-only.
    """
    view = array.view()
    view.flags.writeable = False
    return view
