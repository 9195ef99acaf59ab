"""Pictures: the regions are exact, and the figure shows what it says."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import AttackRule, RobustTreeClassifier, ThreatModel, adversarial_accuracy, attack, evaluate
from hardwood.plot import (
    AdversarialExampleDisplay,
    DecisionRegionDisplay,
    RobustnessCurveDisplay,
    check_can_draw,
    plot_threat_models,
    save_robustness_curve,
    save_threat_models,
)
from hardwood.plot.regions import COLORS
from hardwood.table import Schema
from reference import attacking

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def make_data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.integers(0, 12, size=(60, 2)) / 4
    y = (X.sum(axis=1) + generator.normal(size=60) > 2.75).astype(int)
    y[:2] = 0, 1
    return X, y


def region_at(display: DecisionRegionDisplay, points: np.ndarray) -> np.ndarray:
    column, row = (
        np.searchsorted(edges[1:-1], values, side="left")  # a cell includes its upper edge
        for edges, values in zip(display.edges, points.T, strict=True)
    )
    return display.classes[display.regions[row, column]]


def test_missing_values_have_no_place_in_the_plane():
    X, y = make_data(0)
    model = DecisionTreeClassifier(max_depth=2).fit(X, y)
    X[5, 1] = np.nan
    with pytest.raises(ValueError, match="X: a row with a missing value has no place in the plane"):
        DecisionRegionDisplay.from_estimator(model, X, y)


@given(st.integers(0, 10_000), st.sampled_from([None, 0.3, [">", 0.5], ["<>", (0.25, 0.0)]]))
def test_regions_are_the_predictions_up_to_the_last_bit(seed, threat):
    X, y = make_data(seed)
    model = RobustTreeClassifier(threat).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(model, X, y)
    low, high = np.array([edges[[0, -1]] for edges in display.edges]).T
    points = np.random.default_rng(seed).uniform(low, high, size=(200, 2))
    for axis, edges in enumerate(display.edges):
        inner = edges[1:-1]
        on_edges = np.concatenate([inner, np.nextafter(inner, -np.inf), np.nextafter(inner, np.inf)])
        points[: len(on_edges), axis] = on_edges[:200]
        np.random.default_rng(seed).shuffle(points)
    assert (region_at(display, points) == model.predict(points)).all()


def test_what_the_attacker_can_do_to_each_sample():
    X, y = make_data(3)
    model = RobustTreeClassifier([0.5, "<"], attacking_classes=[1], max_depth=3).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(model, X, y)
    assert (display.fooled == attack(model, X, y, model.threat_).found).all()
    assert (display.fooled >= (model.predict(X) != y)).all()
    low, high = display.reach
    assert (high[y == 1] == X[y == 1] + [0.5, 0.0]).all()
    assert (low[y == 1, 1] == -np.inf).all()
    assert (low[y == 0] == X[y == 0]).all()


def test_another_threat_than_the_trained_one():
    X, y = make_data(4)
    model = RobustTreeClassifier(max_depth=4).fit(X, y)
    calm = DecisionRegionDisplay.from_estimator(model, X, y)
    threatened = DecisionRegionDisplay.from_estimator(model, X, y, threat=ThreatModel(0.5))
    assert calm.fooled.sum() < threatened.fooled.sum()
    assert (calm.regions == threatened.regions).all()


def test_scikit_learn_trees_and_column_names():
    X, y = make_data(5)
    frame = pd.DataFrame(X, columns=["width", "height"])
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, y)
    display = DecisionRegionDisplay.from_estimator(model, frame, y).plot()
    assert (region_at(display, X) == model.predict(frame)).all()
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("width", "height")


def test_plot_draws_on_the_axes_it_is_given():
    X, y = make_data(6)
    model = RobustTreeClassifier(["<>", 0.5], max_depth=2).fit(X, y)
    figure, ax = plt.subplots()
    display = DecisionRegionDisplay.from_estimator(model, X, y)
    assert display.plot(ax, reach_of=[0, 1]) is display
    assert display.figure_ is figure
    assert ax.get_xlim() == pytest.approx(display.edges[0][[0, -1]])
    assert len(ax.patches) == 2  # two boxes of reach
    box = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert box.width == pytest.approx(np.ptp(display.edges[0]))  # no limit: as far as one sees
    figure.canvas.draw()


def test_regions_have_a_legend():
    """A new user could not tell which colour was which class, nor what hollow dots were."""
    X, y = make_data(6)
    model = RobustTreeClassifier(0.5, max_depth=2).fit(X, np.where(y == 1, "fraud", "honest"))
    display = DecisionRegionDisplay.from_estimator(model, X, np.where(y == 1, "fraud", "honest"))
    assert display.fooled.any()

    def labels(**options):
        legend = display.plot(**options).ax_.get_legend()
        return [text.get_text() for text in legend.get_texts()]

    assert labels() == ["fraud", "honest", "wrong under attack"]
    assert labels(reach_of=[0]) == ["fraud", "honest", "wrong under attack", "reach"]
    assert display.plot(legend=False).ax_.get_legend() is None
    dots = display.plot().ax_.get_legend().legend_handles
    assert [dot.get_color() for dot in dots[:2]] == list(COLORS[:2])
    calm = DecisionRegionDisplay.from_estimator(model, X[~display.fooled], model.predict(X[~display.fooled]), threat=0)
    assert not calm.fooled.any()
    assert "wrong under attack" not in [text.get_text() for text in calm.plot().ax_.get_legend().get_texts()]


def test_models_that_cannot_be_drawn():
    X, y = make_data(7)
    three = np.column_stack([X, X[:, 0]])
    with pytest.raises(ValueError, match="two features, this one has 3"):
        DecisionRegionDisplay.from_estimator(RobustTreeClassifier().fit(three, y), three, y)
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(X[:, 1].astype(str))})
    with pytest.raises(ValueError, match="need numerical features"):
        DecisionRegionDisplay.from_estimator(RobustTreeClassifier().fit(frame, y), frame, y)
    model = RobustTreeClassifier().fit(X, np.where(y == 1, "a", "b"))
    with pytest.raises(ValueError, match="'c'"):
        DecisionRegionDisplay.from_estimator(model, X, np.where(y == 1, "a", "c"))


def test_the_threat_model_figure():
    figure = plot_threat_models()
    meshes = [ax.collections[0].get_array() for ax in figure.axes]
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert len(titles) == len(set(titles)) == 4
    assert len({mesh.tobytes() for mesh in meshes}) == 4  # four attackers, four trees
    for ax in figure.axes[1:]:
        robust, ordinary = (float(n) for n in re.findall(r"(\d+)%", ax.get_xlabel()))
        assert robust > ordinary + 5


def test_saving_needs_no_screen(tmp_path):
    before = plt.get_fignums()
    save_threat_models(tmp_path / "picture.png", dpi=40)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert plt.get_fignums() == before


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install matplotlib"):
        plot_threat_models()


# Curves


def test_a_curve_is_that_of_the_report():
    X, y = make_data(8)
    model = RobustTreeClassifier(0.25, max_depth=3).fit(X, y)
    report = evaluate(model, X, y, 0.25, epsilons=[0.5, 2.0])
    display = RobustnessCurveDisplay.from_report(report, name="robust").plot()
    assert display.epsilons.tolist() == [0.0, 0.5, 1.0, 2.0]
    assert display.lower.tolist() == [adversarial_accuracy(model, X, y, 0.25 * e) for e in display.epsilons]
    line = next(line for line in display.ax_.lines if line.get_label() == "robust")
    np.testing.assert_array_equal(line.get_ydata(), display.lower)
    assert display.ax_.get_xlim() == (0.0, 2.0)
    labels = display.ax_.get_legend_handles_labels()[1]
    assert sorted(labels) == ["constant classifier", "no classifier gets here", "robust"]
    display.figure_.canvas.draw()
    trained = RobustnessCurveDisplay.from_estimator(model, X, y, epsilons=[0.5, 2.0])
    assert trained.lower.tolist() == display.lower.tolist()
    assert trained.name == "RobustTreeClassifier"


def test_the_legend_names_no_area_that_is_not_drawn():
    """Where every row can be right under attack, there was a grey patch in the legend and none in the picture."""
    X, y = np.array([[0.0], [1.0], [5.0], [6.0]]), [0, 0, 1, 1]
    model = RobustTreeClassifier(1.0).fit(X, y)
    display = RobustnessCurveDisplay.from_estimator(model, X, y, epsilons=[0.5]).plot()
    assert display.ceiling.tolist() == [1.0] * 3
    assert sorted(display.ax_.get_legend_handles_labels()[1]) == ["RobustTreeClassifier", "constant classifier"]
    assert len(display.ax_.collections) == 0


def test_a_ceiling_that_is_an_interval_is_drawn_as_one():
    X, y = make_data(8)
    model = RobustTreeClassifier(0.25, max_depth=3).fit(X, y)
    display = RobustnessCurveDisplay.from_estimator(model, X, y, epsilons=[0.5], ceiling_time_limit=0).plot()
    assert (display.ceiling_lower < display.ceiling).all()
    labels = display.ax_.get_legend_handles_labels()[1]
    assert "perhaps no classifier (time ran out)" in labels
    assert "no classifier gets here" not in labels  # nothing of the kind is proved
    display.figure_.canvas.draw()


def test_several_curves_on_one_axes():
    X, y = make_data(8)
    figure, ax = plt.subplots()
    for depth in (1, 3):
        model = RobustTreeClassifier(0.25, max_depth=depth).fit(X, y)
        options = {"name": f"depth {depth}", "epsilons": [0.0, 3.0 / depth]}
        assert RobustnessCurveDisplay.from_estimator(model, X, y, **options).plot(ax).figure_ is figure
    labels = ax.get_legend_handles_labels()[1]
    assert labels.count("constant classifier") == labels.count("no classifier gets here") == 1
    curves = [line for line in ax.lines if line.get_label().startswith("depth")]
    assert len({line.get_color() for line in curves}) == 2
    assert ax.get_xlim() == (0.0, 3.0)


def test_undecided_rows_are_a_band():
    X, y = make_data(9)
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    display = RobustnessCurveDisplay.from_estimator(forest, X, y, 0.2, time_limit=0, ceiling=False).plot()
    assert (display.lower <= display.upper).all()
    assert (display.lower < display.upper).any()
    labels = display.ax_.get_legend_handles_labels()[1]
    assert "RandomForestClassifier: undecided rows" in labels
    assert "no classifier gets here" not in labels


def test_saving_a_curve_needs_no_screen(tmp_path):
    X, y = make_data(8)
    report = evaluate(RobustTreeClassifier(max_depth=2).fit(X, y), X, y, 0.25)
    save_robustness_curve(report, tmp_path / "curve.svg", name="a tree")
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    assert not plt.get_fignums()
    check_can_draw(tmp_path / "curve.PNG")
    with pytest.raises(ValueError, match=r"curve\.txt must end in one of .*\.png"):
        check_can_draw(tmp_path / "curve.txt")


# Examples


def test_an_example_says_what_moved_and_how_far_it_could():
    X, y = make_data(10)
    X = np.column_stack([X, np.zeros(len(X))])
    model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X, y)
    threat = [(0.5, 0.25), ">", None]
    result = attack(model, X, y, threat)
    moved = (result.X_adv != X) & result.found[:, None]
    for row in np.flatnonzero(result.found)[:12].tolist():
        display = AdversarialExampleDisplay.from_estimator(model, X, y, threat, row=row)
        assert {change.name for change in display.changes} == {f"feature {j}" for j in np.flatnonzero(moved[row])}
        for change in display.changes:
            j = int(change.name[-1])
            assert (change.before, change.after) == (X[row, j], result.X_adv[row, j])
            expected = (X[row, 0] - 0.5, X[row, 0] + 0.25) if j == 0 else (X[row, 1], np.inf)
            assert (change.low, change.high) == expected
        assert display.n_movable == 2
        assert display.label == y[row] != display.prediction
        assert display.distance == result.distance[row]
        sizes = [abs(change.shift) for change in display.changes]
        assert sizes == sorted(sizes, reverse=True)
        assert all(size <= 1.0 + 1e-9 for size in sizes)
    robust = int((~result.found).argmax())
    with pytest.raises(ValueError, match="has no adversarial example"):
        AdversarialExampleDisplay.from_estimator(model, X, y, threat, row=robust)
    with pytest.raises(ValueError, match="row=60"):
        AdversarialExampleDisplay.from_estimator(model, X, y, threat, row=60)


def test_an_example_by_rules_says_how_far_the_budget_goes(mixed, frame):
    X, y = frame
    rules = [
        AttackRule("income", add=1.0, cost=1.0),
        AttackRule("income", add=-2.0, cost=2.0),
        AttackRule("color", when="red", set_to="green", cost=5.0),
    ]
    threat = ThreatModel(rules=rules, budget=4.0)
    result = attack(mixed, X, y, threat)
    moved = np.flatnonzero(result.found & (result.X_adv["income"] != X["income"]))
    for row in moved[:5].tolist():
        display = AdversarialExampleDisplay.from_estimator(mixed, X, y, threat, row=row)
        income = X["income"][row]
        assert [(change.name, change.low, change.high) for change in display.changes] == [
            ("income", pytest.approx(income - 4.0), pytest.approx(income + 4.0))
        ]
        assert display.n_movable == 1  # the budget does not pay for another color
    assert len(moved)


def test_the_picture_of_an_example(mixed, frame):
    """Numbers and categories in the units of the table; a row that is wrong as it stands moves nothing."""
    X, y = frame
    threat = {"income": (3.0, 1.0), "color": {"red": ["green"], "blue": ["red"], "green": ["red"]}, "age": "<"}
    result = attack(mixed, X, y, threat)
    after = result.X_adv["color"].astype(str)
    changed = np.flatnonzero(result.found & (after != X["color"].astype(str)))
    row = int(changed[0])
    display = AdversarialExampleDisplay.from_estimator(mixed, X, y, threat, row=row).plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert f"{X['color'][row]} → {after[row]}" in texts
    assert display.n_movable == 3
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [c.name for c in display.changes]
    assert f"Row {row}: {y[row]}, taken for" in display.ax_.get_title(loc="left")
    display.figure_.canvas.draw()
    limited = display.plot(plt.subplots()[1], max_features=1)
    assert len(limited.ax_.get_yticks()) == 1
    wrong = int((mixed.predict(X) != y).argmax())
    nothing = AdversarialExampleDisplay.from_estimator(mixed, X, y, threat, row=wrong).plot()
    assert nothing.changes == []
    assert "as it stands" in nothing.ax_.get_title(loc="left")


def test_an_example_is_shown_in_the_types_of_its_columns():
    """14.0 items were shown, and a truth value as 1.0; a value that is made missing is said to be."""
    X = pd.DataFrame({"items": [1, 2, 14, 15], "paid": [False, False, True, True], "share": [0.1, 0.2, 0.8, 0.9]})
    y = [0, 0, 1, 1]
    schema = Schema.from_table(X)
    for feature, threshold, shown in ((0, 9.5, "14 → 9"), (1, 0.5, "True → False"), (2, 0.5, "0.8 → 0.5")):
        tree = attacking.build((feature, threshold, 0, 1), schema)
        display = AdversarialExampleDisplay.from_estimator(tree, X, y, "<>", row=2).plot()
        [change] = display.changes
        assert [type(change.before), type(change.after)] == [[int, bool, float][feature]] * 2
        assert shown in [text.get_text() for text in display.ax_.texts]
    tree = attacking.build((0, 9.5, 0, 1), Schema.numeric(3))
    threat = ThreatModel([6, 0, 0], whole_numbers=[0])
    [change] = AdversarialExampleDisplay.from_estimator(tree, X.to_numpy(dtype=float), y, threat, row=2).changes
    assert repr(change.after) == "9"
    tree = attacking.build((0, 9.5, 0, 1), replace(Schema.numeric(3), accepts_missing=True))
    tree = replace(tree, missing_left=np.ones_like(tree.missing_left))
    rows = X.to_numpy(dtype=float)
    rows[0, 1] = np.nan
    display = AdversarialExampleDisplay.from_estimator(tree, rows, y, ThreatModel(None, blank=[0]), row=2).plot()
    assert [(change.before, change.after) for change in display.changes] == [(14.0, None)]
    assert {"14 → missing", "made missing"} <= {text.get_text() for text in display.ax_.texts}
