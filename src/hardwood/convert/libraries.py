"""Which versions of other libraries can be imported from. They are loaded only when one of their models turns up."""

import importlib
from typing import Any

from hardwood.extras import explain_missing

# By package: the oldest version that is supported and the newest that is tested. A newer one is not refused, because
# every import checks itself against the model it came from.
SUPPORTED = {"sklearn": ("1.6", "1.9"), "xgboost": ("2.1", "3.4"), "lightgbm": ("4.0", "4.7")}


def load_library(name: str) -> Any:
    """Import a library whose models can be imported.

    Raises
    ------
    ImportError
        If it is not installed, or older than what is supported.
    """
    try:
        library = importlib.import_module(name)
    except ImportError:
        raise ImportError(explain_missing("this model", name)) from None
    oldest, _ = SUPPORTED[name]
    if version_of(library) < _numbers(oldest):
        raise ImportError(
            f"{name} {library.__version__} is installed; hardwood imports models of {name} {oldest} and later: "
            f"pip install --upgrade {name}"
        )
    return library


def version_of(library: Any) -> tuple[int, ...]:
    """Return the first two numbers of a library's version."""
    return _numbers(library.__version__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
