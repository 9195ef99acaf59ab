"""The paper's experiments: the right numbers, kept as they come, on a page that holds them."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, adversarial_accuracy, evaluate, load_dataset
from paper.black_box import BlackBoxPlan, Susceptibility, weigh_attackers
from paper.comparison import conclude_refinement, explain_difference, judge
from paper.experiment import Experiment, LearnerScore, MethodScore, Outcome
from paper.hardening import plan_hardening, weigh_hardening
from paper.methods import EXACT_HARDENING, GREEDY, L0_HARDENING, METHODS, REFINED
from paper.page import write_page
from paper.page_studies import conclude_black_box, conclude_hardening
from paper.pieces import Piece, Results, do_pieces
from paper.protocol import Score, Table, split_folds
from paper.published import OVERVIEW, read_published
from paper.report import list_records, write_report
from paper.studies import GrowthPlan

TABLES = ["haberman", "ionosphere"]
SMALL = GrowthPlan(rows=(100, 200), features=(10, 20), depths=(1, 2), fixed_rows=100)


def small_experiment(folder: Path, tables: list[str] = TABLES) -> Experiment:
    experiment = Experiment(folder, tables, quick=True, jobs=2)
    experiment.growth = experiment.hardening_growth = SMALL
    experiment.black_box = BlackBoxPlan(("ionosphere",), rows=10, queries=(1, 100))
    return experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return small_experiment(folder).run()


def test_published_table() -> None:
    """The means that the paper's text and abstract rest on."""
    published = read_published()
    means = {m: np.mean([table.scores[m][0] for table in published.values()]) for m in published["wine"].scores}
    assert {m: round(float(mean), 3) for m, mean in means.items()} == {
        "natural": 0.559,
        "chen": 0.749,
        "groot": 0.769,
        "treant": 0.766,
    }
    for name, table in published.items():
        if name not in ("climate-model-simulation", "cylinder-bands", "planning-relax"):
            assert load_dataset(name).data.shape == (table.rows, table.features)


def test_methods_have_a_column_and_a_line_in_the_overview() -> None:
    columns = read_published()["wine"].scores
    for method in METHODS:
        assert method.key in columns
    learners = (*METHODS, GREEDY, EXACT_HARDENING, L0_HARDENING)
    assert {line.learner for line in OVERVIEW} == {learner.key for learner in learners}


def test_what_the_authors_code_gives() -> None:
    """The means over the tables that the benchmark prints."""
    again = [table.authors_code for table in read_published().values()]
    for method, means in {"chen": (0.756, 0.763), "groot": (0.766, 0.772)}.items():
        least, greatest = np.mean([figures[method] for figures in again], axis=0)
        assert (least, greatest) == pytest.approx(means, abs=0.001)
        assert all(figures[method][0] <= figures[method][1] for figures in again)


@pytest.mark.parametrize("table", TABLES)
def test_scores_are_those_of_the_protocol(outcome: Outcome, table: str) -> None:
    data = load_dataset(table)
    X, y = data.data, data.target
    makers = {
        "natural": DecisionTreeClassifier(max_depth=4, random_state=1),
        "chen": RobustTreeClassifier(threat=0.1, max_depth=4, attacker="chen"),
        "groot": RobustTreeClassifier(threat=0.1, max_depth=4),
    }
    for key, model in makers.items():
        accuracy, adversarial = [], []
        for train, test in StratifiedKFold(5, shuffle=True, random_state=1).split(X, y):
            model.fit(X[train], y[train])
            accuracy.append(model.score(X[test], y[test]))
            adversarial.append(adversarial_accuracy(model, X[test], y[test], 0.1))
        score = outcome.scores[table, key]
        assert score.accuracy.mean == pytest.approx(np.mean(accuracy))
        assert score.adversarial.mean == pytest.approx(np.mean(adversarial))
        assert score.adversarial.deviation == pytest.approx(np.std(adversarial, ddof=1))
    assert outcome.scores[table, "natural"].difference == pytest.approx(0.0, abs=0.002)


@pytest.mark.parametrize("table", TABLES)
def test_refined_trees_stand_beside_the_constant_and_the_ceiling(outcome: Outcome, table: str) -> None:
    data = load_dataset(table)
    X, y = data.data, data.target
    folds = list(StratifiedKFold(5, shuffle=True, random_state=1).split(X, y))
    for learner in REFINED:
        scores = []
        for train, test in folds:
            model = RobustTreeClassifier(threat=0.1, max_depth=4, refine=learner.key, random_state=1)
            scores.append(adversarial_accuracy(model.fit(X[train], y[train]), X[test], y[test], 0.1))
        refined = outcome.refined[table, learner.key].adversarial
        assert refined.mean == pytest.approx(np.mean(scores))
        assert refined.mean <= outcome.ceilings[table] <= 1.0
    ceilings = [evaluate(model, X[test], y[test], 0.1).ceiling for _, test in folds]
    assert outcome.ceilings[table] == pytest.approx(np.mean(ceilings))


