"""matplotlib, imported only when a picture is drawn."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from hardwood.extras import explain_missing


def matplotlib_module(name: str) -> Any:
    """Import ``matplotlib.<name>``; if matplotlib is missing, say how to install it."""
    try:
        return import_module(f"matplotlib.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(explain_missing("drawing", "matplotlib"), name="matplotlib") from error


def check_can_draw(path: Path) -> None:
    """Before the long work: refuse a picture that matplotlib could not save at its end.

    Examples
    --------
    >>> check_can_draw(Path("curve.png"))
    """
    known = matplotlib_module("figure").Figure().canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"{path} must end in one of {' '.join('.' + suffix for suffix in sorted(known))}")
