"""Examples come back as the table that was attacked: its kind, index, names and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from hardwood import RobustTreeClassifier, ThreatModel, attack, evaluate, transfer_attack, verify
from hardwood.table import Schema
from hardwood.table.likeness import decode_like, find_whole_columns
from reference import attacking

LABELS = [0, 0, 1, 1]
STUMP = attacking.build((0, 4.5, 0, 1), Schema.numeric(2))


def houses(**changes: Any) -> pd.DataFrame:
    """Whole numbers, truth values and an index that says nothing about the order."""
    columns = {"rooms": [1, 3, 6, 8], "heated": [False, True, False, True], **changes}
    return pd.DataFrame(columns, index=["d", "b", "c", "a"])


class TestIndex:
    def test_what_was_changed_is_the_difference(self) -> None:
        """The index was lost, so that `X_adv - X` was missing values or, worse, other rows."""
        X = houses()
        model = RobustTreeClassifier(max_depth=1).fit(X, LABELS)
        result = attack(model, X, LABELS, {"rooms": 2})
        assert result.X_adv.index.equals(X.index)
        assert (result.X_adv - X)["rooms"].tolist() == pytest.approx([np.nan, 2, -2, np.nan], nan_ok=True)
        assert verify(model, X, LABELS, {"rooms": 2}).witness.index.equals(X.index)
        report = evaluate(model, X, LABELS, {"rooms": 2})
        assert report.to_frame().index.equals(X.index)
        assert report.to_frame("classes").index.tolist() == [0, 1]

    def test_labels_with_an_index_of_their_own(self) -> None:
        X = houses()
        y = pd.Series(LABELS, index=[7, 5, 6, 4])
        result = attack(RobustTreeClassifier(max_depth=1).fit(X, y), X, y, {"rooms": 2})
        assert result.made_wrong.tolist() == [False, True, True, False]


class TestKind:
    def test_polars(self) -> None:
        """polars in gave pandas out."""
        X = pl.DataFrame({"rooms": [1, 3, 6, 8], "size": [1.5, 2.5, 3.5, 4.5], "heated": [False, True, False, True]})
        model = RobustTreeClassifier(max_depth=1).fit(X, LABELS)
        result = attack(model, X, LABELS, {"rooms": 2})
        certificate = verify(model, X, LABELS, {"rooms": 2})
        for table in (result.X_adv, certificate.witness):
            assert isinstance(table, pl.DataFrame)
            assert table.schema == X.schema
            assert table["rooms"].to_list() == [None, 5, 4, None]
            assert table["heated"].to_list() == [None, True, False, None]
        assert (model.predict(result.X_adv.filter(result.found)) != np.array(LABELS)[result.found]).all()
        for of in ("rows", "classes", "curve"):
            assert isinstance(evaluate(model, X, LABELS, {"rooms": 2}).to_frame(of), pl.DataFrame)

    def test_categories_of_polars(self) -> None:
        kinds = [pl.Categorical, pl.Enum(["blue", "red"]), pl.String]
        for kind in kinds:
            X = pl.DataFrame({"color": pl.Series(["red", "blue", "red", "blue"], dtype=kind)})
            model = RobustTreeClassifier(categorical_features=["color"]).fit(X, [1, 0, 1, 0])
            result = attack(model, X, [1, 0, 1, 0], {"color": {"red": ["blue"]}})
            assert result.X_adv.schema == X.schema
            assert result.X_adv["color"].to_list() == ["blue", None, "blue", None]

    def test_a_frame_for_a_model_of_an_array(self) -> None:
        """A DataFrame given to a model that was fitted on an array came back as an array."""
        X = houses()
        model = DecisionTreeClassifier(max_depth=1).fit(X.to_numpy(dtype=float), LABELS)
        result = attack(model, X, LABELS, [2, 0])
        assert isinstance(result.X_adv, pd.DataFrame)
        assert result.X_adv.columns.tolist() == X.columns.tolist()
        assert result.X_adv.index.equals(X.index)
        numbered = X.rename(columns={"rooms": 10, "heated": 20})
        assert attack(model, numbered, LABELS, [2, 0]).X_adv.columns.tolist() == [10, 20]

    def test_an_array_for_a_model_of_a_frame(self) -> None:
        X = pd.DataFrame({"size": [1.0, 2.0, 7.0, 8.0], "color": pd.Categorical(["red", "red", "blue", "blue"])})
        model = RobustTreeClassifier(max_depth=1).fit(X, LABELS)
        result = attack(model, X.to_numpy(dtype=object), LABELS, {"size": 3.0, "color": "<>"})
        assert isinstance(result.X_adv, np.ndarray)
        assert set(result.X_adv[result.found][:, 1]) <= {"red", "blue"}
        plain = RobustTreeClassifier(max_depth=1).fit(X[["size"]], LABELS)
        assert type(attack(plain, X[["size"]].to_numpy(), LABELS, 3.0).X_adv) is np.ndarray
        assert type(attack(plain, [[1.0], [2.0]], [0, 0], 3.0).X_adv) is np.ndarray

    def test_any_classifier(self) -> None:
        X = houses(heated=[1, 2, 1, 2])
        model = LogisticRegression().fit(X, LABELS)
        result = transfer_attack(model, X, LABELS, [4, 0], random_state=0)
        assert isinstance(result.X_adv, pd.DataFrame)
        assert result.X_adv.index.equals(X.index)
        assert result.made_wrong.any()
        assert (model.predict(result.X_adv[result.found]) != np.array(LABELS)[result.found]).all()


def in_parts(features: Any) -> ThreatModel:
    """The threat of an attacker who is not bound to whole numbers."""
    return ThreatModel(features, whole_numbers=None)


class TestTypes:
    def test_whole_numbers_stay_whole(self) -> None:
        """They came back as floats such as 4.500000000000001, and truth values as 0.0 and 1.0."""
        X = houses()[1:3]
        for threat, distance in (([2, 0], [2.0, 2.0]), (in_parts([2, 0]), [1.5, 1.5])):
            result = attack(STUMP, X, LABELS[1:3], threat)
            assert result.X_adv.dtypes.tolist() == X.dtypes.tolist()
            assert result.X_adv["rooms"].tolist() == [5, 4]
            assert STUMP.predict(result.X_adv).tolist() == [1, 0]
            assert result.distance.tolist() == pytest.approx(distance)

    def test_numpy_knows_no_missing_values(self) -> None:
        X = houses()
        result = attack(STUMP, X, LABELS, [2, 0])
        assert result.X_adv["rooms"].tolist() == pytest.approx([np.nan, 5.0, 4.0, np.nan], nan_ok=True)
        assert result.X_adv[result.found].astype(X.dtypes)["heated"].tolist() == [True, False]

    @pytest.mark.parametrize(("whole", "truth"), [("Int64", "boolean"), ("UInt8", "boolean"), ("Int16", "boolean")])
    def test_types_that_know_missing_values(self, whole: str, truth: str) -> None:
        X = houses().astype({"rooms": whole, "heated": truth})
        result = attack(STUMP, X, LABELS, [2, 0])
        assert result.X_adv.dtypes.tolist() == X.dtypes.tolist()
        assert result.X_adv["rooms"].isna().tolist() == [True, False, False, True]
        assert result.X_adv[result.found]["rooms"].tolist() == [5, 4]
        assert STUMP.predict(result.X_adv[result.found]).tolist() == [1, 0]

    def test_a_column_in_which_one_example_would_be_lost(self) -> None:
        """From 3 to 4.5 is within 1.6, but 5 is not: the whole column stays as it was found."""
        X = houses()[1:3]
        result = attack(STUMP, X, LABELS[1:3], in_parts([1.6, 0]))
        assert result.X_adv["rooms"].tolist() == [np.nextafter(4.5, 5.0), 4.5]
        assert result.X_adv["heated"].dtype == bool
        assert STUMP.predict(result.X_adv).tolist() == [1, 0]

    def test_a_leaf_between_two_whole_numbers(self) -> None:
        """Rounded on, the example would be past the leaf: it is predicted again, and the column stays as found."""
        tree = attacking.build((0, 4.2, 0, (0, 4.8, 1, 0)), Schema.numeric(2))
        result = attack(tree, houses()[1:2], [0], in_parts([5, 0]))
        assert result.X_adv["rooms"].tolist() == [np.nextafter(4.2, 5.0)]
        assert tree.predict(result.X_adv).tolist() == [1]

    def test_what_the_type_cannot_hold(self) -> None:
        """-1 is no uint8, and 2 is no truth value."""
        X = houses().astype({"rooms": "uint8"})[:2]
        down = attacking.build((0, -0.5, 1, 0), Schema.numeric(2))
        assert attack(down, X, [0, 0], in_parts("<>")).X_adv["rooms"].tolist() == [-0.5, -0.5]
        up = attacking.build((1, 1.5, 0, 1), Schema.numeric(2))
        assert attack(up, X, [0, 0], in_parts("<>")).X_adv["heated"].tolist() == [np.nextafter(1.5, 2.0)] * 2

    def test_numbers_that_are_too_large_for_a_float(self) -> None:
        """2**53 + 1 is no float64. Where it was not changed, it is what the caller gave."""
        X = houses(heated=[2**53 + 1, 2**62 + 1, -(2**53) - 1, 5])[1:3]
        for table in (X, X.astype("Int64"), pl.from_pandas(X)):
            assert attack(STUMP, table, LABELS[1:3], [2, 0]).X_adv["heated"].to_list() == X["heated"].to_list()

    def test_categories_keep_their_type(self) -> None:
        dtype = pd.CategoricalDtype(["red", "green", "blue"])
        X = pd.DataFrame({"color": pd.Series(["red", "blue", "red", "blue"], dtype=dtype)})
        model = RobustTreeClassifier().fit(X, [1, 0, 1, 0])
        result = attack(model, X, [1, 0, 1, 0], {"color": {"red": ["blue"]}})
        assert result.X_adv["color"].dtype == dtype
        text = X.astype(object)
        spelled = RobustTreeClassifier(categorical_features=["color"]).fit(text, [1, 0, 1, 0])
        assert attack(spelled, text, [1, 0, 1, 0], {"color": {"red": ["blue"]}}).X_adv["color"].dtype == object

    def test_regressions(self) -> None:
        X = houses()
        model = DecisionTreeRegressor(max_depth=1).fit(X, [0.0, 0.0, 1.0, 1.0])
        witness = verify(model, X[1:3], None, [2, 0], tolerance=0.5).witness
        assert witness.dtypes.tolist() == X.dtypes.tolist()
        assert model.predict(witness).tolist() == [1.0, 0.0]

    @given(st.integers(0, 2**32 - 1), st.sampled_from(["pandas", "nullable", "polars"]))
    def test_every_example_remains_one(self, seed: int, kind: str) -> None:
        """Predicted again on the table that came back, and within reach of the one that was given."""
        generator = np.random.default_rng(seed)
        schema = Schema.numeric(3, ["a", "b", "c"])
        trees = attacking.random_trees(generator, schema, int(generator.integers(1, 3)), 4, 3)
        frame = pd.DataFrame(
            {
                "a": generator.integers(-3, 4, 6),
                "b": generator.random(6) < 0.5,
                "c": generator.normal(size=6).round(1),
            }
        )
        table: Any = frame
        if kind == "nullable":
            table = frame.astype({"a": "Int64", "b": "boolean"})
        elif kind == "polars":
            table = pl.from_pandas(frame)
        y = trees.predict(frame)
        threat = ThreatModel([float(generator.choice([0.5, 1.0, 1.6, 3.0])) for _ in range(3)])
        result, certificate = attack(trees, table, y, threat), verify(trees, table, y, threat)
        for examples in (result.X_adv, certificate.witness):
            found = result.found
            some = examples.filter(found) if kind == "polars" else examples[found]
            before = table.filter(found) if kind == "polars" else table[found]
            if found.any():
                assert (trees.predict(some) != y[found]).all()
                assert threat.contains(before, some, y[found], schema).all()
                if kind != "pandas" and some["a"].dtype != table["a"].dtype:
                    assert (schema.encode(some)[:, 0] % 1 != 0).any()


def test_whole_columns() -> None:
    X = houses().assign(size=1.5, town=pd.Categorical(["x"] * 4), big=pd.array([1, 2, 3, 4], dtype="UInt8"))
    assert [column.position for column in find_whole_columns(X)] == [0, 1, 4]
    assert find_whole_columns(X.to_numpy()) == []
    assert [column.position for column in find_whole_columns(pl.from_pandas(X))] == [0, 1, 4]


def test_other_rows_have_no_index() -> None:
    X = houses()
    schema = Schema.from_table(X)
    assert decode_like(schema, schema.encode(X)[:2], X).index.tolist() == [0, 1]
