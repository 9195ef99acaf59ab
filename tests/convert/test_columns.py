"""The columns of a table and those of a model: by their names first, whatever library the model comes from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    RobustForestClassifier,
    RobustTreeClassifier,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    attack,
    evaluate,
    is_vulnerable,
    make_adversarial_scorer,
    verify,
)
from hardwood.convert.alignment import align
from hardwood.table import Schema

Make = Callable[[Any, np.ndarray], Any]
Models = dict[str, Make]


def make_mixed() -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of categories, whole numbers and other numbers, in which every column matters."""
    generator = np.random.default_rng(0)
    color, size = generator.choice(["red", "green", "blue"], 120), generator.choice(["S", "M", "L"], 120)
    age, income = generator.integers(18, 90, 120), generator.normal(size=120).round(2)
    X = pd.DataFrame({
        "color": pd.Categorical(color),
        "size": pd.Categorical(size, categories=["S", "M", "L"]),
        "age": age,
        "income": income,
    })  # fmt: skip
    return X, ((color == "red") ^ (size == "M") ^ (age > 50) ^ (income > 0.5)).astype(int)


X, Y = make_mixed()
NUMBERS = X[["age", "income"]].assign(balance=np.random.default_rng(1).normal(size=len(X)))


def boost(X: Any, y: np.ndarray) -> Any:
    xgb = pytest.importorskip("xgboost")
    return xgb.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1, enable_categorical=True).fit(X, y)


def boost_raw(X: Any, y: np.ndarray) -> Any:
    xgb = pytest.importorskip("xgboost")
    data = xgb.DMatrix(X, y, enable_categorical=True, nthread=1)
    return xgb.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, 4)


def light(X: Any, y: np.ndarray) -> Any:
    lgb = pytest.importorskip("lightgbm")
    small = {"n_estimators": 4, "verbose": -1, "n_jobs": 1, "min_child_samples": 3, "min_data_per_group": 1}
    return lgb.LGBMClassifier(**small).fit(X, y)


def saved(make: Make, name: str) -> Make:
    """Return what makes a model and saves it: the file is the model."""

    def make_file(X: Any, y: np.ndarray) -> Any:
        path = Path(FOLDER.name) / f"{make.__name__}-{X.shape[1]}-{name}"
        model = make(X, y)
        getattr(model, "booster_", model).save_model(path)
        return path

    return make_file


FOLDER = TemporaryDirectory()

OF_CATEGORIES: Models = {
    "XGBClassifier": boost,
    "XGBoost's Booster": boost_raw,
    "XGBoost's JSON": saved(boost, "model.json"),
    "XGBoost's UBJ": saved(boost_raw, "model.ubj"),
    "LGBMClassifier": light,
    "LightGBM's Booster": lambda X, y: light(X, y).booster_,
    "LightGBM's text": saved(light, "model.txt"),
    "HistGradientBoosting": lambda X, y: HistGradientBoostingClassifier(
        categorical_features="from_dtype", max_iter=4, min_samples_leaf=3
    ).fit(X, y),
    "Pipeline": lambda X, y: make_pipeline(
        ColumnTransformer([
            ("encoded", OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["size", "color"]),
            ("scaled", StandardScaler(), ["income", "age"]),
        ]),
        RandomForestClassifier(4, max_depth=4, random_state=0),
    ).fit(X, y),
    "own": lambda X, y: RobustTreeClassifier(0.1, max_depth=4).fit(X, y),
    "own JSON": lambda X, y: TreeEnsemble.parse_json(RobustTreeClassifier(max_depth=4).fit(X, y).ensemble_.to_json()),
}  # fmt: skip

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
OF_NUMBERS: Models = {
    "DecisionTree": lambda X, y: DecisionTreeClassifier(max_depth=3).fit(X, y),
    "RandomForest": lambda X, y: RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y),
    "HistGradientBoosting": lambda X, y: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5).fit(X, y),
    "Bagging": lambda X, y: BaggingClassifier(TREE, 3, max_features=2, random_state=0).fit(X, y),
    "Voting": lambda X, y: VotingClassifier([("a", TREE), ("b", TREE)], voting="soft").fit(X, y),
    "GridSearchCV": lambda X, y: GridSearchCV(TREE, {"max_depth": [3]}, cv=2).fit(X, y),
    "XGBClassifier": boost,
    "XGBoost's Booster": boost_raw,
    "LGBMClassifier": light,
    "own": lambda X, y: RobustTreeClassifier(0.1, max_depth=3).fit(X, y),
}


