"""Budgets over columns: every answer is that of trying all points that the budget pays for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardwood import ThreatModel, as_ensemble, attack, is_vulnerable, verify
from hardwood.table import Schema
from hardwood.verification.answers import FOUND, NONE, UNFINISHED
from hardwood.verification.ask import AskSettings, decide, extreme, nearest
from hardwood.verification.budget_search import BudgetSearch, Found
from hardwood.verification.clock import Clock
from hardwood.verification.search import RowSearch
from reference import attacking, budgeting, cases, enumerating
from reference.cases import Case
from reference.library_models import MODELS, fit, random_table, random_threat

NORMS = [np.inf, 2, 1, 0]


def add_budget(generator: np.random.Generator, threat: ThreatModel, n_features: int) -> ThreatModel:
    """Return the threat model with a random budget; radii and units are such that many sums are exactly the radius."""
    kind = generator.integers(3)
    words: dict[str, Any] = {}
    if kind != 0:
        words["radius"] = float(generator.choice([0.1, 0.2, 0.5, 1.0, 1.1, 1.5]))
        words["norm"] = int(generator.integers(1, 3))
        if generator.random() < 0.7:
            words["units"] = {j: float(generator.choice([0.5, 1.0, 2.0])) for j in range(n_features - 1)}
    if kind != 1:
        words["max_changes"] = int(generator.choice([1, 1, 2]))
    beside = {name: getattr(threat, name) for name in ("whole_numbers", "within", "blank", "fill")}
    return ThreatModel(threat.features, threat.attacking_classes, **beside, **words)


def make_case(seed: int, n_trees: int | None = None, *, missing: bool = False, link: str | None = None) -> Case:
    """Return a case of four columns, most of which can take any value, and a budget that holds some of that back."""
    generator = np.random.default_rng(seed)
    sizes = [None, None, generator.choice([None, 2, 3]), generator.choice([None, 3])][: generator.integers(2, 5)]
    labels = tuple(None if size is None else tuple(f"label {k}" for k in range(size)) for size in sizes)
    schema = Schema(len(sizes), None, labels, missing)
    link = cases.LINKS[generator.integers(len(cases.LINKS))] if link is None else link
    n_classes = 2 if link == "logistic" else int(generator.integers(2, 4))
    n_trees = int(generator.integers(2, 6)) if n_trees is None else n_trees
    trees = attacking.random_trees(generator, schema, n_trees, 3, n_classes, link)
    trees = replace(trees, threshold=np.where(trees.threshold == 1e10, -0.4, trees.threshold))
    rows = attacking.random_rows(generator, trees, 3, missing=missing)
    entries = attacking.random_threat(generator, schema)
    entries = ["<>" if generator.random() < 0.7 else entry for entry in entries]
    classes = None if link == "value" or generator.random() < 0.8 else [trees.labels[0]]
    hidden = "all" if missing and generator.random() < 0.5 else None
    threat = add_budget(generator, ThreatModel(entries, classes, blank=hidden, fill=hidden), len(sizes))
    own = np.zeros(len(rows), dtype=np.intp) if link == "value" else trees.decide(rows)
    return Case(trees, rows, own, threat)


def list_affordable(case: Case, row: int, points: np.ndarray) -> np.ndarray:
    return np.array(
        [budgeting.is_affordable(case.threat, case.trees.schema, case.rows[row], point) for point in points], dtype=bool
    )


def check_case(case: Case, methods: tuple[str, ...] = ("search",)) -> None:
    """Compare statuses, margins, distances in all norms and examples with those of trying every point."""
    reach, generator = case.reach, np.random.default_rng(int(case.trees.n_nodes))
    weight = generator.choice([0.0, 0.5, 1.0, 3.0], case.rows.shape[1])
    for row, own in enumerate(case.class_index.tolist()):
        points = enumerating.reachable_points(case.trees, case.rows[row], own, reach)
        points = points[list_affordable(case, row, points)]
        fooling = points[case.trees.decide(points) != own]
        here = slice(row, row + 1)
        for method in methods:
            said = decide(case.trees, case.rows[here], case.class_index[here], reach, AskSettings(method))
            if method == "milp" and said.status[0] == UNFINISHED:
                continue  # classes so nearly equal, or a sum so near to the radius, that the solver cannot tell
            assert said.status[0] == (FOUND if len(fooling) else NONE)
            worst = enumerating.worst_margin(case.trees, points, own)
            assert said.lower[0] <= worst + 1e-6
            if case.trees.n_trees == 1 and method == "search":
                assert said.lower[0] == pytest.approx(worst, abs=1e-12)
            for norm in NORMS:
                found = nearest(
                    case.trees, case.rows[here], case.class_index[here], reach, norm, weight, AskSettings(method)
                )
                wanted = enumerating.nearest(fooling, case.rows[row], case.trees.schema, norm, weight)
                tolerance = 1e-5 if method == "milp" else 1e-12
                np.testing.assert_allclose(found.upper[0], wanted, rtol=tolerance)
                assert found.lower[0] <= wanted * (1.0 + tolerance)
                if method == "search":
                    np.testing.assert_allclose(found.lower[0], wanted, rtol=tolerance)
                if len(fooling):
                    assert list_affordable(case, row, found.example).all()


@given(seed=st.integers(0, 10**6), missing=st.booleans())
def test_one_tree_answers_as_if_every_point_was_tried(seed: int, missing: bool) -> None:
    check_case(make_case(seed, 1, missing=missing))


@given(seed=st.integers(0, 10**6), missing=st.booleans())
def test_several_trees_answer_as_if_every_point_was_tried(seed: int, missing: bool) -> None:
    check_case(make_case(seed, None, missing=missing))


@given(seed=st.integers(0, 10**6), n_trees=st.integers(1, 4))
@example(seed=1137, n_trees=2)
def test_the_solver_agrees(seed: int, n_trees: int) -> None:
    """The solver's preparations lost the worst point of the example, and a margin was certified that was not there."""
    pytest.importorskip("highspy")
    check_case(make_case(seed, n_trees), ("milp",))


