"""Pictures: the regions are exact, and the figure shows what it says."""

from __future__ import annotations

import re
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, ThreatModel, attack
from hardwood.plot import DecisionRegionDisplay, plot_threat_models, save_threat_models

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


@settings(deadline=None, max_examples=25)
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
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'hardwood\[plot\]'"):
        plot_threat_models()