def test_how_refined_trees_stand_to_the_paper(outcome: Outcome) -> None:
    """The paper has three digits, so a mean that rounds to its best is at it."""
    changed = with_score(outcome, 0.75, [])
    search = LearnerScore([], Score(0.8, 0.0), Score(0.6994, 0.0), 0.1)
    changed.refined["<table>", "search"] = search
    conclusion = conclude_refinement(changed)
    assert "Refined, alternate: the mean is 0.700; at or above the best of the paper's columns on 1 of 1" in conclusion
    assert "Refined, search: the mean is 0.699; at or above the best of the paper's columns on 0 of 1" in conclusion
    changed.refined["<table>", "search"] = replace(search, adversarial=Score(0.6996, 0.0))
    assert "on 0 of 1" not in conclude_refinement(changed)
    text = write_page(changed, {})
    assert '<th class="start">alternate</th><th class="start">search</th><th class="start">ceiling</th>' in text
    assert '<td class="start">0.900</td>' in text


def test_a_second_run_does_nothing_again(folder: Path, outcome: Outcome) -> None:
    said: list[tuple[int, int]] = []
    again = small_experiment(folder).run(lambda done, total: said.append((done, total)))
    assert said == []
    assert again.scores == outcome.scores
    assert again.growth == outcome.growth


def test_one_more_table_is_all_that_is_done(folder: Path, outcome: Outcome) -> None:
    kept = json.loads((folder / "results.json").read_text())
    more = small_experiment(folder, [*TABLES, "parkinsons"]).run()
    for name, entry in kept.items():
        assert json.loads((folder / "results.json").read_text())[name] == entry
    assert {table for table, _ in more.scores} == {*TABLES, "parkinsons"}


def test_transferred_attacks(outcome: Outcome) -> None:
    """On its own examples a tree keeps its adversarial accuracy; no other examples do worse."""
    for record in outcome.transfer:
        for target in METHODS:
            exact = outcome.scores[record["table"], target.key].adversarial.mean
            assert record[f"{target.key} to {target.key}"] == pytest.approx(exact)
            assert all(record[f"{own.key} to {target.key}"] >= exact - 1e-12 for own in METHODS)


def test_attackers_who_cannot_see_the_tree(outcome: Outcome) -> None:
    """No attacker comes nearer than the exact attack, which leaves the least accuracy."""
    exact = outcome.black_box["ionosphere", ("exact", None)]
    attackers = {attacker for _, attacker in outcome.black_box}
    assert ("transfer", None) in attackers
    assert (("boundary", 100) in attackers) == (outcome.without_toolbox is None)
    for (_, attacker), records in outcome.black_box.items():
        for record, least in zip(records, exact, strict=True):
            for method in METHODS:
                pairs = zip(record[method.key], least[method.key], strict=True)
                assert all(found is None or found >= nearest for found, nearest in pairs), attacker
    weighed = weigh_attackers(outcome.black_box)
    natural = weighed["exact", None]["natural"]
    assert natural.fooled == natural.ratio == 1.0


def test_attackers_are_weighed_by_rows() -> None:
    exact, transfer = ("exact", None), ("transfer", None)
    weighed = weigh_attackers(
        {
            ("a", exact): [{"groot": [0.0, 0.02, None]}],
            ("a", transfer): [{"groot": [0.0, 0.03, None]}],
            ("b", exact): [{"groot": [0.04]}],
            ("b", transfer): [{"groot": [None]}],
        }
    )
    assert weighed[exact]["groot"] == Susceptibility(accuracy=0.25, fooled=1.0, ratio=1.0)
    assert weighed[transfer]["groot"] == Susceptibility(accuracy=0.5, fooled=0.5, ratio=pytest.approx(1.5))


@pytest.mark.parametrize(("fooled", "words"), [(0.09, "hardly protects"), (None, "protects some rows")])
def test_what_black_boxes_teach(outcome: Outcome, fooled: float | None, words: str) -> None:
    exact, transfer, asking = ("exact", None), ("transfer", None), ("hopskipjump", 1000)
    rows = {
        exact: [0.0, 0.02, 0.05, None],
        transfer: [0.0, 0.02, None, None],
        asking: [0.0, 0.03, fooled, None],
    }
    changed = replace(
        with_score(outcome, 0.7, []), black_box={("a", who): [{"groot": found}] for who, found in rows.items()}
    )
    conclusion = conclude_black_box(changed)
    assert words in conclusion
    assert "Examples for a surrogate fool 50% (GROOT)" in conclusion
    assert "leaves an accuracy of 25% (GROOT)" in conclusion
    text = write_page(changed, {"black_box": b"<svg/>"})
    assert "HopSkipJump, 1,000 answers" in text
    assert '<figure id="black_box">' in text
    without = replace(changed, without_toolbox="pip install art")
    assert "left out: pip install art" in write_page(without, {})


