"""Robust boosting: every split the best by its stated objective, every margin what enumeration says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import (
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    ThreatModel,
    TreeEnsemble,
    attack,
    load_dataset,
    verify,
)
from hardwood.grow.boosting import Booster, Boosting, BoostingOptions
from hardwood.grow.boosting_steps import BoostBlock, GrownTree, Sums
from hardwood.grow.boosting_trees import WholeTrees
from hardwood.grow.codes import CodedTable, encode_table
from hardwood.grow.losses import CertifiedLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from hardwood.grow.workers import Workers, hire, run_in_turn
from hardwood.table import Schema
from hardwood.threat import Reach
from reference import boosting as reference
from reference.enumerating import reachable_points

L2 = 0.5


def make_options(**changes: Any) -> BoostingOptions:
    options = {
        "n_rounds": 3, "max_depth": 3, "learning_rate": 0.5, "l2": L2, "min_gain": 0.0, "min_child_weight": 0.2,
        "subsample": 1.0, "max_features": 3, "ordered": False, "max_bins": 255, "seed": 0, "patience": None,
    }  # fmt: skip
    return BoostingOptions(**(options | changes))


def make_case(
    seed: int, *, movable_categories: bool = False, hidden: bool = False
) -> tuple[np.ndarray, np.ndarray, Reach, Schema]:
    """A small table of two numbers and a category, with missing values, and a threat to some of it."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(6, 25))
    X = np.column_stack([generator.integers(0, 8, (n, 2)) * 0.5, generator.integers(0, 4, n)]).astype(float)
    if generator.random() < 0.5:
        X[generator.random(X.shape) < 0.15] = np.nan
    y = generator.integers(0, 2, n)
    y[:2] = 0, 1
    schema = Schema(3, None, (None, None, ("a", "b", "c", "d")), accepts_missing=True)
    distances = [0.0, 0.3, 0.5, 1.2, np.inf]
    entries: dict[int, Any] = {0: float(generator.choice(distances)), 1: (0.0, float(generator.choice(distances)))}
    if movable_categories:
        entries[2] = {"a": ["b"], "c": ["a", "d"]} if generator.random() < 0.5 else "<>"
    attacking = None if generator.random() < 0.6 else 1
    hides = [[], [0], [0, 2], [1, 2]]
    blank, fill = (hides[generator.integers(4)] if hidden else [] for _ in range(2))
    within = {0: (0.0, 3.5)} if generator.random() < 0.5 else None
    threat = ThreatModel(entries, attacking, blank=blank or None, fill=fill or None, within=within)
    return X, y, threat.resolve(schema, [0, 1]), schema


def encode(X: np.ndarray, y: np.ndarray, reach: Reach, max_bins: int = 255) -> CodedTable:
    with hire(1) as workers:
        return encode_table(X, y, reach, max_bins, workers)


def make_block(table: CodedTable, loss: CertifiedLoss, weight: np.ndarray) -> BoostBlock:
    return BoostBlock(table.plan, table.codes, loss, weight, ((0, len(weight)),))


def make_booster(block: BoostBlock, options: BoostingOptions) -> Booster:
    return Booster(block.plan, block.loss, options, WholeTrees(block.plan, block.n_rows, options.max_depth))


def run(steps: Any, block: BoostBlock, state: Any = None) -> Any:
    """Do all steps on one block; return its state, and what the steps come to."""
    counts = None
    while True:
        try:
            some = steps.send(counts)
        except StopIteration as finished:
            return state, finished.value
        counts = []
        for step in some if isinstance(some, list) else [some]:
            state, counted = step.do(block, state)
            counts.append(counted)
        counts = counts if isinstance(some, list) else counts[0]


def grow_one(block: BoostBlock, options: BoostingOptions) -> tuple[Booster, Sums]:
    """Boost some rounds; return the booster, and what the outputs of the rows can be made."""
    booster = make_booster(block, options)
    state, _ = run(booster.begin(), block)
    for _ in range(options.n_rounds):
        state, _ = run(booster.add_round(), block, state)
    return booster, (state.now if not booster._first_steps else state.then).sums


def walk(tree: GrownTree, table: CodedTable) -> Any:
    """Yield every node with the questions above it, and the question that it asks itself; None for leaves."""
    waiting: list[tuple[int, reference.Place]] = [(0, reference.Place([]))]
    while waiting:
        node, place = waiting.pop()
        here = tree.nodes[node]
        if here["feature"] < 0:
            yield node, place, None
            continue
        j, cut = int(here["feature"]), int(here["cut"])
        members = None
        threshold = 0.0
        if table.plan.categories is not None and table.plan.categories.n_categories[j] > 0:
            members = tree.set_left[node, : table.plan.categories.n_categories[j]]
        else:
            last = table.plan.columns.n_codes[j] - 1
            threshold = table.plan.columns.thresholds[j, cut] if cut < last else np.finfo(np.float64).max
        question = reference.Question(j, float(threshold), members, bool(here["missing_left"]))
        yield node, place, question
        for side in (0, 1):
            waiting.append((int(here["left"]) + side, reference.Place([*place.path, (question, side == 0)])))


