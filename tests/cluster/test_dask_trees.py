"""Trees and forests grown on a cluster: the same, bit for bit, as from the table in memory."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from dask import delayed  # noqa: E402
from dask_tables import N_ROWS, cut, cut_frame, kill_a_worker, make_frame, make_table  # noqa: E402

from counting import count_reading  # noqa: E402
from hardwood import RobustBoostingClassifier, RobustForestClassifier, RobustTreeClassifier  # noqa: E402
from hardwood.dask import (  # noqa: E402
    DaskRobustBoostingClassifier,
    DaskRobustForestClassifier,
    DaskRobustTreeClassifier,
)

TREE: dict[str, Any] = {"threat": 0.1, "max_depth": 5, "max_bins": 50}
BOOSTING: dict[str, Any] = {"threat": 0.1, "n_estimators": 2, "max_depth": 3, "early_stopping": False}


def assert_same(fitted: Any, expected: Any) -> None:
    assert fitted.ensemble_.to_json() == expected.ensemble_.to_json()
    assert fitted.threat_ == expected.threat_
    assert fitted.ensemble_.n_nodes > 7


@pytest.mark.parametrize("n_parts", [1, 2, 5, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_tree(client: Any, n_parts: int, weighted: bool) -> None:
    X, y, weight = make_table()
    own = (weight,) if weighted else ()
    fitted = DaskRobustTreeClassifier(**TREE).fit(*cut(n_parts, X, y, *own))
    assert_same(fitted, RobustTreeClassifier(**TREE).fit(X, y, *own))


def test_more_rows_than_the_sample_has(client: Any) -> None:
    X, y, _ = make_table(60_000)
    fitted = DaskRobustTreeClassifier(client=client, **TREE).fit(*cut(4, X, y))
    assert_same(fitted, RobustTreeClassifier(**TREE).fit(X, y))


@pytest.mark.parametrize(
    "parameters",
    [
        {"class_weight": "balanced", "max_leaf_nodes": 9},
        {"threat": "10%", "rho": 0.5},
        {"threat": {0: 0.1}, "criterion": "entropy", "max_features": 2, "random_state": 3, "attacking_classes": [1]},
    ],
)
def test_parameters(client: Any, parameters: dict[str, Any]) -> None:
    X, y, weight = make_table()
    fitted = DaskRobustTreeClassifier(**TREE | parameters).fit(*cut(3, X, y, weight))
    assert_same(fitted, RobustTreeClassifier(**TREE | parameters).fit(X, y, weight))


def test_unknown_lengths_and_empty_partitions(client: Any) -> None:
    X, y, _ = make_table()
    X[:1500, 0] -= 9.0  # the first of three partitions loses all of its rows
    dX, dy = cut(3, X, y)
    kept, expected = dX[:, 0] > -2.0, X[:, 0] > -2.0
    fitted = DaskRobustTreeClassifier(**TREE).fit(dX[kept], dy[kept])
    assert np.isnan(dX[kept].chunks[0]).all()
    assert_same(fitted, RobustTreeClassifier(**TREE).fit(X[expected], y[expected]))


def test_rows_are_kept_until_they_are_coded_and_nothing_after_the_fit(client: Any) -> None:
    """Of a partition that is needed no more, the scheduler remembers only how it was made."""
    held: list[set[str]] = []

    def look(done: int, total: int) -> None:
        time.sleep(0.2)  # until the scheduler has heard what nobody wants any more
        held.append(
            client.run_on_scheduler(
                lambda dask_scheduler: {
                    "-".join(str(key).split("-")[:2])
                    for key, task in dask_scheduler.tasks.items()
                    if task.state == "memory" and str(key).startswith("hardwood")
                }
            )
        )

    X, y, _ = make_table()
    DaskRobustTreeClassifier(**TREE, progress=look).fit(*cut(4, X, y))
    assert "hardwood-rows" in held[0]  # once rows have been read, they are kept encoded, and partitions are let go
    assert "hardwood-read" not in held[0]
    assert "hardwood-rows" not in held[4]
    assert "hardwood-code" in held[4]  # while the tree grows
    time.sleep(0.2)
    look(0, 0)
    assert held[-1] == set()


def test_a_partition_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were read once to know their columns, and once more to be coded; the first row still is, for its types."""
    frame = make_frame()[:400]
    table = cut_frame(frame, 4)
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        counts = count_reading(monkeypatch)
        fitted = DaskRobustTreeClassifier({"a": 0.1}, max_depth=3, client=client).fit(table, "label", "weight")
    assert counts == {"rows": 401, **{f"feature {name!r}": 401 for name in ("a", "b", "c", "d", "clicks", "kind")}}
    assert fitted.ensemble_.n_nodes > 1