def test_hardening_a_fold() -> None:
    """Before and after are what the estimators give."""
    data = load_dataset("parkinsons")
    table = Table("parkinsons", np.asarray(data.data), np.asarray(data.target))
    record = plan_hardening(table, "forest")[0].work()
    train, test = split_folds(table)[0]
    forest = RandomForestClassifier(20, max_depth=4, random_state=1).fit(table.X[train], table.y[train])
    assert record["accuracy before"] == forest.score(table.X[test], table.y[test])
    assert record["adversarial before"] == adversarial_accuracy(forest, table.X[test], table.y[test], 0.1)
    assert record["adversarial after"] > record["adversarial before"] + 0.1
    assert record["undecided before"] == record["undecided after"] == 0


def test_what_hardening_bought(outcome: Outcome) -> None:
    fold = {f"{what} {when}": 0 for what in ("accuracy", "adversarial", "undecided") for when in ("before", "after")}
    raised, lowered = fold | {"adversarial after": 0.5, "undecided after": 2}, fold | {"adversarial before": 0.25}
    found = {("<table>", "forest"): [raised, fold], ("<table>", "boosting"): [lowered]}
    changed = replace(with_score(outcome, 0.7, []), hardening=found)
    assert list_records(changed)["hardening"][1] == {"table": "<table>", "ensemble": "forest", "fold": 2, **fold}
    conclusion = conclude_hardening(weigh_hardening(found), {"<table>": 0.2})
    assert "Forest: hardening raises adversarial accuracy on 1 of 1 tables, and changes it by +0.250" in conclusion
    assert "Boosting: hardening raises adversarial accuracy on 0 of 1 tables, and changes it by -0.250" in conclusion
    assert "A single GROOT tree has more of it than hardened ensembles in 1 of 2 cases" in conclusion
    assert "2 answers were not found in time" in conclusion
    assert "<td>0.000</td><td>0.250</td>" in write_page(changed, {})


def make_pieces(calls: list[int], settings: str = "") -> list[Piece]:
    def work(number: int) -> dict[str, int]:
        calls.append(number)
        if number == 3 and not settings:
            raise KeyboardInterrupt
        return {"number": number}

    return [Piece(f"piece {k}", settings, lambda k=k: work(k)) for k in range(5)]


