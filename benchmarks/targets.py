"""Trees of many classes: fit time beside scikit-learn's, and adversarial accuracy beside a natural tree's.

    make bench-targets

Two tables are printed. CPU seconds of a fit, one thread, 100,000 rows x 10 features, depth 8, of three and of ten
classes, all methods in turn in the same run. And the exact adversarial accuracy in five folds of scikit-learn's
digits, iris and wine tables (features scaled to [0, 1]), beside the natural tree of the same depth.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import minmax_scale
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from hardwood import RobustTreeClassifier, adversarial_accuracy
from measure import RESULTS, fastest_cpu_seconds, print_table, verdict, write_csv

ROWS, FEATURES, DEPTH, EPSILON = 100_000, 10, 8, 0.02
BINNED_BAR, EXACT_BAR = 0.2, 1.5
NATURAL, EXACT, BINNED = "scikit-learn", "exact", "binned"
CRITERIA = ("gini", "entropy", "error")
# Table, parameters of both trees, repetitions of five folds, and per epsilon the accuracy that is asked for; None: more
# than the natural tree's.
SMALL = {"max_depth": 5, "min_samples_leaf": 5}
STUDIES: tuple[tuple[str, dict[str, int], int, dict[float, float | None]], ...] = (
    ("digits", {"max_depth": 10}, 1, {0.1: 0.72, 0.2: 0.54}),
    ("iris", SMALL, 4, {0.05: None, 0.1: None}),
    ("wine", SMALL, 4, {0.05: None, 0.1: None}),
)
LOADERS = {"digits": load_digits, "iris": load_iris, "wine": load_wine}


def make_table(n_classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make clusters of three classes, or ten classes that are slices of a noisy sum."""
    if n_classes == 3:
        X, y = make_classification(ROWS, FEATURES, n_informative=6, flip_y=0.15, n_classes=n_classes, random_state=7)
        return minmax_scale(X), y
    generator = np.random.default_rng(1)
    X = generator.random((ROWS, FEATURES))
    score = n_classes * (X[:, 0] + X[:, 1]) / 2 + 0.8 * generator.normal(size=ROWS)
    return X, np.clip(score, 0, n_classes - 1).astype(np.int64)


def name_fit(criterion: str, method: str) -> str:
    """Return the name of a fit."""
    return f"{method}, {criterion}"


def measure_fits(n_classes: int, repeats: int = 3) -> dict[str, float]:
    """Return the CPU seconds of each fit; scikit-learn has no criterion like the 0/1 error."""
    makers: dict[str, Callable[[], Any]] = {}
    for criterion in CRITERIA:
        ours = partial(RobustTreeClassifier, EPSILON, max_depth=DEPTH, criterion=criterion)
        if criterion != "error":
            natural = partial(DecisionTreeClassifier, max_depth=DEPTH, random_state=0, criterion=criterion)
            makers[name_fit(criterion, NATURAL)] = natural
        makers[name_fit(criterion, EXACT)] = partial(ours, max_bins="exact")
        makers[name_fit(criterion, BINNED)] = partial(ours, max_bins=255)
    X, y = make_table(n_classes)
    for make in makers.values():
        make().fit(X[:300], y[:300])  # compiles, before any clock runs
    return fastest_cpu_seconds({name: lambda make=make: make().fit(X, y) for name, make in makers.items()}, repeats)


def measure_accuracy(table: str, size: dict[str, int], repetitions: int, epsilon: float) -> tuple[float, float]:
    """Return the mean exact adversarial accuracy of our tree and of the natural one, in folds."""
    X, y = LOADERS[table](return_X_y=True)
    X = X / 16 if table == "digits" else minmax_scale(X)
    scores = []
    for repetition in range(repetitions):
        folds = StratifiedKFold(5, shuffle=True, random_state=repetition + 1)
        for train, test in folds.split(X, y):
            models = (
                RobustTreeClassifier(epsilon, **size),
                DecisionTreeClassifier(random_state=0, **size),
            )
            fitted = (model.fit(X[train], y[train]) for model in models)
            scores.append([adversarial_accuracy(model, X[test], y[test], epsilon) for model in fitted])
    ours, natural = np.mean(scores, axis=0)
    return float(ours), float(natural)


def compare_fits(n_classes: int) -> list[dict[str, Any]]:
    """Print and return the fit times of one table, and how those by the Gini impurity stand to their bars."""
    seconds = measure_fits(n_classes)
    natural = seconds[name_fit("gini", NATURAL)]
    print(f"\nfit, {ROWS:,} rows x {FEATURES} features, {n_classes} classes, depth {DEPTH}, threat {EPSILON}")
    lines = [[name, f"{time:.3f}", f"{time / natural:.3f}"] for name, time in seconds.items()]
    print_table(["method", "CPU s", "/scikit-learn, gini"], lines)
    for method, bar in ((BINNED, BINNED_BAR), (EXACT, EXACT_BAR)):
        ratio = seconds[name_fit("gini", method)] / natural
        print(verdict(f"{n_classes} classes: {method} fit / scikit-learn", ratio, bar))
    return [{"classes": n_classes, "method": name, "cpu_seconds": time} for name, time in seconds.items()]


def compare_accuracy() -> list[dict[str, Any]]:
    """Print and return the accuracies under attack."""
    records, lines, verdicts = [], [], []
    for table, size, repetitions, bars in STUDIES:
        for epsilon, bar in bars.items():
            ours, natural = measure_accuracy(table, size, repetitions, epsilon)
            records.append({"table": table, "threat": epsilon, "robust": ours, "natural": natural})
            lines.append([table, f"{epsilon:g}", f"{ours:.3f}", f"{natural:.3f}"])
            what = f"{table}, threat {epsilon}: adversarial accuracy"
            verdicts.append(verdict(what, ours, natural if bar is None else bar, at_least=True))
    print("\nadversarial accuracy, five folds")
    print_table(["table", "threat", "robust", "natural"], lines)
    print("\n".join(verdicts))
    return records


def main() -> None:
    fits = [record for n_classes in (3, 10) for record in compare_fits(n_classes)]
    accuracies = compare_accuracy()
    write_csv(RESULTS / "targets-fit.csv", fits)
    write_csv(RESULTS / "targets-accuracy.csv", accuracies)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
