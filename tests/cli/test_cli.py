"""The command line, from good tables to every kind of bad one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from typer.testing import CliRunner

import hardwood
from hardwood import RobustTreeClassifier, ThreatModel, TreeEnsemble, adversarial_accuracy, as_ensemble
from hardwood.__main__ import main
from hardwood.cli import messages
from hardwood.cli.app import app


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Older runners mix stderr into stdout unless told otherwise; newer ones know no other way.
SEPARATE = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


def run(*args: object):
    return CliRunner(**SEPARATE).invoke(app, [str(arg) for arg in args], prog_name="hardwood")


# Started in another folder, a process still finds the package that is tested here.
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(Path(hardwood.__file__).resolve().parents[1]),
    "COLUMNS": "80",
}
COMMAND = [sys.executable, "-m", "hardwood"]


def run_process(*args: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *args]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)


def assert_one_sentence(result, code: int, *words: str) -> None:
    """One line on stderr that has all the words, and nothing else happened."""
    stderr = result.stderr.strip()
    assert result.exit_code == code, stderr
    assert len(stderr.splitlines()) == 1, stderr
    assert stderr.startswith("hardwood: ")
    for word in words:
        assert word in stderr
    assert "Traceback" not in result.output


def make_table(n_rows: int = 80, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    age = generator.integers(18, 90, n_rows)
    colour = generator.choice(["blue", "green", "red"], n_rows)
    income = generator.normal(30, 10, n_rows).round(3)
    fraud = (income + 10 * (colour == "red") > 33) ^ (generator.random(n_rows) < 0.05)
    label = np.where(fraud, "fraud", "honest")
    return pd.DataFrame({"age": age, "colour": colour, "income": income, "label": label})


def write_csv(name: str = "data.csv", **columns: object) -> Path:
    pd.DataFrame(columns).to_csv(name, index=False)
    return Path(name)


def fit_small(output: str = "model.json") -> Path:
    make_table().to_csv("train.csv", index=False)
    result = run("fit", "train.csv", "--target", "label", "--categorical", "colour",
                 "--epsilon", 2, "--max-depth", 3, "--output", output)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return Path(output)


# What it does


def test_fit_is_the_estimator():
    table = make_table()
    X = table.drop(columns="label").astype({"colour": "category"})
    model = RobustTreeClassifier(2.0, max_depth=3).fit(X, table["label"])
    written = TreeEnsemble.from_json(fit_small())
    assert written.to_json() == model.ensemble_.to_json()


def test_fit_says_what_it_did():
    table = make_table()
    table.to_csv("train.csv", index=False)
    Path("threat.toml").write_text('attacking_classes = ["fraud"]\n[features]\nincome = 2\n')
    result = run("fit", "train.csv", "--target", "label", "--ignore", "colour", "--threat",
                 "threat.toml", "--max-depth", 2, "--output", "model.json")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    X = table[["age", "income"]]
    threat = ThreatModel({"income": 2}, attacking_classes=["fraud"])
    model = RobustTreeClassifier(threat, max_depth=2).fit(X, table["label"])
    under_attack = adversarial_accuracy(model, X, table["label"], threat)
    for words in (
        "80 rows, 2 features",
        f"honest ({np.mean(table['label'] == 'honest'):.1%})",
        "attacking_classes=['fraud']",
        f"{model.get_n_leaves()} leaves, depth 2",
        f"{model.score(X, table['label']):.1%} of the training rows",
        f"{under_attack:.1%} of the training rows",
        "model.json",
    ):
        assert words in result.stdout


def test_every_option_reaches_the_estimator(monkeypatch):
    seen = {}

    class Recorder(RobustTreeClassifier):
        def fit(self, X, y):
            seen.update(self.get_params())
            return super().fit(X, y)

    monkeypatch.setattr("hardwood.cli.fit.RobustTreeClassifier", Recorder)
    make_table().drop(columns="colour").to_csv("train.csv", index=False)
    options = {
        "max_depth": 4,
        "max_leaf_nodes": 5,
        "min_samples_split": 6,
        "min_samples_leaf": 2,
        "min_impurity_decrease": 0.001,
        "criterion": "entropy",
        "rho": 0.5,
    }
    spelled = [text for key, value in options.items() for text in ("--" + key.replace("_", "-"), value)]
    result = run("fit", "train.csv", "--target", "label", "--epsilon", 1, "--balanced", "--jobs", 1,
                 "--attacking-class", "fraud", *spelled, "--output", "model.json")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    expected = options | {"class_weight": "balanced", "n_jobs": 1, "attacking_classes": ["fraud"]}
    assert {key: seen[key] for key in expected} == expected
    assert seen["threat"] == ThreatModel(1.0)


@pytest.mark.parametrize("name", ["predictions.csv", "predictions.csv.gz", "predictions.parquet"])
def test_predictions_are_the_models(name):
    model = fit_small()
    test = make_table(30, seed=1)[["label", "income", "colour", "age"]]  # another order, one more
    test.to_parquet("test.parquet")
    result = run("predict", model, "test.parquet", "--output", name)
    assert result.exit_code == 0, result.stderr
    assert "30 rows" in result.stdout
    written = pd.read_parquet(name) if name.endswith("parquet") else pd.read_csv(name)
    ensemble = TreeEnsemble.from_json(model)
    X = test[["age", "colour", "income"]].astype({"colour": "category"})
    assert written.columns.tolist() == ["prediction", "probability_fraud", "probability_honest"]
    assert written["prediction"].tolist() == ensemble.predict(X).tolist()
    np.testing.assert_allclose(written.iloc[:, 1:], ensemble.predict_proba(X), rtol=1e-12)


def test_categories_are_spelled_the_same_in_every_file():
    """A column of categories that look like numbers is read as text, whatever else is in it."""
    write_csv("train.csv", code=["1", "2", "A"] * 10, y=[0, 1, 1] * 10)
    assert run("fit", "train.csv", "--target", "y", "--categorical", "code", "--output",
               "model.json").exit_code == 0  # fmt: skip
    write_csv("test.csv", code=[1, 2, 2])
    assert run("predict", "model.json", "test.csv", "--output", "p.csv").exit_code == 0
    assert pd.read_csv("p.csv")["prediction"].tolist() == [0, 1, 1]
    pd.DataFrame({"code": [1, 2, 7]}).to_parquet("test.parquet")  # 7 was never seen
    assert run("predict", "model.json", "test.parquet", "--output", "p.csv").exit_code == 0
    assert pd.read_csv("p.csv")["prediction"].tolist()[:2] == [0, 1]


def test_a_model_made_in_python_with_categories_that_are_numbers():
    X = pd.DataFrame({"code": pd.Categorical([1, 2, 3] * 10)})
    RobustTreeClassifier().fit(X, [0, 1, 0] * 10).ensemble_.to_json("model.json")
    write_csv("test.csv", code=[1, 2, 3])
    assert run("predict", "model.json", "test.csv", "--output", "p.csv").exit_code == 0
    assert pd.read_csv("p.csv")["prediction"].tolist() == [0, 1, 0]


def test_a_model_made_without_column_names():
    RobustTreeClassifier().fit([[0.0, 5.0], [1.0, 5.0]], [False, True]).ensemble_.to_json("m.json")
    write_csv("test.csv", a=[0, 1], b=[5, 5])
    assert run("predict", "m.json", "test.csv", "--output", "p.csv").exit_code == 0
    assert pd.read_csv("p.csv")["prediction"].tolist() == [False, True]
    write_csv("wide.csv", a=[0], b=[5], c=[1])
    assert_one_sentence(run("predict", "m.json", "wide.csv", "--output", "q.csv"), 1, "3 columns")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_missing_values_where_the_model_takes_them(suffix):
    """Also in a column of categories, where one is called "nan"."""
    table = pd.DataFrame(
        {
            "number": [1.0, np.nan, 3.0, 4.0] * 20,
            "code": pd.Categorical(["a", "b", None, "nan"] * 20),
            "whole": pd.array([1, 2, None, 4] * 20, dtype="Int64"),
        }
    )
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2).fit(table, [0, 1, 1, 0] * 20)
    as_ensemble(model).to_json("model.json")
    data = f"data.{suffix}"
    written = table.iloc[:3] if suffix == "csv" else table.iloc[:4]  # in CSV, nan is a missing value
    written.to_csv(data, index=False) if suffix == "csv" else written.to_parquet(data)
    result = run("predict", "model.json", data, "--output", "p.csv")
    assert result.exit_code == 0, result.stderr
    expected = model.predict_proba(written)
    np.testing.assert_allclose(pd.read_csv("p.csv").iloc[:, 1:], expected, rtol=1e-12)


def test_parquet_dictionary_columns_are_categories():
    make_table().astype({"colour": "category"}).to_parquet("train.parquet")
    result = run("fit", "train.parquet", "--target", "label", "--output", "model.json")
    assert result.exit_code == 0, result.stderr
    schema = TreeEnsemble.from_json("model.json").schema
    assert schema.categories == (None, ("blue", "green", "red"), None)


def test_numbers_keep_their_last_bit():
    """The fast parser of pandas is off by a bit; a threshold can lie in between."""
    values = [float(v) for v in np.random.default_rng(0).random(200) * 1e-3]
    write_csv("train.csv", x=values, y=[0, 1] * 100)
    assert run("fit", "train.csv", "--target", "y", "--output", "model.json").exit_code == 0
    assert run("predict", "model.json", "train.csv", "--output", "p.csv").exit_code == 0
    assert pd.read_csv("p.csv")["prediction"].tolist() == [0, 1] * 100


def test_labels_that_other_readers_take_for_missing():
    write_csv("train.csv", x=[1, 2, 3, 4], y=["None", "None", "NA", "NA"])
    assert run("fit", "train.csv", "--target", "y", "--output", "model.json").exit_code == 0
    assert TreeEnsemble.from_json("model.json").classes.tolist() == ["NA", "None"]


def test_version_and_help():
    assert run("--version").stdout == f"hardwood {hardwood.__version__}\n"
    for verb in ("demo", "threat", "fit", "evaluate", "attack", "predict"):
        assert verb in run("--help").stdout
        assert run(verb, "--help").exit_code == 0
    assert run().exit_code == 0


# What it refuses


DATA_ERRORS = {
    "missing file": (lambda: "nothing.csv", ["nothing.csv does not exist"]),
    "folder": (lambda: os.mkdir("folder.csv") or "folder.csv", ["not a file"]),
    "name too long": (lambda: "x" * 300 + ".csv", ["too long"]),
    "empty file": (lambda: Path("data.csv").touch() or "data.csv", ["data.csv is empty"]),
    "no rows": (lambda: write_csv(x=[], y=[]), ["no rows"]),
    "other suffix": (lambda: write_csv("data.txt", x=[1, 2], y=[0, 1]), ["data.txt", ".parquet"]),
    "binary": (lambda: Path("data.csv").write_bytes(b"\xff\xfe\x00x") and "data.csv", ["UTF-8"]),
    "bad gzip": (lambda: Path("d.csv.gz").write_bytes(b"x,y\n1,2\n") and "d.csv.gz", ["d.csv.gz"]),
    "bad parquet": (lambda: Path("d.parquet").write_bytes(b"x,y") and "d.parquet", ["d.parquet"]),
    "ragged": (lambda: Path("d.csv").write_text("x,y\n1,0\n1,2,3\n") and "d.csv", ["d.csv"]),
    "ragged from the start": (
        lambda: Path("d.csv").write_text("x,y\n1,2,0\n") and "d.csv",
        ["d.csv"],
    ),
    "repeated name": (
        lambda: Path("d.csv").write_text("x,y,x\n1,0,2\n") and "d.csv",
        ["named", '"x"'],
    ),
    "no name": (
        lambda: Path("d.csv").write_text(",y\n1,0\n2,1\n") and "d.csv",
        ["column 1", "no name"],
    ),
    "no target": (lambda: write_csv(x=[1, 2], z=[0, 1]), ['no column "y"', "x, z"]),
    "only a target": (lambda: write_csv(y=[0, 1]), ['besides "y"']),
    "text": (
        lambda: write_csv(x=["1", "2", "red", "blue"], y=[0, 1, 0, 1]),
        ['"x"', '"red" in row 3', '--categorical "x"'],
    ),
    "dates": (
        lambda: (
            pd.DataFrame({"x": pd.to_datetime(["2020-01-01"] * 2), "y": [0, 1]}).to_parquet("d.parquet") or "d.parquet"
        ),
        ['"x"', "2020-01-01", "row 1"],
    ),
    "codes": (
        lambda: pd.DataFrame({"x": ["01234", "5"], "y": [0, 1]}).to_parquet("d.parquet") or "d.parquet",
        ['"x"', '"01234" in row 1', "--categorical"],
    ),
    "missing value": (
        lambda: write_csv(x=[1, None, None], y=[0, 1, 1]),
        ['"x"', "2 of 3 rows", "row 2"],
    ),
    "missing label": (lambda: write_csv(x=[1, 2, 3], y=["a", None, "b"]), ['"y"', "1 of 3 rows"]),
    "infinite": (lambda: write_csv(x=[1.0, np.inf], y=[0, 1]), ["inf"]),
    "one class": (lambda: write_csv(x=[1, 2], y=["spam", "spam"]), ['"y"', "one class", "spam"]),
    "three classes": (lambda: write_csv(x=[1, 2, 3], y=[0, 1, 2]), ["3"]),
}


@pytest.mark.parametrize("case", DATA_ERRORS)
def test_bad_training_tables(case):
    make, words = DATA_ERRORS[case]
    data = make()
    before = sorted(os.listdir())
    result = run("fit", data, "--target", "y", "--output", "model.json")
    assert_one_sentence(result, 1, *words)
    assert sorted(os.listdir()) == before


THREAT_ERRORS = {
    "not there": (None, ["threat.toml"]),
    "not TOML": ("features = [", ["threat.toml", "TOML"]),
    "unknown column": ("[features]\nsize = 1", ["'size'"]),
    "nested too deep": ("features = " + "[" * 2000, ["threat.toml", "nested"]),
    "negative": ("[features]\nx = -1", ["'x'", "-1"]),
    "unknown class": ("features = 1\nattacking_classes = ['spam']", ["'spam'"]),
}


@pytest.mark.parametrize("case", THREAT_ERRORS)
def test_bad_threat_files(case):
    text, words = THREAT_ERRORS[case]
    if text is not None:
        Path("threat.toml").write_text(text)
    data = write_csv(x=[1, 2, 3, 4], y=[0, 0, 1, 1])
    result = run("fit", data, "--target", "y", "--threat", "threat.toml", "--output", "model.json")
    assert_one_sentence(result, 1, *words)
    assert not Path("model.json").exists()


def test_names_are_printed_as_they_are():
    """Rich would take parts of them for colours and emoji."""
    result = run("fit", "[red]:smile:.csv", "--target", "y", "--output", "model.json")
    assert_one_sentence(result, 1, "hardwood: [red]:smile:.csv does not exist")
    pd.DataFrame({"[red]": [1, 2], "y": ["[b]", ":smile:"]}).to_csv("[red].csv", index=False)
    result = run("fit", "[red].csv", "--target", "y", "--output", "[red]:smile:.json")
    assert "[b] (50.0%)" in result.stdout
    assert "[red]:smile:.json" in result.stdout


def test_an_attacking_class_that_is_none():
    data = write_csv(x=[1, 2], y=[0, 1])
    result = run("fit", data, "--target", "y", "--attacking-class", 2, "--output", "model.json")
    assert_one_sentence(result, 1, '"2"', "0, 1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", -1], ["--epsilon"]),
        (["--epsilon", 1, "--threat", "t.toml"], ["--epsilon", "--threat"]),
        (["--criterion", "magic"], ["magic", "gini"]),
        (["--ignore", "y"], ["--ignore", "target"]),
        (["--max-depth", "deep"], ["--max-depth"]),
        (["--nonsense"], ["--nonsense"]),
    ],
)
def test_wrong_usage(options, words):
    result = run("fit", write_csv(x=[1, 2], y=[0, 1]), "--target", "y", "--output", "m.json", *options)
    assert_one_sentence(result, 2, *words)
    assert_one_sentence(run("fit"), 2, "--help")
    assert_one_sentence(run("fly"), 2, "fly")
    assert_one_sentence(run("--nonsense"), 2, "--nonsense")


def test_outputs_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr("hardwood.cli.fit.read_table", lambda *_: pytest.fail("work was done"))
    data = write_csv(x=[1, 2], y=[0, 1])
    os.mkdir("folder")
    for output, words in {
        "nowhere/model.json": ["nowhere"],
        "folder": ["not a file"],
        "data.csv": ["data.csv", "input"],
        "./folder/../data.csv": ["input"],
        "/dev/null": ["not a file"],
        "/proc/model.json": ["/proc/model.json"],
        "m" * 300 + ".json": ["too long"],
    }.items():
        result = run("fit", data, "--target", "y", "--output", output)
        assert_one_sentence(result, 1, *words)
    assert pd.read_csv(data).shape == (2, 2)


def test_a_write_that_fails_leaves_the_old_file(monkeypatch):
    model = fit_small()
    Path("p.csv").write_text("old")

    def fill_the_disk(table, path, **_):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fill_the_disk)
    before = sorted(os.listdir())
    result = run("predict", model, "train.csv", "--output", "p.csv")
    assert_one_sentence(result, 1, "p.csv", "No space left")
    assert Path("p.csv").read_text() == "old"
    assert sorted(os.listdir()) == before


def test_outputs_may_be_links():
    os.mkdir("folder")
    os.symlink("folder/real.json", "link.json")
    fit_small("link.json")
    assert os.path.islink("link.json")
    assert TreeEnsemble.from_json("folder/real.json").n_trees == 1


def test_bad_tables_to_predict():
    model = fit_small()
    for columns, words in [
        ({"age": [1], "x": [2]}, ["colour, income"]),
        ({"age": [1], "colour": ["red"], "income": ["much"]}, ['"income"', '"much" in row 1']),
        ({"age": [1, None], "colour": ["red"] * 2, "income": [1, 2]}, ['"age"', "row 2"]),
        ({"age": [1, 2], "colour": ["red", None], "income": [1, 2]}, ['"colour"', "row 2"]),
    ]:
        result = run("predict", model, write_csv(**columns), "--output", "p.csv")
        assert_one_sentence(result, 1, *words)
    assert_one_sentence(run("predict", model, "data.csv", "--output", "p.txt"), 2, ".parquet")
    assert_one_sentence(run("predict", model, "data.csv", "--output", "data.csv"), 1, "input")
    assert not Path("p.csv").exists()


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "another", "binary"])
def test_bad_models(damage):
    text = fit_small().read_bytes()
    damaged = {
        "empty": b"",
        "truncated": text[: len(text) // 2],
        "another": b"{}",
        "binary": b"\xff",
    }
    if damage in damaged:
        Path("bad.json").write_bytes(damaged[damage])
    result = run("predict", "bad.json", "train.csv", "--output", "p.csv")
    assert_one_sentence(result, 1, "bad.json")
    assert not Path("p.csv").exists()


# What it says while it works


def test_long_work_is_announced_and_short_work_is_not(capsys):
    assert messages.run_with_notice(lambda: 1, "Working...") == 1
    assert capsys.readouterr().err == ""
    assert messages.run_with_notice(lambda: time.sleep(0.3), "Working...", patience=0.05) is None
    assert capsys.readouterr().err == "Working...\n"


def test_errors_of_the_work_are_raised():
    with pytest.raises(ZeroDivisionError):
        messages.run_with_notice(lambda: 1 / 0, "Working...")


def test_compiling_is_announced(monkeypatch, capsys):
    done = threading.Event()
    monkeypatch.setattr(messages, "warm_up", lambda *_: done.wait(1.0))
    messages.prepare_kernels("predict")
    assert "Compiling" in capsys.readouterr().err


# Whole processes


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
    ordinary, robust, constant = (rows[k] for k in ("ordinary tree", "robust tree", "constant"))
    under_attack = [float(row[i].rstrip("%")) for row, i in ((ordinary, 3), (constant, 2), (robust, 3))]
    assert under_attack == sorted(under_attack)
    assert "predict spam" in result.stdout
    assert "here/there/threat-models.png" in result.stdout
    assert Path("here/there/threat-models.png").read_bytes().startswith(b"\x89PNG")
    assert os.listdir("here/there") == ["threat-models.png"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_interrupting_a_fit():
    """Compiled code does not look for signals, so Ctrl-C must not wait for it."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.random((400_000, 10))).rename(columns="x{}".format)
    table.assign(y=generator.integers(0, 2, len(table))).to_parquet("data.parquet")
    before = sorted(os.listdir())
    options = ["--target", "y", "--epsilon", "0.0001", "--output", "model.json"]
    command = [*COMMAND, "fit", "data.parquet", *options]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line == "Fitting...\n":
                break
        process.send_signal(signal.SIGINT)
        start = time.perf_counter()
        assert process.stderr.read() == "hardwood: interrupted\n"
        assert process.wait(timeout=60) == 130
        assert time.perf_counter() - start < 2
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("module", ["typer", "rich", "pandas"])
def test_without_the_extra(module, monkeypatch):
    for name in list(sys.modules):
        if name.startswith(("hardwood.cli", f"{module}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    sentence = f"hardwood: the command line needs {module}: pip install 'hardwood[cli]'"
    with pytest.raises(SystemExit, match=re.escape(sentence)):
        main()
