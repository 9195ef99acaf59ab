"""Kill a worker during a fit over Dask and see what happens: hardwood, XGBoost and LightGBM.

A cluster of two worker processes of one thread each, with nannies, so that a worker that dies is started again. The
table comes from tasks, so that the cluster can make a lost part again. Every try has a fresh process and a cluster of
its own: it fits a small table, fits twice undisturbed, then once more, and at a share of the undisturbed wall time
one worker gets a SIGKILL. What is seen until a time limit is printed, whatever it is; then the cluster, as it is, is
asked for one more fit.
"""

import argparse
import contextlib
import hashlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from dask.distributed import Client

from clusters import cluster_of, dask_table
from measure import RESULTS, print_table, write_csv

WORKERS, FEATURES, DEPTH = 2, 10, 8
MOMENTS = (0.05, 0.25, 0.5, 0.75)  # of the undisturbed wall time
METHODS = ("hardwood", "xgboost", "lightgbm")
LIBRARIES = ("hardwood", "xgboost-cpu", "lightgbm", "dask", "distributed")


def fit(method: str, client: Client, X: Any, y: Any, rounds: int) -> str:
    """Boost, and return what tells one model from another."""
    if method == "hardwood":
        from hardwood.dask import DaskRobustBoostingClassifier

        ours = DaskRobustBoostingClassifier(threat=0.02, n_estimators=rounds, max_depth=DEPTH, client=client).fit(X, y)
        ensemble = ours.to_local().ensemble_
        return _digest(*(getattr(ensemble, name).tobytes() for name in ("feature", "threshold", "value")))
    if method == "xgboost":
        from xgboost.dask import DaskXGBClassifier

        theirs = DaskXGBClassifier(n_estimators=rounds, max_depth=DEPTH, tree_method="hist", verbosity=0)
        theirs.client = client
        return _digest(*(tree.encode() for tree in theirs.fit(X, y).get_booster().get_dump(with_stats=True)))
    from lightgbm import DaskLGBMClassifier

    options = {"n_estimators": rounds, "max_depth": DEPTH, "num_leaves": 2**DEPTH, "verbosity": -1}
    lightgbm = DaskLGBMClassifier(client=client, **options).fit(X, y)
    return _digest(lightgbm.booster_.model_to_string().split("end of trees")[0].encode())


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


class Attempt:
    """A call in a thread of its own, which may never end."""

    def __init__(self, call: Callable[[], str]) -> None:
        self._call = call
        self._start = time.perf_counter()
        self.seconds = float("nan")
        self.model: str | None = None
        self.error: str | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.model = self._call()
        except BaseException as error:
            self.error = f"{type(error).__name__}: {shorten(str(error))}"
        self.seconds = time.perf_counter() - self._start

    def runs_after(self, seconds: float) -> bool:
        """Wait until so many seconds after the start, and say whether it still runs."""
        self._thread.join(max(0.0, self._start + seconds - time.perf_counter()))
        return self._thread.is_alive()

    def describe(self, models: list[str], limit: float) -> str:
        """Say in words what has come of it by a time limit."""
        if self.runs_after(limit):
            return f"no answer after {limit:.0f} s"
        if self.error is not None:
            return f"after {self.seconds:.1f} s {self.error}"
        return f"after {self.seconds:.1f} s {'the same model' if self.model in models else 'another model'}"


def shorten(message: str) -> str:
    """Return the start of an error message on one line, without times of day and paths of source files."""
    return re.sub(r"\[?\d\d:\d\d:\d\d\]?|/\S+: |\s+", " ", message).replace("  ", " ").strip()[:120]


def try_once(method: str, moment: float, rows: int, rounds: int, limit: float) -> dict[str, Any]:
    """Fit undisturbed, then with a worker killed on the way, then once more, and say what was seen."""
    with cluster_of(WORKERS) as client:
        fit(method, client, *dask_table(client, 1_000, FEATURES, WORKERS), 1)
        X, y = dask_table(client, rows, FEATURES, WORKERS)

        def attempt() -> Attempt:
            return Attempt(lambda: fit(method, client, X, y, rounds))

        models, seconds = [], []
        for _ in range(2):
            undisturbed = attempt()
            if undisturbed.runs_after(limit) or undisturbed.model is None:
                return {"seen": f"undisturbed: {undisturbed.describe([], limit)}"}
            models.append(undisturbed.model)
            seconds.append(undisturbed.seconds)
        seen: dict[str, Any] = {"undisturbed_s": min(seconds), "repeatable": models[0] == models[1]}
        victim = next(iter(client.run(os.getpid).values()))
        disturbed = attempt()
        if not disturbed.runs_after(moment * min(seconds)):
            return seen | {"seen": "finished before the worker was killed"}
        os.kill(victim, signal.SIGKILL)
        seen["seen"] = disturbed.describe(models, limit)
        seen["then"] = attempt().describe(models, limit)
        print(json.dumps(seen), flush=True)
        os._exit(0)  # a fit that hangs would keep the cluster from closing; the parent ends what is left


def run_child(arguments: argparse.Namespace, method: str, moment: float) -> dict[str, Any]:
    """Try in a fresh process, and end whatever it leaves behind."""
    command = [sys.executable, __file__, "--child", method, str(moment)]
    command += [f"--rows={arguments.rows}", f"--rounds={arguments.rounds}", f"--limit={arguments.limit}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=6 * arguments.limit)
    except subprocess.TimeoutExpired:
        return {"seen": f"the process had not ended after {6 * arguments.limit:.0f} s"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"seen": f"the process died: {(err.splitlines() or [''])[-1]}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds to wait for a fit")
    parser.add_argument("--tries", type=int, default=1, help="per moment")
    parser.add_argument("--only", choices=METHODS, nargs="+", default=METHODS)
    parser.add_argument("--child", nargs=2, metavar=("METHOD", "MOMENT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)  # what distributed says of a lost worker
        method, moment = arguments.child
        print(json.dumps(try_once(method, float(moment), arguments.rows, arguments.rounds, arguments.limit)))
        return
    size = f"{arguments.rounds} rounds of depth {DEPTH} on {arguments.rows:,} x {FEATURES}"
    print(", ".join(f"{name} {version(name)}" for name in LIBRARIES))
    print(f"{size}, {WORKERS} workers, one killed; load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores\n")
    records = []
    for method in arguments.only:
        for moment in MOMENTS:
            for _ in range(arguments.tries):
                seen = run_child(arguments, method, moment)
                records.append({"library": method, "killed_at": moment} | seen)
                print(f"  {method}, {moment:.0%}: {seen['seen']}", flush=True)
    keys = ("library", "killed_at", "undisturbed_s", "repeatable", "seen", "then")
    records = [{key: record.get(key, "") for key in keys} for record in records]
    header = ["library", "killed at", "undisturbed, s", "two fits alike", "worker killed", "next fit, same cluster"]
    print()
    print_table(header, [describe(record) for record in records])
    write_csv(RESULTS / "lost_worker.csv", records)


def describe(record: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    undisturbed = f"{record['undisturbed_s']:.1f}" if record["undisturbed_s"] else "-"
    alike = {True: "yes", False: "no"}.get(record["repeatable"], "-")
    return [record["library"], f"{record['killed_at']:.0%}", undisturbed, alike, record["seen"], record["then"]]


if __name__ == "__main__":
    main()