def find_held(rows: reference.Rows, place: reference.Place) -> list[int]:
    """The rows that can reach a node."""
    held = list(range(len(rows.X)))
    for k, (question, on_left) in enumerate(place.path):
        above = reference.Place(place.path[:k])
        held = [row for row in held if reference.can_go(rows, above, question, row)[not on_left]]
    return held


def thresholds_of(table: CodedTable) -> list[np.ndarray]:
    columns = table.plan.columns
    return [columns.thresholds[j, : n - 1] for j, n in enumerate(columns.n_codes.tolist())]


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.2]))
def test_every_split_is_the_best(seed: int, movable: bool, hidden: bool, min_weight: float) -> None:
    """Numbers and fixed categories: no split of any node is better. With categories that move, it is what it claims.

    The best set of categories is a prefix of their order only if children may weigh as little as they like.
    """
    X, y, reach, _ = make_case(seed, movable_categories=movable, hidden=hidden)
    table, loss = encode(X, y, reach), LogisticLoss(y)
    weight = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], len(y))
    level = np.full((len(y), 1), np.log(weight[y == 1].sum() / weight[y == 0].sum()))
    derivatives = loss.examine(level, level)[1][0]
    rows = reference.Rows(X, y, reach, derivatives.group, derivatives.gradient * weight, derivatives.hessian * weight)
    options = make_options(min_child_weight=min_weight)
    block = make_block(table, loss, weight)
    booster = make_booster(block, options)
    state, _ = run(booster.begin(), block)
    _, tree = run(booster._grower.grow(booster._make_task(0), booster.directions), block, state)
    for node, place, question in walk(tree, table):
        held = find_held(rows, place)
        own = 0.5 * rows.gradient[held].sum() ** 2 / (rows.hessian[held].sum() + L2)
        if len(place.path) >= options.max_depth or rows.hessian[held].sum() < 2.0 * min_weight:
            assert question is None
            continue
        others = reference.all_questions(rows, place, held, thresholds_of(table))
        best = max(
            (
                reference.judge(rows, place, other, held, L2, min_weight, direction)
                for other in others
                if other.members is None or not (movable or hidden or min_weight)
                for direction in (1, -1)
            ),
            default=-np.inf,
        )
        if question is None:
            assert best <= own + 1e-9
            continue
        here = tree.nodes[node]
        worth = reference.judge(rows, place, question, held, L2, min_weight, int(here["direction"]))
        assert worth == pytest.approx(own + here["gain"], rel=1e-9, abs=1e-12)
        assert worth >= best - 1e-9
        left, _ = reference.divide(rows, place, question, held, int(here["direction"]))
        _, a, b = reference.score(rows, left, held, L2)
        values = tree.nodes["value"][[here["left"], here["left"] + 1]]
        np.testing.assert_allclose(values, [a, b], rtol=1e-9, atol=1e-12)


def brute_margins(ensemble: TreeEnsemble, X: np.ndarray, y: np.ndarray, reach: Reach) -> tuple[np.ndarray, np.ndarray]:
    """For each row and output: the sums of the lowest and of the highest leaf of every tree that any point reaches."""
    low, high = [], []
    for row, label in zip(X, y, strict=True):
        points = reachable_points(ensemble, row, int(label), reach)
        values = ensemble.value[ensemble.leaves(points)]  # (point, tree, output)
        low.append(ensemble.base_score + values.min(axis=0).sum(axis=0))
        high.append(ensemble.base_score + values.max(axis=0).sum(axis=0))
    return np.array(low), np.array(high)


def build(X: np.ndarray, y: np.ndarray, reach: Reach, schema: Schema, seed: int, **changes: Any) -> Any:
    """Boost by hand: what the outputs of the rows can be made, and the ensemble."""
    from hardwood.grow.boosted import harvest
    from hardwood.rows.task import Task

    n_classes = len(reach.attacks)
    loss: CertifiedLoss = LogisticLoss(y) if n_classes == 2 else SoftmaxLoss(y, n_classes)
    if n_classes == 1:
        loss = SquaredLoss(np.random.default_rng(seed).normal(size=len(X)))
    block, options = make_block(encode(X, y, reach), loss, np.ones(len(y))), make_options(max_depth=2, **changes)
    booster, sums = grow_one(block, options)
    classes = None if n_classes == 1 else np.arange(n_classes)
    boosting = Boosting(booster, [], options, Workers(1, run_in_turn), None)
    task = Task(X[:0], y[:0], None, np.ones(n_classes), schema, classes, ThreatModel())
    return sums, harvest(boosting.finish(interrupted=False), block.plan, task)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([1, 2, 3]), st.booleans())
