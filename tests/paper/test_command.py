"""``python -m paper``: its options, what it says, how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hardwood
from hardwood import load_dataset
from paper.__main__ import ProgressLine, main, read_options
from paper.experiment import Experiment
from paper.figures import plot_adversarial_gini
from paper.published import read_published
from paper.studies import GrowthPlan

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(hardwood.__file__).parents[1])}
SMALL = GrowthPlan(rows=(100, 200), features=(10, 20), depths=(1, 2), fixed_rows=100)


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few sizes, and a figure that is quickly drawn."""
    monkeypatch.setattr("paper.report.list_figures", lambda _: {"adversarial_gini": plot_adversarial_gini})
    monkeypatch.setattr("paper.experiment.QUICK_GROWTH", SMALL)
    monkeypatch.setattr("paper.experiment.QUICK_HARDENING", SMALL)


@pytest.mark.usefixtures("_small")
def test_a_run_writes_a_page_and_says_how_it_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert run("--quick", "--table", "haberman", "--output", folder, "--jobs", 1) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == "Loading hardwood's kernels..."
    first, heading, natural, *_, last = said.out.splitlines()
    assert first == "Means over 1 tables"
    assert heading.split() == ["adversarial", "accuracy", "in", "the", "paper", "difference"]
    assert natural.split() == ["Natural", "0.722", "0.722", "0.000"]
    assert len(natural) == len(heading), "figures stand below the ends of their headings"
    assert last == f"The page: {folder / 'index.html'}"
    assert "draft" not in " ".join(os.listdir(folder))
    assert {"index.html", "results.json", "scores.csv", "adversarial_gini.svg"} <= set(os.listdir(folder))


@pytest.mark.usefixtures("_small")
def test_a_table_that_cannot_be_had_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(name: str):
        if name == "planning-relax":
            raise ConnectionError("OpenML cannot be reached")
        return load_dataset(name)

    monkeypatch.setattr("paper.experiment.load_dataset", load)
    assert run("--quick", "--table", "haberman", "--table", "planning-relax", "--output", tmp_path) == 0
    assert "left out: planning-relax: OpenML cannot be reached" in capsys.readouterr().out
    assert "OpenML cannot be reached" in (tmp_path / "index.html").read_text()


def test_wrong_names_and_wrong_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence each, before anything is measured."""
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "index.html").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.json").write_text("[1]")
    for arguments, words in (
        (("--table", "iris", "--output", tmp_path), "cannot reproduce the paper: tables: 'iris' is not in the paper"),
        (("--output", tmp_path / "file"), f"cannot make the folder {tmp_path / 'file'}: File exists"),
        (("--output", tmp_path / "taken"), "index.html: it is not a file, or it is read-only"),
        (("--quick", "--output", tmp_path / "other"), "results.json holds no results of this command"),
    ):
        assert run(*arguments) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines()[-1].startswith("paper: ")
        assert words in said.err


def test_options() -> None:
    """Those of before: where to, how much, how fast."""
    options = read_options(["--quick", "--table", "wine", "--table", "sonar", "--output", "here", "--jobs", "2"])
    assert vars(options) == {"quick": True, "tables": ["wine", "sonar"], "output": Path("here"), "jobs": 2}
    assert vars(read_options([])) == {"quick": False, "tables": None, "output": Path("reproduction"), "jobs": -1}


def test_its_page_shows_commands_that_exist() -> None:
    """What it shows takes minutes, so it is not run here, but parsed; its links lead somewhere."""
    text = (ROOT / "paper" / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python -m paper(.*)", text, re.MULTILINE)
    assert len(commands) > 2
    for command in commands:
        options = read_options(shlex.split(command, comments=True))
        assert set(options.tables or ()) <= read_published().keys()
    assert all((ROOT / "paper" / link).exists() for link in re.findall(r"\]\((\S+?)\)", text))


@pytest.mark.parametrize("arguments", [["--jobs", "0"], ["--jobs", "many"], ["--quik", "x"]], ids=" ".join)
def test_wrong_options_are_errors_of_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read_options(arguments)
    assert "python -m paper: error: " in capsys.readouterr().err


def test_progress_in_a_log_and_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line every ten seconds, or one that is written over; the time left once a twentieth is done."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    line = ProgressLine()
    for second, done in ((4.0, 1), (12.0, 5), (20.0, 50), (30.0, 75), (40.0, 100)):
        now[0] = 100.0 + second
        line(done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "Measuring... 5% done",
        "Measuring... 75% done, about 10 s left",
    ]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line(80, 100)
    line(100, 100)
    assert [text.strip() for text in capsys.readouterr().err.split("\r")] == [
        "",
        "Measuring... 80% done, about 10 s left",
        "Measuring... 100% done",
    ]


def test_ctrl_c_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", interrupt)
    assert run("--quick", "--output", tmp_path) == 130
    assert "the same command goes on from there" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_does_not_wait_for_threads(tmp_path: Path) -> None:
    """A process that is stopped among its fits ends at once, and what it had done is there."""
    command = [sys.executable, "-m", "paper", "--output", str(tmp_path), "--quick", "--table", "spambase"]
    with subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "results.json").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.splitlines()[-1].startswith(f"paper: interrupted: what is done is kept in {tmp_path}, ")
    assert all(entry["result"] for entry in json.loads((tmp_path / "results.json").read_text()).values())
    assert not (tmp_path / "index.html").exists()


def test_the_help_imports_nothing_that_takes_long() -> None:
    script = "import runpy, sys; sys.argv[1:] = ['--help']\ntry: runpy.run_module('paper', run_name='__main__')\n"
    script += "except SystemExit: print('imported:', *sorted({'numba', 'numpy', 'sklearn'} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    *text, last = result.stdout.splitlines()
    assert last == "imported:", result.stderr
    assert "python -m paper [-h] [--output FOLDER] [--quick]" in " ".join(text)
