"""What tests share: how hypothesis runs, and a few small tables and models."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

from hardwood import RobustTreeClassifier, TreeEnsemble

# The same examples in every run, however slow the machine: a red test is always a reason to look.
# Fewer examples than hypothesis tries by default, so that the suite takes some minutes.
settings.register_profile("hardwood", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("hardwood")
# Other examples in every run: `make fuzz`.
settings.register_profile("fuzz", derandomize=False, deadline=None, print_blob=True)


# `make test-interpreted` switches compilation off.
IS_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def pytest_configure(config: pytest.Config) -> None:
    """Let interpreted kernels overflow and divide by zero in silence, as compiled ones do."""
    if IS_INTERPRETED:
        config.addinivalue_line("filterwarnings", r"ignore::RuntimeWarning:hardwood\._kernels")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try few examples where kernels are interpreted, which takes a hundred times as long."""
    if IS_INTERPRETED:
        for test in {item.function for item in items if hasattr(item.function, "hypothesis")}:
            usual = getattr(test, "_hypothesis_internal_use_settings", settings())
            test._hypothesis_internal_use_settings = settings(usual, max_examples=min(usual.max_examples, 4))


@pytest.fixture(scope="session")
def numbers() -> tuple[np.ndarray, np.ndarray]:
    """Three numerical columns, two of them full of ties, and two noisy classes."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    X[:, 1:] = X[:, 1:].round(1)
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.3 * generator.normal(size=200) > 0).astype(int)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="session")
def frame() -> tuple[pd.DataFrame, pd.Series]:
    """A table of two numerical and two categorical columns, and text labels."""
    generator = np.random.default_rng(1)
    n_rows = 200
    table = pd.DataFrame(
        {
            "age": generator.integers(18, 80, n_rows),
            "color": pd.Categorical(generator.choice(["blue", "green", "red"], n_rows)),
            "income": generator.normal(30.0, 8.0, n_rows).round(1),
            "town": pd.Categorical(generator.choice([f"town {k}" for k in range(70)], n_rows)),
        }
    )
    score = table["income"] + 10.0 * (table["color"] == "red") + generator.normal(0.0, 4.0, n_rows)
    return table, pd.Series(np.where(score > 32.0, "yes", "no"), name="target")


@pytest.fixture(scope="session")
def model(numbers: tuple[np.ndarray, np.ndarray]) -> RobustTreeClassifier:
    """A robust tree of a few dozen leaves on `numbers`."""
    return RobustTreeClassifier(threat=0.05).fit(*numbers)


@pytest.fixture(scope="session")
def ensemble(model: RobustTreeClassifier) -> TreeEnsemble:
    """The tree of `model`."""
    return model.ensemble_


@pytest.fixture(scope="session")
def mixed(frame: tuple[pd.DataFrame, pd.Series]) -> RobustTreeClassifier:
    """A robust tree on `frame` that really splits on numbers and on categories."""
    threat = {"income": 1.0, "color": {"red": ["blue"]}}
    return RobustTreeClassifier(threat=threat, max_depth=5).fit(*frame)
