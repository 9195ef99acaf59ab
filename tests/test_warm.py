"""Compiling ahead of time: each kind of work, and nothing else."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

import hardwood
from forms import list_kernels as list_declared
from hardwood.warm import warm_up

# Prints the kernels that a kind of work asks for, in a process of its own.
LIST = """
import sys
from hardwood._kernels.storage import KernelStorage
from hardwood.warm import warm_up
asked = set()
load = KernelStorage.load_overload
KernelStorage.load_overload = lambda self, *arguments: asked.add(self._name) or load(self, *arguments)
warm_up(*sys.argv[1:])
print(*sorted(asked))
"""


def list_kernels(*work: str) -> set[str]:
    command = [sys.executable, "-c", LIST, *work]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_predicting_needs_no_other_kernels() -> None:
    """`hardwood predict` used to compile the kernels of training and of attacks."""
    assert {name.partition(".")[0] for name in list_kernels("predict")} == {"predicting"}


def test_fitting_needs_no_search() -> None:
    assert {name.partition(".")[0] for name in list_kernels("fit")} == {"grow"}


def test_everything_is_every_kernel() -> None:
    """After `python -m hardwood.warm` nothing is left to compile."""
    declared = list_declared()
    assert len(declared) > 20
    assert list_kernels() == declared


def test_what_is_warm_is_not_compiled_again(caplog: pytest.LogCaptureFixture) -> None:
    """The forms that are compiled ahead are those that users' tables lead to."""
    from sklearn.ensemble import GradientBoostingClassifier

    work = ("predict", "fit", "ensembles")
    warm_up(*work)
    generator = np.random.default_rng(0)
    X = generator.random((60, 3))
    y = np.where(X[:, 0] + X[:, 1] > 1.0, "yes", "no")
    with caplog.at_level(logging.DEBUG, "hardwood"):
        caplog.clear()
        tree = hardwood.RobustTreeClassifier(0.1, max_depth=3).fit(X, y)
        tree.predict_proba(np.asfortranarray(X))
        hardwood.verify(GradientBoostingClassifier(n_estimators=5).fit(X, y), X, y, 0.05)
        assert not [message for message in caplog.messages if message.startswith("compiled")]


def test_work_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"expected some of 'predict', .*, got 'fly'"):
        warm_up("fly")
    result = subprocess.run([sys.executable, "-m", "hardwood.warm", "fly"], capture_output=True, text=True)
    assert result.returncode == 2
    assert "got 'fly'" in result.stderr
    assert "Traceback" not in result.stderr
