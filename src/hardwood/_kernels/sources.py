"""Which files a kernel is made of: a stored kernel is current as long as none of them has changed."""

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]
# Every file of kernels imports it. What it does to them, its settings, is told apart from its text.
_COMPILING = f"{_PACKAGE}.compiling"


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