def test_certified_sums_are_those_of_enumeration(
    seed: int, movable: bool, hidden: bool, n_classes: int, sampled: bool
) -> None:
    """Growing and `certify` both add up the worst leaf of every tree; so does enumeration of all points in reach."""
    from hardwood.verification.cheap import bound_margins, sum_extremes

    X, y, reach, schema = make_case(seed, movable_categories=movable, hidden=hidden)
    if n_classes != 2:
        y = np.random.default_rng(seed).integers(0, n_classes, len(y))
        reach = replace(reach, attacks=np.arange(n_classes) != 1)
    changes = {"subsample": 0.7, "max_features": 2} if sampled else {}
    sums, ensemble = build(X, y, reach, schema, seed, **changes)
    low, high = brute_margins(ensemble, X, y, reach)
    np.testing.assert_allclose(sums.low, low, atol=1e-9)
    np.testing.assert_allclose(sums.high, high, atol=1e-9)
    cheap = sum_extremes(ensemble, X, y, reach)
    np.testing.assert_allclose(cheap, (low, high), atol=1e-9)
    if n_classes > 1:
        _, margin = bound_margins(ensemble, X, y, reach)
        if n_classes == 2:
            expected = np.where(y == 1, low[:, 0], -high[:, 0])
        else:
            own = low[np.arange(len(y)), y]
            high[np.arange(len(y)), y] = -np.inf
            expected = own - high.max(axis=1)
        np.testing.assert_allclose(margin, expected, atol=1e-9)
        assert (margin <= expected).all() or (margin - expected).max() < 1e-12


@given(st.integers(0, 2**32 - 1))
def test_ordered_certificates_are_exact(seed: int) -> None:
    """All splits of a feature that can be moved have one direction: one point is the worst for all trees."""
    X, y, reach, schema = make_case(seed)
    sums, ensemble = build(X, y, reach, schema, seed, ordered=True, n_rounds=4)
    for i, (row, label) in enumerate(zip(X, y, strict=True)):
        output = ensemble.output(reachable_points(ensemble, row, int(label), reach))[:, 0]
        assert output.min() == pytest.approx(sums.low[i, 0], abs=1e-9)
        assert output.max() == pytest.approx(sums.high[i, 0], abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_verified_exactly_with_categories_and_missing_values(seed: int, movable: bool) -> None:
    """What verify and attack say of a boosted model is what enumeration says; certificates are never wrong."""
    X, y, reach, schema = make_case(seed, movable_categories=movable)
    _, ensemble = build(X, y, reach, schema, seed)
    table = schema.decode(X)
    words = ThreatModel(
        {0: (reach.left[0], reach.right[0]), 1: (reach.left[1], reach.right[1])}
        | ({2: _name_moves(reach.categories[2])} if movable else {}),
        None if reach.attacks.all() else 1,
    )
    certificate = verify(ensemble, table, y, words)
    found = attack(ensemble, table, y, words).found
    for i, (row, label) in enumerate(zip(X, y, strict=True)):
        points = reachable_points(ensemble, row, int(label), reach)
        is_robust = bool((ensemble.decide(points) == label).all())
        assert certificate.status[i] == ("robust" if is_robust else "vulnerable")
        assert found[i] == (not is_robust)


def _name_moves(allowed: np.ndarray | None) -> Any:
    assert allowed is not None
    names = "abcd"
    if allowed.all():
        return "<>"
    return {names[a]: [names[b] for b in range(4) if allowed[a, b] and a != b] for a in range(4)}


class TestSameModel:
    """What the model does not depend on."""

    X, y = np.random.default_rng(0).random((300, 5)).round(2), np.random.default_rng(1).integers(0, 2, 300)

    def fit(self, **parameters: Any) -> RobustBoostingClassifier:
        return RobustBoostingClassifier(0.05, random_state=0, **({"n_estimators": 10} | parameters)).fit(self.X, self.y)

    def test_threads(self) -> None:
        for parameters in ({}, {"subsample": 0.5, "max_features": 2, "early_stopping": False}):
            one, two = self.fit(n_jobs=1, **parameters), self.fit(n_jobs=2, **parameters)
            assert one.ensemble_.to_json() == two.ensemble_.to_json()

    def test_order_of_rows(self) -> None:
        order = np.random.default_rng(2).permutation(300)
        model = self.fit(early_stopping=False)
        other = RobustBoostingClassifier(0.05, n_estimators=10, early_stopping=False).fit(self.X[order], self.y[order])
        assert model.ensemble_.to_json() == other.ensemble_.to_json()

    def test_weights_are_repetitions(self) -> None:
        weight = np.random.default_rng(3).integers(0, 3, 300)
        parameters = {"n_estimators": 10, "early_stopping": False}
        weighted = RobustBoostingClassifier(0.05, **parameters).fit(self.X, self.y, weight)
        repeated = RobustBoostingClassifier(0.05, **parameters).fit(
            np.repeat(self.X, weight, axis=0), np.repeat(self.y, weight)
        )
        np.testing.assert_allclose(
            weighted.decision_function(self.X), repeated.decision_function(self.X), rtol=1e-9, atol=1e-12
        )

    def test_fewer_bins_are_still_certified_exactly(self) -> None:
        """What an attacker can do at each threshold is exact, however few thresholds there are."""
        model = self.fit(max_bins=8, early_stopping=False)
        certificate = model.certify(self.X, self.y)
        status = verify(model, self.X, self.y, 0.05).status
        assert (status[certificate.certified] == "robust").all()
        per_feature = [len(np.unique(model.ensemble_.threshold[model.ensemble_.feature == j])) for j in range(5)]
        assert max(per_feature) <= 7


def test_without_a_threat_it_is_ordinary_boosting() -> None:
    """The same splits as XGBoost's: second-order boosting with L2, a least child weight, and a learning rate."""
    xgboost = pytest.importorskip("xgboost")
    table = load_dataset("diabetes")
    X = np.asarray(table.data, dtype=np.float64)
    y = np.unique(table.target, return_inverse=True)[1]
    model = RobustBoostingClassifier(n_estimators=5, max_depth=3, early_stopping=False).fit(X, y)
    peer = xgboost.XGBClassifier(
        n_estimators=5, max_depth=3, learning_rate=0.1, tree_method="exact", n_jobs=1, base_score=y.mean()
    ).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.predict(X, output_margin=True), atol=2e-5)