@given(seed=st.integers(0, 10**6), missing=st.booleans())
def test_branching_alone_finds_what_there_is(seed: int, missing: bool) -> None:
    """The kernels leave little for branch and bound over boxes to do in small cases: so it is asked by itself."""
    case = make_case(seed, missing=missing)
    if case.reach.budget is None or case.reach.blank is not None:
        return
    search = BudgetSearch(case.trees, case.reach)
    for row, own in enumerate(case.class_index.tolist()):
        points = enumerating.reachable_points(case.trees, case.rows[row], own, case.reach)
        points = points[list_affordable(case, row, points)]
        fooling = points[case.trees.decide(points) != own]
        options = search.list_options(case.rows[row], own, 1.0, np.ones(len(case.rows[row])))
        every = np.ones(len(options.value), dtype=bool)
        found = search.find_any(case.rows[row], own, options, every, Clock(np.inf))
        assert found.finished
        assert (found.point is not None) == (len(fooling) > 0)
        nothing = Found(None, np.inf, 0.0, False)
        found = search.find_nearest(case.rows[row], own, options, nothing, Clock(np.inf))
        wanted = enumerating.nearest(fooling, case.rows[row], case.trees.schema, 1, np.ones(len(case.rows[row])))
        np.testing.assert_allclose(found.value, wanted, rtol=1e-12)


