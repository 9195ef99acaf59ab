"""Which files a kernel is made of: a stored kernel is current as long as none of them has changed."""

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

_PACKAGE = __name__.rpartition(".")[0]
# Every file of kernels imports it. What it does to them, its settings, is told apart from its text.
_COMPILING = f"{_PACKAGE}.compiling"


class Captured(NamedTuple):
    """What a function is made of besides its own text."""

    modules: tuple[str, ...]  # its own, and then those of the functions that it captures, and that these capture
    constants: tuple[str, ...]  # what else is captured


def find_captured(function: FunctionType) -> Captured:
    """Find out what a function captures from the function that has made it, directly or by what it captures.

    Functions and plain constants are what compiled code can be told apart by; anything else is refused.
    """
    modules, constants = {function.__module__}, set()
    seen, waiting = {function}, [function]
    while waiting:
        own = waiting.pop()
        modules.add(own.__module__)
        for name, cell in zip(own.__code__.co_freevars, own.__closure__ or (), strict=True):
            value = cell.cell_contents
            if hasattr(value, "py_func"):  # a compiled function
                if value.py_func not in seen:
                    seen.add(value.py_func)
                    waiting.append(value.py_func)
            elif value is None or isinstance(value, str | bool | int | float | np.generic):
                constants.add(f"{own.__module__}.{own.__qualname__}.{name} = {value!r}")
            else:
                raise TypeError(f"{own.__qualname__} captures {name}: expected a compiled function or a plain constant")
    return Captured((function.__module__, *sorted(modules - {function.__module__})), tuple(sorted(constants)))


@cache
def sum_up_sources(module: str) -> str:
    """Return a digest of the text of a module of kernels, and of all modules of kernels that it imports.

    numba itself looks at the file of the function only. What the function calls, and the records it is handed, are in
    other files: after an upgrade it would run old code on new records.
    """
    found: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], imports = _read_source(name)
            waiting += imports
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(f"{name}\0{len(found[name])}\0".encode() + found[name])
    return digest.hexdigest()


@cache
def _read_source(module: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the text of a module, and which other modules of kernels it imports."""
    loader: Any = sys.modules[module].__loader__
    text = loader.get_source(module)  # also from a zip file
    names = {name for statement in ast.walk(ast.parse(text)) for name in _name_imports(statement)}
    kernels = (name for name in names if name.startswith(f"{_PACKAGE}.") and name in sys.modules)
    return text.encode(), tuple(sorted(name for name in kernels if name != _COMPILING))


def _name_imports(statement: ast.AST) -> Iterator[str]:
    """Go through the names that a statement imports and that can be modules."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield str(statement.module)
        yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
