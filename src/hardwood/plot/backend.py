"""matplotlib, imported only when a picture is drawn."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def matplotlib_module(name: str) -> Any:
    """Import ``matplotlib.<name>``; if matplotlib is missing, say which extra brings it."""
    try:
        return import_module(f"matplotlib.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            "drawing needs matplotlib: pip install 'hardwood[plot]'", name="matplotlib"
        ) from error
