"""Every example in a docstring runs and shows what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import hardwood

MODULES = [
    "hardwood",
    *(
        module.name
        for module in pkgutil.walk_packages(hardwood.__path__, "hardwood.")
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
    assert ">>> " in text or name in ("AttackResult", "Certificate")