def test_certified_loss_never_rises() -> None:
    """Of every model, two classes, several and numbers: a tree that raises it is cut back or left out."""
    generator = np.random.default_rng(0)
    X = generator.random((200, 3))
    signal = X[:, 0] + 0.2 * generator.normal(size=200)
    parameters: dict[str, Any] = {"early_stopping": False, "n_estimators": 30, "learning_rate": 1.0}
    models = [
        RobustBoostingClassifier(0.1, **parameters).fit(X, signal > 0.5),
        RobustBoostingClassifier(0.1, **parameters).fit(X, np.digitize(signal, [0.3, 0.6])),
        RobustBoostingRegressor(0.1, **parameters).fit(X, signal),
        RobustBoostingClassifier(0.1, mode="ordered", **parameters).fit(X, signal > 0.5),
    ]
    for model in models:
        assert (np.diff(model.train_loss_) <= 0.0).all()
        assert model.train_loss_[-1] < model.train_loss_[0]


def test_nothing_to_learn_is_a_constant() -> None:
    """Held-out rows decide from 0 trees on: noise under a strong attacker leaves the constant model."""
    generator = np.random.default_rng(0)
    X, y = generator.random((200, 3)), (generator.random(200) < 0.3).astype(int)
    model = RobustBoostingClassifier(0.2, random_state=0).fit(X, y)
    assert model.n_estimators_ == 0
    assert model.ensemble_.n_leaves == 1
    assert set(model.predict(X)) == {0}
    assert (verify(model, X, y, 0.2).status == "robust").mean() == (y == 0).mean()
    assert list(model.staged_predict(X)) == []
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean())


def test_frames_with_categories_missing_values_and_text_labels() -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"size": generator.random(300), "kind": pd.Categorical(generator.choice(list("uvwx"), 300)), "other": 1.0}
    )
    y = np.where((frame["size"] > 0.5) ^ frame["kind"].isin(["u", "v"]), "yes", "no")
    frame.loc[generator.random(300) < 0.1, "size"] = np.nan
    frame.loc[generator.random(300) < 0.1, "kind"] = None
    threat = {"size": 0.05, "kind": {"u": ["v"]}}
    model = RobustBoostingClassifier(threat, early_stopping=False).fit(frame, y)
    assert model.score(frame, y) > 0.8
    status = verify(model, frame, y, threat).status
    assert (status == "robust").mean() > 0.7
    assert (status[model.certify(frame, y).certified] == "robust").all()