def test_partitions_of_one_class(client: Any) -> None:
    X, y, _ = make_table()
    order = np.argsort(y, kind="stable")
    fitted = DaskRobustTreeClassifier(**TREE).fit(*cut(4, X[order], y[order]))
    assert_same(fitted, RobustTreeClassifier(**TREE).fit(X[order], y[order]))


@pytest.mark.parametrize("n_parts", [1, 4])
def test_frames(client: Any, n_parts: int) -> None:
    """Three classes, missing values, whole numbers, and categories that differ from partition to partition."""
    frame = make_frame()
    threat = {"a": 0.1, "clicks": 1.5, "kind": {"x": ["y"]}}
    model = DaskRobustTreeClassifier(threat, max_depth=4, max_bins=50)
    whole, table = frame.astype({"kind": "category"}), cut_frame(frame, n_parts)
    expected = model.local(threat, max_depth=4, max_bins=50).fit(
        whole.drop(columns=["label", "weight"]), whole["label"], whole["weight"]
    )
    assert expected.ensemble_.schema.accepts_missing
    assert_same(model.fit(table, "label", "weight"), expected)
    named = clone(model).fit(table.drop(columns=["label", "weight"]), table["label"], table["weight"])
    assert_same(named, expected)
    np.testing.assert_array_equal(
        named.predict(table[list(named.feature_names_in_)]).compute(),
        expected.predict(whole[list(named.feature_names_in_)]),
    )


@pytest.mark.parametrize(
    "parameters", [{}, {"bootstrap": True, "class_weight": "balanced_subsample"}, {"class_weight": "balanced"}]
)
def test_same_forest(client: Any, parameters: dict[str, Any]) -> None:
    X, y, weight = make_table()
    model = DaskRobustForestClassifier(0.1, n_estimators=5, random_state=0, **parameters)
    expected = RobustForestClassifier(0.1, n_estimators=5, random_state=0, **parameters).fit(X, y, weight)
    assert_same(model.fit(*cut(4, X, y, weight)), expected)


def test_warm_start(client: Any) -> None:
    X, y, _ = make_table()
    forest = DaskRobustForestClassifier(0.1, n_estimators=2, random_state=0, warm_start=True).fit(*cut(2, X, y))
    forest.set_params(n_estimators=4).fit(*cut(3, X, y))
    assert_same(forest, RobustForestClassifier(0.1, n_estimators=4, random_state=0).fit(X, y))


def test_forest_by_tree_through_joblib(client: Any) -> None:
    """The codes travel once: joblib scatters what is large."""
    X, y, _ = make_table()
    model = RobustForestClassifier(0.1, n_estimators=6, random_state=0, max_depth=3)
    expected = clone(model).fit(X, y)
    with joblib.parallel_config("dask"):
        assert_same(clone(model).fit(X, y), expected)


