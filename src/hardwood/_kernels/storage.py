"""Where compiled kernels are kept from one process to the next.

A kernel is read from whichever place has it and written to the first place that can be written, so a package that
cannot be written, a home that is not there or a full disk cost time and nothing else. Each kernel, compiled for
arguments of given types, is a file of its own that is put in place in one step: processes that compile the same kernel
at the same time write the same file.

numba's own cache fails where no place can be written. And where two processes store two forms of a function at the same
time, its index can come to lead from one form to the code of the other.
"""

import hashlib
import logging
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numba

# Private hooks of numba, unchanged from 0.61 to 0.68. `NullCache` is the interface of what a dispatcher asks for stored
# code, `CompileResult._reduce` and `_rebuild` turn compiled code into what can be pickled and back, `dumps` pickles it.
# Without them every process would compile all that it uses.
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from hardwood._kernels.sources import find_captured, sum_up_sources

_PACKAGE_FOLDER = Path(__file__).resolve().parent
_DIGEST_SIZE = hashlib.sha256().digest_size
# A folder on a full disk can be opened and made files in, but not filled.
_PROBE = bytes(1 << 16)

_logger = logging.getLogger("hardwood")


class Place(NamedTuple):
    """A folder for stored kernels, and whether others must not be able to write there."""

    folder: Path
    must_be_private: bool = False


class KernelStorage(NullCache):
    """What numba asks for stored code of one kernel, and hands newly compiled code.

    `settings` are those that the kernel is compiled with. `begin` is called before numba compiles, because there is no
    stored code.
    """

    def __init__(self, function: FunctionType, settings: dict[str, Any], begin: Callable[[], None]) -> None:
        self._captured = find_captured(function)
        room = function.__module__.removeprefix(f"{__package__}.")
        self._name = f"{room}.{function.__qualname__}"
        self._settings = settings
        self._begin = begin
        self._start = 0.0

    @property
    def cache_path(self) -> str:
        """The folder that kernels are written to first; numba shows it among its statistics."""
        return str(_list_places()[0].folder)

    def load_overload(self, signature: tuple, target_context: Any) -> Any:
        """Return stored code for arguments of these types; None if there is none that is current and whole."""
        target_context.refresh()
        name = self._name_file(signature, target_context.codegen())
        stamp = self._stamp()
        for place in _list_places():
            if place.must_be_private and not _is_private(place.folder):
                continue
            # Whatever is wrong with a file, the kernel can be compiled: a damaged file is as good as none.
            try:
                body = _read_entry(place.folder / name, stamp)
                compiled = CompileResult._rebuild(target_context, *pickle.loads(body))
                if tuple(compiled.signature.args) == tuple(signature):
                    return compiled
            except Exception as error:
                _logger.debug("%s: no stored code in %s (%r)", self._name, place.folder, error)
        self._begin()
        self._start = time.process_time()
        return None

    def save_overload(self, signature: tuple, compiled: Any) -> None:
        """Store code that was just compiled, wherever it can be written."""
        seconds = time.process_time() - self._start
        _logger.debug("compiled %s in %.2f s", self._name, seconds, extra={"kernel": self._name, "seconds": seconds})
        try:
            if compiled.lifted or compiled.library.has_dynamic_globals:  # addresses that hold in this process only
                return
            name = self._name_file(signature, compiled.library.codegen)
            body = dumps(compiled._reduce())
        except AttributeError as error:
            _warn(
                f"hardwood cannot store kernels with numba {numba.__version__} ({error}): every process compiles anew"
            )
            return
        _store(name, self._stamp() + hashlib.sha256(body).digest() + body)

    def _name_file(self, signature: tuple, codegen: Any) -> str:
        """Return the name of the file: the same kernel for another processor or version is another file."""
        config = numba.config
        about = (
            tuple(map(str, signature)),
            codegen.magic_tuple(),
            (numba.__version__, sys.implementation.cache_tag),
            (config.OPT, config.BOUNDSCHECK),
        )
        return f"{self._name}-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}.nbc"

    def _stamp(self) -> bytes:
        """Return what stored code has to begin with to be current; a newer one takes its place in the same file."""
        sources = map(sum_up_sources, self._captured.modules)
        about = (*sources, self._settings, *self._captured.constants)
        return hashlib.sha256(repr(about).encode()).digest()


