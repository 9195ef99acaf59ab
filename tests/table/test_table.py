"""Schema: tables to matrices and back."""

import json
import pickle
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hardwood import RobustTreeRegressor
from hardwood.table import Schema

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(max_size=5)
LABELS = WORDS | st.integers(-(10**6), 10**6) | FINITE | st.booleans()


def mixed_rows(labels=WORDS):
    return st.lists(st.tuples(FINITE, labels), min_size=1, max_size=12)


def as_pandas(rows):
    numbers, labels = zip(*rows, strict=True)
    return pd.DataFrame({"size": numbers, "color": pd.Categorical(labels)})


def as_polars(rows):
    numbers, labels = zip(*rows, strict=True)
    return pl.DataFrame({"size": numbers, "color": pl.Series(labels, dtype=pl.Categorical)})


def as_objects(rows):
    return np.array([list(row) for row in rows], dtype=object)


class TestConstruction:
    def test_is_a_value(self):
        schema = Schema(2, ("a", "b"), (None, ("x",)))
        assert schema == Schema(2, ["a", "b"], [None, ["x"]])
        assert schema != Schema.numeric(2, ["a", "b"])
        assert pickle.loads(pickle.dumps(schema)) == schema
        with pytest.raises(AttributeError):
            schema.n_features = 3

    def test_names(self):
        named, unnamed = Schema.numeric(2, ["age", "income"]), Schema.numeric(2)
        assert (named.name(1), named.key(1)) == ("income", "income")
        assert (unnamed.name(1), unnamed.key(1)) == ("feature 1", 1)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((0, None, ()), "n_features: expected an integer >= 1, got 0"),
            ((True, None, (None,)), "n_features: expected an integer >= 1, got True"),
            (("2", None, (None, None)), "n_features: expected an integer >= 1, got '2'"),
            ((2, ("a",), (None, None)), r"feature_names: expected 2 names or None, got ('a',)"),
            ((2, "ab", (None, None)), "feature_names: expected 2 names or None, got 'ab'"),
            ((2, ("a", 1), (None, None)), "feature_names: expected strings, each once"),
            ((2, ("a", "a"), (None, None)), "feature_names: expected strings, each once"),
            ((2, None, (None,)), "categories: expected 2 entries"),
            ((1, ("a",), ("xy",)), "categories of feature 'a': expected None or a list of labels"),
            ((1, ("a",), (("x", None),)), "categories of feature 'a': None is not a str, bool, or number up to 1.8"),
            ((1, None, ((float("nan"),),)), "categories of feature 0: nan is not a str, bool, or number up to 1.8e308"),
            ((1, None, (("x", "x"),)), "categories of feature 0: a label occurs more than once"),
        ],
    )
    def test_refuses(self, arguments, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            Schema(*arguments)


class TestFromTable:
    def test_numbers_in_any_container(self):
        rows = [[1, 2.5], [3, 4.5]]
        for table in (rows, np.array(rows), np.array(rows, dtype=object), np.array(rows, "f4")):
            assert Schema.from_table(table) == Schema.numeric(2)
        for frame in (pd.DataFrame, pl.DataFrame):
            table = frame({"a": [1, 3], "b": [2.5, 4.5]})
            assert Schema.from_table(table) == Schema.numeric(2, ["a", "b"])

    def test_names_that_are_not_strings_are_ignored(self):
        assert Schema.from_table(pd.DataFrame([[1, 2]])).feature_names is None
        with pytest.raises(TypeError, match="must all be strings or none, got 0 beside 'a'"):
            Schema.from_table(pd.DataFrame({0: [1], "a": [2]}))
        with pytest.raises(ValueError, match="column name 'a' occurs more than once"):
            Schema.from_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))

    def test_dtypes_declare_categories_that_do_not_occur(self):
        column = pd.Categorical(["x", "y"], categories=["z", "y", "x"])
        assert Schema.from_table(pd.DataFrame({"c": column})).categories == (("x", "y", "z"),)
        column = pl.Series(["x", "y"], dtype=pl.Enum(["z", "y", "x"]))
        assert Schema.from_table(pl.DataFrame({"c": column})).categories == (("x", "y", "z"),)
        column = pl.Series(["y", "x"], dtype=pl.Categorical)
        assert Schema.from_table(pl.DataFrame({"c": column})).categories == (("x", "y"),)

    def test_from_dtype_finds_nothing_in_arrays(self):
        assert Schema.from_table([[0, 1]], "from_dtype").categories == (None, None)

    @pytest.mark.parametrize(
        "chosen",
        [
            *([1], (1,), {1}, np.array([1]), ["b"], np.array(["b"]), pd.Index(["b"]), [1, "b"]),
            *([False, True, False], np.array([False, True, False])),
        ],
    )
    def test_columns_can_be_chosen(self, chosen):
        table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [3, 4]})
        assert Schema.from_table(table, chosen).categories == (None, ("x", "y"), None)

    def test_none_chosen(self):
        table = pd.DataFrame({"a": pd.Categorical([2, 1])})
        for chosen in (None, [], [False]):
            assert Schema.from_table(table, chosen).categories == (None,)

    @pytest.mark.parametrize(
        ("chosen", "message"),
        [
            (["d"], "unknown column 'd'; the columns are 'a', 'b'"),
            ([2], "2 is neither a column name nor an index from 0 to 1"),
            ([-1], "-1 is neither a column name nor an index from 0 to 1"),
            ([1.0], "1.0 is neither a column name nor an index"),
            ([True], "the mask has 1 entries, but X has 2 features"),
            ([True, "a"], "True is neither a column name nor an index"),
            ("a", "'a' is neither 'from_dtype' nor None nor a list"),
            (1, "1 is neither 'from_dtype' nor None nor a list"),
        ],
    )
    def test_refuses_a_bad_choice(self, chosen, message):
        with pytest.raises(ValueError, match=re.escape("categorical_features: " + message)):
            Schema.from_table(pd.DataFrame({"a": [1], "b": [2]}), chosen)

    def test_a_name_needs_names(self):
        with pytest.raises(ValueError, match="unknown column 'a'; X has no column names"):
            Schema.from_table([[1, 2]], ["a"])

    def test_labels_are_plain_and_sorted_by_type_and_value(self):
        values = ["b", np.str_("a"), np.int64(2), 1, np.float32(0.5), np.bool_(True), False]
        (labels,) = Schema.from_table(np.array([[v] for v in values], dtype=object), [0]).categories
        assert list(map(repr, labels)) == ["False", "True", "0.5", "2", "'a'", "'b'"]
        (labels,) = Schema.from_table(np.array([[3.0], [1.0]]), [0]).categories
        assert list(map(repr, labels)) == ["1.0", "3.0"]

    @given(st.lists(LABELS, min_size=1, max_size=10))
    def test_labels_do_not_depend_on_the_order_of_rows(self, values):
        def labels_of(column):
            table = np.empty((len(column), 1), dtype=object)
            table[:, 0] = column
            (labels,) = Schema.from_table(table, [0]).categories
            return [(type(label), label) for label in labels]

        assert labels_of(values) == labels_of(values[::-1])

    @pytest.mark.parametrize(
        "table",
        [
            pd.DataFrame({"c": pd.Categorical(["x", None])}),
            pd.DataFrame({"c": pd.array(["x", pd.NA], dtype="string").astype("category")}),
            pl.DataFrame({"c": pl.Series(["x", None], dtype=pl.Categorical)}),
            pd.DataFrame({"c": pd.Series([1.0, np.nan])}),
            pd.DataFrame({"c": pd.Series([1, pd.NA], dtype="Int64")}),
        ],
    )
    def test_refuses_missing_categories(self, table):
        with pytest.raises(ValueError, match="feature 'c' is categorical and has a missing value"):
            Schema.from_table(table, ["c"])

    def test_refuses_labels_that_json_cannot_hold(self):
        bins = pd.DataFrame({"c": pd.cut([1, 2, 3], 2)})
        with pytest.raises(ValueError, match=r"categories of feature 'c': Interval.*convert it"):
            Schema.from_table(bins)
        days = pd.DataFrame({"c": pd.to_datetime(["2020-01-01"])})
        with pytest.raises(ValueError, match="feature 'c' is datetime64"):
            Schema.from_table(days, ["c"])
        with pytest.raises(TypeError, match=r"feature 0 holds a value that is no category.*list"):
            Schema.from_table(pd.DataFrame({0: [[1], [2]]}), [0])


