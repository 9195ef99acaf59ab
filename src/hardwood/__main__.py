"""The command `hardwood`, also as ``python -m hardwood``."""

from __future__ import annotations

import logging
import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        from hardwood.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"typer", "rich", "pandas"}:
            raise
        sys.exit(f"hardwood: the command line needs {missing}: pip install 'hardwood[cli]'")
    except KeyboardInterrupt:
        print("hardwood: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    # What the library would log, the commands say in words of their own.
    logging.getLogger("hardwood").addHandler(logging.NullHandler())
    try:
        app(prog_name="hardwood")
    except SystemExit as exit_request:
        if exit_request.code != _INTERRUPTED:
            raise
        # Work that was interrupted may still be running in threads, which an ordinary exit
        # would wait for.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
