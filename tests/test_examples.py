"""Every example in a docstring runs and shows what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import hardwood
import paper

MODULES = [
    "hardwood",
    *(
        module.name
        for package in (hardwood, paper)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        # Kernels have no examples, and the command starts when it is imported.
        if "._kernels" not in module.name and not module.name.endswith("__main__")
    ),
]
# Names whose examples fetch a table from the network.
ONLINE: set[str] = set()


def examples(module_name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(module_name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, module_name)
    return [test for test in found if test.examples and test.name not in ONLINE]


@pytest.mark.parametrize("module_name", MODULES)
def test_docstrings(module_name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for test in examples(module_name):
        runner.run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", hardwood.__all__)
def test_everything_public_is_documented(name: str) -> None:
    """A docstring with an example, on the thing itself or for a record on its attributes."""
    thing = getattr(hardwood, name)
    text = inspect.getdoc(thing) or ""
    assert text
    assert ">>> " in text or name in ("AttackResult", "Certificate", "MarginCertificate", "RegressionAttackResult")


def test_the_example_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    """The first thing people try works, and the robust tree does better under attack."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    natural, robust = (float(line.split()[1]) for line in lines[:2])
    assert robust > natural + 0.2
    assert lines[2].startswith("AttackResult(was_wrong=")