class TestText:
    """Text, and all else that is no number, is refused where numbers belong."""

    @pytest.mark.parametrize(
        ("table", "where", "value"),
        [
            (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "'b'", "'x'"),
            (pd.DataFrame({"a": [1, 2], "b": [None, "y"]}), "'b'", "'y'"),
            (pd.DataFrame({"a": [1, 2], "b": ["1", "2"]}), "'b'", "'1'"),
            (pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "'b'", "'x'"),
            (np.array([[1, 2], [3, "x"]], dtype=object), "1", "'x'"),
            (np.array([["x", "y"]]), "0", "'x'"),
            ([[1, 2], [3, "x"]], "1", "'x'"),
            (pd.DataFrame({"a": [1], "b": pd.to_datetime(["2020-01-01"])}), "'b'", "'2020-01-01"),
            (pd.DataFrame({"a": [1], "b": [1j]}), "'b'", "'1j'"),
        ],
    )
    def test_names_column_value_and_remedy(self, table, where, value):
        message = re.escape(f"X: feature {where} holds {value}") + (
            ".*not a number; declare the column in categorical_features or convert it to numbers"
        )
        with pytest.raises(ValueError, match=message):
            Schema.from_table(table)
        schema = Schema.numeric(2, ["a", "b"]) if hasattr(table, "columns") else Schema.numeric(2)
        with pytest.raises(ValueError, match=message):
            schema.encode(table)

    def test_objects_that_are_no_numbers_are_a_type_error(self):
        table = np.array([[1.0, {"foo": "bar"}]], dtype=object)
        with pytest.raises(TypeError, match=r"feature 1 holds .*argument must be .*string.* number"):
            Schema.numeric(2).encode(table)


