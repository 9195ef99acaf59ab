"""Time fit and predict beside scikit-learn's natural tree, groot-trees, and one natural tree of two binned boosters.

One process, one thread, CPU time, the least of several repeats that take turns. Compilation is not
counted: startup.py measures it.
"""

import argparse
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from hardwood import RobustTreeClassifier
from measure import (
    LABEL_NOISE,
    RESULTS,
    fastest_cpu_seconds,
    growth_exponent,
    make_table,
    print_table,
    verdict,
    write_csv,
)
from peers import count_nodes, groot_tree

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
EPSILON = 0.02
DEPTH = 8
NATURAL, PEER, OURS, OURS_RHO, OURS_NATURAL = (
    "scikit-learn",
    "groot-trees",
    "hardwood",
    "hardwood rho=0.5",
    "hardwood no threat",
)
BINNED, BINNED_RHO = "hardwood binned", "hardwood binned rho=0.5"
BOOSTERS = HISTOGRAM, LIGHTGBM = "HistGradientBoosting", "LightGBM"  # one tree each
FIT_BARS = {1_000: 0.35, 10_000: 0.20, 100_000: 0.20, 1_000_000: 0.15}
BINNED_ROWS, BINNED_BAR, BOOSTER_BAR = 1_000_000, 0.03, 0.6

Record = dict[str, Any]


def methods(features: int, with_peer: bool) -> dict[str, Callable[[], Any]]:
    """Return what makes each unfitted tree."""
    ours = partial(RobustTreeClassifier, max_depth=DEPTH, n_jobs=1)
    makers: dict[str, Callable[[], Any]] = {
        NATURAL: partial(DecisionTreeClassifier, max_depth=DEPTH, random_state=0),
        PEER: partial(groot_tree, EPSILON, DEPTH, features),
        OURS: partial(ours, threat=EPSILON, max_bins="exact"),
        OURS_RHO: partial(ours, threat=EPSILON, rho=0.5, max_bins="exact"),
        OURS_NATURAL: partial(ours, threat=None, max_bins="exact"),
        BINNED: partial(ours, threat=EPSILON, max_bins=255),
        BINNED_RHO: partial(ours, threat=EPSILON, rho=0.5, max_bins=255),
        HISTOGRAM: partial(
            HistGradientBoostingClassifier, max_iter=1, max_depth=DEPTH, max_leaf_nodes=2**DEPTH, early_stopping=False
        ),
        LIGHTGBM: partial(LGBMClassifier, n_estimators=1, max_depth=DEPTH, num_leaves=2**DEPTH, n_jobs=1, verbosity=-1),
    }
    if not with_peer:
        del makers[PEER]
    return makers


def size_of(model: Any) -> tuple[int, float]:
    """Return the number of nodes, and how many splits a training row passes on average."""
    if hasattr(model, "root_"):
        # groot-trees does not keep how many rows reach a node.
        return count_nodes(model.root_), np.nan
    if hasattr(model, "booster_"):
        return 2 * model.booster_.dump_model()["tree_info"][0]["num_leaves"] - 1, np.nan
    if hasattr(model, "_predictors"):
        return len(model._predictors[0][0].nodes), np.nan
    if hasattr(model, "ensemble_"):
        feature, cover = model.ensemble_.feature, model.ensemble_.cover
    else:
        feature, cover = model.tree_.feature, model.tree_.weighted_n_node_samples
    return len(feature), float(cover[feature >= 0].sum() / cover[0])


def measure(shape: str, X: NDArray[np.float64], y: NDArray[np.int64], *, repeats: int, peer: bool) -> list[Record]:
    """Fit every method on one table and return a record per method."""
    makers = methods(X.shape[1], peer)
    models: dict[str, Any] = {}

    def fit(name: str) -> None:
        models[name] = makers[name]().fit(X, y)

    fit_seconds = fastest_cpu_seconds({name: partial(fit, name) for name in makers}, repeats)
    predict_seconds = fastest_cpu_seconds({name: partial(model.predict, X) for name, model in models.items()}, repeats)
    one_row_seconds = fastest_cpu_seconds(
        {name: partial(model.predict, X[:1]) for name, model in models.items()}, 20, calls=50
    )
    records = []
    for name in makers:
        nodes, splits_per_row = size_of(models[name])
        records.append(
            {
                "data": shape,
                "rows": len(X),
                "features": X.shape[1],
                "method": name,
                "nodes": nodes,
                "splits_per_row": splits_per_row,
                "fit_seconds": fit_seconds[name],
                "predict_seconds": predict_seconds[name],
                "predict_one_row_seconds": one_row_seconds[name],
            }
        )
    return records


def ratio(records: list[Record], name: str, to: str, column: str = "fit_seconds") -> float:
    """Return the time of one method over that of another; NaN where the other was not run."""
    seconds = {record["method"]: record[column] for record in records}
    return seconds[name] / seconds.get(to, np.nan)