def test_interruption_keeps_what_is_done(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    calls: list[int] = []
    pieces = make_pieces(calls)
    with pytest.raises(KeyboardInterrupt):
        do_pieces(pieces, Results(path))
    after = Results(path)
    assert [after.find(piece) for piece in pieces[:3]] == [{"number": k} for k in range(3)]
    assert after.find(pieces[3]) is None
    rest = [Piece(piece.name, piece.settings, lambda k=k: {"number": k}) for k, piece in enumerate(pieces)]
    assert do_pieces(rest, Results(path)) == [{"number": k} for k in range(5)]
    assert calls[:4] == [0, 1, 2, 3]


def test_changed_settings_are_done_again(tmp_path: Path) -> None:
    calls: list[int] = []
    for settings in ("a", "a", "b"):
        do_pieces(make_pieces(calls, settings), Results(tmp_path / "results.json"))
    assert sorted(calls) == sorted([*range(5)] * 2)


def test_changed_code_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    for software in ("1.0", "1.0", "1.1"):
        monkeypatch.setattr("paper.pieces._describe_software", lambda software=software: software)
        do_pieces(make_pieces(calls, "a"), Results(tmp_path / "results.json"))
    assert sorted(calls) == sorted([*range(5)] * 2)


def test_progress_ends_with_all(tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    pieces = [Piece(f"{k}", "", dict, cells=k, is_alone=k == 2) for k in (1, 2, 3)]
    do_pieces(pieces, Results(tmp_path / "results.json"), jobs=2, progress=lambda *now: said.append(now))
    assert len(said) == 3
    assert said[-1] == (sum(piece.effort for piece in pieces),) * 2
    assert [done for done, _ in said] == sorted({done for done, _ in said})


@pytest.mark.parametrize("text", ["not json", "[1]", '{"a": 1}', '{"a": {"settings": "b"}}'])
def test_another_file_is_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"results\.json holds no results"):
        Results(path)
    assert path.read_text() == text


def test_report(folder: Path, outcome: Outcome) -> None:
    page = write_report(outcome, folder)
    text = page.read_text(encoding="utf-8")
    names = (
        "average_scores",
        "critical_differences",
        "run_times",
        "threat_models",
        "adversarial_gini",
        "concavity",
        "rho",
    )
    names += ("black_box",) if outcome.without_toolbox is None else ()
    for name in names:
        assert re.search(
            rf'<figure id="{name}"><img alt="[^"]+" src="data:image/svg\+xml;base64,[\w+/=]{{1000,}}"', text
        )
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()
    assert "src=" not in re.sub(r'src="data:', "", text), "everything is on the page itself"
    assert not re.search(r"https?://", text)
    for table in outcome.tables:
        for method in outcome.methods:
            score = outcome.scores[table.name, method.key]
            assert f"{score.adversarial.mean:.3f}" in text
            assert f"{score.published.mean:.3f}" in text
    with (folder / "folds.csv").open() as file:
        folds = list(csv.DictReader(file))
    assert len(folds) == len(TABLES) * len((*METHODS, *REFINED)) * 5
    with (folder / "rho.csv").open() as file:
        first, *_, last = csv.DictReader(file)
    assert first["table"] == "ionosphere"
    assert float(last["adversarial_accuracy"]) > float(first["adversarial_accuracy"]) + 0.05


def with_score(
    outcome: Outcome, adversarial: float, orders: list[float], authors_code: tuple[float, float] | None = None
) -> Outcome:
    """Return an outcome of one table and one method, GROOT, of which the paper says 0.7."""
    (method,) = [m for m in METHODS if m.key == "groot"]
    score = MethodScore([], Score(0.8, 0.0), Score(adversarial, 0.0), 0.1, Score(0.7, 0.03), authors_code)
    table = Table("<table>", np.zeros((200, 1)), np.arange(200) % 2)
    key = (table.name, method.key)
    refined = LearnerScore([], score.accuracy, Score(0.7, 0.0), 0.1)
    transfer = {"table": table.name, "groot to groot": adversarial}
    return Outcome(
        [table],
        (method,),
        {},
        {key: score},
        {(table.name, learner.key): refined for learner in REFINED},
        {table.name: 0.9},
        {key: orders} if orders else {},
        outcome.growth,
        rho=[],
        transfer=[transfer],
        black_box={},
        without_toolbox=None,
        hardening={},
    )


@pytest.mark.parametrize(
    ("adversarial", "orders", "holds", "words"),
    [
        (0.695, [], True, None),
        (0.72, [0.69, 0.71], True, "4 of 200 rows .* from 0.690 to 0.720: the published 0.700 is among them"),
        (0.68, [0.67, 0.69], False, "from 0.670 to 0.690, below the published 0.700: .* but it is less than"),
        (
            0.60,
            [0.61],
            False,
            "do not explain it all, and it is more than the published deviation from fold to fold, 0.030",
        ),
    ],
    ids=["near", "within the orders", "below", "far below"],
)
def test_differences_are_explained(
    outcome: Outcome, adversarial: float, orders: list[float], holds: bool, words: str | None
) -> None:
    changed = with_score(outcome, adversarial, orders)
    reason = explain_difference(changed, "<table>", changed.methods[0])
    assert [verdict.holds for verdict in judge(changed)] == [holds]
    assert (reason is None) == (words is None)
    assert words is None or re.search(words, str(reason))
    text = write_page(changed, {})
    assert ('<td class="differs">' in text) == (words is not None)
    assert "&lt;table&gt;" in text


@pytest.mark.parametrize(
    ("authors_code", "words"),
    [
        ((0.69, 0.71), "gives 0.690 to 0.710 on these folds: the published figure is among them"),
        ((0.77, 0.79), "ours is among them, the published figure is not"),
        ((0.73, 0.73), "gives 0.730 on these folds: between the published figure and ours"),
        ((0.68, 0.69), "nearer to the published figure than ours"),
        ((0.82, 0.83), "nearer to ours. The published figure is not what that code gives"),
        (None, None),
    ],
    ids=["published", "ours", "between", "beyond the published", "beyond ours", "not asked"],
)
def test_the_authors_code_is_evidence(
    outcome: Outcome, authors_code: tuple[float, float] | None, words: str | None
) -> None:
    changed = with_score(outcome, 0.78, [0.78], authors_code)
    reason = str(explain_difference(changed, "<table>", changed.methods[0]))
    assert "the mean is the same, above the published 0.700" in reason
    assert ("groot-trees" in reason) == (words is not None)
    assert words is None or words in reason
