"""Running commands: in this process or in one of their own, on small tables."""

from __future__ import annotations

import os
import subprocess
import sys
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import hardwood
from hardwood.cli.app import app

# Older runners mix stderr into stdout unless told otherwise; newer ones know no other way.
SEPARATE = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


def run(*args: object):
    return CliRunner(**SEPARATE).invoke(app, [str(arg) for arg in args], prog_name="hardwood")


# Started in another folder, a process still finds the package that is tested here.
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(Path(hardwood.__file__).resolve().parents[1]),
    "COLUMNS": "80",
}
COMMAND = [sys.executable, "-m", "hardwood"]


def run_process(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *args]
    return subprocess.run(command, env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=120)


def assert_one_sentence(result, code: int, *words: str) -> None:
    """One line on stderr that has all the words, and nothing else happened."""
    stderr = result.stderr.strip()
    assert result.exit_code == code, stderr
    assert len(stderr.splitlines()) == 1, stderr
    assert stderr.startswith("hardwood: ")
    for word in words:
        assert word in stderr
    assert "Traceback" not in result.output


def make_table(n_rows: int = 80, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    age = generator.integers(18, 90, n_rows)
    colour = generator.choice(["blue", "green", "red"], n_rows)
    income = generator.normal(30, 10, n_rows).round(3)
    fraud = (income + 10 * (colour == "red") > 33) ^ (generator.random(n_rows) < 0.05)
    label = np.where(fraud, "fraud", "honest")
    return pd.DataFrame({"age": age, "colour": colour, "income": income, "label": label})


def write_csv(name: str = "data.csv", **columns: object) -> Path:
    pd.DataFrame(columns).to_csv(name, index=False)
    return Path(name)


def fit_small(output: str = "model.json") -> Path:
    make_table().to_csv("train.csv", index=False)
    result = run("fit", "train.csv", "--target", "label", "--categorical", "colour",
                 "--epsilon", 2, "--max-depth", 3, "--output", output)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return Path(output)
