"""Kernels that a factory makes, each of other functions: none is ever taken for another, on disk or in memory.

With code stored under the name of the factory alone, the second kernel that was made for the same types ran the first
one's code, without a word: the toy of this file said 8.0 where it should have said 600.0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hardwood
from hardwood._kernels.sources import find_captured

SOURCES = Path(hardwood.__file__).parent / "_kernels"
MACHINERY = ("__init__.py", "compiling.py", "sources.py", "storage.py")
USER = """
from hardwood._kernels.compiling import inner
from hardwood._kernels.factory import make

@inner
def part(x):
    return {part}

call = make("{name}", part, {constant})
"""
KERNELS = {
    "factory.py": """
from hardwood._kernels.compiling import name_functions

def make(name, part, is_doubled):
    kernel, inner = name_functions(name)

    @inner
    def add(x):
        if is_doubled:
            return part(x) + part(x)
        return part(x)

    @kernel(about="the toy", seconds=0.1)
    def call(array):
        return add(array[0])

    return call
""",
    "one.py": USER.format(name="one", part="x + 1", constant=True),
    "two.py": USER.format(name="two", part="x * 100", constant=True),
}
# Prints what each kernel says, whether it was stored, and the symbol of its machine code.
RUN = """
import importlib, sys
import numpy as np
for name in sys.argv[1:]:
    call = importlib.import_module(f"hardwood._kernels.{name}").call
    answer = call(np.array([3.0]))
    (own,) = call.overloads.values()
    print(answer, sum(call.stats.cache_hits.values()), own.fndesc.mangled_name)
"""
ONE, TWO = "8.0", "600.0"


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """The kernels of a small installation."""
    folder = tmp_path / "hardwood" / "_kernels"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for file in MACHINERY:
        shutil.copy(SOURCES / file, folder)
    for file, text in KERNELS.items():
        (folder / file).write_text(text)
    return folder


def run(package: Path, *modules: str) -> list[tuple[str, ...]]:
    """Call kernels in a process of its own: what they say, whether they were stored, and symbols."""
    folder = package.parent.parent
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", RUN, *modules]
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [tuple(line.split(" ")) for line in said.splitlines()]


def tell(package: Path, *modules: str) -> list[tuple[str, ...]]:
    """Call kernels: what they say, and whether they were stored."""
    return [line[:2] for line in run(package, *modules)]


def edit(path: Path) -> None:
    """Add a comment, and keep the time: what an installer may do."""
    path.write_text(path.read_text() + "# a comment\n")
    os.utime(path, (1, 1))


def test_each_has_its_own_code(package: Path) -> None:
    """Compiled each in a process of its own, and loaded by one that uses both, where symbols must differ, too."""
    assert tell(package, "one") == [(ONE, "0")]
    assert tell(package, "two") == [(TWO, "0")]
    both = run(package, "one", "two")
    assert [line[:2] for line in both] == [(ONE, "1"), (TWO, "1")]
    assert tell(package, "two", "one") == [(TWO, "1"), (ONE, "1")]
    assert both[0][2] != both[1][2]
    assert len(list(package.rglob("*.nbc"))) == 2


def test_an_edit_concerns_the_kernels_that_are_made_of_it(package: Path) -> None:
    """What one captures is its own; the factory is everybody's; what is captured counts however far away it is."""
    tell(package, "one", "two")
    edit(package / "one.py")
    assert tell(package, "one", "two") == [(ONE, "0"), (TWO, "1")]
    edit(package / "factory.py")
    assert tell(package, "one", "two") == [(ONE, "0"), (TWO, "0")]
    (package / "far.py").write_text(
        "from hardwood._kernels.compiling import inner\n@inner\ndef far(x):\n    return x + 1"
    )
    text = KERNELS["one.py"].replace("return x + 1", "return far(x)")
    (package / "one.py").write_text("from hardwood._kernels.far import far" + text)
    tell(package, "one")
    assert tell(package, "one") == [(ONE, "1")]
    edit(package / "far.py")
    assert tell(package, "one", "two") == [(ONE, "0"), (TWO, "1")]


def test_a_captured_constant_counts(package: Path) -> None:
    """With a constant from a file that no kernel imports, code for another one was taken for current."""
    factory = package / "factory.py"
    factory.write_text(factory.read_text().replace("is_doubled):", "_):\n    from hardwood.choice import is_doubled\n"))
    choice = package.parent / "choice.py"
    choice.write_text("is_doubled = True")
    assert tell(package, "one") == [(ONE, "0")]
    assert tell(package, "one") == [(ONE, "1")]
    choice.write_text("is_doubled = False")
    os.utime(choice, (1, 1))
    assert tell(package, "one") == [("4.0", "0")]


def test_what_captures_nothing_is_its_own_module_alone() -> None:
    """Or everybody would compile all kernels anew."""
    from hardwood._kernels.grow import binning

    assert find_captured(binning.place) == (("hardwood._kernels.grow.binning",), ())


@pytest.mark.parametrize("captured", [np.zeros(3), [1], print, np.float64], ids=["array", "list", "function", "type"])
def test_other_things_cannot_be_captured(captured: object) -> None:
    """An array is part of the machine code; that it has changed is not to be told from its first lines."""

    def use() -> object:
        return captured

    with pytest.raises(TypeError, match="captures captured: expected a compiled function or a plain constant"):
        find_captured(use)
