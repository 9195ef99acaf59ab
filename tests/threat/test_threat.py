"""ThreatModel: every spelling, the arrays it becomes, membership, TOML."""

import copy
import itertools
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from hardwood.table import Schema
from hardwood.threat import OneHotGroup, Reach, ThreatModel

inf = math.inf

DISTANCES = st.floats(0, allow_nan=False)
NUMERICAL_ENTRIES = (
    st.sampled_from([None, "", "<", ">", "<>"]) | DISTANCES | st.integers(0, 10**20) | st.tuples(DISTANCES, DISTANCES)
)
LABELS = st.text(max_size=4) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
CATEGORY_ENTRIES = st.dictionaries(LABELS, st.lists(LABELS, max_size=3) | LABELS, max_size=3).filter(
    lambda moves: len(set(map(str, moves))) == len(moves)
)
ENTRIES = NUMERICAL_ENTRIES | CATEGORY_ENTRIES
TABLES = (
    NUMERICAL_ENTRIES.filter(lambda entry: not isinstance(entry, tuple))
    | st.lists(ENTRIES, max_size=4)
    | st.dictionaries(st.text(max_size=4), ENTRIES, max_size=4)
    | st.dictionaries(st.integers(0, 99), ENTRIES, max_size=4)
)
CLASSES = st.none() | LABELS | st.booleans() | st.lists(LABELS, max_size=3)


def interval(entry):
    """Spell out what an entry for a numerical feature means."""
    if entry in (None, ""):
        return (0.0, 0.0)
    if isinstance(entry, str):
        return (inf if "<" in entry else 0.0, inf if ">" in entry else 0.0)
    left, right = entry if isinstance(entry, tuple) else (entry, entry)
    return (float(left), float(right))


COLORS = Schema(2, ("size", "color"), (None, ("blue", "green", "red")))