class TestEncode:
    def test_takes_a_matrix_as_it_is(self):
        matrix = np.arange(6.0).reshape(3, 2)
        assert Schema.numeric(2).encode(matrix) is matrix
        assert Schema.numeric(2, ["a", "b"]).encode(matrix) is matrix

    def test_does_not_copy_a_large_matrix(self):
        matrix = np.ones((100_000, 10))
        schema = Schema.from_table(matrix)
        tracemalloc.start()
        schema.encode(matrix)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < matrix.nbytes / 10

    @pytest.mark.parametrize("dtype", ["i1", "u8", "i8", "f2", "f4", "?", "O"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_any_array_becomes_c_ordered_float64(self, dtype, order):
        table = np.array([[1, 0], [0, 1]], dtype=dtype, order=order)
        matrix = Schema.numeric(2).encode(table)
        assert matrix.dtype == np.float64
        assert matrix.flags.c_contiguous
        assert np.array_equal(matrix, [[1, 0], [0, 1]])

    @pytest.mark.parametrize(
        "table",
        [
            pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, 1.5]}),
            pd.DataFrame({"a": [1, 2], "b": [1, 0], "c": [0.5, 1.5]}, dtype="Float64"),
            pl.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, 1.5]}),
        ],
    )
    def test_frames_of_numbers(self, table):
        schema = Schema.from_table(table)
        matrix = schema.encode(table)
        assert matrix.flags.c_contiguous
        assert np.array_equal(matrix, [[1, 1, 0.5], [2, 0, 1.5]])

    @pytest.mark.parametrize("container", [as_pandas, as_polars, as_objects, list])
    @given(rows=mixed_rows())
    def test_round_trip(self, container, rows):
        table = container(rows)
        schema = Schema.from_table(table, [1])
        matrix = schema.encode(table)
        assert matrix.dtype == np.float64
        assert np.array_equal(matrix[:, 0], [number for number, _ in rows])
        decoded = schema.decode(matrix)
        assert isinstance(decoded, pd.DataFrame) == (schema.feature_names is not None)
        values = decoded.to_numpy().tolist() if schema.feature_names else decoded.tolist()
        assert values == [list(row) for row in rows]
        assert np.array_equal(schema.encode(decoded), matrix)

    @given(mixed_rows(LABELS))
    def test_every_container_encodes_alike(self, rows):
        table = as_objects(rows)
        schema = Schema.from_table(table, [1])
        frame = pd.DataFrame({0: table[:, 0], 1: pd.Series(table[:, 1], dtype="category")})
        assert np.array_equal(schema.encode(table), schema.encode(frame))
        assert np.array_equal(schema.encode(table), schema.encode(rows))

    def test_labels_in_a_float_matrix_are_labels_not_codes(self):
        schema = Schema(2, None, (None, (10, 20)))
        assert schema.encode(np.array([[1.0, 20.0], [2.0, 0.0]])).tolist() == [[1, 1], [2, 2]]

    def test_unseen_and_missing_categories_share_a_code(self):
        schema = Schema(1, ("c",), (("x", "y"),))
        for values in (["z", None], [3, np.nan]):
            assert schema.encode(np.array(values, dtype=object)[:, None]).ravel().tolist() == [2, 2]
        table = pd.DataFrame({"c": pd.Categorical(["z", None, "y"])})
        assert schema.encode(table).ravel().tolist() == [2, 2, 1]
        table = pl.DataFrame({"c": ["z", None, "y"]})
        assert schema.encode(table).ravel().tolist() == [2, 2, 1]

    def test_plain_text_columns_may_follow_a_category_dtype(self):
        schema = Schema.from_table(pd.DataFrame({"c": pd.Categorical(["x", "y"])}))
        assert schema.encode(pd.DataFrame({"c": ["y", "x"]})).ravel().tolist() == [1, 0]

    @pytest.mark.parametrize("value", [np.nan, None, pd.NA])
    def test_missing_numbers(self, value):
        schema = Schema(2, None, (None, ("x",)))
        table = pd.DataFrame({0: [1, value], 1: ["x", "x"]})
        with pytest.raises(ValueError, match="Input X contains NaN"):
            schema.encode(table)
        matrix = replace(schema, accepts_missing=True).encode(table)
        assert np.array_equal(matrix, [[1, 0], [np.nan, 0]], equal_nan=True)

    def test_the_first_missing_number_is_named(self):
        table = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.nan]})
        with pytest.raises(ValueError, match=r"feature 'b' has no value in row 1 .*; fill them in"):
            Schema.numeric(2, ["a", "b"]).encode(table)
        with pytest.raises(ValueError, match=r"feature 1 is -inf in row 0 "):
            Schema.numeric(2).encode([[np.nan, -np.inf], [np.inf, 1.0]])

    @pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
    def test_missing_categories_that_are_accepted(self, missing):
        """NaN, while a category that is not among the labels has its code, in every kind of table."""
        schema = Schema(1, ("c",), (("x", "y"),), accepts_missing=True)
        expected = [2.0, np.nan, 1.0]
        values = ["z", missing, "y"]
        for column in (values, pd.Categorical(values), pd.array(values, dtype="string")):
            np.testing.assert_array_equal(schema.encode(pd.DataFrame({"c": column})).ravel(), expected)
        np.testing.assert_array_equal(schema.encode([[value] for value in values]).ravel(), expected)
        for kind in (pl.String, pl.Categorical):
            table = pl.DataFrame({"c": pl.Series(["z", None, "y"], dtype=kind)})
            np.testing.assert_array_equal(schema.encode(table).ravel(), expected)
        numbers = Schema(1, None, ((10, 20),), accepts_missing=True)
        np.testing.assert_array_equal(numbers.encode(np.array([[30.0], [np.nan], [20.0]])).ravel(), expected)

    @pytest.mark.parametrize("kind", [list, np.array, pd.DataFrame, pl.DataFrame])
    def test_refuses_infinity(self, kind):
        for accepts_missing in (False, True):
            with pytest.raises(ValueError, match="Input X contains infinity"):
                Schema(1, None, (None,), accepts_missing).encode(kind([[np.inf]]))

    @pytest.mark.parametrize(
        ("table", "error", "message"),
        [
            (np.array([[1 + 2j, 0]]), ValueError, "Complex data not supported"),
            (sparse.csr_matrix([[1.0, 0]]), TypeError, "[Ss]parse"),
            (np.array([1.0, 2.0]), ValueError, "Reshape your data"),
            (np.empty((0, 2)), ValueError, r"0 sample\(s\)"),
            (np.empty((2, 0)), ValueError, r"0 feature\(s\)"),
            (pd.DataFrame({"a": [], "b": []}, dtype=float), ValueError, r"0 sample\(s\)"),
            (np.zeros((2, 2, 2)), ValueError, "dim 3"),
        ],
    )
    def test_refuses_what_is_no_table(self, table, error, message):
        with pytest.raises(error, match=message):
            Schema.numeric(2).encode(table)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (["b", "a"], "Feature names must be in the same order as they were in fit"),
            (["a", "x"], r"unseen at fit time:\n- x\nFeature names seen .* now missing:\n- b\n"),
            (["a"], r"now missing:\n- b\n"),
            (["a", "b", "c"], r"unseen at fit time:\n- c\n"),
            (["a", "b", *"cdefghijklmno"], r"unseen at fit time:\n(- [c-l]\n){10}- \.\.\. 3 more\n"),
        ],
    )
    def test_refuses_other_columns(self, frame, names, message):
        with pytest.raises(ValueError, match=message):
            Schema.numeric(2, ["a", "b"]).encode(frame({name: [1.0] for name in names}))

    def test_refuses_another_width(self):
        with pytest.raises(ValueError, match="X has 1 features, but Schema is expecting 2 features"):
            Schema.numeric(2, ["a", "b"]).encode([[1.0]])

    def test_names_do_not_matter_if_one_side_has_none(self):
        table = pd.DataFrame({"a": [1.0], "b": [2.0]})
        assert Schema.numeric(2).encode(table).tolist() == [[1, 2]]
        assert Schema.numeric(2, ["x", "y"]).encode(table.to_numpy()).tolist() == [[1, 2]]

    def test_refuses_a_category_that_cannot_be_looked_up(self):
        with pytest.raises(TypeError, match=r"feature 0 holds a value that is no category.*list"):
            Schema(1, None, (("x",),)).encode(pd.DataFrame({0: [["x"]]}))


