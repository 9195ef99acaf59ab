"""Whole processes: how they start, what they say while they work, how they end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import ENVIRONMENT, run, run_process, write_csv

from hardwood.__main__ import main
from hardwood.cli import messages


def test_long_work_is_announced_and_short_work_is_not(capsys):
    assert messages.run_with_notice(lambda: 1, "Working...") == 1
    assert capsys.readouterr().err == ""
    assert messages.run_with_notice(lambda: time.sleep(0.3), "Working...", patience=0.05) is None
    assert capsys.readouterr().err == "Working...\n"


def test_errors_of_the_work_are_raised():
    with pytest.raises(ZeroDivisionError):
        messages.run_with_notice(lambda: 1 / 0, "Working...")


def test_compiling_is_announced(tmp_path):
    """Every time, by what is compiled; and `predict` compiles nothing but predictions."""
    data = write_csv(x=[1, 2, 3, 4], y=[0, 0, 1, 1])
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    result = run_process("fit", str(data), "--target", "y", "--output", "model.json", **empty)
    assert result.returncode == 0, result.stderr
    said = re.findall(r"^hardwood: compiling (.*), about \d+ s, once per installation$", result.stderr, re.MULTILINE)
    assert {"the sorting of columns", "the grower of robust trees"} <= set(said)
    assert not any("ensembles" in what for what in said)
    shutil.rmtree(tmp_path / "kernels")
    result = run_process("predict", "model.json", str(data), "--output", "p.csv", **empty)
    assert result.returncode == 0, result.stderr
    assert {path.name.partition(".")[0] for path in tmp_path.glob("kernels/*/*.nbc")} == {"predicting"}


# Prints which of the libraries that take long to import a command has imported.
LIST_IMPORTS = """
import sys
from hardwood.__main__ import main
sys.argv[0] = "hardwood"
try:
    main()
except SystemExit:
    print("imported:", *sorted({"numba", "numpy", "pandas", "scipy", "sklearn", "joblib"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        *([verb, "--help"] for verb in ("demo", "threat", "fit", "evaluate", "attack", "predict")),
        ["fit", "nothing.csv", "--target", "y", "--output", "model.json"],
        ["fit", "data.csv", "--threat", "nothing.toml", "--target", "y", "--output", "model.json"],
        ["threat", "nothing.csv", "--output", "threat.toml"],
        ["predict", "nothing.json", "nothing.csv", "--output", "p.csv"],
        ["evaluate", "nothing.json", "nothing.csv", "--target", "y", "--epsilon", "1"],
        ["attack", "nothing.json", "nothing.csv", "--output", "e.csv"],
        ["fit", "data.csv", "--target", "y", "--nonsense"],
    ],
    ids=" ".join,
)
def test_quick_answers_import_nothing_that_takes_long(arguments):
    """The version, the help and "does not exist" took 1.3 seconds, all of them imports."""
    write_csv("data.csv", x=[1, 2], y=[0, 1])
    command = [sys.executable, "-c", LIST_IMPORTS, *arguments]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "imported:", result.stdout + result.stderr
    assert "nothing" not in " ".join(arguments) or "does not exist" in result.stderr


def test_flags_have_no_type():
    """Newer releases of Typer show them as `--balanced <bool>`."""
    for verb in ("fit", "evaluate", "attack"):
        text = run(verb, "--help").stdout
        assert "--help" in text
        assert "<bool>" not in text
    assert "<bool>" not in run("--help").stdout


def test_completion():
    for typed, offered in (
        ("hardwood ev", ["evaluate"]),
        ("hardwood fit --max", ["--max-depth", "--max-leaf-nodes", "--max-bins"]),
    ):
        words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_HARDWOOD_COMPLETE": "complete_bash"}
        assert run_process(**words).stdout.split() == offered


def test_warnings_are_sentences():
    """Those of other libraries came as raw lines with a path and a line of code."""
    script = "import warnings, hardwood.cli.app as a; from hardwood.__main__ import main\n"
    script += "a.app = lambda **_: warnings.warn('look\\nhere'); main()"
    result = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True)
    assert result.stderr == "hardwood: warning: look here\n"


def test_python_m_hardwood():
    data = write_csv(x=[1, 2, 3, 4], y=[0, 0, 1, 1])
    result = run_process("fit", str(data), "--target", "y", "--output", "model.json")
    assert result.returncode == 0, result.stderr
    assert Path("model.json").exists()
    result = run_process("fit", "nothing.csv", "--target", "y", "--output", "model.json")
    assert result.returncode == 1
    assert result.stderr == "hardwood: nothing.csv does not exist\n"


def test_demo():
    result = run_process("demo", "--output", "here/there")
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    rows = {line.split("  ")[0]: line.split() for line in result.stdout.splitlines()}
    ordered = (("ordinary tree", 3), ("constant", 2), ("GROOT", 2), ('refine="search"', 2))
    under_attack = [float(rows[name][i].rstrip("%")) for name, i in ordered]
    assert under_attack == sorted(under_attack)
    assert "predict spam" in result.stdout
    assert "Robust boosting, 100 trees: " in result.stdout
    assert "here/there/threat-models.png" in result.stdout
    assert Path("here/there/threat-models.png").read_bytes().startswith(b"\x89PNG")
    assert os.listdir("here/there") == ["threat-models.png"]


# A fit that never ends, in compiled code.
FIT_FOR_EVER = """
import hardwood, numba, numpy as np, sys
from hardwood.__main__ import main

@numba.njit("int64(int64[::1])", nogil=True)
def spin(array):
    n = 0
    while array[0] == 0:
        n += 1
        array[1] = n
    return n

hardwood.RobustTreeClassifier.fit = lambda self, X, y: spin(np.zeros(2, dtype=np.int64))
sys.argv[0] = "hardwood"
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_interrupting_a_fit():
    """Compiled code does not look for signals, so Ctrl-C must not wait for it."""
    data = write_csv(x=[1, 2, 3, 4], y=[0, 0, 1, 1])
    before = sorted(os.listdir())
    command = [sys.executable, "-c", FIT_FOR_EVER, "fit", str(data), "--target", "y", "--output", "model.json"]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line == "Fitting...\n":
                break
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "hardwood: interrupted\n"
        assert process.wait(timeout=60) == 130
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("module", ["typer", "rich", "pandas"])
def test_without_the_extra(module, monkeypatch):
    for name in list(sys.modules):
        if name.startswith(("hardwood.cli", f"{module}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    sentence = f"hardwood: the command line needs {module}, which is not installed: pip install {module} "
    with pytest.raises(SystemExit, match=re.escape(sentence)):
        main()
