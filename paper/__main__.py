"""``python -m paper``: the paper's experiments, on one page beside its figures."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paper.experiment import Outcome

_DESCRIPTION = """
Run the experiments of the GROOT paper again, beside its published figures: cross-validate natural trees, Chen et al.,
GROOT and TREANT on the paper's tables, and refined trees beside them, measure how fast they are, draw the figures, and
write it all on one page. What is done is kept: after Ctrl-C the same command goes on where it stopped.
"""
_FAILED, _INTERRUPTED = 1, 130
_SECONDS_BETWEEN_LINES = 10.0


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser("python -m paper", description=_DESCRIPTION)
    place = "where to write the page, the figures and the numbers (default: reproduction)"
    parser.add_argument("--output", metavar="FOLDER", type=Path, default=Path("reproduction"), help=place)
    parser.add_argument("--quick", action="store_true", help="bundled tables and small studies only")
    tables = "a table of the paper, or several; by default all"
    parser.add_argument("--table", metavar="NAME", action="append", dest="tables", help=tables)
    folds = "folds at a time; -1, the default, for all cores"
    parser.add_argument("--jobs", metavar="N", type=int, default=-1, help=folds)
    options = parser.parse_args(arguments)
    if options.jobs == 0:
        parser.error("--jobs 0: expected a number of folds, or -1 for all cores")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for, and return the exit code; a failure is one sentence on stderr."""
    options = read_options(arguments)
    try:
        _reproduce(options)
    except KeyboardInterrupt:
        place = f"what is done is kept in {options.output}, and the same command goes on from there"
        print(f"{_new_line()}paper: interrupted: {place}", file=sys.stderr)
        return _INTERRUPTED
    except _CannotError as error:
        print(f"{_new_line()}paper: {error}", file=sys.stderr)
        return _FAILED
    return 0


def _new_line() -> str:
    """Return what leaves the line that is written over, on a terminal."""
    return "\n" if sys.stderr.isatty() else ""


class _CannotError(Exception):
    """What cannot be done, and why, in a sentence."""


@contextmanager
def _trying_to(task: str) -> Iterator[None]:
    """Turn what is wrong with what the user gave, or with the machine, into a sentence."""
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        raise _CannotError(f"cannot {task}: {getattr(error, 'strerror', None) or error}") from error


def _reproduce(options: argparse.Namespace) -> None:
    # Slow to import, and the help need not wait.
    from joblib import effective_n_jobs

    from hardwood.plot import check_can_draw

    with _trying_to("draw figures"):
        check_can_draw(options.output / "figure.svg")

    from paper.experiment import RESULTS, Experiment
    from paper.report import PAGE, write_report

    with _trying_to(f"make the folder {options.output}"):
        options.output.mkdir(parents=True, exist_ok=True)
    for path in (options.output / PAGE, options.output / RESULTS):
        with _trying_to(f"write {path}"):
            _check_output(path)
    with _trying_to("reproduce the paper"):
        experiment = Experiment(options.output, options.tables, options.quick, effective_n_jobs(options.jobs))
        print("Loading hardwood's kernels...", file=sys.stderr, flush=True)
        experiment.compile_kernels()
        outcome = experiment.run(ProgressLine())
    with _trying_to(f"write to {options.output}"):
        print("Drawing...", file=sys.stderr, flush=True)
        page = write_report(outcome, options.output)
    print("\n".join(summarise(outcome)))
    print(f"\nThe page: {page}")


def _check_output(path: Path) -> None:
    """Before the long work: refuse an output that could not be written at its end."""
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
        raise ValueError("it is not a file, or it is read-only")
    with tempfile.TemporaryFile(dir=path.parent):
        pass


class ProgressLine:
    """How far the work is: a line that is written over and over on a terminal, one every ten seconds in a log."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Say how far it is, if it is time to."""
        now = time.monotonic()
        share = done / total
        text = f"Measuring... {share:.0%} done"
        if 0.05 < share < 1.0:
            text += f", about {(now - self._began) * (1.0 - share) / share:.0f} s left"
        if sys.stderr.isatty():
            print(f"\r{text:<60}", end="\n" if done >= total else "", file=sys.stderr, flush=True)
        elif done < total and now >= self._said + _SECONDS_BETWEEN_LINES:
            print(text, file=sys.stderr, flush=True)
            self._said = now


def summarise(outcome: Outcome) -> Iterator[str]:
    """Yield the lines that the command ends with: means over the tables, and how they stand to the paper."""
    from paper.comparison import conclude_refinement, judge, mean_refined, mean_scores, signed
    from paper.methods import REFINED

    rows = [("", "adversarial accuracy", "in the paper", "difference")]
    for method in outcome.methods:
        ours, published = mean_scores(outcome, method)
        rows.append((method.title, f"{ours:.3f}", f"{published:.3f}", signed(ours - published)))
    constant = sum(table.constant_accuracy for table in outcome.tables) / len(outcome.tables)
    ceiling = sum(outcome.ceilings.values()) / len(outcome.ceilings)
    beside = {learner.title: mean_refined(outcome, learner) for learner in REFINED}
    for name, mean in ({"Constant": constant} | beside | {"Ceiling, any classifier": ceiling}).items():
        rows.append((name, f"{mean:.3f}", "", ""))
    yield f"Means over {len(outcome.tables)} tables"
    widest = max(len(name) for name, *_ in rows)
    for name, *figures in rows:
        cells = (figure.rjust(len(heading)) for figure, heading in zip(figures, rows[0][1:], strict=True))
        yield "    ".join([name.ljust(widest), *cells]).rstrip()
    for verdict in judge(outcome):
        yield f"{'ok  ' if verdict.holds else 'MISS'}  {verdict.sentence}"
    yield f"      {conclude_refinement(outcome)}"
    for name, reason in outcome.skipped.items():
        yield f"left out: {name}: {reason}"


if __name__ == "__main__":
    code = main()
    if code == _INTERRUPTED:
        # Work that was interrupted may still be running in threads, which an ordinary exit would wait for.
        os._exit(code)
    sys.exit(code)
