"""What an attacker costs that knows whole numbers, domains and one-hot groups, beside one that moves plain numbers.

The same model, the same rows, the same distances: the plain attacker may move each 0/1 column by 1 in either direction,
a group sets another column instead. CPU time of deciding all rows, one thread, the least of several repeats, in one
call and row by row.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import OneHotGroup, ThreatModel, as_ensemble, verify
from measure import RESULTS, fastest_cpu_seconds, print_table, verdict, write_csv

# A decision may take that many times as long as the plain one.
BAR = 2.0
N_NUMBERS, N_COUNTS, N_SHARES = 6, 4, 4
GROUP_SIZES = (3, 4, 8)


def make_table(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers, counts, shares and 0/1 columns of three categories, and labels that depend on all of them."""
    generator = np.random.default_rng(seed)
    codes = [generator.integers(0, size, n_rows) for size in GROUP_SIZES]
    X = np.column_stack([
        generator.normal(size=(n_rows, N_NUMBERS)),
        generator.poisson(5.0, (n_rows, N_COUNTS)),
        generator.random((n_rows, N_SHARES)),
        *(np.eye(size)[code] for size, code in zip(GROUP_SIZES, codes, strict=True)),
    ])  # fmt: skip
    spread = X.std(axis=0)
    score = np.sin(X / spread).dot(generator.normal(size=X.shape[1])) + generator.normal(0.0, 0.3, n_rows)
    return X, (score > np.median(score)).astype(int)


def make_threats() -> dict[str, ThreatModel]:
    """Return attackers with the same distances."""
    n_plain = N_NUMBERS + N_COUNTS + N_SHARES
    counts, shares = range(N_NUMBERS, N_NUMBERS + N_COUNTS), range(N_NUMBERS + N_COUNTS, n_plain)
    starts = n_plain + np.cumsum([0, *GROUP_SIZES])
    groups = [OneHotGroup(list(range(a, b))) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    distance: dict[int, float] = dict.fromkeys(range(N_NUMBERS), 0.1)
    distance |= dict.fromkeys(counts, 1.0) | dict.fromkeys(shares, 0.05)
    everything = distance | dict.fromkeys(range(n_plain, int(starts[-1])), 1.0)
    domains: dict[int, tuple[float, float]] = dict.fromkeys(shares, (0.0, 1.0)) | dict.fromkeys(counts, (0.0, np.inf))
    return {
        "plain": ThreatModel(everything, whole_numbers=None),
        "whole numbers": ThreatModel(everything, whole_numbers=[*counts, *range(n_plain, int(starts[-1]))]),
        "domains": ThreatModel(everything, whole_numbers=None, within=domains),
        "groups": ThreatModel(distance, whole_numbers=None, groups=groups),
        "all of them": ThreatModel(distance, whole_numbers=list(counts), within=domains, groups=groups),
    }


def list_models() -> dict[str, Callable[[], Any]]:
    """Return models to ask about; boosted ones where their libraries are installed."""
    models: dict[str, Callable[[], Any]] = {
        "tree of depth 8": lambda: DecisionTreeClassifier(max_depth=8, random_state=0),
        "forest 50x7": lambda: RandomForestClassifier(50, max_depth=7, random_state=0, n_jobs=1),
    }
    try:
        import xgboost

        models["XGBoost 100x5"] = lambda: xgboost.XGBClassifier(n_estimators=100, max_depth=5, n_jobs=1)
    except ImportError:
        pass
    try:
        import lightgbm

        models["LightGBM 100x15"] = lambda: lightgbm.LGBMClassifier(
            n_estimators=100, num_leaves=15, n_jobs=1, verbose=-1
        )
    except ImportError:
        pass
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200, help="that are asked about in one call")
    parser.add_argument("--singles", type=int, default=50, help="that are asked about one by one")
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    X, y = make_table(3000)
    threats = make_threats()
    records: list[dict[str, Any]] = []
    for model_name, make in list_models().items():
        ensemble = as_ensemble(make().fit(X[:2000], y[:2000]))
        rows, labels = X[2000 : 2000 + arguments.rows], y[2000 : 2000 + arguments.rows]

        def ask_at_once(threat: ThreatModel, ensemble: Any = ensemble, rows: Any = rows, labels: Any = labels) -> Any:
            return verify(ensemble, rows, labels, threat, time_limit=10.0)

        def ask_singly(threat: ThreatModel, ensemble: Any = ensemble, rows: Any = rows, labels: Any = labels) -> None:
            for i in range(arguments.singles):
                verify(ensemble, rows[i : i + 1], labels[i : i + 1], threat, time_limit=10.0)

        status = {name: ask_at_once(threat).status for name, threat in threats.items()}  # and compiles
        tasks = {name: partial(ask_at_once, threat) for name, threat in threats.items()}
        at_once = fastest_cpu_seconds(tasks, arguments.repeats, calls=5)
        tasks = {name: partial(ask_singly, threat) for name, threat in threats.items()}
        singly = fastest_cpu_seconds(tasks, arguments.repeats)
        for name in threats:
            records.append({
                "model": model_name,
                "attacker": name,
                "robust": float((status[name] == "robust").mean()),
                "unknown": int((status[name] == "unknown").sum()),
                "ms per row": 1e3 * at_once[name] / arguments.rows,
                "times plain": at_once[name] / at_once["plain"],
                "ms per single row": 1e3 * singly[name] / arguments.singles,
                "times plain, single": singly[name] / singly["plain"],
            })  # fmt: skip
    keys = list(records[0])
    print_table(keys, [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in record.values()] for record in records])
    for key in ("times plain", "times plain, single"):
        worst = max(records, key=lambda record: record[key])
        print(verdict(f"{key}, {worst['model']}, {worst['attacker']}", worst[key], BAR))
    write_csv(RESULTS / "attackers.csv", records)


if __name__ == "__main__":
    main()
