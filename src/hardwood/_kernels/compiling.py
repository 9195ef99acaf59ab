"""How every kernel is compiled: the settings are decided once, here.

Compiling is a cost users feel, once per installation. Three things keep it low: only what Python calls is given a
Python wrapper and stored (`kernel`), what only kernels call is not (`inner`), and short functions are pasted into their
callers instead of being compiled, linked and optimised again at every level (`part`). For the same reason kernels
allocate nothing: the caller does. Numba compiles a function anew for every constant it is handed (`int64(0)` is none,
`0` is) and for every use of `min` and `max` on new types: a choice (`a if a < b else b`) costs nothing.

Whoever waits for the compiler is told what for, and about how long, by a line of the logger `hardwood`. And whoever
tells how long something took, or sets a limit to it, leaves compiling out (`working_time`).
"""

import gc
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof

try:
    from hardwood._kernels.storage import KernelStorage
except ImportError:  # a numba that has not the hooks of today: everything works, and every process compiles anew
    KernelStorage = None  # type: ignore[assignment,misc]


def _choose_settings() -> dict[str, Any]:
    """Return how kernels are compiled: what numba documents, and what is private to it if it still knows that.

    * nogil: threads run kernels side by side.
    * error_model="numpy": a division by zero gives inf or nan instead of a branch that raises.
    * no_cfunc_wrapper: nobody calls kernels from C: 4 % less to compile.
    * _nrt=False: nothing is allocated, so references to arrays need not be counted: 12 % less to compile, and less to
      call.
    * no_cpython_wrapper: for what only kernels call.
    """
    private = {"no_cfunc_wrapper": True, "_nrt": False, "no_cpython_wrapper": True}
    try:
        from numba.core.cpu import CPUTargetOptions

        known = {name: value for name, value in private.items() if hasattr(CPUTargetOptions, name)}
    except ImportError:
        known = {}
    return {"nogil": True, "error_model": "numpy", **known}


_INNER_SETTINGS = _choose_settings()
_SETTINGS = {name: value for name, value in _INNER_SETTINGS.items() if name != "no_cpython_wrapper"}


class _Stopwatch:
    """How long this process has been compiling, as `time.process_time` says how long it has been at work.

    One thread compiles at a time; numba has others wait.
    """

    def __init__(self) -> None:
        self._state: tuple[float, int | None, float] = (0.0, None, 0.0)  # seconds, who compiles, and since when

    def begin(self) -> None:
        """This thread begins to compile. Another that seems to do so has only not come to say that it is done."""
        self._state = (self.read(), get_ident(), time.monotonic())

    def end(self) -> None:
        """This thread is done, if it has compiled at all."""
        if self._state[1] == get_ident():
            self._state = (self.read(), None, 0.0)

    def read(self) -> float:
        """Return the seconds so far."""
        seconds, thread, since = self._state
        return seconds if thread is None else seconds + time.monotonic() - since


_stopwatch = _Stopwatch()


def count_compiling() -> float:
    """Return for how many seconds this process has been compiling kernels so far."""
    return _stopwatch.read()


def working_time() -> float:
    """Return the time, in seconds from nowhere in particular, by a clock that stands still while kernels are compiled.

    So that no row runs out of time, and no report says that a search took minutes, because a kernel was needed for the
    first time on this machine.
    """
    return time.monotonic() - _stopwatch.read()


# Who waits for less is not told.
_SECONDS_WORTH_A_WORD = 0.5
_logger = logging.getLogger("hardwood")


def _call(function: Callable, argument: Any) -> Any:
    return function(argument)


# CPython keeps the frames of a chain of calls in chunks of 16 KiB. A call that comes where a chunk is full takes a new
# one from the system and gives it back, every time: a hundred times slower than other calls, and a compiler makes
# millions. A frame that is too large for a chunk is given one of twice its size, and all it calls finds room there.
_call_with_room = FunctionType(_call.__code__.replace(co_stacksize=1 << 16), globals())


def _undisturbed(compiler: Callable) -> Callable:
    """Let the compiler have a chunk of the stack to itself, and the garbage collector rest.

    The collector would look a thousand times through what the compiler has made, 6 % of the time, and find next to
    nothing. The chunk saves 11 %.
    """

    def compile_signature(signature: Any) -> Any:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return _call_with_room(compiler, signature)
        finally:
            _stopwatch.end()
            if was_enabled:
                gc.enable()

    return compile_signature


def kernel(function: FunctionType | None = None, *, about: str | None = None, seconds: float | None = None) -> Any:
    """Compile a function that Python calls, once per installation.

    `about` says in the field's words what is compiled, `seconds` about how many seconds of CPU that takes (those that
    ``make bench-startup`` prints): what whoever waits for it is told.
    """
    if function is None:
        return partial(kernel, about=about, seconds=seconds)
    dispatcher = njit(**_SETTINGS)(function)
    if not hasattr(dispatcher, "compile"):  # numba is told to compile nothing
        return dispatcher
    if KernelStorage is not None and hasattr(dispatcher, "_cache"):

        def begin() -> None:
            _announce(about or function.__name__.replace("_", " "), seconds)
            _stopwatch.begin()

        dispatcher._cache = KernelStorage(function, _SETTINGS, begin)
    dispatcher.compile = _undisturbed(dispatcher.compile)
    return dispatcher


def _announce(about: str, seconds: float | None) -> None:
    """Tell whoever waits what is compiled: by default, that is a line on stderr."""
    if seconds is None or seconds >= _SECONDS_WORTH_A_WORD:
        time = "some seconds" if seconds is None else f"about {max(1, round(seconds))} s"
        _logger.warning("hardwood: compiling %s, %s, once per installation", about, time)


inner = njit(**_INNER_SETTINGS)
part = njit(**_SETTINGS, inline="always")


class Decorators(NamedTuple):
    """`kernel` and `inner` for functions that a factory makes."""

    kernel: Callable
    inner: Callable


def name_functions(name: str) -> Decorators:
    """Return decorators for the functions that a factory makes, once for each set of functions that these capture.

    Functions are named after the set, on disk and in machine code. numba names machine code by module, function, types
    and a number that counts functions of the process: code of two processes that happens to have the same number would
    be taken for one another by a third process that loads both.

    name : whatever else is made by a factory in the same file has another one
    """
    prefix = name.replace(" ", "_")

    def rename(function: FunctionType) -> FunctionType:
        function.__qualname__ = f"{prefix}.{function.__name__}"
        return function

    def make_kernel(*, about: str, seconds: float | None = None) -> Callable:
        return lambda function: kernel(rename(function), about=about, seconds=seconds)

    return Decorators(make_kernel, lambda function: inner(rename(function)))


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


def record_type(fields: Sequence[tuple[str, Any]], *, align: bool = False) -> np.dtype:
    """Return the type of records whose fields are attributes in Python, too: kernels then run without being compiled.

    A field may not have the name of an attribute that NumPy's records have themselves (``size``, ``sum``, ``min``).
    """
    taken = [name for name, *_ in fields if hasattr(np.record, name)]
    if taken:
        raise ValueError(f"fields: NumPy's records have attributes of their own called {', '.join(taken)}")
    return np.dtype((np.record, np.dtype(list(fields), align=align)))


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view.

    Numba compiles a kernel anew for a read-only argument. Inputs that may come either way (a memory-mapped
    table, for one) are therefore always handed over read-only.
    """
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