@cache
def fitted(name: str) -> Any:
    return OF_CATEGORIES[name](X, Y)


@cache
def predicted(name: str) -> np.ndarray:
    """Return what a model itself says of the table that it was trained on."""
    model = fitted(name)
    if isinstance(model, Path):
        of_object = {"XGBoost's JSON": "XGBClassifier", "XGBoost's UBJ": "XGBoost's Booster"}
        return predicted(of_object.get(name, "LightGBM's Booster"))
    if type(model).__module__.startswith("xgboost") and not hasattr(model, "fit"):
        xgb = pytest.importorskip("xgboost")
        return (model.predict(xgb.DMatrix(X, enable_categorical=True, nthread=1)) > 0.5).astype(int)
    labels = np.asarray(model.predict(X))
    return (labels > 0.5).astype(int) if labels.dtype.kind == "f" else labels


@contextmanager
def hears_of_another_order() -> Iterator[None]:
    with pytest.warns(UserWarning, match=r"in another order, and are told apart by their names; .* threat=\[\.\.\.\]"):
        yield


def to_polars(table: pd.DataFrame) -> pl.DataFrame:
    """Return a polars DataFrame with categories as polars has them; by way of lists, which needs no pyarrow."""
    return pl.DataFrame([
        pl.Series(name, table[name].tolist(), dtype=pl.Categorical if str(table[name].dtype) == "category" else None)
        for name in table.columns
    ])  # fmt: skip


def knows_labels(name: str) -> bool:
    """Say whether a model knows the labels of its categories: XGBoost keeps them from 3.1 on."""
    if not name.startswith("X"):
        return True
    xgb = pytest.importorskip("xgboost")
    return tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1)


each_model = pytest.mark.parametrize("name", OF_CATEGORIES)
OTHER_ORDER = ["income", "size", "age", "color"]


class TestTheSameColumns:
    """What the model says of a table does not hang on the order of its columns, nor on that of its categories."""

    @each_model
    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_another_order(self, name: str, library: str) -> None:
        """Columns were compared by position: in another order, one was blamed for the labels of another."""
        if library == "polars" and not knows_labels(name):
            pytest.skip("XGBoost before 3.1 keeps no labels, and asks pandas for them")
        table = X[OTHER_ORDER] if library == "pandas" else to_polars(X[OTHER_ORDER])
        model, expected = fitted(name), predicted(name)
        with hears_of_another_order():
            ensemble = as_ensemble(model, table)
        assert ensemble.schema.feature_names == tuple(OTHER_ORDER)
        assert [labels is None for labels in ensemble.schema.categories] == [True, False, True, False]
        assert np.array_equal(ensemble.predict(table), expected)
        assert 0 < expected.mean() < 1
        in_order = as_ensemble(model, X)
        assert in_order.schema.feature_names == tuple(X.columns)
        assert np.array_equal(in_order.predict(X), expected)
        assert {len(labels or ()) for labels in in_order.schema.categories} == {0, 3}

    @each_model
    def test_categories_in_another_order(self, name: str) -> None:
        """XGBoost before 3.1 takes codes for codes: there, the labels are those of the table."""
        colors, sizes = ["red", "green", "blue"], ["M", "L", "S"]
        table = X.assign(color=X["color"].cat.reorder_categories(colors), size=X["size"].cat.reorder_categories(sizes))
        predictions = as_ensemble(fitted(name), table).predict(table)
        if knows_labels(name):
            assert np.array_equal(predictions, predicted(name))

    @each_model
    @pytest.mark.parametrize("kind", ["array", "numbered columns"])
    def test_without_names(self, name: str, kind: str) -> None:
        """By position. Of a DataFrame whose columns are numbers XGBoost and ColumnTransformer would have the names."""
        if kind == "array" and not knows_labels(name):
            pytest.skip("XGBoost before 3.1 keeps no labels, and asks pandas for them")
        table = X.set_axis(range(4), axis=1) if kind == "numbered columns" else X.to_numpy(dtype=object)
        ensemble = as_ensemble(fitted(name), table)
        assert ensemble.schema.feature_names == tuple(X.columns)
        assert np.array_equal(ensemble.predict(table), predicted(name))

    @pytest.mark.parametrize("name", OF_NUMBERS)
    @pytest.mark.parametrize("training", [pd.DataFrame, np.asarray], ids=["names", "no names"])
    @pytest.mark.parametrize("table", [pd.DataFrame, np.asarray, pl.DataFrame], ids=["pandas", "array", "polars"])
    def test_names_on_one_side(self, name: str, training: Any, table: Any) -> None:
        model = OF_NUMBERS[name](training(NUMBERS), Y)
        rows = pl.DataFrame(NUMBERS.to_dict("list")) if table is pl.DataFrame else table(NUMBERS)
        assert np.array_equal(as_ensemble(model, rows).predict(rows), as_ensemble(model).predict(NUMBERS.to_numpy()))

    @pytest.mark.parametrize("name", OF_NUMBERS)
    def test_another_order_of_numbers(self, name: str) -> None:
        model, table = OF_NUMBERS[name](NUMBERS, Y), NUMBERS[["balance", "age", "income"]]
        with hears_of_another_order():
            ensemble = as_ensemble(model, table)
        assert np.array_equal(ensemble.predict(table), as_ensemble(model).predict(NUMBERS))

    @pytest.mark.parametrize("make", [boost, boost_raw, light])
    def test_numbers_for_names(self, make: Make) -> None:
        """XGBoost and LightGBM make names of the numbers by which columns go, and scikit-learn has none."""
        numbered = NUMBERS.set_axis(range(3), axis=1)
        model, table = make(numbered, Y), numbered[[2, 0, 1]]
        with hears_of_another_order():
            ensemble = as_ensemble(model, table)
        assert ensemble.schema.feature_names == ("2", "0", "1")
        assert np.array_equal(ensemble.predict(table), as_ensemble(model).predict(NUMBERS.to_numpy()))
        with pytest.raises(ValueError, match=r"now missing:\n- 1\n$"):
            as_ensemble(model, numbered[[0, 2]])

    def test_names_that_lightgbm_respells(self) -> None:
        """Spaces become underscores; in another order as well, and unless the table has both."""
        table = NUMBERS.set_axis(["my age", "my_income", "my balance"], axis=1)
        model, other = light(table, Y), table[["my_income", "my balance", "my age"]]
        with hears_of_another_order():
            ensemble = as_ensemble(model, other)
        assert ensemble.schema.feature_names == tuple(other.columns)
        assert np.array_equal(ensemble.predict(other), model.predict(table))
        with pytest.raises(ValueError, match=r"unseen at fit time:\n- my age\n$"):
            as_ensemble(model, table.assign(my_age=1.0))


