"""Running tasks on a Dask cluster: the twin of `LocalRun` in `grow/blocks.py`.

The scheduler remembers how every result that is still wanted was made. What a lost worker had is made again, elsewhere.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from hardwood.dask.cluster import find_client
from hardwood.progress import Progress

# Seconds between two looks at whether the cluster is alive.
POLL_SECONDS = 1.0
# Seconds for which a cluster without workers is waited for: a worker that was lost is started again within a few.
PATIENCE_SECONDS = 30.0


class DaskRun:
    """Runs tasks on a cluster.

    Parameters
    ----------
    client : distributed.Client
    progress : called with (steps done, steps in all) whenever something was waited for
    n_steps : how many steps are expected in all; None: one more than are done
    """

    def __init__(self, client: Any, progress: Progress | None = None, n_steps: int | None = None) -> None:
        self._client = client
        self._progress, self._n_steps, self._n_done = progress, n_steps, 0
        self._futures: WeakSet[Any] = WeakSet()  # those that somebody still holds

    @property
    def client(self) -> Any:
        """The client of the cluster."""
        return self._client

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        """Have a pure function called on the cluster; see `Run`."""
        with _explain(self._client):
            return self._keep(self._client.submit(function, *arguments, key=f"{name}-{uuid4().hex}"))

    def compute(self, tasks: list[Any]) -> list[Any]:
        """Have delayed tasks done on the cluster, and return their handles."""
        with _explain(self._client):
            return [self._keep(future) for future in self._client.compute(tasks)]

    def result(self, handle: Any) -> Any:
        """Wait for what a handle stands for, and return it; see `Run`."""
        (result,) = self.gather([handle])
        self._n_done += 1
        self._tell(max(self._n_done + 1, self._n_steps or 0))
        return result

    def gather(self, handles: list[Any]) -> list[Any]:
        """Wait for what handles stand for, and return it."""
        self.wait(handles)
        with _explain(self._client):
            return list(self._client.gather(handles))

    def wait(self, handles: list[Any]) -> None:
        """Wait until what handles stand for is there, or has failed."""
        for handle in handles:
            is_done = Event()
            handle.add_done_callback(lambda _, is_done=is_done: is_done.set())
            last_seen = time.monotonic()
            while not is_done.wait(POLL_SECONDS):
                last_seen = self._look_for_workers(last_seen)

    def finish(self) -> None:
        """Tell that all is done."""
        self._tell(self._n_done)

    def cancel(self) -> None:
        """Cancel whatever has been submitted and is still wanted."""
        if self._client.status == "running":
            self._client.cancel(list(self._futures), force=True)

    def _keep(self, future: Any) -> Any:
        self._futures.add(future)
        return future

    def _tell(self, n_steps: int) -> None:
        if self._progress is not None:
            self._progress(self._n_done, n_steps)

    def _look_for_workers(self, last_seen: float) -> float:
        """Return when a worker was last seen, or give up."""
        now = time.monotonic()
        with _explain(self._client):
            if self._client.nthreads():
                return now
        if now - last_seen > PATIENCE_SECONDS:
            raise RuntimeError(
                f"the cluster has had no workers for {PATIENCE_SECONDS:.0f} seconds; start some, and try again"
            )
        return last_seen


@contextmanager
def open_run(client: Any, progress: Progress | None = None, n_steps: int | None = None) -> Iterator[DaskRun]:
    """Check the cluster, and run tasks on it; whatever goes wrong, Ctrl-C included, nothing is left behind there."""
    run = DaskRun(find_client(client), progress, n_steps)
    try:
        yield run
    except BaseException:
        run.cancel()
        raise
    run.finish()


@contextmanager
def _explain(client: Any) -> Iterator[None]:
    """Say in one sentence what has become of the cluster; what a task itself raises comes through as it is."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"a task was lost with its worker {error.allowed_failures + 1} times and was given up; such workers mostly "
            "run out of memory: give them more, or the table more partitions"
        ) from error
    except Exception as error:
        if isinstance(error, (CancelledError, CommClosedError)) or client.status != "running":
            raise RuntimeError(
                "the connection to the cluster was closed or lost; connect with a new distributed.Client and try again"
            ) from error
        raise
