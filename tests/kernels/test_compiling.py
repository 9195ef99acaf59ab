"""What is compiled once per installation is kept wherever that is possible, and used as long as it is current.

Tests run processes on a small installation: the machinery of `hardwood._kernels` and a few kernels of their own.
"""

from __future__ import annotations

import ast
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hardwood
from hardwood._kernels import compiling, storage
from hardwood._kernels.compiling import record_type

SOURCES = Path(hardwood.__file__).parent / "_kernels"
MACHINERY = ("__init__.py", "compiling.py", "sources.py", "storage.py")
# One file of kernels calls what is in another; a third has nothing to do with them.
KERNELS = {
    "caller.py": """
from hardwood._kernels.callee import value
from hardwood._kernels.compiling import kernel

@kernel(about="the toy", seconds=3.0)
def call(array):
    return value() + len(array)
""",
    "callee.py": """
from hardwood._kernels.compiling import inner

@inner
def value():
    return 1
""",
    "stranger.py": """
from hardwood._kernels.compiling import kernel

@kernel(about="the stranger", seconds=0.1)
def call(array):
    return 7
""",
}
# Prints what the kernel says and whether it was stored; `PREPARE` runs before hardwood is imported.
RUN = """
import gc, logging, os, sys, tempfile
import numba, numpy as np
{prepare}
from hardwood._kernels.{module} import call
print(call(np.zeros({size})), sum(call.stats.cache_hits.values()), gc.isenabled())
"""
# The interpreter may be where another user cannot read: whatever the compiler imports is imported before.
BECOME_NOBODY = """
numba.njit(lambda array: len(array))(np.zeros(0))
import hashlib, pickle, stat, ast
from numba.core import caching, compiler, serialize
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
"""