@given(seed=st.integers(0, 10**6), n_trees=st.integers(1, 4), missing=st.booleans())
def test_extreme_outputs_of_a_regression(seed: int, n_trees: int, missing: bool) -> None:
    case = make_case(seed, n_trees, missing=missing, link="value")
    for row in range(len(case.rows)):
        points = enumerating.reachable_points(case.trees, case.rows[row], 0, case.reach)
        points = points[list_affordable(case, row, points)]
        output = case.trees.output(points)[:, 0].astype(np.float64)
        highest = extreme(case.trees, case.rows[row : row + 1], case.reach, 1, AskSettings())
        lowest = extreme(case.trees, case.rows[row : row + 1], case.reach, -1, AskSettings())
        # Leaves that add up to the same may be rounded differently, so what is reached may miss the last bit.
        assert highest.lower[0] <= output.max() <= highest.upper[0]
        assert lowest.lower[0] <= output.min() <= lowest.upper[0]
        np.testing.assert_allclose([highest.lower[0], highest.upper[0]], output.max(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose([lowest.lower[0], lowest.upper[0]], output.min(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_models_of_every_library_with_whole_numbers_and_domains(name: str) -> None:
    saved = 0
    for seed in range(3):
        generator = np.random.default_rng([seed, 2])
        X, y = random_table(generator)
        each = random_threat(generator)
        threat = add_budget(generator, each, 3)
        model = fit(name, X, y, threat, seed)
        trees = as_ensemble(model, X)
        label = np.searchsorted(trees.labels, y)
        case = Case(trees, X[:12], label[:12], threat)
        for row in range(12):
            points = enumerating.reachable_points(trees, X[row], label[row], case.reach)
            points = points[list_affordable(case, row, points)]
            fooling = points[trees.decide(points) != label[row]]
            here = slice(row, row + 1)
            assert verify(model, X[here], y[here], threat).status[0] == ("vulnerable" if len(fooling) else "robust")
            assert is_vulnerable(model, X[here], y[here], threat)[0] == (len(fooling) > 0)
            saved += len(fooling) == 0 and bool(is_vulnerable(model, X[here], y[here], each)[0])
            for norm in NORMS:
                result = attack(model, X[here], y[here], threat, norm=norm)
                wanted = enumerating.nearest(fooling, X[row], trees.schema, norm, np.ones(3))
                np.testing.assert_allclose(result.distance[0], wanted, rtol=1e-12)
                if len(fooling):
                    assert threat.contains(X[here], result.X_adv).all()
                    assert list_affordable(case, row, np.asarray(result.X_adv)).all()
    assert saved > 0


@pytest.mark.parametrize("method", ["heuristic", "coordinate", "lowest"])
def test_local_attacks_keep_to_the_budget(method: str) -> None:
    generator = np.random.default_rng(0)
    X, y = random_table(generator)
    model = fit("forest", X, y, ThreatModel(2), 0)
    threat = ThreatModel(2, max_changes=1)
    result = attack(model, X, y, threat, norm=0, method=method)
    assert result.found.any()
    assert not result.found.all()
    assert threat.contains(X[result.found], result.X_adv[result.found]).all()
    exact = attack(model, X, y, threat, norm=0)
    assert (exact.found | ~result.found).all()


def test_a_row_out_of_time_is_unknown_with_bounds() -> None:
    """Where the time limit ends the search, nothing is claimed: bounds hold what there is."""
    X, y = random_table(np.random.default_rng(1), 200)
    model = fit("forest", X, y, ThreatModel(2), 0)
    threat = ThreatModel("<>", max_changes=2, radius=1.5, units=1.0)
    exact = attack(model, X, y, threat, norm=2)
    hasty = attack(model, X, y, threat, norm=2, time_limit=0.0)
    assert (hasty.lower <= exact.distance).all()
    assert (hasty.distance >= exact.distance).all()
    status = verify(model, X, y, threat, time_limit=0.0).status
    assert set(status[exact.found]) <= {"vulnerable", "unknown"}
    assert set(status[~exact.found]) <= {"robust", "unknown"}


def test_a_one_hot_group_is_one_column() -> None:
    """Setting another column of a group changes two 0/1 columns, and is one change, a change by 1."""
    generator = np.random.default_rng(3)
    X = np.column_stack([np.eye(3)[generator.integers(0, 3, 80)], 4.0 * generator.random((80, 2))])
    y = (X[:, 0] + X[:, 3] - X[:, 4] + 0.3 * generator.normal(size=80) > 0.4).astype(int)
    model = fit("forest", X, y, ThreatModel(0.5), 0)
    states = np.eye(3)
    for words in ({"max_changes": 1}, {"radius": 1.2, "units": {3: 0.8, 4: 0.8}}, {"radius": 0.9, "norm": 1}):
        threat = ThreatModel({3: 1.0, 4: 1.0}, groups=[[0, 1, 2]], **words)
        trees = as_ensemble(model, X)
        values = [np.unique(trees.threshold[trees.feature == j]) for j in (3, 4)]
        for row in range(15):
            axes = [np.concatenate([[X[row, 3 + k]], t, np.nextafter(t, np.inf)]) for k, t in enumerate(values)]
            axes = [axis[np.abs(axis - X[row, 3 + k]) <= 1.0] for k, axis in enumerate(axes)]
            points = np.array([[*state, a, b] for state in states for a in axes[0] for b in axes[1]])
            change = np.column_stack([(points[:, :3] != X[row, :3]).any(axis=1), np.abs(points[:, 3:] - X[row, 3:])])
            units = np.array(
                [1.0, *(threat.units.get(j, 1.0) if isinstance(threat.units, dict) else 1.0 for j in (3, 4))]
            )
            inside = np.ones(len(points), dtype=bool)
            if threat.max_changes is not None:
                inside &= (change > 0.0).sum(axis=1) <= threat.max_changes
            if threat.radius is not None:
                inside &= np.linalg.norm(change / units, threat.norm, axis=1) <= threat.radius + 1e-9
            fooling = points[inside & (model.predict(points) != y[row])]
            result = attack(model, X[row : row + 1], y[row : row + 1], threat)
            assert result.found[0] == (len(fooling) > 0)
            assert verify(model, X[row : row + 1], y[row : row + 1], threat).status[0] == (
                "vulnerable" if len(fooling) else "robust"
            )


@pytest.mark.parametrize("n_asked", [0, 1, 2, 3])
def test_a_regression_out_of_time_has_true_bounds(n_asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that ran out at the first half of a box hid the second half: an output was above its upper bound."""
    honest = RowSearch.extreme
    asked = []

    def give_up(self: RowSearch, *arguments: Any) -> Any:
        said = honest(self, *arguments)
        asked.append(said)
        return said if len(asked) <= n_asked else said._replace(status=np.full_like(said.status, UNFINISHED))

    for seed in range(60):
        case = make_case(seed, 3, link="value")
        if case.reach.budget is None:
            continue
        for row in range(len(case.rows)):
            points = enumerating.reachable_points(case.trees, case.rows[row], 0, case.reach)
            output = case.trees.output(points[list_affordable(case, row, points)])[:, 0]
            asked.clear()
            with monkeypatch.context() as patch:
                patch.setattr(RowSearch, "extreme", give_up)
                said = extreme(case.trees, case.rows[row : row + 1], case.reach, 1, AskSettings())
            assert said.lower[0] <= output.max() <= said.upper[0] + 1e-6