OTHER_COLUMNS = {
    "one missing": (X.drop(columns="size"), r"yet now missing:\n- size\n$"),
    "the first missing": (X.drop(columns="color"), r"yet now missing:\n- color\n$"),
    "the last missing": (X.drop(columns="income"), r"yet now missing:\n- income\n$"),
    "several missing": (X[["age", "income"]], r"yet now missing:\n- color\n- size\n$"),
    "one more": (X.assign(town="A"), r"unseen at fit time:\n- town\n$"),
    "one more, in another order": (X.assign(town="A")[["town", *OTHER_ORDER]], r"unseen at fit time:\n- town\n$"),
    "another name": (X.rename(columns={"size": "Size"}), r"unseen at fit time:\n- Size\n.*missing:\n- size\n$"),
}
DOORS: dict[str, Callable[[Any, Any], Any]] = {
    "as_ensemble": as_ensemble,
    "predict": lambda model, X: as_ensemble(model).predict(X),
    "verify": lambda model, X: verify(model, X, Y, 0.1),
    "attack": lambda model, X: attack(model, X, Y, 0.1),
    "evaluate": lambda model, X: evaluate(model, X, Y, 0.1),
    "is_vulnerable": lambda model, X: is_vulnerable(model, X, Y, 0.1),
    "adversarial_accuracy": lambda model, X: adversarial_accuracy(model, X, Y, 0.1),
    "scorer": lambda model, X: make_adversarial_scorer(0.1)(model, X, Y),
}


