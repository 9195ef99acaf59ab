"""Writing files so that nothing is ever half-written."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hardwood.quoting import shorten


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If `write` fails or is interrupted, whatever stood at `path` is left as it was.
    """
    path = Path(path)
    with naming(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's own mode keeps everybody else out
        with naming(path):
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors name the file that was asked for, shortened: nobody knows the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, shorten(os.fspath(path))) from None
