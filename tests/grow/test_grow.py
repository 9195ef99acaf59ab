"""Whole trees: against a slow oracle, against scikit-learn, and against trees on the same data in another guise."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, ThreatModel, adversarial_accuracy
from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema
from reference.growing import check_fit, check_weights, samples_of
from strategies import arrays

CRITERIA = ["gini", "entropy", "error"]


@st.composite
def labels(draw: st.DrawFn, n: int) -> np.ndarray:
    y = draw(arrays(np.int64, n, st.integers(0, 1)))
    y[:2] = 0, 1
    return y


@st.composite
def problems(draw: st.DrawFn) -> tuple[RobustTreeClassifier, np.ndarray, np.ndarray, Any]:
    """Small tables full of ties, on grids of integers, binary fractions and decimals, with every kind of threat."""
    n, n_features = draw(st.integers(2, 30)), draw(st.integers(1, 3))
    grid = draw(st.sampled_from([1.0, 0.25, 0.1]))
    X = grid * draw(arrays(np.int64, (n, n_features), st.integers(-4, 4)))
    distance = st.sampled_from([0.0, 0.5 * grid, grid, 1.5 * grid, 3.0 * grid, np.inf])
    entry = st.sampled_from([None, "<", ">", "<>"]) | distance | st.tuples(distance, distance)
    model = RobustTreeClassifier(
        threat=draw(st.lists(entry, min_size=n_features, max_size=n_features)),
        attacking_classes=draw(st.sampled_from([None, 0, 1])),
        rho=draw(st.sampled_from([1.0, 1.0, 0.5, 0.3, 0.0])),
        criterion=draw(st.sampled_from(CRITERIA)),
        max_depth=draw(st.sampled_from([None, None, None, 2])),
        min_samples_split=draw(st.sampled_from([2, 2, 2, 5])),
        min_samples_leaf=draw(st.sampled_from([1, 1, 2, 3])),
        min_impurity_decrease=draw(st.sampled_from([0.0, 0.0, 0.0, 0.03])),
        class_weight=draw(st.sampled_from([None, None, {0: 0.3, 1: 2.0}])),
    )
    weight = arrays(np.float64, n, st.sampled_from([0.5, 1.0, 2.0, 0.7]))
    return model, X, draw(labels(n)), draw(st.none() | weight)


@given(problems())
def test_every_node_is_the_best_it_can_be(problem: tuple) -> None:
    model, X, y, sample_weight = problem
    check_fit(model, X, y, sample_weight)


LARGER = {
    "natural": {},
    "radius": {"threat": [0.3, 0.05, 0.1]},
    "directions": {"threat": ["<", (0.0, 0.3), ">"], "attacking_classes": 1},
    "rho": {"threat": [0.3, 0.2, None], "rho": 0.4, "class_weight": {0: 1.0, 1: 1.7}},
    "rho, one class": {"threat": [1.0, 0.2, "<>"], "rho": 0.8, "attacking_classes": 0},
    "entropy": {"threat": [1.0, 0.05, 0.1], "criterion": "entropy"},
    "error": {"threat": [0.3, 0.05, None], "criterion": "error"},
    "large leaves": {"threat": [0.1, 0.1, 0.1], "min_samples_leaf": 9, "rho": 0.5},
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parameters", LARGER.values(), ids=list(LARGER))
def test_every_node_is_the_best_it_can_be_in_larger_tables(parameters: dict[str, Any], weighted: bool) -> None:
    """Large nodes are scanned block by block, most blocks being passed over unseen."""
    rng = np.random.default_rng(0)
    n = 700
    X = np.column_stack([rng.integers(0, 400, n), rng.integers(0, 60, n), rng.integers(0, 4, n)]) / 10.0
    y = ((X[:, 0] / 40.0 + X[:, 1] / 6.0 + rng.normal(0.0, 0.3, n)) > 1.0).astype(int)
    model = RobustTreeClassifier(**parameters)
    tree = check_fit(model, X, y, rng.choice([0.5, 1.0, 2.0], n) if weighted else None)
    assert tree.n_leaves > 4


FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.1, 0.2, 0.3, 7.0, 7.1, 7.2])


@given(st.data())
def test_rows_go_where_growing_sent_them(data: st.DataObject) -> None:
    """On any floats at all, the weights in the tree are those of rows compared with its thresholds one by one."""
    n = data.draw(st.integers(2, 20))
    X = data.draw(arrays(np.float64, (n, 2), FLOATS))
    y = data.draw(labels(n))
    distance = st.floats(0.0) | st.sampled_from([0.1, 0.05])
    model = RobustTreeClassifier(
        threat=data.draw(st.lists(st.tuples(distance, distance), min_size=2, max_size=2)),
        rho=data.draw(st.sampled_from([1.0, 0.5])),
        attacking_classes=data.draw(st.sampled_from([None, 0, 1])),
    )
    tree = model.fit(X, y).ensemble_
    check_weights(tree, samples_of(model, X, y))
    natural = RobustTreeClassifier().fit(X, y)
    reached = np.bincount(natural.apply(X), minlength=natural.ensemble_.n_nodes)
    leaf = natural.ensemble_.feature < 0
    np.testing.assert_array_equal(natural.ensemble_.cover[leaf], reached[leaf])


def test_best_first_splits_what_gains_most() -> None:
    """With max_leaf_nodes, the tree is the full tree cut back to the splits a greedy player would make first."""
    rng = np.random.default_rng(3)
    X = rng.random((400, 3))
    y = (X.sum(axis=1) + rng.normal(0.0, 0.2, 400) > 1.5).astype(int)
    full = RobustTreeClassifier(threat=0.02).fit(X, y).ensemble_
    impurity = full.cover * 2.0 * full.value.prod(axis=1)
    gain = impurity - impurity[full.left] - impurity[full.right]
    frontier, expected = [0], set()
    for _ in range(11):
        best = max((node for node in frontier if full.feature[node] >= 0), key=gain.__getitem__)
        frontier.remove(best)
        frontier += [int(full.left[best]), int(full.right[best])]
        expected.add((int(full.feature[best]), float(full.threshold[best])))
    tree = RobustTreeClassifier(threat=0.02, max_leaf_nodes=12).fit(X, y).ensemble_
    inner = tree.feature >= 0
    assert tree.n_leaves == 12
    assert set(zip(tree.feature[inner].tolist(), tree.threshold[inner].tolist(), strict=True)) == expected


@st.composite
def natural_problems(draw: st.DrawFn) -> tuple[RobustTreeClassifier, np.ndarray, np.ndarray, Any]:
    n = draw(st.integers(2, 40))
    X = draw(arrays(np.int64, (n, 2), st.integers(-6, 6))) / 4.0
    model = RobustTreeClassifier(
        criterion=draw(st.sampled_from(["gini", "entropy"])),
        min_samples_leaf=draw(st.integers(1, 3)),
    )
    weight = arrays(np.float64, n, st.sampled_from([1.0, 2.0, 0.25]))
    return model, X, draw(labels(n)), draw(st.none() | weight)


@given(natural_problems())
def test_without_a_threat_every_split_is_as_good_as_that_of_scikit_learn(problem: tuple) -> None:
    """The impurity decrease is compared, not the split: there are ties."""
    model, X, y, sample_weight = problem
    tree = model.fit(X, y, sample_weight).ensemble_
    paths = model.decision_path(X).toarray().astype(bool)
    for node in range(tree.n_nodes):
        here = paths[:, node]
        weight = None if sample_weight is None else sample_weight[here]
        stump = DecisionTreeClassifier(criterion=model.criterion, max_depth=1, min_samples_leaf=model.min_samples_leaf)
        theirs = stump.fit(X[here], y[here], weight).tree_
        ours = _impurity_decrease(tree, node, model.criterion)
        assert ours == pytest.approx(_impurity_decrease(theirs, 0, model.criterion), abs=1e-9)
        assert tree.cover[node] == pytest.approx(theirs.weighted_n_node_samples[0])


def _impurity_decrease(tree: Any, node: int, criterion: str) -> float:
    """Weighted impurity of a node minus that of its children; of our trees and of scikit-learn's."""
    if isinstance(tree, TreeEnsemble):
        left, right, cover = tree.left, tree.right, tree.cover
        share = np.maximum(tree.value, 1e-300)
        by_name = {"gini": 2.0 * tree.value.prod(axis=1), "entropy": -(share * np.log2(share)).sum(axis=1)}
        impurity = by_name[criterion]
    else:
        left, right = tree.children_left, tree.children_right
        cover, impurity = tree.weighted_n_node_samples, tree.impurity
    if left[node] < 0:
        return 0.0
    decrease = [cover[at] * impurity[at] for at in (node, left[node], right[node])]
    return decrease[0] - decrease[1] - decrease[2]


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_without_a_threat_the_tree_is_that_of_scikit_learn(criterion: str) -> None:
    """On data without ties the two predict the same, as long as nodes are large enough for one best split."""
    rng = np.random.default_rng(5)
    X = rng.random((2000, 5)).astype(np.float32)  # their precision
    y = (X[:, 0] * X[:, 1] + 0.2 * rng.random(2000) > 0.3).astype(int)
    limits = {"criterion": criterion, "min_samples_split": 100}
    ours = RobustTreeClassifier(**limits).fit(X, y)
    theirs = DecisionTreeClassifier(**limits, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    assert RobustTreeClassifier(criterion=criterion).fit(X, y).score(X, y) == 1.0


def same_tree(a: TreeEnsemble, b: TreeEnsemble) -> None:
    """Raise AssertionError unless two trees are equal in every array, rounding of sums of weights aside."""
    for name in ("feature", "threshold", "left", "right", "category_start", "category_words", "missing_left"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_allclose(a.value, b.value, rtol=1e-12)
    np.testing.assert_allclose(a.cover, b.cover, rtol=1e-12)


def continuous(n: int = 3000, n_features: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Data without ties, noisy enough for a tree of many nodes."""
    rng = np.random.default_rng(0)
    X = rng.random((n, n_features))
    return X, (X[:, 0] + X[:, 1] ** 2 + rng.normal(0.0, 0.2, n) > 0.9).astype(int)


MODELS = {
    "natural": {},
    "robust": {"threat": [0.05, (0.0, 0.1), "<", None]},
    "one class": {"threat": 0.05, "attacking_classes": 1},
    "rho": {"threat": [0.1, 0.02, ">", 0.05], "rho": 0.3},
    "entropy": {"threat": 0.04, "criterion": "entropy"},
    "error": {"threat": 0.04, "criterion": "error"},
    "few leaves": {"threat": 0.03, "max_leaf_nodes": 7},
    "large leaves": {"threat": 0.03, "min_samples_leaf": 11},
}
# In small nodes several splits gain the same, and which one is taken may depend on the order.
MODELS = {name: {"min_samples_split": 150} | parameters for name, parameters in MODELS.items()}
each_model = pytest.mark.parametrize("parameters", MODELS.values(), ids=list(MODELS))


@each_model
def test_row_order_does_not_matter(parameters: dict[str, Any]) -> None:
    X, y = continuous()
    order = np.random.default_rng(1).permutation(len(X))
    weight = np.random.default_rng(2).choice([1.0, 2.0, 3.0], len(X))
    model = RobustTreeClassifier(**parameters)
    tree = model.fit(X, y).ensemble_
    assert tree.n_leaves > 4
    same_tree(tree, model.fit(X[order], y[order]).ensemble_)
    same_tree(model.fit(X, y, weight).ensemble_, model.fit(X[order], y[order], weight[order]).ensemble_)


TIES = {"order": [10, 258, 1056, 1316], "ones": [5, 16, 17, 36, 39], "thrice": [10, 16, 40, 41, 51]}


@pytest.mark.parametrize(("change", "seed"), [(change, seed) for change, seeds in TIES.items() for seed in seeds])
def test_rounding_does_not_choose_between_equal_splits(change: str, seed: int) -> None:
    """Small tables of few values are full of splits that gain the same, but for the last bits of sums of weights.

    Which bits come out larger used to depend on the order of the rows (56 of 8,000 such tables grew another tree), on
    the unit of the weights (447), and on whether weights of one were given (353). Now the first of equals is taken.
    """
    rng = np.random.default_rng(seed)
    n, n_features = int(rng.integers(5, 60)), int(rng.integers(1, 4))
    X = rng.integers(-4, 5, (n, n_features)) * rng.choice([1.0, 0.25, 0.1])
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    weight = rng.choice([0.1, 0.3, 0.7, 1.0, 2.0], n)
    model = RobustTreeClassifier(
        threat=float(rng.choice([0.1, 0.25, 0.5, 1.0])),
        rho=float(rng.choice([0.9, 0.9, 0.3, 1.0])),
        criterion=str(rng.choice(["gini", "gini", "entropy", "error"])),
        attacking_classes=[None, 0, 1][rng.integers(3)],
        class_weight=[None, {0: 0.3, 1: 0.7}][rng.integers(2)],
        min_samples_leaf=int(rng.choice([1, 1, 3])),
    )
    order = rng.permutation(n)
    fits = {
        "order": lambda: (model.fit(X, y, weight).ensemble_, model.fit(X[order], y[order], weight[order]).ensemble_),
        "ones": lambda: (model.fit(X, y).ensemble_, model.fit(X, y, np.ones(n)).ensemble_),
        "thrice": lambda: (
            model.fit(X, y, weight).ensemble_,
            replace(tree := model.fit(X, y, 3.0 * weight).ensemble_, cover=tree.cover / 3.0),
        ),
    }
    same_tree(*fits[change]())


def test_a_weight_of_two_is_one_row_where_rows_are_counted() -> None:
    """With rho below 1 a child needs a whole row in parts: 0.9 of a row is too little, however much the row weighs."""
    X, y = np.array([[0.0], [0.0], [1.0]]), np.array([0, 0, 1])
    model = RobustTreeClassifier(threat=1.5, rho=0.1, attacking_classes=1)
    assert model.fit(X, y, [1.0, 1.0, 2.0]).get_n_leaves() == 1
    assert model.fit(np.vstack([X, X[2:]]), np.append(y, 1)).get_n_leaves() == 2


@each_model
def test_column_order_does_not_matter(parameters: dict[str, Any]) -> None:
    X, y = continuous()
    order = np.array([2, 0, 3, 1])
    threat = ThreatModel(parameters.get("threat")).resolve(Schema.numeric(4))
    moved = [(threat.left[j], threat.right[j]) for j in order]
    model = RobustTreeClassifier(**parameters)
    tree = model.fit(X, y).ensemble_
    other = model.set_params(threat=moved).fit(X[:, order], y).ensemble_
    inner = other.feature >= 0
    feature = np.where(inner, order[other.feature], -1)
    np.testing.assert_array_equal(tree.feature, feature)
    np.testing.assert_array_equal(tree.threshold, other.threshold)
    np.testing.assert_allclose(tree.value, other.value)


@each_model
def test_a_weight_of_two_is_the_row_twice(parameters: dict[str, Any]) -> None:
    """But for the limits on numbers of rows, which count a row once."""
    X, y = continuous()
    twice = np.random.default_rng(1).random(len(X)) < 0.3
    model = RobustTreeClassifier(**(parameters | {"min_samples_leaf": 1, "max_depth": 3}))
    weighted = model.fit(X, y, np.where(twice, 2.0, 1.0)).ensemble_
    repeated = model.fit(np.vstack([X, X[twice]]), np.append(y, y[twice])).ensemble_
    same_tree(weighted, repeated)


@each_model
def test_a_weight_of_zero_is_no_row(parameters: dict[str, Any]) -> None:
    X, y = continuous()
    kept = np.random.default_rng(1).random(len(X)) < 0.7
    model = RobustTreeClassifier(**parameters)
    same_tree(model.fit(X, y, kept.astype(float)).ensemble_, model.fit(X[kept], y[kept]).ensemble_)


@each_model
def test_weights_of_one_are_no_weights(parameters: dict[str, Any]) -> None:
    X, y = continuous()
    model = RobustTreeClassifier(**parameters)
    same_tree(model.fit(X, y).ensemble_, model.fit(X, y, np.ones(len(X))).ensemble_)


@each_model
def test_class_weights_are_sample_weights(parameters: dict[str, Any]) -> None:
    X, y = continuous()
    by_class = RobustTreeClassifier(**parameters, class_weight={0: 1.0, 1: 2.5}).fit(X, y).ensemble_
    by_row = RobustTreeClassifier(**parameters).fit(X, y, np.where(y == 1, 2.5, 1.0)).ensemble_
    same_tree(by_class, by_row)


def mirror_image(tree: TreeEnsemble, node: int = 0) -> Any:
    """A tree as nested tuples, with left and right exchanged and thresholds negated."""
    if tree.feature[node] < 0:
        return tuple(tree.value[node].tolist())
    left, right = (mirror_image(tree, int(child[node])) for child in (tree.left, tree.right))
    return int(tree.feature[node]), -float(tree.threshold[node]), right, left


def image(tree: TreeEnsemble, node: int = 0, classes: tuple[int, int] = (0, 1)) -> Any:
    if tree.feature[node] < 0:
        return tuple(tree.value[node, list(classes)].tolist())
    left, right = (image(tree, int(child[node]), classes) for child in (tree.left, tree.right))
    return int(tree.feature[node]), float(tree.threshold[node]), left, right


@each_model
def test_a_negated_table_grows_the_mirrored_tree(parameters: dict[str, Any]) -> None:
    X, y = continuous()
    reach = ThreatModel(parameters.get("threat")).resolve(Schema.numeric(4))
    swapped = [(right, left) for left, right in zip(reach.left, reach.right, strict=True)]
    model = RobustTreeClassifier(**parameters)
    tree = model.fit(X, y).ensemble_
    mirrored = model.set_params(threat=swapped).fit(-X, y).ensemble_
    assert image(tree) == mirror_image(mirrored)


@each_model
def test_exchanged_labels_grow_the_same_tree(parameters: dict[str, Any]) -> None:
    X, y = continuous()
    tree = RobustTreeClassifier(**parameters).fit(X, y).ensemble_
    if "attacking_classes" in parameters:
        parameters = parameters | {"attacking_classes": 1 - parameters["attacking_classes"]}
    exchanged = RobustTreeClassifier(**parameters).fit(X, 1 - y).ensemble_
    assert image(tree) == image(exchanged, classes=(1, 0))


def test_names_of_the_classes_do_not_matter() -> None:
    X, y = continuous()
    numbered = RobustTreeClassifier(threat=0.05, attacking_classes=1).fit(X, y)
    named = RobustTreeClassifier(threat=0.05, attacking_classes="spam")
    named.fit(X, np.array(["ham", "spam"])[y])
    same_tree(numbered.ensemble_, named.ensemble_)
    np.testing.assert_array_equal(named.predict(X) == "spam", numbered.predict(X) == 1)


LARGE = {
    "natural": {},
    "robust": {"threat": [0.02, "<", None, 0.01, 0.1, None, None]},
    "rho": {"threat": 0.02, "rho": 0.5},
    "drawn features": {"threat": 0.01, "max_features": "sqrt", "random_state": 3},
    "best first": {"threat": 0.01, "max_leaf_nodes": 40},
    "categories": {"threat": [0.01, 0.01, 0.01, 0.01, 0.01, {0: [1]}, "<>"], "categorical_features": [5, 6]},
    "drawn categories": {"max_features": 2, "random_state": 0, "categorical_features": [5, 6]},
    "class weights": {"threat": 0.01, "class_weight": {0: 0.3, 1: 0.7}},
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parameters", LARGE.values(), ids=list(LARGE))
def test_threads_do_not_matter(parameters: dict[str, Any], weighted: bool) -> None:
    """Nodes of more than 16384 samples are shared out among threads."""
    rng = np.random.default_rng(0)
    n = 40_000
    X = np.column_stack([rng.random((n, 5)), rng.integers(0, 6, n), rng.integers(0, 9, n)])
    y = (X[:, 0] + X[:, 1] + (X[:, 5] == 2) + 0.1 * X[:, 6] + rng.normal(0.0, 0.4, n) > 1.5).astype(int)
    weight = rng.choice([0.5, 1.0, 1.5], n) if weighted else None
    model = RobustTreeClassifier(**parameters, max_depth=7)
    tree = model.set_params(n_jobs=1).fit(X, y, weight).ensemble_
    assert tree.n_leaves > 10
    threaded = model.set_params(n_jobs=2).fit(X, y, weight).ensemble_
    same_tree(tree, threaded)
    np.testing.assert_array_equal(tree.value, threaded.value)


@pytest.mark.parametrize("seed", [67, 383])
def test_threads_do_not_matter_between_equal_features(seed: int) -> None:
    """A feature and its negative offer the same split, with gains that may differ in the last bit.

    One thread, which looks for something better than the first, must not overlook the bit that two threads, which
    compare what each has found, go by. These seeds make such a bit.
    """
    rng = np.random.default_rng(seed)
    x = rng.random(17_000)
    y = (x + rng.normal(0.0, 0.5, len(x)) > 0.5).astype(int)
    class_weight = {0: rng.random(), 1: rng.random()}
    model = RobustTreeClassifier(threat=0.01, rho=rng.random(), class_weight=class_weight, max_depth=1)
    X = np.column_stack([x, -x])
    tree = model.set_params(n_jobs=1).fit(X, y).ensemble_
    same_tree(tree, model.set_params(n_jobs=2).fit(X, y).ensemble_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_draw_of_features_goes_on_until_one_can_split(n_jobs: int) -> None:
    """Of twenty features one is not constant: max_features=1 must still find it."""
    X = np.zeros((20_000, 20))
    X[10_000:, 13] = 1.0
    y = (X[:, 13] == 1.0).astype(int)
    for seed in range(5):
        model = RobustTreeClassifier(max_features=1, random_state=seed, n_jobs=n_jobs).fit(X, y)
        assert model.score(X, y) == 1.0


def test_drawn_features_differ_between_nodes_and_seeds() -> None:
    X, y = continuous(n=2000, n_features=8)
    trees = [
        RobustTreeClassifier(max_features=1, random_state=seed, max_depth=4).fit(X, y).ensemble_ for seed in (0, 0, 1)
    ]
    same_tree(trees[0], trees[1])
    assert len(set(trees[0].feature.tolist())) > 4
    assert trees[0].feature.tolist() != trees[2].feature.tolist()


def test_rho_between_zero_and_one_splits() -> None:
    """In the published implementation a tree with rho below 1 never splits."""
    X, y = continuous()
    leaves = [
        RobustTreeClassifier(threat=0.1, rho=rho, min_samples_leaf=20).fit(X, y).get_n_leaves()
        for rho in (0.1, 0.5, 0.9, 1.0)
    ]
    assert min(leaves) > 2


@pytest.mark.parametrize("criterion", CRITERIA)
def test_rho_of_zero_is_the_natural_tree(criterion: str) -> None:
    X, y = continuous()
    natural = RobustTreeClassifier(criterion=criterion).fit(X, y).ensemble_
    same_tree(natural, RobustTreeClassifier(threat=0.1, rho=0.0, criterion=criterion).fit(X, y).ensemble_)


def test_more_attackers_in_training_make_a_more_robust_tree() -> None:
    """A wide margin on one feature, a narrow and slightly better one on the other: rho decides which is used."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    narrow = np.where(y == 1, 0.1, -0.1)
    wide = np.where(rng.random(1000) < 0.02, -1.0, 1.0) * np.where(y == 1, 2.0, -2.0)
    X = np.column_stack([narrow, wide])
    robust = [
        adversarial_accuracy(RobustTreeClassifier(threat=0.5, rho=rho, max_depth=1).fit(X, y), X, y, 0.5)
        for rho in (0.0, 0.5, 1.0)
    ]
    assert robust[0] == 0.0
    assert robust == sorted(robust)
    assert robust[2] > 0.95


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.float32, np.float64])
def test_epsilon_is_not_truncated_to_the_type_of_the_table(dtype: type) -> None:
    """The published implementation computes x + epsilon in the type of the table: on integers 0.6 becomes 0."""
    X, y = np.array([[1], [1], [2], [2]], dtype=dtype), [0, 0, 1, 1]
    assert RobustTreeClassifier(threat=0.4).fit(X, y).get_n_leaves() == 2
    assert RobustTreeClassifier(threat=0.6).fit(X, y).get_n_leaves() == 1
    one_sided = RobustTreeClassifier(threat=0.6, attacking_classes=1).fit(X, y)
    assert 1.0 <= one_sided.ensemble_.threshold[0] < 1.4


def test_thresholds_are_not_rounded_to_float32() -> None:
    """The published implementation grows in float64 and predicts with float32 thresholds: rows change sides."""
    X = 1.0 + np.arange(40).reshape(-1, 1) * 1e-9
    y = np.arange(40) % 2
    assert RobustTreeClassifier().fit(X, y).score(X, y) == 1.0
    assert RobustTreeClassifier(threat=1e-13).fit(X, y).get_n_leaves() == 1  # all count as equal
    single = np.array([[1.0], [np.nextafter(np.float32(1.0), np.float32(2.0))]], dtype=np.float32)
    model = RobustTreeClassifier().fit(single, [0, 1])
    np.testing.assert_array_equal(model.predict(single), [0, 1])
    np.testing.assert_array_equal(model.predict(single.astype(np.float64)), [0, 1])


@pytest.mark.parametrize("offset", [1e10, -1e12, 1e17, 1e300, -1e305])
def test_no_number_stands_for_infinity(offset: float) -> None:
    """The published implementation uses 1e9 or 1e10 where it means infinity: larger values are lost."""
    X = offset * (1.0 + np.array([[0.0], [0.1], [0.4], [0.5]]))
    y = [0, 0, 1, 1]
    for threat in (None, abs(offset) * 0.1, ("<>", 1), ("<", 1), (">", 1)):
        spec, classes = threat if isinstance(threat, tuple) else (threat, None)
        model = RobustTreeClassifier(threat=spec, attacking_classes=classes)
        tree = check_fit(model, X, y)
        assert tree.n_leaves == (1 if spec == ("<" if offset > 0 else ">") or spec == "<>" else 2)


def test_depth_has_no_limit() -> None:
    """The published implementation recurses once per level, and Python stops it at about a thousand."""
    X = np.arange(2500.0).reshape(-1, 1)
    y = np.arange(2500) % 2
    model = RobustTreeClassifier().fit(X, y)
    assert model.get_depth() > 2000
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_a_split_with_too_small_a_leaf_is_passed_over(weighted: bool) -> None:
    """The published implementation makes a leaf of a node whose best split violates min_samples_leaf."""
    X = np.arange(10.0).reshape(-1, 1)
    y = np.array([1, 0, 0, 0, 0, 0, 1, 0, 1, 1])
    weight = np.where(X[:, 0] == 0.0, 3.0, 1.0) if weighted else None
    best = RobustTreeClassifier(max_depth=1).fit(X, y, weight).ensemble_
    if weighted:
        assert best.threshold[0] == 0.5
    allowed = RobustTreeClassifier(max_depth=1, min_samples_leaf=4).fit(X, y, weight).ensemble_
    assert allowed.threshold[0] == 5.5