class TestOtherColumns:
    """A column too few was an IndexError, or another column was blamed for holding none of its labels."""

    @each_model
    @pytest.mark.parametrize("case", OTHER_COLUMNS)
    def test_are_named(self, name: str, case: str) -> None:
        table, message = OTHER_COLUMNS[case]
        for rows in (table, to_polars(table)):
            with pytest.raises(ValueError, match=f"(?s){message}"):
                as_ensemble(fitted(name), rows)

    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize("name", ["XGBClassifier", "LightGBM's text", "Pipeline", "own"])
    def test_at_every_door(self, door: str, name: str) -> None:
        for table, message in OTHER_COLUMNS.values():
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="the model does not hold the labels")
                with pytest.raises(ValueError, match=f"(?s){message}"):
                    DOORS[door](fitted(name), table)

    @each_model
    @pytest.mark.parametrize("n_columns", [1, 3, 5])
    def test_without_names_are_counted(self, name: str, n_columns: int) -> None:
        """The categories of a column that is not there were an IndexError."""
        rows = np.column_stack([X.to_numpy(dtype=object), Y])[:, :n_columns]
        for table in (rows, rows.tolist(), pd.DataFrame(rows).set_axis(range(10, 10 + n_columns), axis=1)):
            with pytest.raises(ValueError, match=rf"X has {n_columns} features, but \w+ is expecting 4 features"):
                as_ensemble(fitted(name), table)

    def test_many_are_counted(self) -> None:
        """A message stays shorter than a screen, and says how many columns it leaves out."""
        wide = pd.DataFrame(
            np.random.default_rng(0).normal(size=(30, 300)), columns=[f"{j:03}" * 99 for j in range(300)]
        )
        model = DecisionTreeClassifier(max_depth=2).fit(wide, wide.iloc[:, 0] > 0)
        with pytest.raises(ValueError, match=r"(?s)- 003003.*- \.\.\. 287 more\n$") as error:
            as_ensemble(model, wide.iloc[:, :3])
        assert len(str(error.value)) < 4000
        with pytest.raises(ValueError, match="occurs more than once"):
            as_ensemble(model, wide.set_axis(["a", *wide.columns[:-2], "a"], axis=1))


class TestOtherTypes:
    """What is no column of the model's in spite of its name: the column is named, and so is what it holds."""

    @each_model
    @pytest.mark.parametrize("dtype", [float, int])
    def test_numbers_for_categories(self, name: str, dtype: Any) -> None:
        table = X.assign(color=X["color"].cat.codes.astype(dtype))
        if knows_labels(name):
            message = (
                r"feature 'color' holds the categories .* model knows none of them; it knows 'blue', 'green', 'red'"
            )
            with pytest.raises(ValueError, match=message):
                as_ensemble(fitted(name), table)

    @each_model
    def test_categories_for_numbers(self, name: str) -> None:
        """The model is asked as well: of an own one nothing is compared at the import, so its columns are not read."""
        table = X.assign(income=pd.Categorical(np.where(X["income"] > 0, "high", "low")))
        with pytest.raises(ValueError, match=r"X: feature 'income' holds '(high|low)', which is not a number"):
            as_ensemble(fitted(name), table).predict(table)

    @each_model
    def test_labels_that_nobody_knows(self, name: str) -> None:
        table = X.assign(size=X["size"].cat.rename_categories(str.lower))
        if knows_labels(name):
            with pytest.raises(ValueError, match=r"feature 'size' holds the categories '[sml]', .*it knows '[SL]'"):
                as_ensemble(fitted(name), table)

    @pytest.mark.parametrize("name", ["XGBClassifier", "LGBMClassifier", "LightGBM's text"])
    def test_types_that_the_model_itself_refuses(self, name: str) -> None:
        """LightGBM says that something does not match, and not what."""
        table = X.assign(color=X["color"].astype(str))
        if knows_labels(name):
            message = (
                r"itself does not predict for this table: .* \(feature 'color' holds categories for the model, and is"
            )
            with pytest.raises(ValueError, match=message):
                as_ensemble(fitted(name), table)

    def test_a_category_of_which_the_source_makes_something_else(self) -> None:
        """The error named rows, but not what is odd about them: XGBoost takes some new labels for one that it knows."""

        class Guesses(HistGradientBoostingClassifier):
            def predict(self, X: Any) -> Any:
                return np.where(X["color"] == "mauve", 1 - super().predict(X), super().predict(X))

        model = Guesses(categorical_features="from_dtype", max_iter=2).fit(X, Y)
        table = X.assign(color=X["color"].astype(object).where(X.index != 7, "mauve").astype("category"))
        with pytest.raises(
            ValueError, match=r"In row 7 .*; feature 'color' holds 'mauve' there, which the model does not"
        ):
            as_ensemble(model, table)