def test_other_numbers_of_workers(cluster: Any, client: Any) -> None:
    X, y, weight = make_table()
    arrays = cut(8, X, y, weight)
    tree = RobustTreeClassifier(**TREE).fit(X, y, weight)
    forest = RobustForestClassifier(0.1, n_estimators=3, random_state=0).fit(X, y, weight)
    boosted = RobustBoostingClassifier(**BOOSTING).fit(X, y, weight)
    try:
        for n_workers in (4, 1):
            cluster.scale(n_workers)
            while len(client.nthreads()) != n_workers:
                client.wait_for_workers(n_workers)
            assert_same(DaskRobustTreeClassifier(**TREE).fit(*arrays), tree)
            assert_same(DaskRobustForestClassifier(0.1, n_estimators=3, random_state=0).fit(*arrays), forest)
            assert_same(DaskRobustBoostingClassifier(**BOOSTING).fit(*arrays), boosted)
    finally:
        cluster.scale(2)
        client.wait_for_workers(2)


class TestLosingAWorker:
    @pytest.mark.parametrize("when", [1, 2, 4])
    def test_tree(self, client: Any, when: int) -> None:
        """While it looks at rows, while it codes them, and while the tree grows."""
        told = []

        def kill(done: int, total: int) -> None:
            told.append(done)
            if done == when:
                kill_a_worker(client)

        X, y, weight = make_table()
        fitted = DaskRobustTreeClassifier(**TREE, progress=kill).fit(*cut(4, X, y, weight))
        assert max(told) > when
        assert_same(fitted, RobustTreeClassifier(**TREE).fit(X, y, weight))
        client.wait_for_workers(2)

    def test_forest(self, client: Any) -> None:
        X, y, weight = make_table()
        killed = []

        def kill(done: int, total: int) -> None:
            if not killed:
                killed.append(done)
                kill_a_worker(client)

        parameters: dict[str, Any] = {"threat": 0.1, "n_estimators": 4, "random_state": 0, "bootstrap": True}
        fitted = DaskRobustForestClassifier(**parameters, progress=kill).fit(*cut(4, X, y, weight))
        assert killed[0] < 4
        assert_same(fitted, RobustForestClassifier(**parameters).fit(X, y, weight))
        client.wait_for_workers(2)


def test_a_cluster_that_dies_leaves_nothing_half_fitted() -> None:
    X, y, _ = make_table()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
    ):
        model = DaskRobustTreeClassifier(client=own, **TREE).fit(*cut(2, X, y))
        before = model.ensemble_
        model.set_params(max_depth=2, progress=lambda done, total: cluster.close() if done == 3 else None)
        with pytest.raises(RuntimeError, match="connection to the cluster was closed or lost"):
            model.fit(*cut(2, X, y))
        assert model.ensemble_ is before
        fresh = clone(model)
        with pytest.raises(RuntimeError, match="client: it is closed, not running"):
            fresh.fit(*cut(2, X, y))
        assert not hasattr(fresh, "ensemble_")