def _read_entry(path: Path, stamp: bytes) -> bytes:
    """Return the code in a file; raise an error if it is not current or not as it was written."""
    content = path.read_bytes()
    digest, body = content[_DIGEST_SIZE : 2 * _DIGEST_SIZE], content[2 * _DIGEST_SIZE :]
    if content[:_DIGEST_SIZE] != stamp:
        raise ValueError("it is of other sources")
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("it is damaged")
    return body


def _store(name: str, content: bytes) -> None:
    """Write a file to the first place that takes it, and say so if that is none that lasts."""
    refused = []
    for place in _list_places():
        try:
            _write_entry(place, name, content)
        except OSError as error:
            refused.append(f"{place.folder} ({error.strerror or error})")
            continue
        if place.must_be_private:
            _warn(f"hardwood keeps compiled kernels in {place.folder}, which may not last, {_explain(refused)}")
        elif refused and numba.config.CACHE_DIR:
            _warn(f"hardwood keeps compiled kernels in {place.folder}, {_explain(refused)}")
        return
    _warn(f"hardwood cannot keep compiled kernels and compiles them anew in every process, {_explain(refused)}")


def _explain(refused: list[str]) -> str:
    """Say why kernels are not kept where they should be, and what to do about it."""
    return (
        f"because it cannot write to {' or '.join(refused)}: set NUMBA_CACHE_DIR to a folder that can be written and "
        "lasts, or run `python -m hardwood.warm` once as a user who can write to the package"
    )


def _write_entry(place: Place, name: str, content: bytes) -> None:
    """Write a file whole or not at all; raise OSError if it cannot be."""
    place.folder.mkdir(parents=True, exist_ok=True, mode=0o700 if place.must_be_private else 0o777)
    if place.must_be_private and not _is_private(place.folder):
        raise PermissionError(None, "others can write there")
    draft = place.folder / f".{name}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with draft.open("xb") as file:  # readable for all whom the umask allows: who fills an image is not who runs it
            file.write(content)
        draft.replace(place.folder / name)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@cache
def _warn(sentence: str) -> None:
    """Log a sentence, once per process."""
    _logger.warning(sentence)


@cache
def _list_places() -> tuple[Place, ...]:
    """Return where kernels are looked for and written, in this order.

    A folder that the user names (NUMBA_CACHE_DIR) is the only place, as with numba itself, unless it cannot be written.
    """
    chosen = [Place(Path(numba.config.CACHE_DIR) / _name_installation())] if numba.config.CACHE_DIR else []
    if chosen:
        try:
            _write_entry(chosen[0], "probe", _PROBE)
            (chosen[0].folder / "probe").unlink(missing_ok=True)
            return tuple(chosen)
        except OSError:
            pass
    return (*chosen, Place(_PACKAGE_FOLDER / "__pycache__"), *_list_user_places())


def _list_user_places() -> Iterator[Place]:
    """Go through the folders of this user: the one for caches, then the one for temporary files."""
    with suppress(RuntimeError):  # a user without a home
        yield Place(_find_user_cache() / "hardwood" / _name_installation())
    with suppress(OSError):  # no folder for temporary files
        owner = os.getuid() if hasattr(os, "getuid") else "user"
        # Whoever can write a file there that we unpickle could run code in our name.
        yield Place(Path(tempfile.gettempdir()) / f"hardwood-{owner}-{_name_installation()}", must_be_private=True)


def _find_user_cache() -> Path:
    """Return the folder for caches of the user, by the rules of the platform."""
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _name_installation() -> str:
    """Return a name for this installation of hardwood: several can share a folder."""
    return f"kernels-{hashlib.sha256(str(_PACKAGE_FOLDER).encode()).hexdigest()[:12]}"


def _is_private(folder: Path) -> bool:
    """Whether a folder is ours, and nobody else can write there."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return stat.S_ISDIR(status.st_mode)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
