"""Examples on their way out: one that fails its check is taken back, and the answers about other rows stay as they are.

One such row, whatever the fault behind it, once ended the answer for all others in a RuntimeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from hardwood import AttackRule, ThreatModel, attack, evaluate, transfer_attack, verify
from hardwood.verification import ask, one_tree, priced
from hardwood.verification.answers import FOUND
from hardwood.verification.budgeted import Budgeted
from hardwood.verification.local import LocalSearch
from hardwood.verification.milp import Milp
from hardwood.verification.priced_search import PricedSearch
from hardwood.verification.search import RowSearch

pytestmark = pytest.mark.filterwarnings("ignore:relations. .* does not hold in:UserWarning")

NAMES = ["x", "a", "b", "p", "q"]
N_ROWS = 12
NUMBERS: dict[Any, Any] = {"x": 0.4, "a": 1, "b": 1}
WHOLE = {"whole_numbers": ["a", "b"], "within": {"a": (0, 3), "b": (0, 3)}}


def make_table() -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers of which no two are alike, whole numbers, a one-hot group, and three classes."""
    generator = np.random.default_rng(0)
    p = generator.integers(0, 2, 80)
    columns = [generator.random(80), *generator.integers(0, 4, (2, 80)), p, 1 - p]
    X = pd.DataFrame(np.column_stack(columns), columns=NAMES)
    return X, np.digitize(X.x * 3.0 + X.a - X.b + X.p, [0.8, 2.4])


X, Y = make_table()
TREE = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, Y)
FOREST = RandomForestClassifier(4, max_depth=4, random_state=0).fit(X, Y)
TREE_OF_NUMBERS = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, X.x + X.a)
FOREST_OF_NUMBERS = RandomForestRegressor(4, max_depth=4, random_state=0).fit(X, X.x + X.a)
RULES = ThreatModel(rules=[AttackRule("x", add=(-0.4, 0.4)), AttackRule("a", add=(-1.0, 1.0))], budget=1.0)
THREATS = {
    "reach": ThreatModel(NUMBERS, **WHOLE),
    "budget": ThreatModel({**NUMBERS, "x": "<>"}, max_changes=2, radius=1.2, norm=1, **WHOLE),
    "relations": ThreatModel(NUMBERS, relations=["a <= b + 1", "a + b <= 4"], **WHOLE),
    "hidden": ThreatModel({"x": 0.1}, blank=["a"], **WHOLE),
    "groups": ThreatModel({"x": 0.2}, groups=[["p", "q"]], **WHOLE),
    "targets": ThreatModel(NUMBERS, attacking_classes={0: [1], 1: [2], 2: [1]}, **WHOLE),
}


class Fault(NamedTuple):
    """Something that finds examples, by where its name is, and what it is told of rows: a matrix, or a single row."""

    owner: Any
    name: str
    position: int

    def break_at(self, monkeypatch: pytest.MonkeyPatch, row: int, away: float = 0.0) -> None:
        """Let it give the row itself for its example, or what is far away from it."""
        original: Callable[..., Any] = getattr(self.owner, self.name)

        def broken(*arguments: Any, **others: Any) -> Any:
            said, matrix = original(*arguments, **others), arguments[self.position]
            if matrix.ndim == 1:
                is_it = matrix[0] == X.x[row] and said.example is not None
                return said._replace(example=matrix + away) if is_it else said
            example = said.example if hasattr(said, "example") else said[1]
            found = said.status == FOUND if hasattr(said, "status") else said[0]
            mine = (matrix[:, 0] == X.x[row]) & (found | (away > 0.0))
            example[mine] = matrix[mine] + away
            return said

        monkeypatch.setattr(self.owner, self.name, broken)


