"""Writing files so that nothing is ever half-written."""

from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a draft beside `path`, then put it in place in one step.

    If `write` fails or is interrupted, whatever stood at `path` is left as it was.
    """
    draft = path.with_name(f".draft-{path.name}")  # with the suffix, by which writers choose formats
    try:
        write(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
