"""The pages: every example runs and shows what it says, every link leads somewhere, everything public is mentioned.

A page is a session. Its fenced blocks are run from top to bottom, in one namespace and one empty folder:

* ``python`` with ``>>>``: as a doctest;
* ``console``: each line ``$ hardwood ...`` by the command line, its output compared with what is written below it,
  where ``...`` stands for whatever changes from run to run; without anything below, it only has to succeed;
* any block after ``<!-- file: NAME -->``: written to that file, as a reader would.

A block after ``<!-- needs: LIBRARY -->`` stands on its own: it is a test of its own, skipped where the library is not
installed. Other blocks are there to be read; the options of commands in them have to exist.
"""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import hardwood
from hardwood.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = {page.name: page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(
    r"(?:^<!-- (?P<note>file|needs): (?P<about>\S+) -->\n+)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# Older runners mix stderr into stdout unless told otherwise; newer ones know no other way.
SEPARATE = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


class Block(NamedTuple):
    """A fenced block of a page, and what the remark before it says."""

    language: str
    text: str
    line: int
    file: str | None
    needs: str | None


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    blocks = []
    for match in FENCE.finditer(text):
        about = {match["note"]: match["about"]}
        line = text.count("\n", 0, match.start("text"))
        blocks.append(Block(match["language"], match["text"], line, about.get("file"), about.get("needs")))
    return blocks


BLOCKS = {name: read_blocks(page) for name, page in PAGES.items()}


def run_python(text: str, name: str, line: int, namespace: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(text, namespace, name, name, line)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    namespace.update(test.globs)  # a doctest works on a copy
    assert not said, "".join(said)


def read_session(text: str) -> Iterator[tuple[str, str]]:
    """Go through a console block: (command, output)."""
    for part in text.replace("\\\n", " ").removeprefix("$ ").split("\n$ "):
        command, _, output = part.partition("\n")
        yield command, output


def run_console(text: str) -> None:
    for command, expected in read_session(text):
        program, *arguments = shlex.split(command, comments=True)
        assert program == "hardwood", command
        result = CliRunner(**SEPARATE).invoke(app, arguments, prog_name="hardwood", env={"COLUMNS": "120"})
        assert result.exit_code == 0, f"{command}\n{result.stderr}"
        if expected.strip():
            matches = doctest.OutputChecker().check_output(expected, result.stdout, FLAGS)
            assert matches, f"{command}\n{result.stdout}"


def is_python(block: Block) -> bool:
    return block.language == "python" and ">>> " in block.text


@pytest.mark.parametrize("name", PAGES)
def test_pages_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCKS[name]:
        if block.needs is not None:
            continue
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if is_python(block):
            run_python(block.text, name, block.line, namespace)
        elif block.language == "console":
            run_console(block.text)


@pytest.mark.parametrize(
    ("name", "block"),
    [
        pytest.param(name, block, id=f"{name}:{block.line}:{block.needs}")
        for name, blocks in BLOCKS.items()
        for block in blocks
        if block.needs
    ],
)
def test_blocks_of_extras_run(name: str, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(str(block.needs), reason=f"needs {block.needs}")
    monkeypatch.chdir(tmp_path)
    assert is_python(block)
    run_python(block.text, name, block.line, {"__name__": "__main__"})


COMMANDS = [
    (name, command)
    for name, blocks in BLOCKS.items()
    for block in blocks
    if block.language != "console"
    for command in re.findall(r"^(?:\$ )?(hardwood .*)", block.text, re.MULTILINE)
]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_commands_that_are_only_shown_exist(name: str, command: str) -> None:
    """They are about tables that are not there, or take minutes: such commands are not run here, but parsed."""
    _, verb, *arguments = shlex.split(command, comments=True)
    known = get_command(app).commands[verb]  # type: ignore[attr-defined]
    known.make_context(verb, arguments)


def headings(page: Path) -> set[str]:
    """Return the anchors that a page has: its headings, spelled as GitHub does."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = PAGES[name]
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue  # on the network, which tests do without
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert ROOT in linked.parents, target
        assert not anchor or anchor in headings(linked), target


@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_lost(name: str) -> None:
    """From the README over the index, a reader finds every page."""
    to_find = "docs/index.md" if name == "index.md" else name
    start = PAGES["README.md"] if name == "index.md" else PAGES["index.md"]
    assert name == "README.md" or f"]({to_find})" in start.read_text(encoding="utf-8")


def test_fences_are_closed() -> None:
    """A fence that is not closed would hide the blocks after it from the tests above."""
    for name, page in PAGES.items():
        fences = re.findall(r"^```(\w*)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(BLOCKS[name]), name
        assert not any(fences[1::2]), name


def test_remarks_stand_before_blocks() -> None:
    for name, page in PAGES.items():
        remarks = re.findall(r"<!-- (?:file|needs)", page.read_text(encoding="utf-8"))
        assert len(remarks) == sum(bool(block.file or block.needs) for block in BLOCKS[name]), name


@pytest.mark.parametrize("public", hardwood.__all__)
def test_everything_public_is_mentioned(public: str) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert re.search(rf"\b{public}\b", text)


NO_METHOD = {
    "README.md",
    "index.md",
    "attackers.md",
    "threat-models.md",
    "command-line.md",
    "installation.md",
    "models.md",
    "accuracy-study.md",
    "phishing.md",
    "scaling.md",
}


@pytest.mark.parametrize("name", sorted(PAGES.keys() - NO_METHOD))
def test_pages_of_methods_say_what_to_expect(name: str) -> None:
    """Every page of a method has the same three sections, in the same order."""
    text = PAGES[name].read_text(encoding="utf-8")
    places = [text.find(f"# {title}\n") for title in ("What it assumes", "What it costs", "When to choose it")]
    assert all(place > 0 for place in places)
    assert all(before < after for before, after in pairwise(places))