DECIDES = {
    "tree": Fault(one_tree, "decide", 1),
    "forest": Fault(RowSearch, "decide", 1),
    "budget": Fault(Budgeted, "decide", 1),
    "milp": Fault(Milp, "decide", 1),
    "priced tree": Fault(priced, "attack_priced_tree", 2),
    "priced forest": Fault(PricedSearch, "ask", 1),
}
APPROACHES = {
    "tree": Fault(ask, "attack_tree", 1),
    "tree, budget": Fault(one_tree, "nearest", 1),
    "forest": Fault(RowSearch, "nearest", 1),
    "budget": Fault(Budgeted, "nearest", 1),
    "milp": Fault(ask, "ask_nearest", 3),
    "local": Fault(LocalSearch, "attack", 1),
}


def choose_row(model: Any, found: np.ndarray) -> int:
    """Return a row that is right as it stands and has an example: not the first, so that it is told from it."""
    right = model.predict(X[:N_ROWS]) == Y[:N_ROWS]
    return int(np.flatnonzero(found & right)[-1])


def assert_others_are_as_before(before: Any, after: Any, row: int) -> None:
    others = np.arange(N_ROWS) != row
    for name in ("status", "found", "lower", "upper", "distance"):
        if hasattr(before, name):
            np.testing.assert_array_equal(getattr(after, name)[others], getattr(before, name)[others])
    shown = "witness" if hasattr(before, "witness") else "X_adv"
    pd.testing.assert_frame_equal(getattr(after, shown)[others], getattr(before, shown)[others], check_dtype=False)
    assert getattr(after, shown).iloc[row].isna().all()


VERIFIED = [
    (TREE, DECIDES["tree"], threat, "search") for threat in ("reach", "budget", "relations", "groups", "hidden")
]  # fmt: skip
VERIFIED += [(FOREST, DECIDES["forest"], threat, "search") for threat in THREATS if threat != "budget"]
VERIFIED += [(FOREST, DECIDES["budget"], "budget", "search"), (FOREST, DECIDES["milp"], "reach", "milp")]


@pytest.mark.parametrize(("model", "fault", "threat", "method"), VERIFIED)
def test_proofs(monkeypatch: pytest.MonkeyPatch, model: Any, fault: Fault, threat: str, method: str) -> None:
    if method == "milp":
        pytest.importorskip("highspy")
    ask_all = (model, X[:N_ROWS], Y[:N_ROWS], THREATS[threat])
    before = verify(*ask_all, method=method)
    row = choose_row(model, before.status == "vulnerable")
    fault.break_at(monkeypatch, row)
    with pytest.warns(RuntimeWarning, match=f"failed the check .* in row {row}: the answer there is unknown"):
        after = verify(*ask_all, method=method)
    assert after.status[row] == "unknown"
    assert_others_are_as_before(before, after, row)


ATTACKED = [(TREE, APPROACHES["tree"], threat, "search") for threat in ("reach", "relations", "groups", "hidden")]
ATTACKED += [(TREE, APPROACHES["tree, budget"], "budget", "search"), (FOREST, APPROACHES["budget"], "budget", "search")]
ATTACKED += [(FOREST, APPROACHES["forest"], threat, "search") for threat in ("reach", "relations", "groups", "hidden")]
ATTACKED += [(FOREST, APPROACHES["milp"], "reach", "milp")]
ATTACKED += [(FOREST, APPROACHES["local"], "reach", method) for method in ("heuristic", "coordinate", "lowest")]
ATTACKED += [(FOREST, APPROACHES["local"], threat, "lowest") for threat in ("hidden", "groups")]


@pytest.mark.parametrize(("model", "fault", "threat", "method"), ATTACKED)
def test_attacks(monkeypatch: pytest.MonkeyPatch, model: Any, fault: Fault, threat: str, method: str) -> None:
    if method == "milp":
        pytest.importorskip("highspy")
    ask_all = (model, X[:N_ROWS], Y[:N_ROWS], THREATS[threat])
    before = attack(*ask_all, method=method)
    row = choose_row(model, before.found)
    fault.break_at(monkeypatch, row)
    with pytest.warns(RuntimeWarning, match=f"failed the check .* in row {row}: the answer there is unknown"):
        after = attack(*ask_all, method=method)
    assert not after.found[row]
    assert (after.lower[row], after.distance[row]) == (0.0, np.inf)
    assert_others_are_as_before(before, after, row)


