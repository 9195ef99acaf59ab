"""Fits and scores of the accuracy study: two protocols, fourteen tables each, five folds, several ways to split.

`raw` is the protocol of the GROOT paper: raw units, every feature moves by up to 0.1. `scaled` is that of later work:
every feature scaled to [0, 1] over the table, and a radius per table. Trees have depth 4, both classes attack.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    AttackRule,
    OptimalRobustTreeClassifier,
    RobustTreeClassifier,
    ThreatModel,
    TreantClassifier,
    adversarial_accuracy,
    evaluate,
    load_dataset,
    prune,
    relabel,
)
from measure import fastest_cpu_seconds
from paper.pieces import Piece, Record, describe_table
from paper.published import DEPTH, EPSILON, FOLDS, read_published

PROTOCOLS = ("raw", "scaled")
SCALED_EPSILON = {"breast-w": 0.3, "ionosphere": 0.2, "diabetes": 0.05, "spambase": 0.05, "wine": 0.05}
METHODS = (
    "constant", "natural", "Chen", "TREANT", "GROOT", "relabelled", "pruned", "alternate", "search", "gated", "ceiling",
)  # fmt: skip
SEED = 0  # of whatever refinement draws
TIMED_REPEATS = 3


@dataclass(frozen=True)
class Task:
    """A table as a protocol has it, with the radius."""

    protocol: str
    table: str
    X: np.ndarray
    y: np.ndarray
    epsilon: float

    @property
    def settings(self) -> str:
        """What results depend on, besides the code of hardwood."""
        return f"{self.epsilon} {DEPTH} {SEED} {describe_table(self.X, self.y)}"


def list_tables(protocol: str) -> list[str]:
    """Return the names of the tables: those of the paper; later work has another breast cancer table."""
    return ["breast-w" if protocol == "scaled" and name == "breast-cancer" else name for name in read_published()]


def load_task(protocol: str, table: str) -> Task:
    """Load a table as a protocol has it."""
    data = load_dataset(table)
    X, y = np.asarray(data.data, dtype=np.float64), np.asarray(data.target)
    if protocol == "raw":
        return Task(protocol, table, X, y, EPSILON)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return Task(protocol, table, X, y, SCALED_EPSILON.get(table, EPSILON))


def make_tree(epsilon: float, refine: str | None = None, **settings: Any) -> RobustTreeClassifier:
    return RobustTreeClassifier(
        epsilon, **({"max_depth": DEPTH} | settings), refine=refine, random_state=SEED, n_jobs=1
    )


def make_treant(epsilon: float, features: int) -> TreantClassifier:
    """Return TREANT as the paper ran it: each feature down or up by the radius, once; the budget is the depth."""
    rules = [AttackRule(feature, add=step) for feature in range(features) for step in (-epsilon, epsilon)]
    return TreantClassifier(ThreatModel(rules=rules, budget=DEPTH, repeat=False), max_depth=DEPTH, n_jobs=1)


def score_fold(task: Task, train: np.ndarray, test: np.ndarray) -> Record:
    """Fit every method on the training rows; return adversarial accuracies on the test rows, and the search's choice.

    Relabelled is GROOT's tree with the best labels for its leaves; pruned is that, pruned. Gated is the search with
    ``beat_constant=True``: its report says, from training rows, where that would have taken the constant.
    """
    X, y, epsilon = task.X[train], task.y[train], task.epsilon
    groot = make_tree(epsilon).fit(X, y)
    relabelled = relabel(groot, X, y, epsilon)
    search = make_tree(epsilon, "search").fit(X, y)
    models = {
        "natural": DecisionTreeClassifier(max_depth=DEPTH, random_state=1).fit(X, y),
        "Chen": make_tree(epsilon, attacker="chen").fit(X, y),
        "TREANT": make_treant(epsilon, X.shape[1]).fit(X, y),
        "GROOT": groot,
        "relabelled": relabelled,
        "pruned": prune(relabelled, X, y, epsilon),
        "alternate": make_tree(epsilon, "alternate").fit(X, y),
        "search": search,
    }
    scores = {name: adversarial_accuracy(model, task.X[test], task.y[test], epsilon) for name, model in models.items()}
    scores["constant"] = float(np.mean(task.y[test] == np.bincount(y).argmax()))
    report, chosen = search.search_report_, search.search_report_.chosen
    is_better = report.out_of_bag_loss[chosen.smoothing] < report.constant_loss
    scores["gated"] = scores["search" if is_better else "constant"]
    limits = evaluate(search, task.X[test], task.y[test], epsilon, time_limit=None, ceiling_time_limit=None)
    scores["ceiling"] = float(limits.ceiling)
    choice = {
        "start": chosen.start,
        "smoothing": chosen.smoothing,
        "gate": not is_better,
        "leaves": chosen.n_leaves,
        "out_of_bag_loss": report.out_of_bag_loss[chosen.smoothing],
        "constant_loss": report.constant_loss,
    }
    return {"scores": scores, "choice": choice}


def plan_folds(task: Task, seed: int) -> Piece:
    """Return the piece of work of one table and one way to split it."""

    def work() -> Record:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        return {"folds": [score_fold(task, *rows) for rows in folds.split(task.X, task.y)]}

    return Piece(f"folds/{task.protocol}/{task.table}/{seed}", task.settings, work, cells=task.X.size)


def plan_times(task: Task) -> Piece:
    """Return the piece of work that times fits on a whole table: CPU seconds, the least of several."""
    models = {str(refine): make_tree(task.epsilon, refine) for refine in (None, "alternate", "search")}

    def work() -> Record:
        tasks = {name: partial(model.fit, task.X, task.y) for name, model in models.items()}
        seconds = fastest_cpu_seconds(tasks, TIMED_REPEATS)
        # A plain fit takes less than a millisecond on some: many calls between two looks at the clock.
        quick = {name: tasks[name] for name in ("None", "alternate")}
        return seconds | fastest_cpu_seconds(quick, TIMED_REPEATS, calls=10)

    return Piece(f"times/{task.protocol}/{task.table}", task.settings, work, is_alone=True)


def plan_optimum(task: Task, time_limit: float) -> Piece:
    """Return the piece of work that proves how many rows of a whole table a tree of depth 2 must lose."""

    def work() -> Record:
        begin = time.process_time()
        best = OptimalRobustTreeClassifier(task.epsilon, max_depth=2, time_limit=time_limit).fit(task.X, task.y)
        seconds = time.process_time() - begin
        trees = {str(refine): make_tree(task.epsilon, refine, max_depth=2) for refine in (None, "search")}
        kept = {
            name: adversarial_accuracy(tree.fit(task.X, task.y), task.X, task.y, task.epsilon)
            for name, tree in trees.items()
        }
        optimum = {"optimum": 1.0 - best.loss_, "bound": 1.0 - best.lower_bound_}
        return {"proved": bool(best.is_optimal_), "seconds": seconds, **optimum, **kept}

    return Piece(f"optimum/{task.protocol}/{task.table}", f"{task.settings} {time_limit}", work, is_alone=True)
