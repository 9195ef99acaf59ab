"""Measure what a user waits for before the first tree and the first proof: importing, compiling or loading.

Fresh processes with numba's cache in a new folder: first empty, then filled by the process before. A table of
numbers and one that has categories too. Of several times the shortest counts.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from typing import Any

COMPILE_BAR, CACHED_BAR = 10.0, 0.5
REPEATS = 3
STEPS = ("import", "first fit", "second fit", "first predict", "first verify of a forest")
TABLES = ("numbers", "categories")


def clocked(step: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """Return what a step returns, and the wall and CPU seconds it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = step()
    return result, (time.perf_counter() - wall, time.process_time() - cpu)


def child(table: str) -> None:
    """Walk through the steps of a first use and print the seconds of each.

    Nothing heavy is imported before the clock runs: even measure.py would bring in NumPy uncounted.
    """

    def load() -> Any:
        import hardwood

        return hardwood.RobustTreeClassifier

    classifier, importing = clocked(load)
    from measure import make_table

    X, y = make_table("smooth", rows=1_000, features=10, seed=0)
    model = classifier(threat=0.02, max_depth=8, n_jobs=1)
    if table == "categories":
        X[:, 0] = (10 * X[:, 0]).round()
        model.set_params(threat=[{0: [1, 2]}] + [0.02] * 9, categorical_features=[0])
    model, first_fit = clocked(lambda: model.fit(X, y))
    _, second_fit = clocked(lambda: model.fit(X, y))
    _, first_predict = clocked(lambda: model.predict(X))
    from sklearn.ensemble import RandomForestClassifier

    from hardwood import verify

    forest = RandomForestClassifier(10, max_depth=5, random_state=0).fit(X, y)
    _, first_verify = clocked(lambda: verify(forest, X[:10], y[:10], 0.02))
    print(json.dumps(dict(zip(STEPS, (importing, first_fit, second_fit, first_predict, first_verify), strict=True))))


def main() -> None:
    from measure import RESULTS, print_table, run_fresh, verdict, write_csv

    records = []
    for table in TABLES:
        runs = []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as cache:
                runs.append([run_fresh(__file__, "--child", table, NUMBA_CACHE_DIR=cache) for _ in range(2)])
        empty, filled = (min(column, key=lambda times: times["first fit"]) for column in zip(*runs, strict=True))
        header = [table, "empty cache, wall s", "CPU s", "filled cache, wall s", "CPU s"]
        print_table(header, [[step, *(f"{s:.3f}" for s in (*empty[step], *filled[step]))] for step in STEPS])
        print("first fits with an empty cache:", ", ".join(f"{run[0]['first fit'][0]:.2f}" for run in runs))
        print()
        print(verdict("first fit with an empty cache, wall s", empty["first fit"][0], COMPILE_BAR))
        print(verdict("first fit with a filled cache, wall s", filled["first fit"][0], CACHED_BAR))
        print()
        records += [
            {"table": table, "cache": name, "step": step, "wall_seconds": times[step][0], "cpu_seconds": times[step][1]}
            for name, times in (("empty", empty), ("filled", filled))
            for step in STEPS
        ]
    write_csv(RESULTS / "startup.csv", records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", choices=TABLES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
    else:
        main()
