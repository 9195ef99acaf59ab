"""What verify.py asks about: tables scaled to [0, 1], and the models that are trained on them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from scipy.ndimage import shift, zoom
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from hardwood import load_dataset

# The image task needs no download: two of scikit-learn's digits, 8 x 8 pixels enlarged to 28 x 28, in several copies.
DIGITS = (3, 8)
COPIES = 8
TABLES = ("diabetes", "banknote", "spambase", "wine", "image")
# Distances are asked for up to here. Veritas has to be told where to begin, and does not look further.
RADIUS = 0.3


@dataclass(frozen=True)
class Table:
    """A table in [0, 1], split into rows to learn from and rows to ask about."""

    name: str
    X_train: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_train: NDArray[np.int64]
    y_test: NDArray[np.int64]


@dataclass(frozen=True)
class Recipe:
    """A kind of model, and the questions that are worth asking about it."""

    name: str
    make: Callable[[], Any]
    epsilons: tuple[float, ...]
    distance: bool = True
    hard: bool = False  # asked about fewer rows
    single: bool = True  # whether it compares in float32


@dataclass(frozen=True)
class Task:
    """A question about a model: is each row safe within `epsilon`, or, for None, how far is the nearest example?"""

    table: str
    recipe: Recipe
    epsilon: float | None

    @property
    def question(self) -> str:
        """The question, in a few letters."""
        return "distance" if self.epsilon is None else f"decide {self.epsilon:g}"


def _boosting(trees: int, depth: int, rate: float = 0.3) -> XGBClassifier:
    # Not tree_method="exact": Veritas misreads its leaves.
    return XGBClassifier(n_estimators=trees, max_depth=depth, learning_rate=rate, tree_method="hist", n_jobs=1)


def _forest(trees: int, depth: int | None) -> RandomForestClassifier:
    return RandomForestClassifier(trees, max_depth=depth, random_state=0)


RECIPES = (
    *(
        Recipe(f"xgboost {trees}x{depth}", partial(_boosting, trees, depth), (0.1,))
        for trees in (50, 100)
        for depth in (4, 6, 8)
    ),
    Recipe("lightgbm 100x31", partial(LGBMClassifier, n_estimators=100, n_jobs=1, verbose=-1), (0.1,), single=False),
    Recipe("forest 100x6", partial(_forest, 100, 6), (0.05,)),
    Recipe("forest 100 full", partial(_forest, 100, None), (0.05,), hard=True),
    Recipe("forest 300 full", partial(_forest, 300, None), (0.05, 0.1), distance=False, hard=True),
    Recipe("xgboost 1000x6", partial(_boosting, 1000, 6, 0.1), (0.1,), hard=True),
)


@cache
def load(name: str) -> Table:
    """Return a table, every column scaled to [0, 1] and every value a float32, which is what most models compare."""
    if name == "image":
        X, y = _enlarged_digits()
    else:
        bunch = load_dataset("banknote-authentication" if name == "banknote" else name)
        X, y = bunch.data, bunch.target
    low, high = X.min(axis=0), X.max(axis=0)
    X = ((X - low) / np.where(high > low, high - low, 1.0)).astype(np.float32).astype(np.float64)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    return Table(name, X_train, X_test, y_train, y_test)


def _enlarged_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the two digits at 28 x 28 pixels, every copy moved by up to three pixels and with a little noise."""
    digits = load_digits()
    generator = np.random.default_rng(0)
    images, target = [], []
    for image, label in zip(digits.images, digits.target, strict=True):
        if label in DIGITS:
            large = np.clip(zoom(image / 16.0, 3.5, order=1), 0.0, 1.0)
            for _ in range(COPIES):
                moved = shift(large, generator.integers(-3, 4, size=2), order=0)
                images.append(np.clip(moved + generator.normal(0.0, 0.02, moved.shape), 0.0, 1.0).ravel())
                target.append(int(label == DIGITS[1]))
    return np.array(images), np.array(target)


def list_tasks(only: str | None, quick: bool) -> Iterator[Task]:
    """Yield the tasks whose name holds every word of `only`; a few small ones for `quick`."""
    for table in TABLES:
        for recipe in RECIPES:
            if quick and (recipe.hard or table not in ("diabetes", "wine")):
                continue
            for epsilon in (*recipe.epsilons, *((None,) if recipe.distance else ())):
                task = Task(table, recipe, epsilon)
                name = f"{table} {recipe.name} {task.question}"
                if only is None or all(word in name for word in only.split()):
                    yield task


def rows_to_ask(table: Table, model: Any, count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the first rows of the test half that the model gets right: the others need no attacker."""
    right = np.flatnonzero(model.predict(table.X_test) == table.y_test)[:count]
    return table.X_test[right], table.y_test[right]
