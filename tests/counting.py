"""How often the rows of a table are encoded, and its cells are read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hardwood.table import Schema, schema


def count_reading(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return what counts, from now on, the rows that are encoded, and the cells of each column that are read."""
    counts: Counter[str] = Counter()

    def watch(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def count(first: Any, *others: Any, **options: Any) -> Any:
            if owner is Schema:
                counts["rows"] += len(others[0])
            else:
                counts[others[-1]] += len(first)
            return original(first, *others, **options)

        monkeypatch.setattr(owner, name, count)

    watch(Schema, "_encode")
    watch(schema, "read_numbers")
    watch(schema, "read_codes")
    return counts
