"""What robust boosting and forests cost beside XGBoost and provably robust boosting, and how it does on regressions."""

import time
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.model_selection import KFold
from xgboost import XGBClassifier

from hardwood import RobustBoostingClassifier, RobustBoostingRegressor, RobustForestClassifier, load_dataset, verify
from measure import fastest_cpu_seconds, make_table, print_table, verdict
from peers import fit_provably_robust_boosting, groot_forest

ROUNDS, DEPTH, EPSILON = 100, 4, 0.05
MOST_TIMES_XGBOOST = 4.0
LEAST_TIMES_FASTER = 100.0
LEAST_TIMES_GROOT = 10.0
REPEATS = 3
# How far the attacker of a regression moves every feature, as a share of its range.
RADII = (0.0, 0.01, 0.03, 0.1)
# Where the exact search of natural boosting, whose leaves are small, still takes moments.
MOST_NATURAL = 0.03


def load_scaled(table: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_dataset(table)
    X, y = np.asarray(data.data, dtype=np.float64), np.unique(data.target, return_inverse=True)[1]
    return (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-300), y


def compare_costs() -> None:
    """Print the CPU time of fits of equally many rounds and the same depth, in one thread."""
    tables: dict[str, Any] = {name: load_scaled(name) for name in ("spambase", "wine")}
    tables["1e5 x 10"] = make_table("smooth", 100_000, 10, seed=0)
    lines, verdicts = [], []
    for name, (X, y) in tables.items():
        ours = RobustBoostingClassifier(
            EPSILON, n_estimators=ROUNDS, max_depth=DEPTH, early_stopping=False, n_jobs=1, random_state=0
        )
        peer = XGBClassifier(n_estimators=ROUNDS, max_depth=DEPTH, learning_rate=0.1, tree_method="hist", n_jobs=1)
        stopping = RobustBoostingClassifier(EPSILON, n_jobs=1, random_state=0)
        tasks = {
            "boosting": lambda ours=ours, X=X, y=y: ours.fit(X, y),
            "stopping": lambda stopping=stopping, X=X, y=y: stopping.fit(X, y),
            "XGBoost": lambda peer=peer, X=X, y=y: peer.fit(X, y),
        }
        seconds = fastest_cpu_seconds(tasks, REPEATS)
        per_round = seconds["boosting"] / max(1, len(ours.train_loss_) - 1) * ROUNDS
        lines.append(
            [name, f"{seconds['XGBoost']:.3f}", f"{seconds['boosting']:.3f}", str(len(ours.train_loss_) - 1),
             f"{per_round:.3f}", f"{seconds['stopping']:.3f}", str(stopping.n_estimators_)]
        )  # fmt: skip
        ratio = per_round / seconds["XGBoost"]
        verdicts.append(verdict(f"boosting beside XGBoost hist, {ROUNDS} rounds, {name}", ratio, MOST_TIMES_XGBOOST))
    print(f"\nCPU seconds of a fit, depth {DEPTH}, one thread; every feature moves by {EPSILON:g}")
    header = ["table", "XGBoost", "boosting", "rounds", f"per {ROUNDS} rounds", "with early stopping", "rounds kept"]
    print_table(header, lines)
    print(*verdicts, sep="\n")
    compare_trees()
    compare_forests()


def compare_forests() -> None:
    """Print the CPU time of forests of 100 trees of the same depth, in one thread."""
    lines, verdicts = [], []
    for name in ("spambase", "wine"):
        X, y = load_scaled(name)
        tasks = {
            "forest": lambda X=X, y=y: RobustForestClassifier(EPSILON, max_depth=DEPTH, n_jobs=1).fit(X, y),
            "scikit-learn": lambda X=X, y=y: RandomForestClassifier(ROUNDS, max_depth=DEPTH, n_jobs=1).fit(X, y),
        }
        seconds = fastest_cpu_seconds(tasks, REPEATS)
        seconds["groot-trees"] = np.nan
        if name == "spambase":
            try:
                seconds["groot-trees"] = time_groot_forest(X, y)
                ratio = seconds["groot-trees"] / seconds["forest"]
                verdicts.append(
                    verdict("times faster than groot-trees, spambase", ratio, LEAST_TIMES_GROOT, at_least=True)
                )
            except ImportError as error:
                print(f"groot-trees is left out: {error}")
        verdicts.append(
            verdict(f"forest beside scikit-learn's, {name}", seconds["forest"] / seconds["scikit-learn"], 1.0)
        )
        lines.append([name, *(f"{seconds[who]:.3f}" for who in ("scikit-learn", "groot-trees", "forest"))])
    print(f"\nCPU seconds of a forest of {ROUNDS} trees, depth {DEPTH}, one thread")
    print_table(["table", "scikit-learn", "groot-trees", "hardwood"], lines)
    print(*verdicts, sep="\n")


def time_groot_forest(X: np.ndarray, y: np.ndarray) -> float:
    """Return the CPU seconds of a forest of groot-trees, a tenth of it times ten."""
    groot_forest(EPSILON, X.shape[1], n_estimators=1, max_depth=DEPTH).fit(X[::20], y[::20])  # compiles
    forest = groot_forest(EPSILON, X.shape[1], n_estimators=ROUNDS // 10, max_depth=DEPTH)
    start = time.process_time()
    forest.fit(X, y)
    return 10.0 * (time.process_time() - start)


def compare_trees() -> None:
    """Print the CPU time of a tree beside that of the provably robust boosting inside groot-trees."""
    n_trees, lines, ratios = 2, [], []
    for name in ("diabetes", "banknote-authentication", "ionosphere"):
        X, y = load_scaled(name)
        try:
            fit_provably_robust_boosting(X[::10], y[::10], EPSILON, 1, DEPTH)  # compiles
        except ImportError as error:
            print(f"provably robust boosting is left out: {error}")
            return
        start = time.process_time()
        fit_provably_robust_boosting(X, y, EPSILON, n_trees, DEPTH)
        theirs = (time.process_time() - start) / n_trees
        model = RobustBoostingClassifier(EPSILON, early_stopping=False, n_jobs=1)
        ours = fastest_cpu_seconds({"ours": lambda model=model, X=X, y=y: model.fit(X, y)}, REPEATS)["ours"]
        ours /= max(1, len(model.train_loss_) - 1)
        ratios.append(theirs / ours)
        lines.append([name, f"{1e3 * theirs:.1f}", f"{1e3 * ours:.3f}", f"{theirs / ours:.0f}"])
    print("\nCPU milliseconds of a tree, codes and all else included")
    print_table(["table", "provably robust boosting", "boosting", "times"], lines)
    print(
        verdict("times faster than provably robust boosting, the least", min(ratios), LEAST_TIMES_FASTER, at_least=True)
    )


def measure_regression() -> None:
    """Print mean squared errors under attack: certified, exact, of the constant, and of natural boosting."""
    tables = {"diabetes": load_diabetes(return_X_y=True), "friedman": make_friedman1(1000, noise=1.0, random_state=0)}
    lines = []
    for name, (X, y) in tables.items():
        X, y = (X - X.min(axis=0)) / np.ptp(X, axis=0), (y - y.mean()) / y.std()
        for radius in RADII:
            folds = [
                measure_fold(X, y, train, test, radius)
                for train, test in KFold(5, shuffle=True, random_state=1).split(X)
            ]
            lines.append([f"{name} {radius:g}", *(f"{figure:.3f}" for figure in np.mean(folds, axis=0))])
    print("\nMean squared error of regressions, in units of the variance; 'worst': under attack, exact")
    header = ["table", "constant", "natural, worst", "robust, worst", "robust, certified", "natural", "robust"]
    print_table(header, lines)


def measure_fold(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, radius: float) -> list[float]:
    robust = RobustBoostingRegressor(radius, random_state=0).fit(X[train], y[train])
    natural = HistGradientBoostingRegressor(max_iter=100, max_depth=4, random_state=0).fit(X[train], y[train])
    bounds = robust.certify(X[test], threat=radius)
    certified = np.maximum(y[test] - bounds.lower, bounds.upper - y[test])
    return [
        float(np.mean((y[test] - y[train].mean()) ** 2)),
        find_worst_error(natural, X[test], y[test], radius) if radius <= MOST_NATURAL else np.nan,
        find_worst_error(robust, X[test], y[test], radius),
        float(np.mean(certified**2)),
        float(np.mean((natural.predict(X[test]) - y[test]) ** 2)),
        float(np.mean((robust.predict(X[test]) - y[test]) ** 2)),
    ]


def find_worst_error(model: Any, X: np.ndarray, y: np.ndarray, radius: float) -> float:
    """Return the mean of the largest squared errors that an attacker can cause, exactly."""
    bounds = verify(model, X, y, radius, tolerance=np.inf)
    return float(np.mean(np.maximum(y - bounds.lower, bounds.upper - y) ** 2))
