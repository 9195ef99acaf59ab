"""Trees as text: what is written is what the tree decides."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from estimator_checks import RELEASE
from hardwood import RobustTreeClassifier, as_ensemble, export_rules
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.bit_sets import pack_sets
from hardwood.table import Schema

Node = tuple  # (feature, threshold or set of codes, left, right) or (weight of class 0, of class 1)


def build(tree: Node, schema: Schema, n_copies: int = 1) -> TreeEnsemble:
    """Turn nested tuples into an ensemble of equal trees that votes as one."""
    feature, threshold, left, right, value, cover = [], [], [], [], [], []
    left_sets, roots = {}, []
    for _ in range(n_copies):
        roots.append(len(feature))
        stack = [(tree, None, None)]
        while stack:
            node, parent, children = stack.pop()
            index = len(feature)
            if parent is not None:
                children[parent] = index
            is_leaf = len(node) == 2
            feature.append(-1 if is_leaf else node[0])
            is_set = not is_leaf and isinstance(node[1], set)
            threshold.append(0.0 if is_leaf or is_set else node[1])
            if is_set:
                members = np.zeros(len(schema.categories[node[0]]) + 1, dtype=bool)
                members[list(node[1])] = True
                left_sets[index] = members
            left.append(-1)
            right.append(-1)
            weights = np.array(node if is_leaf else (1.0, 1.0), dtype=float)
            value.append(weights / weights.sum() / n_copies)
            cover.append(weights.sum())
            if not is_leaf:
                stack.append((node[3], index, right))
                stack.append((node[2], index, left))
    start, words = pack_sets(len(feature), left_sets)
    cover = np.array(cover)
    for node in reversed(range(len(feature))):  # children come after their parents
        if feature[node] >= 0:
            cover[node] = cover[left[node]] + cover[right[node]]
    return TreeEnsemble(
        root=np.array(roots, dtype=np.int32),
        feature=np.array(feature, dtype=np.int32),
        threshold=np.array(threshold),
        left=np.array(left, dtype=np.int32),
        right=np.array(right, dtype=np.int32),
        value=np.array(value),
        cover=cover,
        missing_left=np.zeros(len(feature), dtype=bool),
        category_start=start,
        category_words=words,
        base_score=np.zeros(2),
        link="probability",
        classes=np.array(["ham", "spam"]),
        schema=schema,
    )


def follow(rules: str, row: dict[str, object]) -> str:
    """Read the rules as a person would, and say what they predict."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in rules.splitlines()]
    depth, position = 0, 0
    while True:
        indent, line = lines[position]
        if indent == depth and line.startswith("predict"):
            return re.match(r"predict (.*) \(", line)[1]
        if indent == depth and holds(line.removeprefix("if ").removesuffix(":"), row):
            depth += 4
        position += 1


def holds(condition: str, row: dict[str, object]) -> bool:
    name, operator, right = re.match(r"(\w+) (<=|>|in|not in) (.*)", condition).groups()
    if operator in ("in", "not in"):
        listed = {label for label in right.strip("{}").split(", ") if label}
        return (row[name] in listed) == (operator == "in")
    return (row[name] <= float(right)) == (operator == "<=")


SCHEMA = Schema(3, ("age", "colour", "height"), (None, ("blue", "green", "red"), None))
NUMBERS = [-2.0, -0.5, 0.0, 0.1, 0.30000000000000004, 1.0, 7.25, 1e-9]

leaves = st.tuples(st.integers(1, 9), st.integers(1, 9)).filter(lambda pair: pair[0] != pair[1])
trees = st.recursive(
    leaves,
    lambda child: st.one_of(
        st.tuples(st.sampled_from([0, 2]), st.sampled_from(NUMBERS), child, child),
        st.tuples(st.just(1), st.sets(st.integers(0, 3)), child, child),
    ),
    max_leaves=12,
)


@settings(deadline=None)  # the first example may compile
@given(trees, st.integers(1, 3))
def test_following_the_rules_is_predicting(tree, n_copies):
    ensemble = build(tree, SCHEMA, n_copies)
    rules = export_rules(ensemble, tree=n_copies - 1, digits=17)
    values = [v for t in NUMBERS for v in (np.nextafter(t, -np.inf), t, np.nextafter(t, np.inf))]
    colours = ["blue", "green", "red", "never seen"]
    rows = [(a, colours[i % 4], b) for i, (a, b) in enumerate(zip(values, values[::-1], strict=True))]
    rows += [(0.2, colour, 0.2) for colour in colours]
    predicted = ensemble.predict(np.array(rows, dtype=object))
    followed = [follow(rules, dict(zip(SCHEMA.feature_names, row, strict=True))) for row in rows]
    assert followed == predicted.tolist()


def test_a_tree_reads_like_this():
    tree = (1, {0, 2}, (0, 12345.5, (9, 1), (1, 2)), (2, 0.25, (5, 0), (1, 1)))
    assert export_rules(build(tree, SCHEMA)).splitlines() == [
        "if colour in {blue, red}:",
        "    if age <= 12345.5:",
        "        predict ham (probability 0.9, cover 50%)",
        "    if age > 12345.5:",
        "        predict spam (probability 0.6667, cover 15%)",
        "if colour not in {blue, red}:",
        "    if height <= 0.25:",
        "        predict ham (probability 1, cover 25%)",
        "    if height > 0.25:",
        "        predict ham (probability 0.5, cover 10%)",
    ]


