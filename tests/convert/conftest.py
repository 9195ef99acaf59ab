"""One thread each: the models are small, and threads that wait for one another are slow on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    with threadpool_limits(limits=1):
        yield