@pytest.fixture
def installation() -> Iterator[Path]:
    """A folder to import hardwood from, which other users can read: pytest's own folders cannot be."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        package = folder / "hardwood" / "_kernels"
        package.mkdir(parents=True)
        (folder / "hardwood" / "__init__.py").touch()
        for file in MACHINERY:
            shutil.copy(SOURCES / file, package)
        for file, text in KERNELS.items():
            (package / file).write_text(text)
        yield folder
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)


def start(folder: Path, module: str = "caller", prepare: str = "", size: int = 2, **environment: str) -> Any:
    """Call a kernel in a process of its own."""
    given = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder / "home")}
    given.pop("NUMBA_CACHE_DIR", None)
    given.pop("XDG_CACHE_HOME", None)
    command = [sys.executable, "-c", RUN.format(module=module, prepare=prepare, size=size)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=given | environment, cwd=folder, text=True, **pipes)


def run(folder: Path, module: str = "caller", prepare: str = "", size: int = 2, **environment: str) -> tuple[str, str]:
    """Call a kernel in a process of its own: what it printed, and what hardwood had to say."""
    process = start(folder, module, prepare, size, **environment)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output.strip(), errors.strip()


COMPILED, STORED = "3 0 True", "3 1 True"
NOTICE = "hardwood: compiling the toy, about 3 s, once per installation"


def list_stored(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


def edit(path: Path) -> None:
    """Add a comment, and keep the time: what an installer may do."""
    path.write_text(path.read_text() + "# a comment\n")
    os.utime(path, (1, 1))


def test_stored_kernels_are_current(installation: Path) -> None:
    """And the garbage collector, which rests meanwhile, is at work again."""
    assert run(installation) == (COMPILED, NOTICE)
    assert run(installation) == (STORED, "")
    callee = installation / "hardwood" / "_kernels" / "callee.py"
    callee.write_text(callee.read_text().replace("1", "2"))
    os.utime(callee, (1, 1))
    assert run(installation) == ("4 0 True", NOTICE)
    assert len(list_stored(installation)) == 1  # what is out of date is replaced


def test_a_change_concerns_the_kernels_that_depend_on_it(installation: Path) -> None:
    """A comment in any file of kernels used to compile all kernels of the folder again."""
    package = installation / "hardwood" / "_kernels"
    for module in ("caller", "stranger"):
        run(installation, module)
    edit(package / "stranger.py")
    assert run(installation) == (STORED, "")
    assert run(installation, "stranger")[0] == "7 0 True"
    edit(package / "callee.py")
    assert run(installation)[0] == COMPILED
    assert run(installation, "stranger")[0] == "7 1 True"
    edit(package / "compiling.py")
    assert run(installation)[0] == STORED


def test_files_of_real_kernels() -> None:
    """The grower does not depend on the search of Chen et al.; it depends on its own scans."""
    from hardwood._kernels import sources
    from hardwood._kernels.grow import chen  # noqa: F401

    def list_files(module: str) -> set[str]:
        found, waiting = set(), [module]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += sources._read_source(name)[1]
        return {name.rpartition(".")[2] for name in found}

    assert {"growing", "scanning", "nodes"} <= list_files("hardwood._kernels.grow.growing")
    assert not {"chen", "compiling", "storage"} & list_files("hardwood._kernels.grow.growing")
    assert {"chen", "nodes"} <= list_files("hardwood._kernels.grow.chen")
    assert list_files("hardwood._kernels.predicting") == {"predicting"}


def test_kernels_import_each_other_by_their_whole_names() -> None:
    """By a relative name they would be missed by the sum of what a kernel depends on."""
    for path in SOURCES.rglob("*.py"):
        for statement in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(statement, ast.ImportFrom) and statement.level), path


def protect(folder: Path) -> None:
    """Let nobody write to an installation."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def test_a_warm_package_that_cannot_be_written(installation: Path) -> None:
    """`from hardwood import TreeEnsemble` raised "no locator available", though all was there.

    With a home that can be written, what was stored in the package was compiled again: a warm image had no effect.
    """
    run(installation)
    protect(installation)
    assert run(installation, prepare=BECOME_NOBODY) == (STORED, "")
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        assert run(installation, prepare=BECOME_NOBODY, HOME=home) == (STORED, "")
        assert not list_stored(Path(home))


def test_a_cold_package_that_cannot_be_written(installation: Path) -> None:
    """Kernels go to the user's cache; without one to the temporary folder, and whoever waits is told why."""
    protect(installation)
    with tempfile.TemporaryDirectory() as name:
        writable = Path(name)
        writable.chmod(0o777)
        assert run(installation, prepare=BECOME_NOBODY, XDG_CACHE_HOME=name) == (COMPILED, NOTICE)
        assert run(installation, prepare=BECOME_NOBODY, XDG_CACHE_HOME=name) == (STORED, "")
        shutil.rmtree(writable / "hardwood")
        output, errors = run(installation, prepare=BECOME_NOBODY, TMPDIR=name)
        notice, warning = errors.splitlines()
        assert (output, notice) == (COMPILED, NOTICE)
        for words in ("may not last", str(installation), "Permission denied", "NUMBA_CACHE_DIR", "hardwood.warm"):
            assert words in warning
        assert run(installation, prepare=BECOME_NOBODY, TMPDIR=name) == (STORED, "")


