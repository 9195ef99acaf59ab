"""Habits of this code base that a linter does not know: short argument lists, no hidden state, the field's words."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import hardwood

SOURCE = Path(hardwood.__file__).parent
PAPER = Path(__file__).parents[1] / "paper"
FILES = sorted([*SOURCE.rglob("*.py"), *PAPER.rglob("*.py")])
DATA = {"datasets/catalogue.py"}  # has the words of tables, among others those that spambase counts

MOST_PARAMETERS = 8
MUTABLE = {"dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque", "WeakKeyDictionary", "WeakSet"}
MUTABLE |= {"WeakValueDictionary"}
CHANGES = {"append", "add", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}

# Words of a private dialect, and what the field says instead, as whole words. ("layout" by itself is a parameter of
# matplotlib and the layout of a file.)
RETIRED = {
    "toll": "Lagrange multiplier",
    "gate": "tree and axis",
    "lane": "interval",
    "taking": "marginal",
    "tighten": "ascend",
    "survey": "single moves",
    "nominal": "category search",
    "meeting": "conflicts",
    "Doubts": "Chen's threat",
    "Rivals": "split groups",
    "_Quest": "query attack",
    "_Chase": "nearest by MILP",
    "is_one": "class_index",
    "lay_out": "make, resolve or assemble what is made",
    "laid out": "made",
    "is_laid_out": "has what is made",
    "multiplier_layout": "multiplier_intervals",
    "so many": "a number, or a unit",
}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else PAPER.parent).as_posix()


def is_kernel(path: Path) -> bool:
    return name_of(path).startswith("_kernels/")


def long_lists(tree: ast.AST) -> Iterator[str]:
    """Yield the functions that take too many parameters by position; `self` and `cls` are not counted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            n_positional = len(names) - (names[:1] in (["self"], ["cls"]))
            if n_positional > MOST_PARAMETERS:
                yield f"line {node.lineno}: {getattr(node, 'name', 'lambda')} takes {n_positional}"


def is_mutable(value: ast.expr) -> bool:
    """Say whether an expression makes something that can be changed: a literal, a comprehension or a call."""
    if isinstance(value, ast.Call):
        function = value.func
        return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) in MUTABLE
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def hidden_state(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module that functions change: containers they write to, and whatever they call global."""
    owned = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name) and is_mutable(statement.value)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in (node for function in functions for node in ast.walk(function)):
        if isinstance(node, ast.Global):
            yield f"line {node.lineno}: global {', '.join(node.names)}"
        changed: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            changed = node.func.value
        if isinstance(changed, ast.Name) and changed.id in owned:
            yield f"line {node.lineno}: {changed.id} is changed"


def list_offences(find: Callable[[ast.Module], Iterator[str]], paths: list[Path] = FILES) -> list[str]:
    """Return what a rule finds, with the file that it is in."""
    return [f"{name_of(path)}, {offence}" for path in paths for offence in find(parse(path))]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_argument_lists_are_short() -> None:
    """More than eight arguments by position is a record that has not been given a name yet."""
    assert list_offences(long_lists, [path for path in FILES if not is_kernel(path)]) == []


def test_modules_keep_no_state() -> None:
    """What is remembered belongs to an object with an owner: a module would keep it for ever, and share it."""
    assert list_offences(hidden_state) == []


def test_retired_words_do_not_come_back() -> None:
    found = [
        f"{name_of(path)}, line {number}: say {say!r} instead of {word!r}: {line.strip()}"
        for path in FILES
        if name_of(path) not in DATA
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for word, say in RETIRED.items()
        if find_word(word).search(line)
    ]
    assert found == []


@cache
def find_word(word: str) -> re.Pattern[str]:
    """Return what finds a word, whatever its case if it is written in lower case; in the plural too."""
    return re.compile(rf"(?<![A-Za-z]){re.escape(word)}s?(?![A-Za-z])", 0 if word[0].isupper() else re.IGNORECASE)


STATEFUL = """
seen: list = []
cache = weakref.WeakKeyDictionary()
words = {"fixed": 1}
def remember(key):
    fresh = {}
    fresh[key] = words[key]
    cache[key] = 2
    seen.append(key)
def count():
    global total
"""


def test_the_tests_of_this_file_see_what_they_look_for() -> None:
    """A retired word; a list, a dictionary and a global that functions change, but neither a local nor a constant."""
    assert list(hidden_state(ast.parse(STATEFUL))) == [
        "line 8: cache is changed",
        "line 9: seen is changed",
        "line 11: global total",
    ]
    assert find_word("so many").search("So many of them") is not None
    assert find_word("Rivals").search("rivals") is None
    nine = ", ".join(f"p{k}" for k in range(9))
    assert list(long_lists(ast.parse(f"def f({nine}): ..."))) == ["line 1: f takes 9"]
    assert list(long_lists(ast.parse("def f(self, a, b, c, d, e, f, g, h, *, i, j): ..."))) == []