class TestModel:
    @pytest.fixture
    def fitted(self, client: Any) -> DaskRobustTreeClassifier:
        X, y, _ = make_table()
        return DaskRobustTreeClassifier(client=client, **TREE).fit(*cut(3, X, np.where(y == 1, "yes", "no")))

    def test_to_local(self, fitted: DaskRobustTreeClassifier) -> None:
        X, _, _ = make_table()
        local = fitted.to_local()
        assert type(local) is RobustTreeClassifier
        assert local.get_params() == {k: v for k, v in fitted.get_params().items() if k != "client"}
        assert b"dask" not in pickle.dumps(local)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(local)).predict(X), fitted.predict(X))
        assert local.get_n_leaves() == fitted.get_n_leaves()

    def test_parameters_clones_and_pickles(self, client: Any, fitted: DaskRobustTreeClassifier) -> None:
        assert fitted.get_params().keys() - RobustTreeClassifier().get_params().keys() == {"client"}
        copy = clone(fitted)
        assert copy.client is client
        assert not hasattr(copy, "ensemble_")
        pickled = pickle.loads(pickle.dumps(fitted))
        assert pickled.client is None
        assert pickled.ensemble_.to_json() == fitted.ensemble_.to_json()
        assert fitted.client is client
        with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
            DaskRobustTreeClassifier(depth=3)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_score(self, fitted: DaskRobustTreeClassifier, weighted: bool) -> None:
        X, y, weight = make_table()
        labels = np.where(y == 1, "yes", "no")
        dX, dy, dw = cut(3, X, labels, weight)
        expected = fitted.to_local().score(X, labels, weight if weighted else None)
        assert fitted.score(X, labels, weight if weighted else None) == expected
        assert fitted.score(dX, dy, dw if weighted else None) == pytest.approx(expected, rel=1e-12)
        frame = pd.DataFrame(X).assign(label=labels, weight=weight)
        frame.columns = frame.columns.map(str)
        model = DaskRobustTreeClassifier(**TREE).fit(dd.from_pandas(frame, npartitions=2), "label", "weight")
        alone = dd.from_pandas(frame.drop(columns="weight"), npartitions=4)
        alone = alone[alone["0"] > 1.0]  # some partitions may have no rows
        inside = frame["0"] > 1.0
        local = model.to_local().score(frame.loc[inside, ["0", "1", "2", "3"]], labels[inside])
        assert model.score(alone, "label") == pytest.approx(local, rel=1e-12)
        with pytest.raises(ValueError, match="requires y to be passed"):
            model.score(alone)
        with pytest.raises(ValueError, match="X has no rows that weigh anything"):
            fitted.score(dX, dy, dw * 0.0)

    def test_predictions_are_lazy(self, fitted: DaskRobustTreeClassifier) -> None:
        X, _, _ = make_table()
        (dX,) = cut(3, X)
        predicted, shares = fitted.predict(dX), fitted.predict_proba(dX)
        assert isinstance(predicted, da.Array)
        assert (predicted.dtype, predicted.shape, predicted.chunks[0]) == ("<U3", (N_ROWS,), dX.chunks[0])
        assert (shares.dtype, shares.shape) == (np.float64, (N_ROWS, 2))
        np.testing.assert_array_equal(predicted.compute(), fitted.to_local().predict(X))
        np.testing.assert_array_equal(shares.compute(), fitted.predict_proba(X))
        some = fitted.predict_log_proba(dX[dX[:, 0] > 2.0])
        np.testing.assert_array_equal(some.compute(), fitted.predict_log_proba(X[X[:, 0] > 2.0]))
        none = fitted.predict(dX[dX[:, 0] > 99.0]).compute()
        assert (none.dtype, none.shape) == ("<U3", (0,))
        with pytest.raises(ValueError, match="this method takes tables in memory"):
            fitted.apply(dX)


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"max_bins": "exact"}, "max_bins='exact': needs all rows in memory"),
            ({"refine": "search"}, "refine='search': needs all rows in memory"),
            ({"attacker": "chen"}, "attacker='chen': needs all rows in memory"),
            ({"threat": "2 std"}, "measured on a whole table"),
            ({"max_bins": 1000}, "max_bins=1000"),
        ],
    )
    def test_parameters(self, client: Any, parameters: dict[str, Any], message: str) -> None:
        X, y, _ = make_table()
        with pytest.raises(ValueError, match=message):
            DaskRobustTreeClassifier(**TREE | parameters).fit(*cut(2, X, y))

    def test_oob_score(self, client: Any) -> None:
        X, y, _ = make_table()
        with pytest.raises(ValueError, match="oob_score=True: needs all rows in memory"):
            DaskRobustForestClassifier(0.1, bootstrap=True, oob_score=True).fit(*cut(2, X, y))

    def test_arrays(self, client: Any) -> None:
        X, y, weight = make_table()
        dX, dy, dw = cut(2, X, y, weight)
        infinite = da.where(dX > 3.0, np.inf, dX)
        cases: list[tuple[tuple[Any, ...], str]] = [
            ((X, y), "X: expected a Dask array or DataFrame, got 'ndarray'; for tables in memory"),
            ((delayed(X), dy), "X: expected a Dask array or DataFrame, got 'Delayed"),
            ((dX, delayed(y)), "y: expected a Dask array or Series, got 'Delayed"),
            ((dX, None), "requires y to be passed"),
            ((dX, y), "y: expected a Dask array of one dimension, with the chunks of X, got 'ndarray'"),
            ((dX, "label"), "y: expected a Dask array of one dimension, with the chunks of X, got 'label'"),
            ((dX, dX), "y: expected one dimension, got 2"),
            ((dy, dy), r"X: expected rows and columns, got an array of 1 dimension"),
            ((dX, dy.rechunk(1000)), "y: has 3 partitions and X has 2"),
            ((dX, dy.rechunk(((1000, 2000),))), "y: has 1000 rows in partition 0 and X has 1500"),
            ((dX, dy, dw[: len(X) // 2]), "sample_weight: has 1 partitions and X has 2"),
            ((dX, dy, -dw), r"sample_weight: row \d+ has -.*; expected finite weights >= 0"),
            ((dX, dy, dw * 0.0), "sample_weight: the weights of all rows are zero; expected a positive one"),
            ((dX, dy * 0), "y has only one class"),
            ((dX[dX[:, 0] > 99.0], dy[dX[:, 0] > 99.0]), "X has no rows"),
            ((dX[dX[:, 0] > 0.0], dy[dX[:, 0] > 0.1]), "inconsistent numbers of samples"),
            ((infinite, dy), "Input X contains infinity"),
            ((dX, da.where(dy == 0, np.nan, 1.0)), "Input y contains NaN"),
        ]
        for arguments, message in cases:
            with pytest.raises(ValueError, match=message):
                DaskRobustTreeClassifier(**TREE).fit(*arguments)

    def test_the_partition_is_named(self, client: Any) -> None:
        X, y, _ = make_table()
        X[2001, 1] = np.inf
        with pytest.raises(ValueError, match="in row 501 ") as refused:
            DaskRobustTreeClassifier(**TREE).fit(*cut(2, X, y))
        assert refused.value.__notes__[0].startswith("In partition 1 of the table, counted from 0;")

    def test_frames(self, client: Any) -> None:
        frame = make_frame().drop(columns="kind")
        table = dd.from_pandas(frame, npartitions=2)

        def make(number: int) -> pd.DataFrame:
            part = frame[number * 1000 : (number + 1) * 1000]
            return part.rename(columns={"c": "e"}) if number == 2 else part

        differing = dd.from_map(make, range(3), meta=frame[:0], enforce_metadata=False)
        cases: list[tuple[tuple[Any, ...], str]] = [
            ((table, "class"), r"y='class': there is no such column; the columns are 'a', 'b',"),
            ((table, "label", "share"), "sample_weight='share': there is no such column"),
            ((table, frame["label"]), "y: expected a Dask Series or array, or the name of a column of X, got 'Series'"),
            ((table[["label"]], "label"), "there is none to learn from"),
            (
                (differing, "label"),
                r"X: partition 2 has the columns 'a', 'b', 'e', .*, and the table has 'a', 'b', 'c'",
            ),
            ((table, table["label"].repartition(npartitions=1)), "y: has 1 partitions and X has 2"),
            ((table, table["label"].repartition(divisions=[0, 2000, 2999])), "y: its divisions are"),
            ((table, "a"), "X: feature 'label' holds '.*', which is not a number; declare the column"),
        ]
        for arguments, message in cases:
            with pytest.raises(ValueError, match=message):
                DaskRobustTreeClassifier(max_depth=2).fit(*arguments)


def test_without_dask() -> None:
    """The module can be imported, and says what is missing once it is needed."""
    program = (
        "import sys; sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "import hardwood.dask as hd\n"
        "for call in (hd.DaskRobustTreeClassifier().fit, lambda X, y: hd.verify(None, X, y, 0.1)):\n"
        "    try:\n"
        "        call([[0.0]], [1])\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "hardwood.dask needs distributed, which is not installed: pip install distributed dask",
        "hardwood.dask needs dask, which is not installed: pip install dask distributed",
    ]
