"""No change moves a model or an answer unawares: every setting is what it was when its digest was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from characterising.answers import list_answers
from characterising.digests import find_moved, read, sum_up
from characterising.documents import list_models

LISTS = {"models": list_models, "answers": list_answers}


@pytest.mark.parametrize("name", LISTS)
def test_what_is_made_is_what_it_was(name: str) -> None:
    """All 2,750 settings take ten seconds where kernels are compiled; see `digests.py` for what to do if some moved."""
    settings: list[tuple[str, Callable[[], Any]]] = list(LISTS[name]())
    kept = read(name)
    assert [setting for setting, _ in settings] == list(kept)
    assert dict(find_moved(kept, settings)) == {}


def test_a_digest_tells_what_differs() -> None:
    """A number that differs in the ninth digit is another one, one that differs in the twelfth is not."""

    def digest(values: Iterable[float]) -> str:
        return sum_up(lambda: [np.array(list(values))])

    assert digest([1.0, 2.0]) == digest([1.0, 2.0 + 1e-12]) == digest([1.0, 2.0 - 1e-12])
    assert len({digest([1.0, 2.0]), digest([1.0, 2.0 + 1e-8]), digest([2.0, 1.0]), digest([1.0])}) == 4
    assert digest([0.0]) == digest([-0.0])


def test_a_setting_that_moved_is_named() -> None:
    """With the digest that it has now, also if none was kept for it."""
    settings = [("a", lambda: [np.zeros(1)]), ("b", lambda: [np.ones(1)]), ("c", lambda: [np.ones(2)])]
    kept = {"a": sum_up(settings[0][1]), "b": "another"}
    assert [name for name, _ in find_moved(kept, settings)] == ["b", "c"]