def test_unseen_categories_are_where_the_rules_say():
    """The side with unseen categories is the one written ``not in``, also when it is the left."""
    rules = export_rules(build((1, {0, 3}, (1, 0), (0, 1)), SCHEMA))
    assert rules.splitlines()[0] == "if colour not in {green, red}:"
    assert follow(rules, {"colour": "purple"}) == "ham"


def test_labels_that_would_be_misread_are_quoted():
    schema = Schema(1, ("place",), (("a, b", "", "c"),))
    assert '{"a, b", ""}' in export_rules(build((0, {0, 1}, (1, 0), (0, 1)), schema))


@pytest.mark.parametrize(
    ("threshold", "digits", "text"),
    [
        (0.123456, 4, "0.1235"),
        (0.123456, 2, "0.12"),
        (1234.5, 2, "1234.5"),
        (123456789.5, 4, "123456789.5"),
        (-0.0, 4, "0"),
        (3.0, 4, "3"),
        (1.5e-8, 4, "1.5e-08"),
        (2.5e20, 4, "2.5e+20"),
        (-17.03, 3, "-17"),
    ],
)
def test_thresholds_are_short(threshold, digits, text):
    rules = export_rules(build((0, threshold, (1, 0), (0, 1)), SCHEMA), digits=digits)
    assert rules.startswith(f"if age <= {text}:\n")


def test_thresholds_that_differ_never_print_alike():
    tree = (0, 0.30001, (0, 0.30002, (1, 0), (0, 1)), (2, 0.30001, (1, 0), (0, 1)))
    rules = export_rules(build(tree, SCHEMA), digits=2)
    assert "age <= 0.30001" in rules
    assert "age <= 0.30002" in rules
    assert "height <= 0.3:" in rules  # the other feature needs no more digits


def test_max_depth_says_what_is_left_out():
    tree = (0, 1.0, (3, 0), (0, 2.0, (0, 1), (2, 0.5, (1, 0), (0, 5))))
    assert export_rules(build(tree, SCHEMA), max_depth=1).splitlines() == [
        "if age <= 1:",
        "    predict ham (probability 1, cover 30%)",
        "if age > 1:",
        "    ... 3 leaves below (cover 70%)",
    ]
    assert export_rules(build(tree, SCHEMA), max_depth=0) == "... 4 leaves below (cover 100%)"


def test_small_cover_is_not_called_nothing():
    assert "cover <0.1%" in export_rules(build((0, 1.0, (1, 0), (0, 9999)), SCHEMA))


def test_a_tree_deeper_than_the_python_stack():
    tree = (1, 2)
    for level in range(3000):
        tree = (0, -float(level), tree, (2, 1))
    lines = export_rules(build(tree, SCHEMA)).splitlines()
    assert len(lines) == 3 * 3000 + 1
    assert max(len(line) - len(line.lstrip()) for line in lines) == 4 * 3000


def test_a_fitted_estimator_without_names():
    model = RobustTreeClassifier(threat=1.0).fit([[1.0], [2.0], [6.0], [7.0]], [0, 0, 1, 1])
    assert export_rules(model).startswith("if feature 0 <= 4:\n    predict 0 (")


@pytest.mark.parametrize(
    ("options", "word"),
    [({"tree": 1}, "tree"), ({"digits": 0}, "digits"), ({"max_depth": -1}, "max_depth")],
)
def test_bad_options(options, word):
    with pytest.raises(ValueError, match=word):
        export_rules(build((1, 2), SCHEMA), **options)


def test_a_model_that_is_not_fitted():
    with pytest.raises(TypeError, match="fitted"):
        export_rules(RobustTreeClassifier())


def test_missing_values_are_where_the_rules_say():
    """One split by a number, and one that only tells missing values apart."""
    X = np.array([[1.0, np.nan], [2.0, 5.0], [6.0, np.nan], [np.nan, 5.0]] * 5)
    if RELEASE > (1, 6):  # which does not try to part missing values from all others
        tree = DecisionTreeClassifier(random_state=0).fit(X, [0, 1, 0, 1] * 5)
        assert export_rules(as_ensemble(tree)).splitlines() == [
            "if feature 1 is there:",
            "    predict 1 (probability 1, cover 50%)",
            "if feature 1 is missing:",
            "    predict 0 (probability 1, cover 50%)",
        ]
    tree = DecisionTreeClassifier(random_state=0).fit(X[:, :1], [0, 0, 1, 1] * 5)
    assert export_rules(as_ensemble(tree)).splitlines()[::2] == ["if feature 0 <= 4:", "if feature 0 > 4 or missing:"]


def test_boosted_trees_say_what_they_add():
    """A leaf of a model with one output per model, or per class, used to be read as class shares: an IndexError."""
    X = np.arange(12.0)[:, None]
    model = GradientBoostingClassifier(n_estimators=1, max_depth=1).fit(X, np.repeat(["no", "yes"], 6))
    assert export_rules(as_ensemble(model)).splitlines() == [
        "if feature 0 <= 5.5:",
        "    add -0.2 to the log-odds of yes (cover 50%)",
        "if feature 0 > 5.5:",
        "    add 0.2 to the log-odds of yes (cover 50%)",
    ]
    model = GradientBoostingClassifier(n_estimators=1, max_depth=1).fit(X, np.repeat(["a", "b", "c"], 4))
    assert "to the log-odds of a (" in export_rules(as_ensemble(model))
    assert "to the log-odds of b (" in export_rules(as_ensemble(model), tree=1)
