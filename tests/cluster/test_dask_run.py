"""Tasks on a cluster: what comes back, and in which words it is said that nothing does."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

distributed = pytest.importorskip("distributed")

from hardwood.dask import run as run_module  # noqa: E402
from hardwood.dask.cluster import find_client  # noqa: E402
from hardwood.dask.partitions import group_parts  # noqa: E402
from hardwood.dask.run import DaskRun, open_run  # noqa: E402
from hardwood.grow.blocks import merge_all  # noqa: E402


def wait(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse() -> None:
    raise ValueError("X: no such thing")


def find_tasks(client: Any) -> list[str]:
    """Return the names of the tasks of hardwood that the scheduler still knows."""
    names: list[str] = client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks)))
    return [name for name in names if name.startswith("hardwood")]


def wait_until_forgotten(client: Any) -> None:
    """Wait until the scheduler knows no task of hardwood any more."""
    left = find_tasks(client)
    for _ in range(100):
        if not left:
            return
        time.sleep(0.05)
        left = find_tasks(client)
    assert left == []


def test_results_and_progress(client: Any) -> None:
    told: list[tuple[int, int]] = []
    with open_run(None, lambda *step: told.append(step), 3) as run:
        parts = [run.submit(wait, 0.01 * k, name="hardwood-wait") for k in range(10)]
        added = run.result(merge_all(run, sum, parts, name="hardwood-add-up"))
        assert added == pytest.approx(0.45)
        assert sum(name.startswith("hardwood-wait-") for name in find_tasks(client)) == 10
        summed = run.result(run.submit(np.sum, np.arange(4), name="hardwood-sum"))
        assert summed == 6
    assert told == [(1, 3), (2, 3), (2, 2)]
    del parts
    wait_until_forgotten(client)


def test_what_a_task_raises_comes_through(client: Any) -> None:
    with pytest.raises(ValueError, match="X: no such thing"), open_run(client) as run:
        run.result(run.submit(refuse, name="hardwood-refuse"))


def test_a_task_that_kills_its_workers_is_given_up(client: Any) -> None:
    with (
        pytest.raises(RuntimeError, match=r"lost with its worker \d times and was given up; .* out of memory"),
        open_run(client) as run,
    ):
        run.result(run.submit(die, name="hardwood-die"))
    client.wait_for_workers(2)


def test_interruption_cancels_what_is_under_way(client: Any) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    kept = []

    def start_and_wait() -> None:
        with open_run(client, interrupt) as run:
            kept.extend(run.submit(wait, 3.0 + k, name="hardwood-long") for k in range(2))
            run.result(run.submit(wait, 0.0, name="hardwood-short"))

    with pytest.raises(KeyboardInterrupt):
        start_and_wait()
    wait_until_forgotten(client)
    assert all(each.cancelled() for each in kept)


class TestClients:
    def test_closed(self, cluster: Any, client: Any) -> None:
        other = distributed.Client(cluster, set_as_default=False)
        other.close()
        with pytest.raises(RuntimeError, match="client: it is closed, not running; make another"):
            find_client(other)

    def test_something_else(self, client: Any) -> None:
        with pytest.raises(ValueError, match=r"client: expected a distributed.Client, got 'str'"):
            find_client("tcp://127.0.0.1:8786")

    def test_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def get_client() -> None:
            raise ValueError("No global client found")

        monkeypatch.setattr(distributed, "get_client", get_client)
        with pytest.raises(ValueError, match="client=None: there is no current client; make one"):
            find_client(None)

    def test_other_versions(self, client: Any) -> None:
        worker, *_ = client.nthreads()
        client.run(
            exec, "import hardwood; kept = hardwood.__version__; hardwood.__version__ = '0.0.1'", workers=[worker]
        )
        try:
            with pytest.raises(RuntimeError, match=rf"worker {worker} has hardwood 0\.0\.1 and the client .*: install"):
                find_client(client)
        finally:
            import hardwood

            client.run(exec, f"import hardwood; hardwood.__version__ = {hardwood.__version__!r}", workers=[worker])
        find_client(client)

    def test_a_worker_without_hardwood(self, client: Any) -> None:
        worker, *_ = client.nthreads()
        hide = (
            "import importlib.util as util, sys; sys.find = util.find_spec; sys.kept = sys.modules['hardwood'];"
            "util.find_spec = lambda name: None if name == 'hardwood' else sys.find(name)"
        )
        client.run(exec, hide, workers=[worker])
        try:
            with pytest.raises(RuntimeError, match=rf"worker {worker} has no hardwood: install hardwood .* there"):
                find_client(client)
        finally:
            client.run(exec, "import importlib.util as util, sys; util.find_spec = sys.find", workers=[worker])


class TestClustersThatDie:
    """Clusters of their own, in this process: one call closes them."""

    @pytest.fixture
    def own(self) -> Any:
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield cluster, client

    def test_client_closed_on_the_way(self, own: Any) -> None:
        _, client = own
        threading.Timer(0.3, client.close).start()
        with pytest.raises(RuntimeError, match="connection to the cluster was closed or lost"), open_run(client) as run:
            run.result(run.submit(wait, 2.0, name="hardwood-wait"))

    def test_no_workers_any_more(self, own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster, client = own
        monkeypatch.setattr(run_module, "PATIENCE_SECONDS", 0.5)
        monkeypatch.setattr(run_module, "POLL_SECONDS", 0.1)
        run = DaskRun(client)
        handle = run.submit(wait, 0.5, name="hardwood-wait")
        cluster.scale(0)
        with pytest.raises(RuntimeError, match="has had no workers for 0 seconds; start some"):
            run.result(handle)
        while client.nthreads():
            time.sleep(0.05)
        with pytest.raises(RuntimeError, match="client: the cluster has no workers; start some"):
            find_client(client)


def test_partitions_are_shared_out_evenly_and_at_home() -> None:
    threads = {"a": 1, "b": 1}
    assert group_parts(["a", "b", "a", "b"], threads) == [[0, 2], [1, 3]]
    assert group_parts(["a", "a", "a", "a"], threads) == [[0, 1], [2, 3]]
    assert group_parts(["a", "a", "a", None, "b"], threads) == [[0, 1, 2], [3, 4]]
    assert group_parts(["b"], threads) == [[0]]
    assert group_parts(["a"] * 4, {"a": 2, "b": 2}) == [[0], [1], [2], [3]]
    assert group_parts(["a", "gone"], {"a": 4}) == [[0], [1]]


def test_waiting_long_keeps_nothing(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has looked for workers meanwhile holds no result of theirs afterwards."""
    monkeypatch.setattr(run_module, "POLL_SECONDS", 0.01)
    run = DaskRun(client)
    waited = run.result(run.submit(wait, 0.2, name="hardwood-wait"))
    assert waited == 0.2
    wait_until_forgotten(client)
