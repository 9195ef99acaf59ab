"""Trees from streams: the same, bit for bit, as from the table in memory, however the rows are cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hardwood import (
    RobustForestClassifier,
    RobustTreeClassifier,
    TreeEnsemble,
    adversarial_accuracy,
    evaluate,
    stream,
)
from hardwood.rows.sampling import RowSampler, draw_rows

N_ROWS = 3000


def make_table(n_rows: int = N_ROWS, n_classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_rows, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + generator.normal(scale=0.5, size=n_rows), range(n_classes - 1))
    return X, y


def make_model(**parameters: Any) -> RobustTreeClassifier:
    return RobustTreeClassifier(**{"threat": 0.1, "max_depth": 5, "max_bins": 50} | parameters)


def cut(X: Any, y: Any, weight: Any, sizes: list[int]) -> Any:
    """Return a function that gives batches of these sizes, again and again, and then the rest."""

    def read() -> Iterator[tuple[Any, ...]]:
        ends = [*np.cumsum(sizes).tolist(), len(X)]
        for start, end in zip([0, *ends], ends, strict=False):
            yield (X[start:end], y[start:end]) + (() if weight is None else (weight[start:end],))

    return read


def assert_same(streamed: RobustTreeClassifier, fitted: RobustTreeClassifier) -> None:
    assert streamed.ensemble_.to_json() == fitted.ensemble_.to_json()
    assert streamed.threat_ == fitted.threat_
    assert streamed.get_n_leaves() > 3


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("batch_rows", [1, 700, 10_000])
def test_array(n_classes: int, batch_rows: int) -> None:
    X, y = make_table(500 if batch_rows == 1 else N_ROWS, n_classes)
    streamed = make_model().fit(stream(X, y, batch_rows=batch_rows))
    assert_same(streamed, make_model().fit(X, y))


def test_mapped_to_memory(tmp_path: Path) -> None:
    X, y = make_table()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    mapped = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    assert_same(make_model().fit(stream(*mapped, batch_rows=999)), make_model().fit(X, y))


@pytest.mark.parametrize(
    "parameters",
    [
        {"rho": 0.5},
        {"class_weight": "balanced"},
        {"threat": "10%"},
        {"threat": [0.2, None, "<>", None], "attacking_classes": [1]},
        {"threat": {0: 0.1}, "criterion": "entropy", "max_features": 2, "random_state": 3},
        {"max_leaf_nodes": 9},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_parameters(parameters: dict[str, Any], weighted: bool) -> None:
    """Some rows weigh nothing: they are not counted, and the sample is drawn from the others."""
    X, y = make_table()
    weight = np.random.default_rng(1).integers(0, 4, size=len(X)) / 2.0 if weighted else None
    streamed = make_model(**parameters).fit(stream(cut(X, y, weight, [7, 0, 1300, 1])))
    assert_same(streamed, make_model(**parameters).fit(X, y, weight))


def test_threads() -> None:
    X, y = make_table()
    assert_same(make_model(n_jobs=2).fit(stream(X, y, batch_rows=64)), make_model().fit(X, y))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_missing_values(n_classes: int) -> None:
    """Values are missing in the last batch only: the codes of the first ones have to know."""
    X, y = make_table(n_classes=n_classes)
    X[-300:, 0] = np.nan
    streamed = make_model().fit(stream(X, y, batch_rows=1000))
    assert streamed.ensemble_.schema.accepts_missing
    assert_same(streamed, make_model().fit(X, y))


def test_categories_that_only_later_batches_have() -> None:
    X, y = make_table(n_classes=3)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = np.where(np.arange(len(X)) < 1500, "x", np.array(["z", "w", "y"])[y])
    batches = cut(frame, y, None, [1000, 1000])

    def read() -> Iterator[tuple[Any, Any]]:
        for part, labels in batches():
            yield part.astype({"kind": "category"}), labels

    model = make_model(threat={"a": 0.1, "kind": {"x": ["y"]}})
    streamed = model.fit(stream(read))
    expected = make_model(threat=model.threat).fit(frame.astype({"kind": "category"}), y)
    assert streamed.ensemble_.schema.categories[4] == ("w", "x", "y", "z")
    assert_same(streamed, expected)


def test_sample_is_that_of_the_whole_table() -> None:
    for n_rows, sizes in ((10, [3]), (5000, [1, 4000]), (100_000, [1234] * 80)):
        rows, sampler = np.arange(n_rows, dtype=np.float64)[:, None], RowSampler(300)
        for part in np.split(rows, np.cumsum(sizes)[np.cumsum(sizes) < n_rows]):
            sampler.add(part)
        numbers, drawn = sampler.finish()
        np.testing.assert_array_equal(numbers, draw_rows(n_rows, 300))
        np.testing.assert_array_equal(drawn[:, 0], numbers)


def test_more_rows_than_the_sample_has() -> None:
    X, y = make_table(60_000)
    assert_same(make_model().fit(stream(X, y, batch_rows=7777)), make_model().fit(X, y))


class TestParquet:
    @pytest.fixture
    def table(self) -> pd.DataFrame:
        pytest.importorskip("pyarrow")
        X, y = make_table()
        frame = pd.DataFrame(X, columns=list("abcd"))
        frame["clicks"] = np.random.default_rng(5).integers(0, 9, size=len(X))
        frame["weight"] = np.arange(len(X)) % 3 + 1.0
        frame["label"] = np.where(y == 1, "fraud", "fair")
        return frame

    def fit(self, table: pd.DataFrame) -> RobustTreeClassifier:
        return make_model(threat={"a": 0.1, "clicks": 1.5}).fit(
            table.drop(columns=["label", "weight"]), table["label"], table["weight"]
        )

    @pytest.mark.parametrize("batch_rows", [100, 5000])
    def test_file_folder_and_dataset(self, table: pd.DataFrame, tmp_path: Path, batch_rows: int) -> None:
        dataset = pytest.importorskip("pyarrow.dataset")
        table.set_axis(range(len(table), 0, -1)).to_parquet(tmp_path / "one.parquet", row_group_size=700)
        (tmp_path / "many").mkdir()
        for number, start in enumerate(range(0, len(table), 800)):
            table[start : start + 800].to_parquet(tmp_path / "many" / f"part-{number}.parquet")
        expected = self.fit(table)
        assert expected.threat_.whole_numbers == ["clicks"]
        sources = [tmp_path / "one.parquet", str(tmp_path / "many"), dataset.dataset(tmp_path / "one.parquet")]
        for source in sources:
            rows = stream(source, "label", sample_weight="weight", batch_rows=batch_rows)
            streamed = make_model(threat={"a": 0.1, "clicks": 1.5}).fit(rows)
            assert_same(streamed, expected)
            np.testing.assert_array_equal(
                streamed.predict(rows), expected.predict(table[list(streamed.feature_names_in_)])
            )

    def test_whole_numbers_with_gaps_are_not_whole(self, table: pd.DataFrame, tmp_path: Path) -> None:
        """pandas reads whole numbers with gaps as float64; a batch without gaps says otherwise."""
        arrow = pytest.importorskip("pyarrow")
        table["clicks"] = table["clicks"].astype("Int64")
        table.loc[2900, "clicks"] = pd.NA
        written = arrow.Table.from_pandas(table).replace_schema_metadata(None)
        pytest.importorskip("pyarrow.parquet").write_table(written, tmp_path / "one.parquet")
        plain = pd.read_parquet(tmp_path / "one.parquet")
        assert plain["clicks"].dtype == np.float64
        rows = stream(tmp_path / "one.parquet", "label", sample_weight="weight", batch_rows=1000)
        streamed = make_model(threat={"a": 0.1, "clicks": 1.5}).fit(rows)
        assert_same(streamed, self.fit(plain))

    def test_refusals(self, table: pd.DataFrame, tmp_path: Path) -> None:
        table.to_parquet(tmp_path / "a.parquet")
        with pytest.raises(ValueError, match="target='class': there is no such column; the columns are"):
            stream(tmp_path / "a.parquet", "class")
        with pytest.raises(FileNotFoundError, match="there is no file or folder"):
            stream(tmp_path / "none.parquet", "label")
        table.drop(columns="b").to_parquet(tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=r"b.parquet' has other columns or types than the first: 'b'$"):
            stream(tmp_path, "label")
        table.astype({"a": str}).to_parquet(tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=r"b.parquet' has other columns or types than the first: 'a'$"):
            stream(tmp_path, "label")
        (tmp_path / "empty").mkdir()
        with pytest.raises(ValueError, match="has no columns; is it an empty folder"):
            stream(tmp_path / "empty", "label")
        table.to_csv(tmp_path / "a.csv")
        with pytest.raises(ValueError, match=r"a\.csv' cannot be read as Parquet"):
            stream(tmp_path / "a.csv", "label")


class TestForest:
    @pytest.mark.parametrize(
        "parameters",
        [{}, {"rho": 0.5}, {"bootstrap": True, "class_weight": "balanced_subsample"}, {"class_weight": "balanced"}],
    )
    def test_same(self, parameters: dict[str, Any]) -> None:
        X, y = make_table()
        weight = np.random.default_rng(1).integers(0, 4, size=len(X)) / 2.0
        forest = RobustForestClassifier(0.1, n_estimators=5, random_state=0, n_jobs=2, **parameters)
        expected = clone(forest).fit(X, y, weight)
        streamed = forest.fit(stream(X, y, sample_weight=weight, batch_rows=900))
        assert streamed.ensemble_.to_json() == expected.ensemble_.to_json()
        np.testing.assert_array_equal(streamed.predict_proba(stream(X)), expected.predict_proba(X))

    def test_warm_start(self) -> None:
        X, y = make_table()
        forest = RobustForestClassifier(0.1, n_estimators=2, random_state=0, warm_start=True).fit(stream(X, y))
        forest.set_params(n_estimators=5).fit(stream(X, y, batch_rows=800))
        expected = RobustForestClassifier(0.1, n_estimators=5, random_state=0).fit(X, y)
        assert forest.ensemble_.to_json() == expected.ensemble_.to_json()

    def test_three_classes(self) -> None:
        X, y = make_table(n_classes=3)
        forest = RobustForestClassifier(0.1, n_estimators=3, random_state=0)
        expected = clone(forest).fit(X, y).ensemble_.to_json()
        assert forest.fit(stream(X, y, batch_rows=700)).ensemble_.to_json() == expected

    def test_refusals(self) -> None:
        X, y = make_table(n_classes=3)
        with pytest.raises(ValueError, match="oob_score=True: needs all rows in memory"):
            RobustForestClassifier(0.1, oob_score=True, bootstrap=True).fit(stream(X, y == 0))
        with pytest.raises(ValueError, match="max_bins='exact': needs all rows in memory"):
            RobustForestClassifier(0.1, max_bins="exact").fit(stream(X, y == 0))

    def test_categories(self) -> None:
        X, y = make_table()
        frame = pd.DataFrame(X).rename(columns=str).astype({"3": "category"})
        forest = RobustForestClassifier({"0": 0.1}, n_estimators=3, random_state=0)
        expected = clone(forest).fit(frame, y).ensemble_.to_json()
        assert forest.fit(stream(cut(frame, y, None, [900]))).ensemble_.to_json() == expected


class TestAnswers:
    def test_predictions(self) -> None:
        X, y = make_table()
        model, rows = make_model().fit(X, y), stream(X, y, batch_rows=800)
        np.testing.assert_array_equal(model.predict(rows), model.predict(X))
        np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(X))
        assert [len(part) for part in rows.map(model.predict)] == [800, 800, 800, 600]

    def test_adversarial_accuracy(self) -> None:
        X, y = make_table()
        weight = np.arange(len(X)) % 3
        model = make_model().fit(X, y)
        for own in (None, weight):
            expected = adversarial_accuracy(model, X, y, 0.1, sample_weight=own)
            rows = stream(X, y, sample_weight=own, batch_rows=800)
            assert adversarial_accuracy(model, rows, None, 0.1) == pytest.approx(expected, abs=1e-12)
        with pytest.raises(ValueError, match="measured on a whole table"):
            adversarial_accuracy(model, rows, None, "1 std")
        with pytest.raises(ValueError, match="y: a stream brings its own"):
            adversarial_accuracy(model, rows, y, 0.1)

    def test_evaluate(self) -> None:
        X, y = make_table(600)
        model = make_model().fit(X, y)
        asked: dict[str, Any] = {"epsilons": [0.5, 2], "distances": True, "positive_class": 1}
        expected = evaluate(model, X, y, 0.1, ceiling=False, **asked)
        report = evaluate(model, stream(X, y, batch_rows=250), None, 0.1, **asked)
        for name in ("label", "prediction", "robust_to", "fooled_at", "distance", "distance_lower", "epsilons"):
            np.testing.assert_array_equal(getattr(report, name), getattr(expected, name))
        assert report.adversarial_accuracy == expected.adversarial_accuracy
        assert report.ceilings is None
        assert report.roc_auc is None
        assert report.seconds.keys() == expected.seconds.keys()
        assert str(report)
        for rows, message in (
            (stream(X, y, sample_weight=y), "evaluate counts rows"),
            (stream(lambda: iter([])), "has no rows"),
        ):
            with pytest.raises(ValueError, match=message):
                evaluate(model, rows, None, 0.1)
        with pytest.raises(ValueError, match="y: a stream brings its own"):
            evaluate(model, stream(X, y), y, 0.1)


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
    def test_parameters(self, parameters: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make_model(**parameters).fit(stream(*make_table()))

    def test_rows_that_change(self) -> None:
        """A fit reads twice; rows that are not the same would have the labels of others."""
        X, y = make_table()
        for second, message in (
            ((X[:-5], y[:-5]), "gave 3000 rows, and 2995 when it was read again"),
            ((np.vstack([X, X[:3]]), np.append(y, y[:3])), "gave other rows when it was read again"),
            ((X[::-1], y[::-1]), "gave other rows when it was read again"),
        ):
            passes = iter([(X, y), second])
            with pytest.raises(ValueError, match=message):
                make_model().fit(stream(lambda passes=passes: iter([next(passes)])))

    def test_sources(self) -> None:
        X, y = make_table()
        with pytest.raises(ValueError, match="'generator' can be read once, and a fit makes two passes"):
            stream((X, y) for _ in range(1))
        with pytest.raises(ValueError, match="source: 'int' is neither"):
            stream(3)
        with pytest.raises(ValueError, match="target: has 10 values, but source has 3000 rows"):
            stream(X, y[:10])
        with pytest.raises(ValueError, match="target='label': an array has no column names"):
            stream(X, "label")
        with pytest.raises(ValueError, match="batch_rows=0: expected an integer >= 1"):
            stream(X, y, batch_rows=0)
        with pytest.raises(ValueError, match="target: a function returns it with every batch"):
            stream(cut(X, y, None, []), "label")
        with pytest.raises(ValueError, match=r"batch 0 is 'ndarray'; expected \(X, y\)"):
            make_model().fit(stream(lambda: iter([X])))

    def test_batches(self) -> None:
        X, y = make_table()
        cases: list[tuple[list[Any], str]] = [
            ([], "has no rows"),
            ([(X[:0], y[:0])], "has no rows"),
            ([(X, y), (X[:, :3], y)], "X has 3 features, but Schema is expecting 4"),
            ([(X, y[:-1])], "inconsistent numbers of samples"),
            ([(X, y, y[:5])], "sample_weight: expected 3000 weights"),
            ([(X, y, y), (X, y)], "some batches have weights and some have not"),
            ([(X, y), (X, y.astype(str))], "labels are int64 in the first batch"),
            ([(X, np.zeros_like(y))], "y has only one class"),
            ([(X, y), (X, np.where(y == 0, np.nan, 1.0))], "Input y contains NaN"),
            ([(X, y), (np.where(X > 2, np.inf, X), y)], "Input X contains infinity"),
            ([(X, None)], "the stream has no labels"),
        ]
        for batches, message in cases:
            with pytest.raises(ValueError, match=message):
                make_model().fit(stream(lambda batches=batches: iter(batches)))

    def test_the_batch_is_named(self) -> None:
        X, y = make_table()
        X[2001, 1] = np.inf
        with pytest.raises(ValueError, match="in row 1 ") as refused:
            make_model().fit(stream(X, y, batch_rows=1000))
        assert refused.value.__notes__ == ["In the batch of the stream that begins with row 2000, counted from 0."]

    def test_labels_come_with_the_stream(self) -> None:
        X, y = make_table()
        with pytest.raises(ValueError, match="y: a stream brings its own"):
            make_model().fit(stream(X, y), y)


def test_one_batch_may_have_one_class() -> None:
    X, y = make_table()
    order = np.argsort(y, kind="stable")
    ensemble: TreeEnsemble = make_model().fit(stream(X[order], y[order], batch_rows=500)).ensemble_
    assert ensemble.to_json() == make_model().fit(X[order], y[order]).ensemble_.to_json()