class TestSpellings:
    @given(st.lists(NUMERICAL_ENTRIES, min_size=1, max_size=5))
    def test_list_dict_and_series_mean_the_same(self, entries):
        names = [f"column {j}" for j in range(len(entries))]
        named = Schema.numeric(len(entries), names)
        unnamed = Schema.numeric(len(entries))
        expected = np.array([interval(entry) for entry in entries]).T
        for features, schema in (
            (entries, named),
            (tuple(entries), unnamed),
            (dict(zip(names, entries, strict=True)), named),
            (dict(enumerate(entries)), unnamed),
            (pd.Series(entries, index=names, dtype=object), named),
        ):
            reach = ThreatModel(features).resolve(schema)
            assert np.array_equal([reach.left, reach.right], expected)

    @given(NUMERICAL_ENTRIES.filter(lambda entry: not isinstance(entry, tuple)))
    def test_one_entry_for_all_features(self, entry):
        one, many = ThreatModel(entry), ThreatModel([entry] * 3)
        for schema in (Schema.numeric(3), Schema.numeric(3, ["a", "b", "c"])):
            assert np.array_equal(one.resolve(schema).left, many.resolve(schema).left)
            assert np.array_equal(one.resolve(schema).right, many.resolve(schema).right)

    @pytest.mark.parametrize(
        "spellings",
        [
            (None, "", 0, 0.0, -0.0, (0, 0), [0.0, -0.0], {}, np.int64(0)),
            (">", (0, inf), [0.0, np.inf], np.array([0, inf])),
            ("<", (inf, 0), np.str_("<")),
            (
                0.5,
                (0.5, 0.5),
                np.float64(0.5),
                np.float32(0.5),
                np.array(0.5),
                np.array([0.5, 0.5]),
            ),
            (2, 2.0, np.uint8(2), (2, 2.0)),
            (inf, (inf, inf), np.inf),
            ({"red": "blue"}, {"red": ["blue"]}, {"red": ("blue", "blue")}, {"red": {"blue"}}),
            ({"red": ["a", "b"]}, {"red": ["b", "a"]}, {"red": np.array(["a", "b"])}),
            ({1: [2]}, {"1": [2]}, {np.int64(1): np.array([2])}),
        ],
    )
    def test_equal_spellings_make_equal_models(self, spellings):
        for a, b in itertools.product(spellings, repeat=2):
            assert ThreatModel({"x": a}) == ThreatModel({"x": b})
            assert ThreatModel([a, 1]) == ThreatModel([b, 1])
            assert ThreatModel([a, 1]) != ThreatModel([b, 2])

    def test_different_models_differ(self):
        models = [
            *(ThreatModel(spec) for spec in (None, 1, 2, inf, ">", "<", "<>", [1], [1, 1], [])),
            *(ThreatModel(spec) for spec in ({"a": 1}, {"b": 1}, {"a": (1, 2)}, {"a": {"x": "y"}})),
            *(ThreatModel(1, attacking_classes=classes) for classes in ([], 0, 1, "1", [0, 1])),
        ]
        for (i, a), (j, b) in itertools.product(enumerate(models), repeat=2):
            assert (a == b) == (i == j)
        assert models[0] != "something else"

    def test_a_pair_for_the_table_is_one_entry_per_feature(self):
        reach = ThreatModel((0.5, 1)).resolve(Schema.numeric(2))
        assert reach.left.tolist() == reach.right.tolist() == [0.5, 1]
        reach = ThreatModel(np.array([[0.5, 1], [2, 3]])).resolve(Schema.numeric(2))
        assert (reach.left.tolist(), reach.right.tolist()) == ([0.5, 2], [1, 3])

    def test_columns_that_are_not_named_are_fixed(self):
        reach = ThreatModel({"b": 1}).resolve(Schema.numeric(3, ["a", "b", "c"]))
        assert reach.left.tolist() == [0, 1, 0]

    def test_integers_are_not_truncated(self):
        """An integer array once made every distance an integer, and 0.1 became 0."""
        reach = ThreatModel([0.1, 3]).resolve(Schema.numeric(2))
        assert reach.left.dtype == np.float64
        assert reach.left.tolist() == [0.1, 3]
        lo, hi = reach.box(Schema.numeric(2).encode(np.array([[7, 7]])), None)
        assert (lo.tolist(), hi.tolist()) == ([[6.9, 4]], [[7.1, 10]])

    def test_is_its_own_spelling(self):
        threat = ThreatModel({"a": 1}, attacking_classes=[1])
        assert ThreatModel(threat) == ThreatModel.coerce(threat) == threat
        other = ThreatModel({"a": 1}, attacking_classes=[0])
        assert ThreatModel(threat, [0]) == ThreatModel.coerce(threat, [0]) == other
        assert ThreatModel.coerce({"a": 1}, [1]) == threat
        assert ThreatModel(threat, attacking_classes=[]).attacking_classes == []

    def test_repr_is_the_shortest_spelling(self):
        features = {"age": 2, "income": (0, inf), "balance": (0.5, inf), "id": (0, 0), "c": {1: 2}}
        assert repr(ThreatModel(features, attacking_classes=1)) == (
            "ThreatModel({'age': 2.0, 'income': '>', 'balance': (0.5, inf), 'id': None, "
            "'c': {1: [2]}}, attacking_classes=[1])"
        )
        assert repr(ThreatModel([(1, 1), "<>"])) == "ThreatModel([1.0, '<>'])"
        assert repr(ThreatModel([(-0.0, 1)])) == "ThreatModel([(0.0, 1.0)])"
        assert repr(ThreatModel()) == repr(ThreatModel({})) == "ThreatModel(None)"

    def test_repr_of_a_wide_table_is_short(self):
        """Fifty-five columns filled a notebook's screen whenever a model was shown."""
        threat = ThreatModel({f"column {k}": k for k in range(55)}, attacking_classes=list(range(11)))
        assert repr(threat) == (
            "ThreatModel({'column 0': None, 'column 1': 1.0, 'column 2': 2.0, 'column 3': 3.0, 'column 4': 4.0, "
            "'column 5': 5.0, 'column 6': 6.0, 'column 7': 7.0, ... 47 more}, "
            "attacking_classes=[0, 1, 2, 3, 4, 5, 6, 7, ... 3 more])"
        )
        assert repr(ThreatModel([1.0] * 11)).endswith("1.0, ... 3 more])")
        assert "more" not in repr(ThreatModel([1.0] * 10))
        assert "... 192 more" in repr(ThreatModel({"c": {"a": [f"b{k}" for k in range(200)]}}))

    def test_repr_is_at_most_two_lines(self):
        """An image of 784 pixels, each with a distance, a domain and a type, took six."""
        pixels = [f"row {k // 28} column {k % 28} of the picture" for k in range(784)]
        features = {pixel: 0.1 + 0.2 * k for k, pixel in enumerate(pixels)}
        threat = ThreatModel(features, [0, 1], whole_numbers=pixels, within=dict.fromkeys(pixels, (0, 255)))
        assert repr(threat) == (
            "ThreatModel({'row 0 column 0 of the picture': 0.1, ... 783 more}, attacking_classes=[0, 1], "
            "whole_numbers=['row 0 column 0 of the picture', ... 783 more], "
            "within={'row 0 column 0 of the picture': (0.0, 255.0), ... 783 more})"
        )
        group = OneHotGroup([f"color_{k}" for k in range(100)])
        assert len(repr(ThreatModel(groups=[group] * 1))) < 240


