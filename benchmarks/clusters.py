"""What the benchmarks over Dask share: a cluster of processes on this machine, tables made by tasks, and meters.

CPU time is that of every process: the client, the scheduler and the nannies, which are one process here, and the
workers. Traffic is every byte that `distributed` writes to a connection, counted where it writes them.
"""

import contextlib
import ctypes
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array
import numpy as np
from dask.distributed import Client, LocalCluster, wait
from distributed import SchedulerPlugin
from distributed.comm.tcp import TCP
from numpy.typing import NDArray

from measure import make_table
from memory import forget_peak, peak_resident_bytes

RELEASE_SECONDS = 0.3  # in which workers forget what a call before has left there
LEAST_MEMORY = 2**20  # less cannot be told from the noise of an interpreter

_written_bytes = 0  # by this process, since it counts


@dataclass(frozen=True)
class Cost:
    """What a call has cost."""

    wall: float  # seconds
    client_cpu: float  # seconds of the client, the scheduler and the nannies
    worker_cpu: float  # seconds of all workers together
    traffic: int  # bytes that any process has sent
    tasks: int  # that the scheduler has been asked for
    worker_memory: int  # bytes, the peak of any worker beyond what it held before; at least a MiB

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of all processes."""
        return self.client_cpu + self.worker_cpu


@contextlib.contextmanager
def cluster_of(workers: int) -> Iterator[Client]:
    """Run a cluster of worker processes of one thread each; each has a nanny that starts it again if it dies."""
    # Nothing is spilled to disk and no worker is paused: that would be a measurement of the disk.
    options = {"processes": True, "memory_limit": 0, "dashboard_address": ":0", "silence_logs": logging.ERROR}
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, **options)
    with cluster, Client(cluster) as client:
        cluster.scheduler.add_plugin(_TaskCounter())  # the scheduler is in this process
        _count_bytes()
        client.run(_count_bytes)
        yield client


def numpy_table(rows: int, features: int, blocks: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Make the table that `dask_table` makes, in this process."""
    parts = [_make_block(size, features, seed) for seed, size in enumerate(_block_sizes(rows, blocks))]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def dask_table(client: Client, rows: int, features: int, blocks: int) -> tuple[dask.array.Array, dask.array.Array]:
    """Make a table by tasks, one per block, and wait until the workers hold it.

    What comes from tasks can be made again where a worker is lost; what a client has scattered cannot.
    """
    X_parts, y_parts = [], []
    for seed, size in enumerate(_block_sizes(rows, blocks)):
        X, y = dask.delayed(_make_block, nout=2)(size, features, seed)
        X_parts.append(dask.array.from_delayed(X, (size, features), dtype=np.float32))
        y_parts.append(dask.array.from_delayed(y, (size,), dtype=np.int8))
    X, y = client.persist([dask.array.concatenate(X_parts), dask.array.concatenate(y_parts)])
    wait([X, y])
    return X, y


def _block_sizes(rows: int, blocks: int) -> list[int]:
    return [len(part) for part in np.array_split(np.empty(rows, dtype=bool), blocks)]


def _make_block(rows: int, features: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    X, y = make_table("smooth", rows, features, seed)
    return X.astype(np.float32), y.astype(np.int8)


def measure_call(client: Client, call: Callable[[], Any]) -> tuple[Any, Cost]:
    """Call a function that works on a cluster, and return what it returns and what it has cost."""
    time.sleep(RELEASE_SECONDS)
    client.run(settle_memory)
    counter = client.cluster.scheduler.plugins[_TaskCounter.name]
    before, tasks_before = _read_meters(client), counter.done
    start = time.perf_counter()
    result = call()
    wall = time.perf_counter() - start
    after, tasks_after = _read_meters(client), counter.done
    me = os.getpid()
    spent = {pid: after[pid] - before[pid] for pid in after if pid in before}
    others = [pid for pid in spent if pid != me]
    cost = Cost(
        wall=wall,
        client_cpu=float(spent[me][0]),
        worker_cpu=float(sum(spent[pid][0] for pid in others)),
        traffic=int(sum(meters[1] for meters in spent.values())),
        tasks=tasks_after - tasks_before,
        worker_memory=int(max(LEAST_MEMORY, *(spent[pid][2] for pid in others))),
    )
    return result, cost


def least(costs: Sequence[Cost]) -> Cost:
    """Return the cost of the repeat with the least CPU time, with the least wall time and the largest memory of all."""
    best = min(costs, key=lambda cost: cost.cpu)
    wall, memory = min(cost.wall for cost in costs), max(cost.worker_memory for cost in costs)
    return replace(best, wall=wall, worker_memory=memory)


def settle_memory() -> None:
    """Give memory that nobody uses back to the system, and forget the peak of this process so far.

    What the C library keeps for later would hide as much of what the next call needs.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # the GNU C library only
    forget_peak()


def _read_meters(client: Client) -> dict[int, NDArray[np.float64]]:
    """Read CPU seconds, bytes sent and peak resident bytes of every process."""
    return dict([_read_own_meters(), *client.run(_read_own_meters).values()])


def _read_own_meters() -> tuple[int, NDArray[np.float64]]:
    return os.getpid(), np.array([time.process_time(), _written_bytes, peak_resident_bytes()])


class _TaskCounter(SchedulerPlugin):
    """Counts what the scheduler hears is done."""

    name = "task-counter"

    def __init__(self) -> None:
        self.done = 0

    def transition(self, key: Any, start: str, finish: str, *others: Any, **more: Any) -> None:
        """Count a task that a worker has done."""
        self.done += start == "processing" and finish == "memory"


def _count_bytes() -> None:
    """Let this process count the bytes it sends from now on."""
    write = TCP.write
    if getattr(write, "counts", False):
        return
    lock = threading.Lock()

    async def counted(self: TCP, *arguments: Any, **options: Any) -> int:
        global _written_bytes
        size = await write(self, *arguments, **options)
        with lock:
            _written_bytes += size
        return size

    counted.counts = True  # type: ignore[attr-defined]
    TCP.write = counted  # type: ignore[method-assign]


def silence_workers(client: Client) -> None:
    """Let workers print nothing: LightGBM tells of every port."""
    client.run(_silence)


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