def test_where_nothing_can_be_written(installation: Path) -> None:
    """The kernel works all the same, and one warning says why everything takes longer."""
    protect(installation)
    nowhere = BECOME_NOBODY + "tempfile.tempdir = '/nowhere'"
    output, errors = run(installation, prepare=nowhere)
    notice, warning = errors.splitlines()
    assert (output, notice) == (COMPILED, NOTICE)
    assert "compiles them anew in every process" in warning
    assert "NUMBA_CACHE_DIR" in warning
    more = nowhere + "\nfrom hardwood._kernels.stranger import call as other\nother(np.zeros(2))"
    assert run(installation, prepare=more)[1].count("NUMBA_CACHE_DIR") == 1


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit of file sizes")
@pytest.mark.parametrize("limit", [0, 1 << 12])
def test_a_full_disk(installation: Path, limit: int) -> None:
    """`fit` raised OSError 28. A limit of file sizes fails like a full disk: a file is opened, and cannot be filled."""
    full = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    for environment in ({}, {"NUMBA_CACHE_DIR": str(installation / "chosen")}):
        output, errors = run(installation, prepare=full, **environment)
        assert output == COMPILED
        assert "File too large" in errors
        assert errors.count("NUMBA_CACHE_DIR to") == 1
    assert not [path for path in installation.rglob("*") if ".nbc" in path.name or "probe" in path.name]


def test_a_chosen_folder(installation: Path) -> None:
    """It is the only place, unless it cannot be written: then the others are, and that is said."""
    chosen = installation / "chosen"
    run(installation)
    assert run(installation, NUMBA_CACHE_DIR=str(chosen)) == (COMPILED, NOTICE)
    assert run(installation, NUMBA_CACHE_DIR=str(chosen)) == (STORED, "")
    shutil.rmtree(chosen)
    chosen.touch()  # a folder cannot be made there
    assert run(installation, NUMBA_CACHE_DIR=str(chosen)) == (STORED, "")
    edit(installation / "hardwood" / "_kernels" / "caller.py")
    output, errors = run(installation, NUMBA_CACHE_DIR=str(chosen))
    assert output == COMPILED
    assert f"cannot write to {chosen}" in errors
    assert "__pycache__" in errors


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "a folder"])
def test_a_damaged_file_is_as_good_as_none(installation: Path, damage: str) -> None:
    """It raised UnpicklingError until the user deleted it; with one bit flipped it would run wrong code."""
    run(installation)
    (stored,) = list_stored(installation)
    content = stored.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    if damage == "a folder":
        stored.unlink()
        stored.mkdir()
        output, _ = run(installation)
        assert output == COMPILED
        return
    stored.write_bytes({"truncated": content[:middle], "empty": b"", "flipped": flipped}[damage])
    assert run(installation) == (COMPILED, NOTICE)
    assert run(installation) == (STORED, "")


def test_processes_that_compile_at_once(installation: Path) -> None:
    """All get the answer, nothing is left half-written, and what is stored is whole."""
    processes = [start(installation) for _ in range(3)]
    for process in processes:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        assert output.strip() in (COMPILED, STORED)
    assert run(installation) == (STORED, "")
    assert len(list_stored(installation)) == 1
    assert [path.name for path in (installation / "hardwood" / "_kernels" / "__pycache__").iterdir()] == [
        path.name for path in list_stored(installation)
    ]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="temporary folders of Windows are the user's own")