class TestQuestions:
    """Whatever answers questions about rows answers the same in whichever order their columns are."""

    THREAT = {"age": 5, "income": 0.4, "color": {"red": ["blue"]}}  # noqa: RUF012

    @pytest.mark.parametrize("name", ["XGBClassifier", "LightGBM's text", "HistGradientBoosting", "Pipeline", "own"])
    def test_answers(self, name: str) -> None:
        """Columns of whole numbers, which only the types of a table tell, go with their names."""
        model, rows = fitted(name), X[:30]
        if not knows_labels(name):
            pytest.skip("XGBoost before 3.1 keeps no labels")
        first = verify(model, rows, Y[:30], self.THREAT)
        with hears_of_another_order():
            second = verify(model, rows[OTHER_ORDER], Y[:30], self.THREAT)
        assert np.array_equal(first.status, second.status)
        assert {"robust", "vulnerable"} <= set(first.status)
        assert list(second.witness.columns) == OTHER_ORDER
        for column in OTHER_ORDER:
            assert first.witness[column].tolist() == pytest.approx(second.witness[column].tolist(), nan_ok=True, abs=0)
        assert (second.witness["age"].dropna() % 1 == 0).all()
        with hears_of_another_order():
            report = evaluate(model, rows[OTHER_ORDER], Y[:30], self.THREAT)
        expected = evaluate(model, rows, Y[:30], self.THREAT)
        assert report.accuracy == expected.accuracy
        assert report.adversarial_accuracy == expected.adversarial_accuracy

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    @pytest.mark.parametrize("name", ["LGBMClassifier", "HistGradientBoosting", "own"])
    def test_examples_fool_the_source(self, name: str, library: str) -> None:
        """They come back as the caller's table, with its columns in its order."""
        model, rows = fitted(name), X[:30][OTHER_ORDER]
        table = rows if library == "pandas" else to_polars(rows)
        with hears_of_another_order():
            result = attack(model, table, Y[:30], self.THREAT)
        assert type(result.X_adv) is type(table)
        assert list(result.X_adv.columns) == OTHER_ORDER
        found = np.flatnonzero(result.found)
        assert len(found) > 3
        examples = pd.DataFrame({name: list(result.X_adv[name]) for name in X.columns}).iloc[found]
        examples = examples.astype({"color": X["color"].dtype, "size": X["size"].dtype})
        assert (model.predict(examples) != Y[found]).all()

    def test_lists_are_in_the_order_of_the_table(self) -> None:
        """Which the warning says: a list has no names to go by."""
        y = (NUMBERS["income"] > 0).to_numpy().astype(int)
        model, table = DecisionTreeClassifier(max_depth=1).fit(NUMBERS, y), NUMBERS[["income", "age", "balance"]]
        for threat, status in (([9.0, None, None], "vulnerable"), ([None, 9.0, 9.0], "robust")):
            with hears_of_another_order():
                assert set(verify(model, table, y, threat).status) == {status}

    def test_own_estimators_refuse_another_order_themselves(self) -> None:
        """As scikit-learn's do, by its rules."""
        model = RobustForestClassifier(0.1, n_estimators=2, max_depth=2, random_state=0).fit(X, Y)
        for method in (model.predict, model.predict_proba, lambda table: model.certify(table, Y)):
            with pytest.raises(ValueError, match="must be in the same order"):
                method(X[OTHER_ORDER])

    def test_an_ensemble_in_another_order_is_made_once(self) -> None:
        """What is worked out about it is kept with it: whoever asks row by row repeats the table's order every time."""
        ensemble = fitted("own JSON")
        with hears_of_another_order():
            first, second = as_ensemble(ensemble, X[OTHER_ORDER]), as_ensemble(ensemble, X[OTHER_ORDER][:1])
        assert first is second
        assert as_ensemble(first, X[OTHER_ORDER]) is first
        assert as_ensemble(ensemble, X) is ensemble


class TestAlignment:
    SCHEMA = Schema.numeric(2, ["a", "b"])

    def test_the_callers_table_is_left_alone(self) -> None:
        for frame in (pd.DataFrame, pl.DataFrame):
            table = frame({"b": [1.0], "a": [2.0]})
            alignment = align(self.SCHEMA, table)
            assert list(alignment.table.columns) == ["a", "b"]
            assert list(table.columns) == ["b", "a"]
            assert alignment.positions == (1, 0)
            same = frame({"a": [2.0], "b": [1.0]})
            assert align(self.SCHEMA, same).table is same

    def test_respelt_names(self) -> None:
        """A name that the model knows as it is stays what it is."""
        names = align(Schema.numeric(2, ["A", "b"]), pd.DataFrame({"b": [1.0], "a": [2.0]}), str.upper).names
        assert names == ("a", "b")
        with pytest.raises(ValueError, match=r"unseen at fit time:\n- a\n$"):
            align(Schema.numeric(2, ["A", "b"]), pd.DataFrame({"b": [1.0], "a": [2.0], "A": [3.0]}), str.upper)