class TestDecode:
    def test_numbers_without_names_stay_a_matrix(self):
        matrix = np.array([[1.0, np.nan]])
        assert Schema.numeric(2).decode(matrix) is matrix

    def test_rows_of_nan_and_unseen_categories_are_missing(self):
        rows = [[1.0, 1.0], [np.nan, np.nan], [2.0, 2.0]]
        frame = Schema(2, ("a", "c"), (None, ("x", "y"))).decode(rows)
        assert frame["a"].isna().tolist() == [False, True, False]
        assert frame["c"].isna().tolist() == [False, True, True]
        assert frame["c"].dtype == pd.CategoricalDtype(["x", "y"])
        array = Schema(2, None, (None, ("x", "y"))).decode(rows)
        assert array[:, 1].tolist() == ["y", None, None]
        assert np.isnan(array[1, 0])

    @pytest.mark.parametrize(
        ("labels", "unseen"),
        [
            (("x", "y"), "unseen"),
            (("unseen", "y"), "(unseen)"),
            ((3, 10), 11),
            ((0.5, 2.5), 3),
            ((False, True), 2),
            ((), 0),
            ((1, "x"), "unseen"),
        ],
        ids=str,
    )
    def test_missing_and_unseen_are_told_apart_where_missing_is_accepted(self, labels, unseen):
        rows = np.array([[len(labels)], [np.nan]])
        for names in (None, ("c",)):
            schema = Schema(1, names, (labels,), accepts_missing=True)
            table = schema.decode(rows)
            values = list(table.ravel() if names is None else table["c"])
            assert values[0] == unseen
            assert pd.isna(values[1])
            assert np.array_equal(schema.encode(table), rows, equal_nan=True)

    def test_without_pandas_names_are_dropped(self, monkeypatch):
        monkeypatch.setattr("hardwood.table.schema._pandas_if_installed", lambda: None)
        table = Schema(2, ("a", "c"), (None, ("x", "y"))).decode([[1.0, 1.0]])
        assert isinstance(table, np.ndarray)
        assert table.tolist() == [[1.0, "y"]]

    def test_refuses_another_shape(self):
        with pytest.raises(ValueError, match=r"expected shape \(n_rows, 2\), got \(1, 3\)"):
            Schema.numeric(2).decode([[1, 2, 3]])