def print_times(records: list[Record]) -> None:
    """Print the times on one table, and the ratios to the two others."""
    header = ["method", "nodes", "splits/row", "fit s", "/sklearn", "/groot"]
    header += ["predict s", "/sklearn", "one row s", "/sklearn"]
    lines = []
    for record in records:
        name = record["method"]
        line = [name, f"{record['nodes']}", f"{record['splits_per_row']:.2f}"]
        line += [f"{record['fit_seconds']:.5f}"]
        line += [f"{ratio(records, name, other):.3f}" for other in (NATURAL, PEER)]
        for column in ("predict_seconds", "predict_one_row_seconds"):
            line += [f"{record[column]:.6f}", f"{ratio(records, name, NATURAL, column):.3f}"]
        lines.append([cell.replace("nan", "-") for cell in line])
    first = records[0]
    print(f"\n{first['data']}, {first['rows']:,} rows x {first['features']} features")
    print_table(header, lines)


def print_growth(records: list[Record]) -> None:
    """Print how the fit time of each method grows with the number of rows."""
    print(f"\n{records[0]['data']}: growth of the fit time, slope of log seconds on log rows")
    for name in dict.fromkeys(record["method"] for record in records):
        mine = [record for record in records if record["method"] == name]
        rows = [record["rows"] for record in mine]
        slope = growth_exponent(rows, [record["fit_seconds"] for record in mine])
        sizes = f"{len(rows)} sizes up to {rows[-1]:,} rows"
        print(f"  {name:<20}{slope:5.2f}   {sizes}".replace("nan", "  -"))


def print_verdicts(records: list[Record]) -> None:
    """Print the ratios that have a bar."""
    for (shape, rows), group in itertools.groupby(records, key=lambda r: (r["data"], r["rows"])):
        table = list(group)
        where = f"{shape}, {rows:,} rows"
        if rows not in FIT_BARS:
            continue
        print()
        print(verdict(f"{where}: fit / scikit-learn", ratio(table, OURS, NATURAL), FIT_BARS[rows]))
        if rows == 10_000 and any(record["method"] == PEER for record in table):
            print(verdict(f"{where}: fit / groot-trees", ratio(table, OURS, PEER), 0.1))
        print(verdict(f"{where}: fit with rho=0.5 / rho=1", ratio(table, OURS_RHO, OURS), 2))
        if rows == BINNED_ROWS:
            print(verdict(f"{where}: binned fit / scikit-learn", ratio(table, BINNED, NATURAL), BINNED_BAR))
            for other in BOOSTERS:
                print(verdict(f"{where}: binned fit / {other}", ratio(table, BINNED, other), BOOSTER_BAR))
        for column in ("predict_seconds", "predict_one_row_seconds"):
            what = f"{where}: {column.removesuffix('_seconds').replace('_', ' ')} / scikit-learn"
            print(verdict(what, ratio(table, OURS, NATURAL, column), 1))


def plot(records: list[Record], path: Path) -> None:
    """Draw fit time against rows on two logarithmic axes, one panel per kind of data."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shapes = list(dict.fromkeys(record["data"] for record in records))
    size = (5 * len(shapes) + 1, 4.5)
    figure, panels = plt.subplots(1, len(shapes), figsize=size, sharey=True, squeeze=False)
    for panel, shape in zip(panels[0], shapes, strict=True):
        for name in dict.fromkeys(record["method"] for record in records):
            mine = [r for r in records if r["method"] == name and r["data"] == shape]
            rows, seconds = [r["rows"] for r in mine], [r["fit_seconds"] for r in mine]
            panel.loglog(rows, seconds, "o-", label=name)
        panel.set(title=shape, xlabel="rows", ylabel="CPU seconds to fit, one thread")
        panel.grid(which="both", alpha=0.25)
    panels[0][0].legend()
    figure.savefig(path, dpi=150, bbox_inches="tight")
    print(f"wrote {path}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=LABEL_NOISE, default=["smooth"])
    parser.add_argument("--max-rows", type=int, default=ROWS[-1])
    parser.add_argument("--peer-max-rows", type=int, default=30_000, help="for groot-trees")
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3, help="at least; small tables get more")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.max_rows < ROWS[0]:
        parser.error(f"--max-rows must be at least {ROWS[0]}, got {arguments.max_rows}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    try:
        groot_tree(EPSILON, DEPTH, arguments.features)
    except ImportError as error:
        print(f"groot-trees is left out: {error}")
        arguments.peer_max_rows = 0
    X, y = make_table("smooth", 200, arguments.features, arguments.seed)
    for make in methods(arguments.features, arguments.peer_max_rows > 0).values():
        make().fit(X, y).predict(X)  # compiles, before any clock runs
    records: list[Record] = []
    for shape in arguments.data:
        of_shape: list[Record] = []
        for rows in (rows for rows in ROWS if rows <= arguments.max_rows):
            X, y = make_table(shape, rows, arguments.features, arguments.seed)
            repeats = max(arguments.repeats, min(50, 100_000 // rows))
            peer = rows <= arguments.peer_max_rows
            of_table = measure(shape, X, y, repeats=repeats, peer=peer)
            print_times(of_table)
            of_shape += of_table
        print_growth(of_shape)
        records += of_shape
    print_verdicts(records)
    write_csv(RESULTS / "fit.csv", records)
    plot(records, RESULTS / "fit.png")


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
