"""What is compiled once per installation is used as long as no kernel changes, and not longer."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import hardwood
from hardwood._kernels import compiling

# A package of kernels like ours: one file calls what is in another.
CALLER = """
from kernels.callee import value
from kernels.compiling import kernel

@kernel
def call():
    return value()
"""
CALLEE = """
from kernels.compiling import inner

@inner
def value():
    return {value}
"""
RUN = "import gc; from kernels.caller import call; print(call(), sum(call.stats.cache_hits.values()), gc.isenabled())"


def run(folder: Path, value: int) -> str:
    """Call the compiled caller in a process of its own, with `value` in the file that it calls."""
    callee = folder / "kernels" / "callee.py"
    callee.write_text(CALLEE.format(value=value))
    # Same size and same time as before: what an installer may do.
    os.utime(callee, (1, 1))
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", RUN]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_stored_kernels_are_current(tmp_path):
    """And the garbage collector, which rests meanwhile, is at work again."""
    package = tmp_path / "kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER)
    shutil.copy(Path(hardwood.__file__).parent / "_kernels" / "compiling.py", package)
    assert run(tmp_path, value=1) == "1 0 True"
    assert run(tmp_path, value=1) == "1 1 True"
    assert run(tmp_path, value=2) == "2 0 True"


def test_who_waits_is_told_once(monkeypatch, caplog):
    monkeypatch.setattr(compiling, "PATIENCE", 0.2)
    monkeypatch.setattr(compiling, "_has_said", threading.Event())
    slow = compiling._undisturbed(lambda signature: time.sleep(0.6) or signature)
    quick = compiling._undisturbed(lambda signature: signature)
    assert quick("a") == "a"
    time.sleep(0.4)
    assert not caplog.messages
    assert slow("a") == "a"
    assert slow("b") == "b"
    assert caplog.messages == [compiling.NOTICE]
