"""How many cases are tried where a case is dear: a model is fitted in each, and asked everything."""

from collections.abc import Callable
from typing import Any

from hypothesis import settings

# By profile: `make test` tries a few, the same each time, and `make fuzz` many that nobody has seen.
CASES = {"hardwood": 8, "fuzz": 300}


def dear(test: Callable[..., Any]) -> Callable[..., Any]:
    """Try as many cases as the profile says."""
    n_cases = CASES.get(settings.get_current_profile_name(), 8)
    return settings(max_examples=n_cases)(test)
