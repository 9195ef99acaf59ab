"""The paper's experiments are a user of hardwood: what they import from it is public."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

PUBLIC = ("hardwood", "hardwood.plot")
PAPER = Path(__file__).parents[2] / "paper"
FILES = sorted(PAPER.rglob("*.py"))


def find_private(text: str) -> list[str]:
    """Return what a module imports from hardwood that is not public."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.startswith("hardwood") and a.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "hardwood":
            public = import_module(node.module).__all__ if node.module in PUBLIC else ()
            found += [f"{node.module}.{a.name}" for a in node.names if a.name not in public]
    return found


def test_only_what_is_public_is_imported() -> None:
    private = {path.relative_to(PAPER).as_posix(): find_private(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name: found for name, found in private.items() if found} == {}
    assert len(FILES) > 15


def test_what_is_private_is_found() -> None:
    text = "import hardwood, hardwood.plot, hardwood.threads, numpy\nfrom hardwood import verify, files\n"
    text += (
        "def f():\n    from hardwood.plot import save_threat_models, regions\n    from hardwood.results import Bounds"
    )
    assert find_private(text) == [
        "hardwood.threads",
        "hardwood.files",
        "hardwood.plot.regions",
        "hardwood.results.Bounds",
    ]