class TestJson:
    @given(st.lists(st.none() | st.lists(LABELS, unique=True), min_size=1, max_size=4))
    def test_round_trip(self, categories):
        names = [f"column {j}" for j in range(len(categories))]
        for schema in (
            Schema(len(categories), names, categories),
            Schema(len(categories), None, categories),
            Schema(len(categories), None, categories, accepts_missing=True),
        ):
            read = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
            assert read == schema
            assert repr(read) == repr(schema)

    @pytest.mark.parametrize(
        "record", [None, [], {}, {"n_features": 1}, {"n_features": 1, "feature_names": None, 3: 4}]
    )
    def test_refuses_other_keys(self, record):
        with pytest.raises(ValueError, match="schema: expected an object with the keys"):
            Schema.from_dict(record)

    def test_checks_what_it_reads(self):
        record = {"n_features": 1, "feature_names": ["a"], "categories": [["x", {}]]}
        with pytest.raises(ValueError, match=r"categories of feature 'a': \{\} is not a str"):
            Schema.from_dict(record)


def test_integers_of_128_bits() -> None:
    """NumPy has none of them, and polars said so in an error of its own that nobody here caught."""
    column = pl.Series("n", [2**100, 3, None], dtype=pl.Int128)
    table = pl.DataFrame([column, pl.Series("k", [1, 2, 3], dtype=pl.UInt8)])
    schema = Schema.from_table(table, accepts_missing=True)
    np.testing.assert_array_equal(schema.encode(table), [[2.0**100, 1.0], [3.0, 2.0], [np.nan, 3.0]])


def test_complex_numbers_are_not_repeated() -> None:
    """The error had the whole table in it."""
    X = np.ones((300, 3)) * (1 + 1j)
    for table in (X, X.tolist()):
        with pytest.raises(ValueError, match="Complex data not supported") as error:
            Schema.from_table(table)
        assert len(str(error.value)) < 1000
    with pytest.raises(ValueError, match=r"^y: expected numbers, got complex128; "):
        RobustTreeRegressor().fit(X.real, X[:, 0])
