"""RobustTreeClassifier(refine=...): what scikit-learn asks of an estimator, and what the search reports."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import (
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    is_vulnerable,
    make_adversarial_scorer,
    refine,
)
from hardwood.refinement import search as search_module


@parametrize_with_checks(
    [
        RobustTreeClassifier(threat=0.1, refine="alternate", random_state=0),
        RobustTreeClassifier(threat=0.1, refine="search", n_starts=2, random_state=0),
    ],
    expected_failed_checks=find_faulty_checks,
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def make(refine="search", **parameters):
    return RobustTreeClassifier(0.3, max_depth=3, refine=refine, random_state=0, **parameters)


def test_each_step_is_at_least_as_good_as_the_one_before(numbers):
    X, y = numbers

    def objective(model):
        return is_vulnerable(model, X, y, 0.3).sum() + 2.0 * model.get_n_leaves()

    greedy, alternate = make(None).fit(X, y), make("alternate").fit(X, y)
    assert objective(alternate) <= objective(greedy)
    search = make().fit(X, y)
    same = [c for c in search.search_report_.candidates if c.start == "all rows" and c.smoothing == "none"]
    assert same[0].objective * len(y) == pytest.approx(objective(alternate))


def test_what_is_reported_is_what_was_done(numbers):
    X, y = numbers
    model = make(n_starts=4).fit(X, y)
    report = model.search_report_
    assert len(report.candidates) == 10
    assert [c.chosen for c in report.candidates].count(True) == 1
    chosen = report.chosen
    assert chosen.training_loss == pytest.approx(1.0 - adversarial_accuracy(model, X, y, 0.3))
    assert chosen.n_leaves == model.get_n_leaves()
    best = min(report.out_of_bag_loss, key=report.out_of_bag_loss.get)
    assert chosen.smoothing == best
    assert chosen.objective == min(c.objective for c in report.candidates if c.smoothing == best)
    assert report.constant_loss == pytest.approx(min(y.mean(), 1.0 - y.mean()))
    assert "10 candidates" in repr(report)
    assert len(pd.DataFrame(report.candidates)) == 10
    assert not report.interrupted
    assert not hasattr(make("alternate").fit(X, y), "search_report_")
    assert not hasattr(model.set_params(refine=None).fit(X, y), "search_report_")


def test_neither_threads_nor_column_order_decide(numbers):
    X, y = numbers
    plain = make(n_starts=3).fit(X, y)
    assert make(n_starts=3, n_jobs=2).fit(X, y).ensemble_.to_json() == plain.ensemble_.to_json()
    columns = [2, 0, 1]
    moved = make(n_starts=3).fit(np.ascontiguousarray(X[:, columns]), y)
    np.testing.assert_array_equal(moved.predict(X[:, columns]), plain.predict(X))
    assert moved.ensemble_.n_leaves == plain.ensemble_.n_leaves


def test_clone_pickle_and_grid_search(numbers):
    X, y = numbers
    model = make(n_starts=2).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert str(again.search_report_.candidates) == str(model.search_report_.candidates)
    assert clone(model).get_params() == model.get_params()
    grid = {"refine_price": [1.0, 5.0], "n_starts": [1, 2]}
    found = GridSearchCV(make(), grid, scoring=make_adversarial_scorer(0.3), cv=2).fit(X, y)
    assert set(found.best_params_) == set(grid)


def test_the_constant_is_taken_where_nothing_can_be_learned():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 3)), (np.arange(60) % 3 == 0).astype(int)
    model = make(beat_constant=True).fit(X, y)
    assert model.get_n_leaves() == 1
    assert model.search_report_.chosen.start == "constant"
    assert model.search_report_.chosen.training_loss == pytest.approx(1 / 3)
    assert (model.predict(X) == 0).all()


def test_an_interrupted_search_keeps_the_best_so_far(numbers, monkeypatch):
    X, y = numbers
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    model = make(n_starts=5, progress=stop).fit(X, y)
    assert seen == [(1, 6), (2, 6)]
    assert model.search_report_.interrupted
    assert {c.start for c in model.search_report_.candidates} == {"all rows", "bootstrap 1"}

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "alternate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make().fit(X, y)


def test_tables_with_categories(frame):
    X, y = frame
    threat = {"income": 1.0, "color": {"red": ["blue"]}, "town": "<>"}
    losses = {}
    for name in (None, "alternate", "search"):
        model = RobustTreeClassifier(threat, max_depth=3, refine=name, n_starts=2, random_state=0).fit(X, y)
        losses[name] = is_vulnerable(model, X, y, threat).sum() + 2.0 * model.get_n_leaves()
    assert losses["alternate"] <= losses[None]
    assert refine(model, X, y).ensemble_.n_leaves <= model.get_n_leaves()


def test_wrong_parameters(numbers):
    X, y = numbers
    for parameters in ({"refine": "tao"}, {"refine_price": -1.0}, {"n_starts": 2.5}, {"progress": 3}):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            make().set_params(**parameters).fit(X, y)


@pytest.mark.parametrize("hides", [{}, {"blank": ["income"]}, {"fill": "all"}, {"blank": "all", "fill": "all"}])
def test_tables_with_missing_values(frame, hides):
    """Numbers and categories are missing; what the search says that it loses is what `is_vulnerable` finds."""
    X, y = frame
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    threat = ThreatModel({"income": 1.0, "color": {"red": ["blue"]}}, **hides)
    losses = {}
    for name in (None, "alternate", "search"):
        model = RobustTreeClassifier(threat, max_depth=3, refine=name, n_starts=2, random_state=0).fit(X, y)
        losses[name] = is_vulnerable(model, X, y, threat).sum() + 2.0 * model.get_n_leaves()
    assert losses["alternate"] <= losses[None]
    assert is_vulnerable(model, X, y, threat).mean() == pytest.approx(model.search_report_.chosen.training_loss)
    assert refine(model, X, y).ensemble_.n_leaves <= model.get_n_leaves()


def test_the_search_learns_where_missing_values_go():
    """Rows whose value is missing are of one class: a single split parts them from all others."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 2))
    y = (generator.random(200) < 0.4).astype(int)
    X[y == 1, 0] = np.nan
    model = RobustTreeClassifier(0.1, max_depth=2, refine="search", random_state=0).fit(X, y)
    assert adversarial_accuracy(model, X, y, 0.1) == 1.0
    assert model.get_n_leaves() == 2
    blanked = ThreatModel(0.1, blank=[0])
    model = RobustTreeClassifier(blanked, max_depth=2, refine="search", random_state=0).fit(X, y)
    assert adversarial_accuracy(model, X, y, blanked) == max(y.mean(), 1 - y.mean())


