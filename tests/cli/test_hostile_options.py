"""Options, arguments and files that nobody meant well with: numbers of hundreds of digits, texts without end."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from running import assert_one_sentence, fit_small, make_table, run

A_SCREEN = 2000
LONG = "x" * 1_000_000
FIT = ("fit", "d.csv", "--target", "label", "--categorical", "colour", "--max-depth", 2, "--output", "o.json")
EVALUATE = ("evaluate", "model.json", "d.csv", "--target", "label", "--no-ceiling")
ATTACK = ("attack", "model.json", "d.csv", "--target", "label", "--output", "a.csv")
SHOW = ("show", "model.json")
VERBS = {
    "fit": (*FIT, "--refine", "none"),
    "fit a forest": (*FIT, "--model", "forest"),
    "fit boosting": (*FIT, "--model", "boosting", "--trees", 2),
    "evaluate": (*EVALUATE, "--epsilon", 1),
    "attack": (*ATTACK, "--epsilon", 1),
    "show": SHOW,
    "show a row": (*SHOW, "--row", 1, "--data", "d.csv", "--epsilon", 1),
    "predict": ("predict", "model.json", "d.csv", "--output", "p.csv"),
    "threat": ("threat", "d.csv", "--output", "t.toml"),
}
NUMBERS = {
    "fit": ["--epsilon", "--max-leaf-nodes", "--min-samples-split", "--min-samples-leaf", "--min-impurity-decrease",
            "--rho", "--jobs", "--max-bins", "--max-depth", "--attacking-class"],
    "fit a forest": ["--trees"],
    "fit boosting": ["--trees", "--learning-rate", "--max-bins", "--max-depth"],
    "evaluate": ["--epsilon", "--time-limit", "--ceiling-time-limit", "--jobs", "--curve", "--threshold"],
    "attack": ["--epsilon", "--time-limit", "--jobs", "--norm"],
    "show": ["--tree", "--max-depth"],
    "show a row": ["--row", "--epsilon"],
}  # fmt: skip
DIGITS = {
    "400": "9" * 400,
    "5,000": "9" * 5000,
    "negative": "-" + "9" * 400,
    "a fraction": "9" * 400 + ".5",
    "1e999": "1e999",
}
TEXTS = {
    "fit": ["d.csv", "--target", "--output", "--threat", "--attacking-class", "--categorical", "--numeric", "--ignore",
            "--model", "--task", "--criterion", "--refine", "--max-bins", "--epsilon"],
    "evaluate": ["model.json", "d.csv", "--target", "--threat", "--output", "--plot", "--positive-class", "--epsilon"],
    "attack": ["model.json", "d.csv", "--target", "--threat", "--output", "--norm"],
    "show a row": ["model.json", "--data", "--row", "--target", "--threat"],
    "predict": ["model.json", "d.csv", "--output"],
    "threat": ["d.csv", "--target", "--output"],
}  # fmt: skip


def replace(verb: str, place: str, value: str) -> list[object]:
    """Return a command with a value in a place: that of an argument, or of an option that may not be there yet."""
    words = list(VERBS[verb])
    if place in words and not place.startswith("--"):
        words[words.index(place)] = value
    elif place in words:
        words[words.index(place) + 1] = value
    else:
        words += [place, value]
    if place == "--threat" and "--epsilon" in words:
        at = words.index("--epsilon")
        del words[at : at + 2]
    return words


def assert_said(words: list[object], *, may_work: bool) -> None:
    """The command works or says why not in a sentence, after notes that are short as well."""
    result = run(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert may_work or result.exit_code in (1, 2)
    lines = result.stderr.splitlines()
    assert all(line.startswith("hardwood: ") or line.endswith("...") for line in lines), result.stderr[:500]
    assert max(map(len, lines), default=0) < A_SCREEN + len("hardwood: ")
    assert sum(not line.startswith("hardwood: note: ") and line.startswith("hardwood: ") for line in lines) == (
        1 if result.exit_code else 0
    )
    assert "RuntimeWarning" not in result.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of a model, which is fitted once for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("model"))
        return fit_small().read_text()


@pytest.fixture(autouse=True)
def _files(_in_an_empty_folder: None, model: str) -> None:
    make_table(12).to_csv("d.csv", index=False)
    Path("model.json").write_text(model)


@pytest.mark.parametrize("verb", NUMBERS)
def test_numbers_of_many_digits(verb: str) -> None:
    """`--max-bins` of 5,000 digits was a traceback, and a learning rate of infinity fitted a model of warnings."""
    for option in NUMBERS[verb]:
        for digits in DIGITS.values():
            assert_said(replace(verb, option, digits), may_work=True)


@pytest.mark.parametrize("verb", TEXTS)
def test_texts_without_end(verb: str) -> None:
    """Errors repeated what they were about, a megabyte of it if need be."""
    for place in TEXTS[verb]:
        assert_said(replace(verb, place, LONG), may_work=False)


@pytest.mark.parametrize("cells", ["a name", "a cell", "a label", "many names", "many labels"])
@pytest.mark.parametrize("verb", ["fit", "evaluate", "predict", "threat"])
def test_tables_of_long_texts(verb: str, cells: str) -> None:
    table = make_table(40)
    if cells == "a name":
        table = table.rename(columns={"age": LONG, "income": LONG[1:]})
    elif cells == "many names":
        table = table.assign(**{f"column {k}": "x" for k in range(300)}).drop(columns="age")
    elif cells == "many labels":
        table["label"] = [f"{'x' * 1000}{k}" for k in range(40)]
    else:
        table.loc[3, {"a cell": "colour", "a label": "label"}[cells]] = LONG[:100_000]
    table.to_csv("d.csv", index=False)
    assert_said(list(VERBS[verb]), may_work=True)


class TestThreatFiles:
    @pytest.mark.parametrize("verb", ["fit", "evaluate", "attack", "show a row"])
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (".".join(["a"] * 20_000) + " = 1", ["t.toml", "in line 1 has more than 10 parts"]),
            ("features = " + "[" * 50_000, ["t.toml", "nested too deep"]),
            ("budget = " + "9" * 400, ["budget: 999", "(400 characters) is too large for a float64"]),
            ("features = " + "9" * 5000, ["a number of thousands of digits"]),
            (f'"{LONG}" = 1', ["unknown key 'xxx", "(1,000,002 characters)"]),
        ],
        ids=["a long key", "brackets", "400 digits", "5,000 digits", "a long name"],
    )
    def test_are_refused(self, verb: str, text: str, words: list[str]) -> None:
        """`hardwood evaluate --threat` took a gigabyte for a file of 28 kB, and a number of digits was a traceback."""
        Path("t.toml").write_text(text)
        result = run(*replace(verb, "--threat", "t.toml"))
        sentence = result.stderr.splitlines()[-1]
        assert result.exit_code == 1
        assert sentence.startswith("hardwood: cannot read t.toml: ") or "t.toml" not in words
        assert all(word in sentence for word in words if word != "t.toml")

    @pytest.mark.parametrize(
        ("text", "words"),
        [("[" * 100_000, "nested too deep"), ("[" + "9" * 5000 + "]", "thousands of digits"), ("{}", "does not say")],
    )
    def test_that_are_models(self, text: str, words: str) -> None:
        """A model says what it was trained against; brackets without end were a RecursionError there."""
        Path("t.json").write_text(text)
        assert_one_sentence(run(*replace("evaluate", "--threat", "t.json")), 1, "t.json", words)


class TestMarks:
    """What an editor or a spreadsheet writes before a text is no part of it."""

    @pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
    def test_of_every_file(self, mark: str, model: str) -> None:
        plain = run(*EVALUATE, "--epsilon", 1)
        Path("t.toml").write_bytes("[features]\nage = 1\nincome = 1\n".encode(mark))
        Path("d.csv").write_bytes(Path("d.csv").read_text().encode(mark))
        Path("model.json").write_bytes(model.encode(mark))
        marked = run(*replace("evaluate", "--threat", "t.toml"))
        assert marked.exit_code == plain.exit_code == 0, marked.stderr
        assert marked.stdout.partition("\n\n")[2].splitlines()[:3] == plain.stdout.partition("\n\n")[2].splitlines()[:3]
        trained = run(*EVALUATE, "--threat", "model.json")
        assert trained.exit_code == 0, trained.stderr

    def test_that_stand_alone(self) -> None:
        Path("t.toml").write_bytes(codecs.BOM_UTF8)
        assert run(*replace("evaluate", "--threat", "t.toml")).exit_code == 0