class TestValue:
    @given(TABLES, CLASSES)
    def test_copies_and_pickles(self, features, classes):
        threat = ThreatModel(features, classes)
        for twin in (copy.deepcopy(threat), copy.copy(threat), pickle.loads(pickle.dumps(threat))):
            assert twin == threat
            assert repr(twin) == repr(threat)

    def test_is_immutable(self):
        features = {"a": {"x": ["y"]}}
        threat = ThreatModel(features, attacking_classes=[1])
        for name in ("features", "attacking_classes", "anything"):
            with pytest.raises(AttributeError):
                setattr(threat, name, None)
        threat.features["a"]["x"].append("z")
        threat.attacking_classes.append(2)
        features["a"]["x"].append("z")
        assert threat == ThreatModel({"a": {"x": ["y"]}}, attacking_classes=[1])

    def test_can_be_a_parameter_of_an_estimator(self):
        class Estimator(BaseEstimator):
            def __init__(self, threat=None):
                self.threat = threat

        estimator = Estimator(ThreatModel({"a": 1}, attacking_classes=[1]))
        assert clone(estimator).threat == estimator.threat
        assert "ThreatModel({'a': 1.0}, attacking_classes=[1])" in repr(estimator)


class TestErrors:
    @pytest.mark.parametrize(
        ("entry", "problem"),
        [
            (-1, "-1 is negative"),
            (-inf, "-inf is negative"),
            (np.float64(-0.5), "-0.5 is negative"),
            ((1, -2), "-2 is negative"),
            (math.nan, "nan is not a number"),
            ((math.nan, 1), "nan is not a number"),
            (True, "True is not a distance"),
            (np.bool_(False), "False is not a distance"),
            (1j, "1j is not a distance"),
            ("abc", "'abc' is not understood"),
            ("><", "'><' is not understood"),
            ((1, 2, 3), "(1, 2, 3) is not a pair"),
            ([], "[] is not a pair"),
            ((1, None), "None is not a distance"),
            (("<", 1), "'<' is not a distance"),
            ({1, 2}, "{1, 2} is not a distance"),
            (10**400, "is too large for a float64"),
        ],
    )
    def test_a_bad_entry_is_found_without_a_table(self, entry, problem):
        remedy = "'10%', '0.5 std' or '2 iqr'), a pair (left, right), '<', '>', '<>' or None"
        with pytest.raises(ValueError, match="threat for feature 'age': .*" + re.escape(problem)) as e:
            ThreatModel({"age": entry})
        assert str(e.value).endswith(remedy)
        with pytest.raises(ValueError, match="threat for feature 1: .*" + re.escape(problem)):
            ThreatModel([0, entry])

    def test_message_in_full(self):
        message = (
            "threat for feature 'age': -1 is negative; "
            "give a distance >= 0 (a number, '10%', '0.5 std' or '2 iqr'), a pair (left, right), '<', '>', '<>' or None"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            ThreatModel({"age": -1})

    @pytest.mark.parametrize(
        ("features", "problem"),
        [
            (-1, "threat: -1 is negative; give a distance >= 0"),
            (math.nan, "threat: nan is not a number"),
            (np.array(-2.0), "threat: -2.0 is negative"),
            ("abc", "threat: 'abc' is not understood"),
            (True, "threat: True is not a distance"),
            (object, "threat: <class 'object'> is not a distance"),
            ({1.5: 1}, "threat: 1.5 is neither a column name nor an index"),
            ({True: 1}, "threat: True is neither a column name nor an index"),
            ({0: 1, "0": 2}, "threat: feature 0 is given more than once"),
            (pd.Series([1, 2], index=["a", "a"]), "threat: feature 'a' is given more than once"),
            (pd.Series({"a": math.nan}), "threat for feature 'a': nan is not a number"),
            ({"c": {None: "x"}}, "threat for feature 'c': None is not a label"),
            ({"c": {"x": [None]}}, "threat for feature 'c': None is not a label"),
            ({"c": {"x": [["y"]]}}, "threat for feature 'c': ['y'] is not a label"),
            ({"c": {"x": inf}}, "threat for feature 'c': inf is not a label"),
            ({"c": {1: "x", "1": "y"}}, "threat for feature 'c': category 1 is given more than"),
        ],
    )
    def test_a_bad_table_is_found_without_a_table(self, features, problem):
        with pytest.raises(ValueError, match=re.escape(problem)):
            ThreatModel(features)

    @pytest.mark.parametrize(
        ("features", "schema", "problem"),
        [
            ([1, 2, 3], COLORS, ": 3 entries for a table of 2 features"),
            ([], COLORS, ": 0 entries for a table of 2 features"),
            ({"age": 1}, COLORS, "'age': there is no such column; the columns are 'size', 'color'"),
            ({"age": None}, COLORS, "'age': there is no such column"),
            ({0: 1}, COLORS, "0: there is no such column"),
            ({2: 1}, Schema.numeric(2), "2: there is no such column; the columns are 0, 1"),
            ({-1: 1}, Schema.numeric(2), "-1: there is no such column"),
            ({"a": 1}, Schema.numeric(30), "'a': there is no such column; the columns are 0, 1"),
            ({"size": {"red": 1}}, COLORS, "'size': {'red': [1]} is for categories, but the feat"),
            ({"color": 0.5}, COLORS, "'color': 0.5 is for numbers, but the feature is categorical"),
            ({"color": (1, 2)}, COLORS, "'color': (1.0, 2.0) is for numbers"),
            ({"color": inf}, COLORS, "'color': inf is for numbers"),
            ([0, ">"], COLORS, "'color': '>' is for numbers"),
            (
                {"color": {"rde": ["bleu"]}},
                COLORS,
                "'color': there is no category 'rde' in the table, did you mean 'red'? "
                "the categories are 'blue', 'green', 'red'; ",
            ),
        ],
    )
    def test_a_spec_that_does_not_fit_the_table(self, features, schema, problem):
        threat = ThreatModel(features)
        message = "threat" + ("" if problem.startswith(":") else " for feature ") + problem
        with pytest.raises(ValueError, match=re.escape(message)):
            threat.resolve(schema)
        with pytest.raises(ValueError, match=re.escape(message)):
            threat.extend(schema)


class TestClasses:
    @pytest.mark.parametrize(
        ("attacking", "classes", "expected"),
        [
            (None, ["ham", "spam"], [True, True]),
            ("spam", ["ham", "spam"], [False, True]),
            (["spam"], np.array(["ham", "spam"]), [False, True]),
            (1, np.array([0, 1]), [False, True]),
            (np.int64(0), [0, 1], [True, False]),
            (np.array([0, 1]), [0, 1], [True, True]),
            ({1}, (0, 1), [False, True]),
            (True, np.array([False, True]), [False, True]),
            (1.0, [0, 1], [False, True]),
            ([], [0, 1], [False, False]),
        ],
    )
    def test_attacks(self, attacking, classes, expected):
        threat = ThreatModel(1, attacking_classes=attacking)
        assert threat.resolve(Schema.numeric(1), classes).attacks.tolist() == expected

    def test_order_and_repeats_do_not_matter(self):
        assert ThreatModel(1, [0, 1, 0]) == ThreatModel(1, [1, 0])

    @pytest.mark.parametrize("label", [None, math.nan, (1, 2), b"spam"])
    def test_refuses_what_is_no_label(self, label):
        with pytest.raises(ValueError, match=r"attacking_classes: .* is not a label; give a str"):
            ThreatModel(1, attacking_classes=[label])

    def test_refuses_an_unknown_class(self):
        threat = ThreatModel(1, attacking_classes=["fraud"])
        message = "attacking_classes: 'fraud' is not a class; the classes are ['ham', 'spam']"
        with pytest.raises(ValueError, match=re.escape(message)):
            threat.resolve(Schema.numeric(1), np.array(["ham", "spam"]))
        with pytest.raises(ValueError, match=r"\['fraud'\] is given, but there are no classes"):
            threat.resolve(Schema.numeric(1), None)


class TestReach:
    def test_arrays_are_read_only_float64(self):
        reach = ThreatModel([1, "<>"]).resolve(COLORS, [0, 1])
        for array in (reach.left, reach.right, reach.attacks, reach.categories[1]):
            assert array.flags.c_contiguous
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        assert reach.left.dtype == reach.right.dtype == np.float64

    @pytest.mark.parametrize(
        ("features", "is_empty"),
        [
            (None, True),
            (0, True),
            ([0, {"red": ["red"]}], True),
            ([0, {"red": []}], True),
            ([(0, 1e-300), None], False),
            ([(1e-300, 0), None], False),
            ([0, "<>"], False),
            ([0, {"red": "blue"}], False),
        ],
    )
    def test_is_empty(self, features, is_empty):
        assert ThreatModel(features).resolve(COLORS).is_empty is is_empty
        assert ThreatModel(features, attacking_classes=[]).resolve(COLORS, [0, 1]).is_empty

    def test_category_matrices(self):
        identity = np.eye(4, dtype=bool)
        for features in (None, 1, inf, "<", {"size": 1}, {"color": ""}):
            numerical, categorical = ThreatModel(features).resolve(COLORS).categories
            assert numerical is None
            assert np.array_equal(categorical, identity)
        for features in ("<>", {"color": "<>"}):
            known = ThreatModel(features).resolve(COLORS).categories[1]
            assert known[:, :3].all()
            assert known[:, 3].tolist() == [False, False, False, True]
            assert ThreatModel(features, unseen_categories="allow").resolve(COLORS).categories[1].all()
        moves = {"red": ["blue", "purple"], "pink": "green"}
        expected = identity.copy()
        expected[2, [0, 3]] = expected[3, 1] = True
        reach = ThreatModel({"color": moves}, unseen_categories="allow").resolve(COLORS)
        assert np.array_equal(reach.categories[1], expected)
        expected[2, 3] = expected[3, 1] = False
        reach = ThreatModel({"color": moves}, unseen_categories="ignore").resolve(COLORS)
        assert np.array_equal(reach.categories[1], expected)

    def test_categories_have_no_distance(self):
        reach = ThreatModel("<>").resolve(COLORS)
        assert (reach.left.tolist(), reach.right.tolist()) == ([inf, 0], [inf, 0])

    def test_a_label_is_matched_by_its_name_after_itself(self):
        schema = Schema(1, None, ((1, 2, "2", 2.5),))
        threat = ThreatModel([{"1": ["2", "2.5"]}])
        assert np.argwhere(threat.resolve(schema).categories[0]).tolist() == [
            *([0, 0], [0, 2], [0, 3], [1, 1], [2, 2], [3, 3], [4, 4])
        ]

    def test_box_by_class(self):
        X = np.array([[1.0, 2.0], [1.0, 2.0]])
        reach = Reach(np.array([1, 0]), np.array([2, inf]), (None, None), np.array([False, True]))
        lo, hi = reach.box(X, np.array([0, 1]))
        assert (lo.tolist(), hi.tolist()) == ([[1, 2], [0, 2]], [[1, 2], [3, inf]])
        lo, hi = reach.box(X, None)
        assert (lo.tolist(), hi.tolist()) == ([[0, 2], [0, 2]], [[3, inf], [3, inf]])

    @pytest.mark.parametrize(("x", "distance"), [(7.0, 0.1), (7.2, 0.1), (0.3, 0.1), (1e17, 1.0)])
    def test_box_is_plain_float64_arithmetic(self, x, distance):
        lo, hi = ThreatModel(distance).resolve(Schema.numeric(1)).box(np.array([[x]]), None)
        assert (lo.item(), hi.item()) == (x - distance, x + distance)

    def test_box_beyond_the_largest_number(self):
        lo, hi = ThreatModel(1.5e308).resolve(Schema.numeric(1)).box(np.array([[1e308]]), None)
        assert (lo.item(), hi.item()) == (1e308 - 1.5e308, inf)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
NEAR = st.sampled_from([-0.2, -0.1, 0.0, 0.1, 0.2, 7.0, 7.1, 7.2, 1e17]) | FINITE


class TestContains:
    @given(
        st.lists(st.tuples(NEAR, NEAR, st.sampled_from([0, 1])), min_size=1, max_size=8),
        NUMERICAL_ENTRIES,
        st.sampled_from([None, [0], [1], []]),
    )
    def test_equals_the_plain_definition(self, rows, entry, attacking):
        before, after, y = (np.array(column) for column in zip(*rows, strict=True))
        left, right = interval(entry)
        with np.errstate(over="ignore"):
            inside = (before - left <= after) & (after <= before + right)
        attacks = np.isin(y, [0, 1] if attacking is None else attacking)
        expected = np.where(attacks, inside, before == after)
        threat = ThreatModel([entry], attacking_classes=attacking)
        assert np.array_equal(threat.contains(before[:, None], after[:, None], y), expected)

    @given(FINITE, DISTANCES, DISTANCES)
    def test_ends_of_the_box_are_the_last_inside(self, x, left, right):
        threat = ThreatModel([(left, right)])
        (lo, hi) = threat.resolve(Schema.numeric(1)).box(np.array([[x]]), None)
        for end, outward in ((lo.item(), -inf), (hi.item(), inf)):
            beyond = math.nextafter(end, outward)
            if math.isfinite(end):
                assert threat.contains([[x]], [[end]]).all()
            if math.isfinite(beyond):
                assert not threat.contains([[x]], [[beyond]]).any()

    def test_decimals_differ_in_the_last_bit(self):
        """7.0 + 0.1 and 7.2 - 0.1 are neighbours in float64, not equal."""
        threat = ThreatModel(0.1)
        reached = 7.2 - 0.1
        assert reached == np.nextafter(7.0 + 0.1, inf)
        assert not threat.contains([[7.0]], [[reached]])[0]
        assert threat.contains([[7.2]], [[reached]])[0]

    def test_all_columns_must_be_inside(self):
        X = np.zeros((4, 2))
        X_adv = [[1, 1], [1, 2], [2, 1], [2, 2]]
        assert ThreatModel(1).contains(X, X_adv).tolist() == [True, False, False, False]

    def test_integer_tables(self):
        threat = ThreatModel({"a": 0.5}, whole_numbers=None)
        X = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
        X_adv = pd.DataFrame({"a": [1.5, 2.75], "b": [3, 4]})
        assert threat.contains(X, X_adv).tolist() == [True, False]
        assert threat.contains(pl.from_pandas(X), pl.from_pandas(X_adv)).tolist() == [True, False]

    def test_nan_is_never_reached(self):
        X, X_adv = [[1.0, 1.0]] * 3, [[np.nan, 1.0], [np.nan, np.nan], [5.0, 5.0]]
        assert ThreatModel("<>").contains(X, X_adv).tolist() == [False, False, True]

    def test_a_missing_number_stays_missing(self):
        X, X_adv = [[np.nan, 1.0]] * 3, [[np.nan, 1.5], [0.0, 1.0], [np.nan, np.nan]]
        for threat in (1, "<>"):
            assert ThreatModel(threat).contains(X, X_adv).tolist() == [True, False, False]
        nobody = ThreatModel("<>", attacking_classes=[])
        assert nobody.contains(X, [[np.nan, 1.0], [np.nan, 1.5], [0.0, 1.0]], [0] * 3).tolist() == [True, False, False]

    def test_a_missing_category(self):
        """It stays missing in a table that may have some; elsewhere it is one never seen, like any other of those."""
        X, X_adv = [[1.0, None], [1.0, None], [1.0, "red"]], [[1.0, None], [1.0, "red"], [1.0, None]]
        threat = ThreatModel([None, "<>"])
        anything = ThreatModel([None, "<>"], unseen_categories="allow")
        assert threat.contains(X, X_adv, schema=COLORS).tolist() == [True, True, False]
        assert anything.contains(X, X_adv, schema=COLORS).tolist() == [True, True, True]
        accepting = replace(COLORS, accepts_missing=True)
        assert threat.contains(X, X_adv, schema=accepting).tolist() == [True, False, False]
        assert threat.contains([[1.0, "red"]], [[1.0, "pink"]], schema=accepting).tolist() == [False]
        assert anything.contains([[1.0, "red"]], [[1.0, "pink"]], schema=accepting).tolist() == [True]

    @given(
        st.lists(st.tuples(*[st.sampled_from("abcd")] * 2), min_size=1, max_size=8),
        st.dictionaries(st.sampled_from("abcx"), st.lists(st.sampled_from("abcx"), max_size=3)),
    )
    def test_categories(self, pairs, moves):
        before, after = zip(*pairs, strict=True)
        expected = [a == b or b in moves.get(a, []) for a, b in pairs]
        threat = ThreatModel({"c": moves})
        X = pd.DataFrame({"c": pd.Categorical(before)})
        for X_adv in (pd.DataFrame({"c": pd.Categorical(after)}), pd.DataFrame({"c": after})):
            assert threat.contains(X, X_adv).tolist() == expected

    def test_categories_and_classes(self):
        X = pd.DataFrame({"c": pd.Categorical(["red", "red", "red"])})
        X_adv = pd.DataFrame({"c": ["blue", "blue", "red"]})
        threat = ThreatModel({"c": "<>"}, attacking_classes=["spam"])
        assert threat.contains(X, X_adv, ["spam", "ham", "ham"]).tolist() == [True, False, True]

    def test_with_a_schema(self):
        X, X_adv = [[1.0, "red"]] * 3, [[1.0, "blue"], [1.0, "purple"], [1.0, "pink"]]
        moves = [None, {"red": ["blue", "purple"]}]
        for unseen, is_purple in (("allow", True), ("ignore", False)):
            threat = ThreatModel(moves, unseen_categories=unseen)
            assert threat.contains(X, X_adv, schema=COLORS).tolist() == [True, is_purple, False]
        with pytest.raises(ValueError, match="there is no category 'rde'"):
            ThreatModel([None, {"rde": "bleu"}]).contains(X, X_adv, schema=COLORS)

    def test_refuses(self):
        threat = ThreatModel(1, attacking_classes=[1])
        with pytest.raises(ValueError, match=r"y: needed to tell .* attacking_classes=\[1\]"):
            threat.contains([[1]], [[1]])
        with pytest.raises(ValueError, match=r"y: expected shape \(1,\), a label per row, got \(2,\)"):
            threat.contains([[1]], [[1]], [0, 1])
        with pytest.raises(ValueError, match="X_adv: 2 rows, but X has 1"):
            threat.contains([[1]], [[1], [1]], [0])


class TestExtend:
    def test_extend_keeps_the_codes(self):
        moves = {"red": ["purple", "blue"], "pink": "red"}
        extended = ThreatModel({"color": moves}, unseen_categories="allow").extend(COLORS)
        assert extended.categories == (None, ("blue", "green", "red", "purple", "pink"))
        assert ThreatModel(1).extend(COLORS) == COLORS
        assert ThreatModel({"color": moves}, unseen_categories="ignore").extend(COLORS) == COLORS

    def test_extend_matches_labels_by_name(self):
        schema = Schema(1, None, ((1, 2),))
        assert ThreatModel([{"1": [2, 3]}], unseen_categories="allow").extend(schema).categories == ((1, 2, 3),)


class TestToml:
    @given(TABLES, CLASSES, st.sampled_from(["error", "ignore", "allow"]))
    def test_round_trip(self, features, classes, unseen):
        threat = ThreatModel(features, classes, unseen_categories=unseen)
        assert ThreatModel.parse(threat.to_toml()) == threat

    def test_integer_keys_still_find_their_column(self):
        threat = ThreatModel.parse(ThreatModel({1: 0.5}).to_toml())
        assert threat.resolve(Schema.numeric(2)).left.tolist() == [0, 0.5]

    def test_brackets_without_end(self):
        """Two thousand opening brackets were a RecursionError."""
        for text in ("features = " + "[" * 2000, "features = " + "{a = " * 2000):
            with pytest.raises(ValueError, match="nested"):
                ThreatModel.parse(text)

    def test_a_file_a_person_might_write(self):
        threat = ThreatModel.parse("""
            attacking_classes = ["fraud"]

            [features]
            age = 2
            income = ">"
            balance = [0.5, inf]
            "zip code" = ""
            job = { student = ["clerk", "nurse"], clerk = "nurse" }
        """)
        moves = {"student": ["clerk", "nurse"], "clerk": ["nurse"]}
        assert threat == ThreatModel(
            {"age": 2, "income": ">", "balance": (0.5, inf), "zip code": None, "job": moves},
            attacking_classes="fraud",
        )
        assert ThreatModel.parse("") == ThreatModel(None)
        assert ThreatModel.parse("features = 1") == ThreatModel(1)

    def test_files(self, tmp_path):
        path = tmp_path / "threat.toml"
        threat = ThreatModel({"größe": 1, "c": {'\x7f\n"': "\\"}}, attacking_classes=[True])
        path.write_text("something older")
        assert path.read_text(encoding="utf-8") != threat.to_toml(path)
        assert path.read_text(encoding="utf-8") == threat.to_toml()
        assert ThreatModel.from_toml(path) == ThreatModel.from_toml(str(path)) == threat
        assert list(tmp_path.iterdir()) == [path]

    def test_a_byte_order_mark_is_no_trouble(self, tmp_path):
        path = tmp_path / "threat.toml"
        path.write_text("features = 1", encoding="utf-8-sig")
        assert ThreatModel.from_toml(path) == ThreatModel(1)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("features = ", "not valid TOML: "),
            ("feature = 1", "unknown key 'feature'; the keys are 'features', 'attacking_classes'"),
            ("features = true", "threat: True is not a distance"),
            ("features = nan", "threat: nan is not a number"),
            ("[features]\nage = -1", "threat for feature 'age': -1 is negative"),
            ("[features]\nage = 2020-01-01", "threat for feature 'age': datetime.date(2020"),
            ("attacking_classes = [[1]]", "attacking_classes: [1] is not a label"),
        ],
    )
    def test_refuses(self, tmp_path, text, problem):
        path = tmp_path / "threat.toml"
        path.write_text(text)
        with pytest.raises(ValueError, match="^" + re.escape(problem)):
            ThreatModel.parse(text)
        with pytest.raises(ValueError, match="^" + re.escape(f"{path}: {problem}")):
            ThreatModel.from_toml(path)

    def test_refuses_what_is_no_text(self, tmp_path):
        path = tmp_path / "threat.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ValueError, match=re.escape(str(path))):
            ThreatModel.from_toml(path)

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"absent\.toml"):
            ThreatModel.from_toml(tmp_path / "absent.toml")