class TestLargeTables:
    """Starts are refined on some rows; the greedy tree and the best others on all of them."""

    @pytest.fixture(autouse=True)
    def call_tables_large(self, monkeypatch):
        monkeypatch.setattr(search_module, "MOST_ROWS", 30)

    def test_the_best_are_refined_on_all_rows(self, numbers):
        X, y = numbers
        seen = []
        model = make(n_starts=5, progress=lambda *at: seen.append(at)).fit(X, y)
        assert seen == [(k, 9) for k in range(1, 10)]
        report = model.search_report_
        assert len(report.candidates) == 12
        assert is_vulnerable(model, X, y, 0.3).mean() == pytest.approx(report.chosen.training_loss)
        rivals = [one for one in report.candidates if one.smoothing == report.chosen.smoothing]
        assert report.chosen.objective == min(one.objective for one in rivals)
        greedy = make(None).fit(X, y)
        started = next(one for one in rivals if one.start == "all rows")
        assert started.training_loss * len(X) + 2 * started.n_leaves <= (
            is_vulnerable(greedy, X, y, 0.3).sum() + 2 * greedy.get_n_leaves()
        )

    def test_threads_decide_nothing(self, numbers):
        X, y = numbers
        once, again = (make(n_starts=4, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
        assert once.ensemble_.to_json() == again.ensemble_.to_json()
        assert str(once.search_report_.candidates) == str(again.search_report_.candidates)

    def test_interrupted_while_the_best_are_refined(self, numbers):
        X, y = numbers

        def stop(done, _):
            if done == 7:
                raise KeyboardInterrupt

        model = make(n_starts=5, progress=stop).fit(X, y)
        assert model.search_report_.interrupted
        assert len(model.search_report_.candidates) == 12
        assert is_vulnerable(model, X, y, 0.3).mean() == pytest.approx(model.search_report_.chosen.training_loss)
