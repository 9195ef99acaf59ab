"""Libraries that are imported when they are first used.

A command that prints its help, or says that a file is not there, does not wait for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LateModule:
    """Stands for a module, and imports it when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np, pd = LateModule("numpy"), LateModule("pandas")

__all__ = ["np", "pd"]
