"""The command `hardwood`, also as ``python -m hardwood``."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib.util import find_spec

from hardwood.extras import explain_missing

_INTERRUPTED = 130
_PACKAGES = ("typer", "rich", "pandas", "pyarrow")


def main() -> None:
    """Run the command line."""
    for module in ("typer", "rich", "pandas"):
        if find_spec(module) is None:
            others = (package for package in _PACKAGES if package != module)
            sys.exit(f"hardwood: {explain_missing('the command line', module, *others)}")
    try:
        from hardwood.cli.app import app
        from hardwood.cli.messages import LibraryNotices, say_error
    except KeyboardInterrupt:
        print("hardwood: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    logging.getLogger("hardwood").addHandler(LibraryNotices(logging.WARNING))
    warnings.showwarning = lambda message, *_: say_error(f"warning: {message}")
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