@pytest.mark.parametrize(
    ("model", "fault"), [(TREE, DECIDES["priced tree"]), (FOREST, DECIDES["priced forest"])], ids=["tree", "forest"]
)
@pytest.mark.parametrize("question", [verify, attack])
def test_rules(monkeypatch: pytest.MonkeyPatch, model: Any, fault: Fault, question: Any) -> None:
    before = question(model, X[:N_ROWS], Y[:N_ROWS], RULES)
    row = choose_row(model, before.status == "vulnerable" if question is verify else before.found)
    fault.break_at(monkeypatch, row)
    with pytest.warns(RuntimeWarning, match=f"failed the check .* in row {row}"):
        after = question(model, X[:N_ROWS], Y[:N_ROWS], RULES)
    assert_others_are_as_before(before, after, row)
    assert after.lower[row] < 1.0


@pytest.mark.parametrize("fault", [Fault(one_tree, "extreme", 1), Fault(RowSearch, "extreme", 1)])
def test_regressions(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """The range of one row is unknown; for a prediction that was moved, the row is its own example."""
    model = TREE_OF_NUMBERS if fault.owner is one_tree else FOREST_OF_NUMBERS
    before = verify(model, X[:N_ROWS], None, THREATS["reach"], tolerance=1e-6)
    moved = attack(model, X[:N_ROWS], None, THREATS["reach"])
    row = int(np.flatnonzero(before.status == "vulnerable")[-1])
    fault.break_at(monkeypatch, row, away=100.0)
    with pytest.warns(RuntimeWarning, match=f"failed the check .* in row {row}"):
        after = verify(model, X[:N_ROWS], None, THREATS["reach"], tolerance=1e-6)
    assert after.status[row] == "unknown"
    assert (after.lower[row], after.upper[row]) == (-np.inf, np.inf)
    assert_others_are_as_before(before, after, row)
    with pytest.warns(RuntimeWarning, match=f"failed the check .* in row {row}"):
        again = attack(model, X[:N_ROWS], None, THREATS["reach"])
    assert (again.error[row], again.upper[row]) == (0.0, np.inf)
    others = np.arange(N_ROWS) != row
    np.testing.assert_array_equal(again.error[others], moved.error[others])


def test_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row more is undecided, and shares become intervals."""
    row = choose_row(FOREST, verify(FOREST, X[:N_ROWS], Y[:N_ROWS], THREATS["reach"]).status == "vulnerable")
    before = evaluate(FOREST, X[:N_ROWS], Y[:N_ROWS], THREATS["reach"], distances=True).adversarial_accuracy
    DECIDES["forest"].break_at(monkeypatch, row)
    with pytest.warns(RuntimeWarning, match="failed the check"):
        report = evaluate(FOREST, X[:N_ROWS], Y[:N_ROWS], THREATS["reach"], distances=True)
    assert report.adversarial_accuracy.lower == before.lower
    assert report.adversarial_accuracy.upper == pytest.approx(before.upper + 1.0 / N_ROWS)


def test_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack on the surrogate loses one row; what it finds for others is tried on the model as before."""
    about = (TREE, X[:N_ROWS].astype(float), Y[:N_ROWS], THREATS["reach"])
    before = transfer_attack(*about, surrogate=FOREST)
    row = choose_row(TREE, before.found)
    APPROACHES["local"].break_at(monkeypatch, row)
    with pytest.warns(RuntimeWarning, match="failed the check"):
        after = transfer_attack(*about, surrogate=FOREST)
    assert not after.found[row]
    assert_others_are_as_before(before, after, row)
