"""All that a threat can say, of every kind of model, in every verb: held against trying points, and one another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import event, given, note, reject
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from fuzz.models import CLASSIFIERS, NUMBERED, REGRESSORS
from fuzz.points import contains, list_points, measure
from fuzz.profile import dear
from fuzz.tables import COLORS, Kind, kinds, make_frame, make_matrix, make_table, threats
from hardwood import (
    ThreatModel,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    attack,
    evaluate,
    export_rules,
    is_vulnerable,
    transfer_attack,
    verify,
)
from hardwood.verification.asked import AskSettings
from hardwood.verification.explanation import explain_row
from hardwood.verification.question import read_question

N_ROWS = 5
NORMS = [np.inf, 2, 1, 0]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


class Case(NamedTuple):
    """A model, rows that are asked about, and an attacker who has seen them."""

    kind: Kind
    model: Any
    trees: TreeEnsemble
    table: pd.DataFrame
    y: np.ndarray
    threat: ThreatModel

    def take(self, rows: Any) -> Case:
        """Return the case with some of its rows."""
        return self._replace(table=self.table.iloc[rows], y=self.y[rows])

    @property
    def may_be_unknown(self) -> bool:
        """Whether the pages say that some such rows stay open."""
        threat = self.threat
        hides = threat.blank is not None or threat.fill is not None
        both = threat.max_changes is not None and threat.radius is not None
        return bool(threat.relations) and (hides or both)


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of relations that rows break, nor of what libraries have to say; our own faults are heard."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*failed the check.*")
        yield


def make_case(data: Any, learners: dict[str, Any]) -> Case:
    """Draw a model and an attacker of it."""
    name = data.draw(st.sampled_from(list(learners)))
    learner = learners[name]
    n_classes = st.just(0) if learners is REGRESSORS else st.integers(2, learner.most_classes)
    kind = data.draw(kinds(n_classes, has_color=learner.takes_categories, has_holes=learner.takes_holes))
    if kind.n_classes and name not in NUMBERED:
        kind = replace(kind, names_classes=data.draw(st.booleans()))
    threat = data.draw(threats(kind))
    X, y = make_table(kind)
    try:
        model = learner.fit(X, y, threat, kind.seed % 1000)
        trees = as_ensemble(model, X)
        rows = np.random.default_rng(kind.seed).choice(len(X), N_ROWS, replace=False)
        table = X.iloc[rows]
        settled = threat.settle(table, trees.schema.encode(table), trees.schema)
        verify(model, table[:1], y[rows][:1], settled, tolerance=None if kind.n_classes else 0.5)
    except ValueError as refusal:
        event(f"refused: {str(refusal)[:40]}")
        reject()
    event(name)
    note(repr(threat))
    return Case(kind, model, trees, table, y[rows], settled)


def predict(case: Case, table: pd.DataFrame) -> np.ndarray:
    """Return what the model itself says, which is what its trees say."""
    ours = case.trees.predict(table)
    points = make_matrix(table)
    if "color" in table and (points[:, list(table.columns).index("color")] == len(COLORS)).any():
        return ours
    theirs = np.asarray(case.model.predict(make_frame(points, list(table.columns))))
    if case.kind.n_classes:
        np.testing.assert_array_equal(ours, theirs)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    return ours


def is_lost(case: Case, given: np.ndarray, *, stood_wrong: np.ndarray) -> np.ndarray:
    """Say of rows whether the attacker has what he wants once the model gives them these classes."""
    wanted = case.threat.attacking_classes
    if not isinstance(wanted, dict):
        return given != case.y
    own = [wanted.get(label, []) for label in case.y.tolist()]
    return stood_wrong | np.array([label in targets for label, targets in zip(given.tolist(), own, strict=True)])


def find_losses(case: Case) -> list[np.ndarray]:
    """Return, row by row, the points among those tried by which the row is lost."""
    tried = list_points(case.threat, case.trees, case.table, case.y)
    wrong = predict(case, case.table) != case.y
    lost = []
    for row, points in enumerate(tried):
        one = case.take([row] * len(points))
        given = predict(case, make_frame(points, case.kind.columns)) if len(points) else np.empty(0)
        lost.append(
            points[is_lost(one, given, stood_wrong=np.full(len(points), wrong[row]))] if len(points) else points
        )
    return lost


def check_examples(case: Case, found: np.ndarray, examples: pd.DataFrame) -> None:
    """Every example is within reach, and the model itself is fooled by it; there is none elsewhere."""
    assert examples.loc[~found].isna().all(axis=None)
    rows = np.flatnonzero(found)
    if len(rows):
        one, shown = case.take(rows), examples.iloc[rows]
        wrong = predict(one, one.table) != one.y
        assert is_lost(one, predict(one, shown), stood_wrong=wrong).all()
        assert contains(case.threat, case.trees, one.table, shown, one.y).all()


@dear
@given(st.data())
def test_classifiers(data: Any) -> None:
    with quiet():
        case = make_case(data, CLASSIFIERS)
        lost = find_losses(case)
        certificate = verify(case.model, case.table, case.y, case.threat)
        status = certificate.status
        assert (certificate.lower <= certificate.upper).all()
        assert not np.isnan(certificate.lower).any()
        for row, points in enumerate(lost):
            assert not len(points) or status[row] != "robust"
        check_examples(case, status == "vulnerable", certificate.witness)
        if not case.may_be_unknown:
            assert (status != "unknown").all()
        check_attacks(data, case, status, lost)
        check_solver(data, case, status)
        check_scores(case, status)
        check_more_of_the_same(data, case, certificate)
        check_other_verbs(data, case, status)


def check_attacks(data: Any, case: Case, status: np.ndarray, lost: list[np.ndarray]) -> None:
    """The nearest example is one, no point that was tried is nearer, and approximate attacks find none nearer."""
    norm = np.inf if case.threat.rules else data.draw(st.sampled_from(NORMS))
    exact = attack(case.model, case.table, case.y, case.threat, norm=norm)
    decided = status != "unknown"
    np.testing.assert_array_equal(exact.found[decided], (status == "vulnerable")[decided])
    assert (exact.lower <= exact.distance).all()
    check_examples(case, exact.found, exact.X_adv)
    if case.threat.rules:
        return
    matrix, columns = make_matrix(case.table), case.kind.columns
    for row, points in enumerate(lost):
        if len(points):
            nearest = measure(case.threat, matrix[row], points, columns, norm).min()
            assert exact.lower[row] <= nearest * (1 + 1e-9)
            assert exact.distance[row] <= nearest * (1 + 1e-9) or exact.lower[row] < exact.distance[row]
    if not case.may_be_unknown:
        # The solver of related numbers has a tolerance.
        rtol = 1e-5 if case.threat.relations else 0.0
        np.testing.assert_allclose(exact.lower, exact.distance, rtol=rtol)
    method = data.draw(st.sampled_from(["heuristic", "coordinate", "lowest"]))
    quick = attack(case.model, case.table, case.y, case.threat, norm=norm, method=method)
    assert (quick.found <= exact.found)[decided].all()
    assert (quick.distance >= exact.lower * (1 - 1e-9)).all()
    check_examples(case, quick.found, quick.X_adv)


def check_solver(data: Any, case: Case, status: np.ndarray) -> None:
    """The solver does not contradict the search, about the first rows: it takes its time."""
    if find_spec("highspy") is None or case.threat.rules or data.draw(st.integers(0, 3)):
        return
    event("asked the solver")
    part = case.take([0, 1])
    second = verify(case.model, part.table, part.y, case.threat, method="milp")
    is_known = (second.status != "unknown") & (status[:2] != "unknown")
    np.testing.assert_array_equal(second.status[is_known], status[:2][is_known])
    check_examples(part, second.status == "vulnerable", second.witness)
    norm = data.draw(st.sampled_from(NORMS))
    slow, exact = (attack(case.model, part.table, part.y, case.threat, norm=norm, method=m) for m in ("milp", "search"))
    assert (slow.lower <= exact.distance * (1 + 1e-6)).all()
    assert (exact.lower <= slow.distance * (1 + 1e-6)).all()
    check_examples(part, slow.found, slow.X_adv)


def check_scores(case: Case, status: np.ndarray) -> None:
    """Scores count the rows that `verify` proves, and a stronger attacker breaks no fewer."""
    report = evaluate(case.model, case.table, case.y, case.threat, epsilons=[0.5, 2.0], distances=True, time_limit=None)
    bounds = report.adversarial_accuracy
    share = [(status == "robust").mean(), (status != "vulnerable").mean()]
    assert share[0] <= bounds.upper
    assert bounds.lower <= share[1]
    assert report.accuracy == (predict(case, case.table) == case.y).mean()
    curve = [report.accuracy_at(epsilon) for epsilon in (0.0, 0.5, 1.0, 2.0)]
    for weaker, stronger in pairwise(curve):
        assert stronger.lower <= weaker.upper
    assert report.ceiling is None or report.ceiling >= bounds.lower
    assert len(str(report)) + len(repr(report)) < 10_000
    if (status != "unknown").all():
        np.testing.assert_array_equal(
            is_vulnerable(case.model, case.table, case.y, case.threat), status == "vulnerable"
        )
        assert adversarial_accuracy(case.model, case.table, case.y, case.threat) == share[0]


def check_more_of_the_same(data: Any, case: Case, certificate: Any) -> None:
    """Neither the order of rows nor what is asked together matters; a stronger attacker loses nothing."""
    order = np.array(data.draw(st.permutations(range(N_ROWS))))
    for rows in (order[:2], order[2:]):
        part = case.take(rows)
        again = verify(case.model, part.table, part.y, case.threat)
        assert again.status.tolist() == certificate.status[rows].tolist()
        np.testing.assert_array_equal(again.lower, certificate.lower[rows])
        np.testing.assert_array_equal(again.upper, certificate.upper[rows])
    for factor in (0.5, 2.0):
        other = verify(case.model, case.table, case.y, case.threat.scaled(factor)).status
        weaker, stronger = (other, certificate.status) if factor < 1.0 else (certificate.status, other)
        assert not ((weaker == "vulnerable") & (stronger == "robust")).any()


def check_other_verbs(data: Any, case: Case, status: np.ndarray) -> None:
    """A certificate that needs no search holds, examples that transfer are examples, and so is what is explained."""
    if hasattr(case.model, "certify") and not case.threat.rules:
        cheap = case.model.certify(case.table, case.y, case.threat)
        assert (status[cheap.certified] == "robust").all()
        assert (cheap.lower <= cheap.upper).all()
    if not case.kind.has_color and not case.kind.has_holes and not case.threat.rules and data.draw(st.booleans()):
        try:
            moved = transfer_attack(case.model, case.table, case.y, case.threat, random_state=0)
        except ValueError as refusal:
            event(f"transfer refused: {str(refusal)[:40]}")
        else:
            assert (status[moved.found] != "robust").all()
            check_examples(case, moved.found, moved.X_adv)
    assert export_rules(case.trees, tree=0)
    if case.trees.n_trees == 1:
        question = read_question(case.model, case.table, case.y, case.threat)
        story = explain_row(
            question.ensemble, question.matrix[:1], int(question.class_index[0]), question.reach, AskSettings()
        )
        for push in story.pushes:
            assert question.reach.contains(question.matrix[:1], push.point[None], question.class_index[:1]).all()
            assert question.ensemble.leaves(push.point[None])[0, 0] == push.leaf


@dear
@given(st.data())
def test_regressions(data: Any) -> None:
    with quiet():
        case = make_case(data, REGRESSORS)
        tried = list_points(case.threat, case.trees, case.table, None)
        certificate = verify(case.model, case.table, case.y, case.threat, tolerance=0.5)
        result = attack(case.model, case.table, case.y, case.threat)
        own = predict(case, case.table)
        assert (certificate.lower <= own).all()
        assert (own <= certificate.upper).all()
        for row, points in enumerate(tried):
            given = predict(case, make_frame(points, case.kind.columns)) if len(points) else own[[row]]
            assert certificate.lower[row] <= given.min()
            assert given.max() <= certificate.upper[row]
            error = np.abs(given - case.y[row]).max()
            assert error <= result.upper[row] * (1 + 1e-12)
            if not case.may_be_unknown:
                assert error <= result.error[row] * (1 + 1e-12)
            assert error <= 0.5 or certificate.status[row] != "robust"
        assert (result.error <= result.upper).all()
        np.testing.assert_allclose(predict(case, result.X_adv), result.prediction, rtol=1e-12)
        assert contains(case.threat, case.trees, case.table, result.X_adv, None).all()
        check_regression_scores(case, certificate)


def check_regression_scores(case: Case, certificate: Any) -> None:
    """A report says what `verify` proves; a row's outputs hang neither on its neighbours nor on their order."""
    report = evaluate(case.model, case.table, case.y, case.threat, epsilons=[0.5, 2.0], time_limit=None)
    assert (report.lowest <= report.lowest_reached).all()
    assert (report.highest_reached <= report.highest).all()
    assert (np.diff(report.highest_reached, axis=0) >= 0.0).all() or case.may_be_unknown
    if hasattr(case.model, "certify"):
        cheap = case.model.certify(case.table, case.y, case.threat, tolerance=0.5)
        assert (certificate.status[cheap.certified] == "robust").all()
        assert (cheap.lower <= certificate.lower + 1e-9).all()
    part = case.take([3, 1])
    again = verify(case.model, part.table, part.y, case.threat, tolerance=0.5)
    np.testing.assert_array_equal(again.lower, certificate.lower[[3, 1]])
    np.testing.assert_array_equal(again.upper, certificate.upper[[3, 1]])
