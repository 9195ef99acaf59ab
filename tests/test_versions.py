"""The oldest releases that are tested are those that pyproject.toml promises."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Tested by those who install it: it brings several hundred megabytes. XGBoost is tested by its smaller twin.
NOT_INSTALLED = {"adversarial-robustness-toolbox", "xgboost"}
NAME = r"[A-Za-z0-9-]+"


def read_bounds() -> dict[str, set[str]]:
    """Return what pyproject.toml says of each package: the lower bounds, wherever they are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds: dict[str, set[str]] = {}
    for requirement in chain(project["dependencies"], *project["optional-dependencies"].values()):
        if requirement.startswith("hardwood["):
            continue
        match = re.match(rf"({NAME})>=([0-9.]+)", requirement)
        assert match, f"{requirement} has no lower bound"
        bounds.setdefault(match[1], set()).add(match[2])
    return bounds


def read_pins() -> dict[str, str]:
    text = (ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8")
    return dict(re.findall(rf"^({NAME})==([0-9.]+)$", text, re.MULTILINE))


def drop_zeros(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: 1.26 and 1.26.0 are one."""
    numbers = [int(number) for number in version.split(".")]
    while numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@pytest.mark.parametrize(("package", "bounds"), read_bounds().items())
def test_the_oldest_release_is_tested(package: str, bounds: set[str]) -> None:
    assert len(bounds) == 1, "one bound, wherever the package is named"
    if package not in NOT_INSTALLED:
        assert drop_zeros(read_pins()[package]) == drop_zeros(*bounds)


def test_xgboost_and_its_twin_have_one_bound() -> None:
    assert read_bounds()["xgboost"] == read_bounds()["xgboost-cpu"]