def test_a_temporary_folder_of_somebody_else(tmp_path: Path) -> None:
    """Whoever can write a file that is unpickled can run code: such a folder is neither read nor written."""
    place = storage.Place(tmp_path / "kernels", must_be_private=True)
    storage._write_entry(place, "a.nbc", b"mine")
    assert storage._is_private(place.folder)
    place.folder.chmod(0o777)
    assert not storage._is_private(place.folder)
    with pytest.raises(PermissionError):
        storage._write_entry(place, "b.nbc", b"mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert not storage._is_private(link)


def test_without_the_hooks_of_numba(installation: Path) -> None:
    """Another numba may have no such hooks: everything works, and is compiled in every process."""
    gone = "sys.modules['hardwood._kernels.storage'] = None"
    for _ in range(2):
        assert run(installation, prepare=gone) == (COMPILED, "")
    unknown = "import numba.core.cpu; del numba.core.cpu.CPUTargetOptions"
    assert run(installation, prepare=unknown)[0] == COMPILED
    unreduced = "from numba.core.compiler import CompileResult; del CompileResult._reduce"
    output, errors = run(installation, prepare=unreduced)
    assert output == COMPILED
    assert "every process compiles anew" in errors


def test_every_wait_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    """Every kernel, every time; only the first kernel of a process was announced, without saying which."""

    def announce(**words: Any) -> list[str]:
        caplog.clear()
        compiling._announce(**words)
        return caplog.messages

    assert announce(about="the toy", seconds=5.7) == ["hardwood: compiling the toy, about 6 s, once per installation"]
    assert announce(about="the toy", seconds=0.6) == ["hardwood: compiling the toy, about 1 s, once per installation"]
    assert announce(about="the toy", seconds=None) == [
        "hardwood: compiling the toy, some seconds, once per installation"
    ]
    assert announce(about="the toy", seconds=0.1) == []


def test_each_form_of_a_kernel_is_announced(installation: Path) -> None:
    twice = "from hardwood._kernels.caller import call as first\nfirst(np.zeros(2, dtype=np.int32))"
    assert run(installation, prepare=twice) == ("3 0 True", f"{NOTICE}\n{NOTICE}")
    assert run(installation, prepare=twice)[0] == "3 2 True"


TIMED = """
import time
from hardwood._kernels.compiling import count_compiling, working_time
from hardwood._kernels.caller import call as first
start, worked = time.monotonic(), working_time()
first(np.zeros({size}, dtype=np.int32))
took, worked = time.monotonic() - start, working_time() - worked
print(count_compiling() > 0.0, abs(took - worked - count_compiling()) < 1e-3)
"""


def test_compiling_is_no_work(installation: Path) -> None:
    """The clock of durations and time limits stands still meanwhile; to load what was stored is work."""
    assert run(installation, prepare=TIMED.format(size=2))[0].splitlines()[0] == "True True"
    assert run(installation, prepare=TIMED.format(size=2))[0].splitlines()[0] == "False True"


def test_the_stopwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read while it runs; who was waiting for another thread's compiler ends nothing."""
    now, thread = [100.0], [1]
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(compiling, "get_ident", lambda: thread[0])
    watch = compiling._Stopwatch()
    watch.end()
    watch.begin()
    now[0] += 3.0
    assert watch.read() == 3.0
    thread[0] = 2
    watch.end()
    now[0] += 2.0
    assert watch.read() == 5.0
    watch.begin()  # before the first thread has said that it is done
    now[0] += 1.0
    thread[0] = 1
    watch.end()
    thread[0] = 2
    watch.end()
    now[0] += 10.0
    assert watch.read() == 6.0


def test_every_kernel_says_what_it_is() -> None:
    """Whoever adds a kernel says by `@kernel(about=..., seconds=...)` what users wait for, and how long.

    The seconds are those that `make bench-startup` prints.
    """
    for path in SOURCES.rglob("*.py"):
        for statement in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(statement, "decorator_list", []):
                assert not (isinstance(decorator, ast.Name) and decorator.id == "kernel"), f"{path}: {statement.name}"


def test_records_are_the_same_compiled_or_not() -> None:
    """Fields are attributes in Python, too, nested ones included, and writing to one writes to the array."""
    point = record_type([("flag", np.int8), ("cost", np.float64)], align=True)
    records = np.zeros(2, dtype=record_type([("number", np.int32), ("point", point)], align=True))
    here = records[1]
    here.number, here.point.cost = 3, 0.5
    assert records["number"].tolist() == [0, 3]
    assert records["point"]["cost"].tolist() == [0.0, 0.5]
    assert point.isalignedstruct
    assert point.itemsize == 16
    assert records.dtype.isalignedstruct


@pytest.mark.parametrize("name", ["size", "sum", "data", "T"])
def test_a_field_may_not_hide_behind_an_attribute(name: str) -> None:
    """`MARGINAL` had a field called sum: compiled it was a number, interpreted a method."""
    with pytest.raises(ValueError, match=f"called {name}$"):
        record_type([(name, np.float64)])
