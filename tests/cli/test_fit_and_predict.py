"""`fit` and `predict` do what the library does, to files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import assert_one_sentence, fit_small, make_table, run, write_csv
from sklearn.ensemble import HistGradientBoostingClassifier

import hardwood
from counting import count_reading
from hardwood import RobustTreeClassifier, ThreatModel, TreeEnsemble, adversarial_accuracy, as_ensemble


def test_fit_is_the_estimator():
    table = make_table()
    X = table.drop(columns="label").astype({"colour": "category"})
    model = RobustTreeClassifier(2.0, max_depth=3, refine="search", random_state=0).fit(X, table["label"])
    written = TreeEnsemble.from_json(fit_small())
    assert written.to_json() == model.ensemble_.to_json()


@pytest.mark.parametrize(
    "options",
    [(), ("--model", "boosting"), ("--model", "forest", "--trees", 2), ("--task", "regression", "--target", "income")],
    ids=str,
)
def test_fit_reads_a_table_once(options, monkeypatch):
    """The figures under attack are those of the rows that were read for the fit, which used to be read anew."""
    table = make_table()
    table.to_csv("train.csv", index=False)
    counts = count_reading(monkeypatch)
    result = run("fit", "train.csv", "--target", "label", *options, "--epsilon", 2, "--output", "model.json")
    assert result.exit_code == 0, result.stderr
    names = [name for name in table.columns if name != ("income" if "--task" in options else "label")]
    assert counts == {"rows": len(table), **{f"feature {name!r}": len(table) for name in names}}


@pytest.mark.parametrize("refine", [None, "alternate"])
def test_fit_refines_as_it_is_told(refine):
    table = make_table()
    table.to_csv("train.csv", index=False)
    arguments = ("--target", "label", "--ignore", "colour", "--epsilon", 2, "--max-depth", 3, "--output", "model.json")
    assert run("fit", "train.csv", *arguments, "--refine", refine or "none").exit_code == 0
    model = RobustTreeClassifier(2.0, max_depth=3, refine=refine, random_state=0)
    model.fit(table[["age", "income"]], table["label"])
    assert TreeEnsemble.from_json("model.json").to_json() == model.ensemble_.to_json()


def test_fit_says_that_it_trains_against_the_box_around_a_budget():
    make_table().to_csv("train.csv", index=False)
    Path("budget.toml").write_text("features = 1.0\nmax_changes = 1\n")
    result = run("fit", "train.csv", "--target", "label", "--ignore", "colour", "--threat", "budget.toml",
                 "--refine", "none", "--output", "model.json")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "max_changes=1" in result.stdout
    assert "the box around the budget over columns" in " ".join(result.stdout.split())


def test_fit_says_what_it_did():
    table = make_table()
    table.to_csv("train.csv", index=False)
    Path("threat.toml").write_text('attacking_classes = ["fraud"]\n[features]\nincome = 2\n')
    result = run("fit", "train.csv", "--target", "label", "--ignore", "colour", "--threat",
                 "threat.toml", "--max-depth", 2, "--output", "model.json")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    X = table[["age", "income"]]
    threat = ThreatModel({"income": 2}, attacking_classes=["fraud"])
    model = RobustTreeClassifier(threat, max_depth=2, refine="search", random_state=0).fit(X, table["label"])
    under_attack = adversarial_accuracy(model, X, table["label"], threat)
    for words in (
        "80 rows, 2 features",
        f"honest ({np.mean(table['label'] == 'honest'):.1%})",
        "attacking_classes=['fraud']",
        f"{model.get_n_leaves()} leaves, depth {model.get_depth()}, the best of 22",
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

    monkeypatch.setattr("hardwood.RobustTreeClassifier", Recorder)
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
    assert written.columns.tolist() == ["row", "prediction", "probability_fraud", "probability_honest"]
    assert written["row"].tolist() == list(range(1, 31))
    assert written["prediction"].tolist() == ensemble.predict(X).tolist()
    np.testing.assert_allclose(written.iloc[:, 2:], ensemble.predict_proba(X), rtol=1e-12)


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


@pytest.mark.parametrize("what", ["missing", "classes", "blank"])
def test_every_tree_is_refined(what):
    """Trees of three classes, and of rows with missing cells, were grown greedily without a word."""
    table = make_table().drop(columns="colour")
    if what == "missing":
        table.loc[[4, 6, 9], "income"] = np.nan
    if what == "classes":
        table.loc[::5, "label"] = "unclear"
    table.to_csv("train.csv", index=False)
    Path("threat.toml").write_text("blank = ['income']" if what == "blank" else "features = 2.0")
    arguments = ("--target", "label", "--threat", "threat.toml", "--max-depth", 3, "--output", "model.json")
    models = {}
    for refine in ((), ("--refine", "search"), ("--refine", "none")):
        result = run("fit", "train.csv", *arguments, *refine)
        assert result.exit_code == 0, result.stderr
        assert "greedily" not in result.stderr
        models[refine] = Path("model.json").read_text()
    searched, asked, greedy = models.values()
    assert searched == asked
    assert searched != greedy


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
    np.testing.assert_allclose(pd.read_csv("p.csv").iloc[:, 2:], expected, rtol=1e-12)


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
    fit = run("fit", "train.csv", "--target", "y", "--refine", "none", "--output", "model.json")
    assert fit.exit_code == 0, fit.stderr
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
