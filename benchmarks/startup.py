"""Measure what a user waits for before the first answer: importing, compiling or loading. Least CPU seconds of several.

Fresh processes with kernels in a new folder: first empty, then filled by the process before. Seconds count from the
import of hardwood on; what libraries of models take to fit is not counted. At the end, what each kernel takes to
compile: the figures in `@kernel(seconds=...)`.
"""

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

REPEATS = 2
COMMAND_REPEATS = 5

# Question -> most CPU seconds with an empty folder for kernels; None: no bar.
BARS = {
    "first fit": 6.0,
    "first fit and evaluate of one tree": 8.0,
    "first fit with categories": None,
    "first fit on bins": 6.0,
    "first fit of many classes": 6.0,
    "first fit of many classes on bins": 6.0,
    "first fit of a regression tree": 6.0,
    "first fit of a regression tree on bins": 6.0,
    "first verify of 100 trees of XGBoost": 15.0,
}
COMMAND_BAR = 0.4
COMMANDS = {
    "hardwood --version": ["--version"],
    "hardwood --help": ["--help"],
    "hardwood fit --help": ["fit", "--help"],
    "hardwood evaluate, no such file": ["evaluate", "no.json", "no.csv", "--target", "y", "--epsilon", "1"],
}


class Recorder(logging.Handler):
    """Notes what is compiled, and how long each kernel takes."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take down the seconds of a kernel; of several forms of one, the most."""
        if hasattr(record, "kernel"):
            name, seconds = record.kernel, record.seconds  # type: ignore[attr-defined]
            self.seconds[name] = max(seconds, self.seconds.get(name, 0.0))


def prepare(question: str) -> Callable[[], Any]:
    """Do what is not counted, and return what is."""
    from measure import make_table

    X, y = make_table("smooth", rows=1_000, features=10, seed=0)
    if question == "everything":
        return warm_everything
    if question.startswith("first verify"):
        from xgboost import XGBClassifier

        X, y = load_scaled("diabetes")
        model = XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=0).fit(X, y)

        def verify() -> None:
            import hardwood

            hardwood.verify(model, X[:50], y[:50], 0.1, n_jobs=1)

        return verify

    def fit() -> None:
        import hardwood

        kind = hardwood.RobustTreeRegressor if "regression" in question else hardwood.RobustTreeClassifier
        model = kind(threat=0.02, max_depth=8, n_jobs=1)
        if "categories" in question:
            X[:, 0] = (10 * X[:, 0]).round()
            model.set_params(threat=[{0: [1, 2]}] + [0.02] * 9, categorical_features=[0])
        if "bins" in question:
            model.set_params(max_bins=255)
        model.fit(X, y + (X[:, 0] > 0.5) if "many classes" in question else y)
        if "evaluate" in question:
            hardwood.evaluate(model, X, y, 0.02, n_jobs=1)

    return fit


def warm_everything() -> None:
    from hardwood.warm import warm_up

    warm_up()


def load_scaled(name: str) -> tuple[Any, Any]:
    """Load a bundled table in a process of its own, scaled to [0, 1]: here, nothing of hardwood is imported yet."""
    script = (
        "import json, hardwood; t = hardwood.load_dataset(%r); "
        "X = (t.data - t.data.min(axis=0)) / (t.data.max(axis=0) - t.data.min(axis=0)); "
        "print(json.dumps([X.tolist(), t.target.tolist()]))"
    )
    import numpy as np

    done = subprocess.run([sys.executable, "-c", script % name], stdout=subprocess.PIPE, text=True, check=True)
    X, y = json.loads(done.stdout)
    return np.array(X), np.array(y)


def child(question: str) -> None:
    """Answer one question, and print the CPU seconds and what was compiled."""
    recorder = Recorder()
    logger = logging.getLogger("hardwood")
    logger.addHandler(recorder)
    logger.setLevel(logging.DEBUG)
    step = prepare(question)
    start = time.process_time()
    step()
    print(json.dumps({"seconds": time.process_time() - start, "kernels": recorder.seconds}))


def time_command(arguments: list[str]) -> float:
    """Return the least CPU seconds of a command, with all its imports."""
    least = float("inf")
    for _ in range(COMMAND_REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "hardwood", *arguments], capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least


def main() -> None:
    from measure import RESULTS, print_table, run_fresh, verdict, write_csv

    records, lines, verdicts = [], [], []
    for question, bar in BARS.items():
        runs = []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as folder:
                runs.append([run_fresh(__file__, "--child", question, NUMBA_CACHE_DIR=folder) for _ in range(2)])
        empty, filled = (min(run[state]["seconds"] for run in runs) for state in range(2))
        lines.append([question, f"{empty:.2f}", f"{filled:.2f}"])
        records += [{"question": question, "empty_seconds": empty, "filled_seconds": filled}]
        if bar is not None:
            verdicts.append(verdict(f"{question}, nothing compiled, CPU s", empty, bar))
    print_table(["CPU seconds", "nothing compiled", "all compiled"], lines)
    print()
    for name, arguments in COMMANDS.items():
        seconds = time_command(arguments)
        records += [{"question": name, "empty_seconds": seconds, "filled_seconds": seconds}]
        verdicts.append(verdict(f"{name}, CPU s", seconds, COMMAND_BAR))
    print("\n".join(verdicts))
    print()
    with tempfile.TemporaryDirectory() as folder:
        kernels = run_fresh(__file__, "--child", "everything", NUMBA_CACHE_DIR=folder)["kernels"]
    print_table(["kernel", "CPU s to compile"], [[name, f"{kernels[name]:.1f}"] for name in sorted(kernels)])
    print(f"all kernels: {sum(kernels.values()):.1f} s")
    write_csv(RESULTS / "startup.csv", records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", choices=[*BARS, "everything"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        child(arguments.child)
    else:
        main()
