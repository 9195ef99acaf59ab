"""How many random cases a test tries: the profile says it (`conftest.py`), a test that takes long tries a share."""

from __future__ import annotations

from hypothesis import settings


def some_examples(share: float) -> settings:
    """Try a share of the examples that the profile asks for."""
    return settings(max_examples=max(1, round(share * settings.default.max_examples)))
