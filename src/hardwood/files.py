"""Writing files so that nothing is ever half-written."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step.

    If `write` fails or is interrupted, whatever stood at `path` is left as it was.
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's own mode keeps everybody else out
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
