"""A cluster of real processes, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


class KilledWorkersCluster(distributed.LocalCluster):
    """A cluster whose workers may be killed at any moment.

    A worker that is killed before the cluster has heard of it is reported as lost all the same. LocalCluster looks for
    it, raises KeyError where nobody sees it, and raises that again when it is closed, which it then never is.
    """

    def _update_worker_status(self, op: str, msg: Any) -> None:
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers, forked from a server that has imported everything once, instead of each on its own."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(["distributed", "hardwood.dask", "dask.array", "dask.dataframe"])
        with KilledWorkersCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0, silence_logs=50
        ) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        yield client
