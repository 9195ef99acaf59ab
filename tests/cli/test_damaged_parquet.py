"""Parquet files that were damaged, or whose note of pandas was: read without the note, or refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import fit_small, make_table, run

from hardwood import RobustTreeClassifier, stream

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

A_SCREEN = 2000
TABLE = make_table(60).assign(colour=lambda table: table["colour"].astype("category"))
ASK = ("--target", "label", "--epsilon", 1)
VERBS: dict[str, tuple[object, ...]] = {
    "fit": ("fit", "d.parquet", *ASK, "--max-depth", 2, "--refine", "none", "--output", "other.json"),
    "fit part after part": ("fit", "d.parquet", *ASK, "--max-depth", 2, "--stream", "--refine", "none",
                            "--output", "other.json"),
    "predict": ("predict", "model.json", "d.parquet", "--output", "p.csv"),
    "predict a folder": ("predict", "model.json", "folder", "--output", "p.csv"),
    "evaluate": ("evaluate", "model.json", "d.parquet", *ASK, "--no-ceiling"),
    "evaluate part after part": ("evaluate", "model.json", "d.parquet", *ASK, "--stream"),
    "show": ("show", "model.json", "--row", 1, "--data", "d.parquet", *ASK),
    "attack": ("attack", "model.json", "d.parquet", *ASK, "--output", "a.csv"),
    "threat": ("threat", "d.parquet", "--output", "t.toml", "--overwrite"),
}  # fmt: skip

SOME_VERBS = ("fit", "predict a folder", "evaluate part after part", "show")


def write(raw: bytes) -> None:
    Path("folder").mkdir(exist_ok=True)
    for path in ("d.parquet", "folder/part.parquet"):
        Path(path).write_bytes(raw)


def use(verb: str) -> bool:
    """Return whether a verb took the table; if it did not, it said so in a sentence."""
    result = run(*VERBS[verb])
    assert result.exception is None or isinstance(result.exception, SystemExit), (verb, result.exc_info)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("hardwood: note: ")]
    if result.exit_code:
        assert lines[-1].startswith("hardwood: ")
        assert len(lines[-1]) < A_SCREEN
    return result.exit_code == 0


def read_stream(path: str) -> int | str:
    """Return how many rows a stream has, or what was said."""
    try:
        rows = stream(path, "label")
        RobustTreeClassifier({"age": 1}, max_depth=2, categorical_features=["colour"]).fit(rows)
        return sum(len(batch.X) for batch in rows)
    except (ValueError, OSError, TypeError) as error:
        return str(error)


def read_note() -> dict[str, Any]:
    return json.loads(pa.Table.from_pandas(TABLE).schema.metadata[b"pandas"])


def of_columns(**said: Any) -> dict[str, Any]:
    note = read_note()
    return note | {"columns": [column | said for column in note["columns"]]}


def without(key: str) -> dict[str, Any]:
    note = read_note()
    return note | {
        "columns": [{name: own for name, own in column.items() if name != key} for column in note["columns"]]
    }


NOTES: dict[str, Any] = {
    "as it is": read_note(),
    "no pandas_type": without("pandas_type"),
    "no numpy_type": without("numpy_type"),
    "no name": without("name"),
    "no index_columns": {key: value for key, value in read_note().items() if key != "index_columns"},
    "no columns": {key: value for key, value in read_note().items() if key != "columns"},
    "an index that is not there": read_note() | {"index_columns": ["spam"]},
    "an index that is a number": read_note() | {"index_columns": [3]},
    "a range that is too short": read_note() | {
        "index_columns": [{"kind": "range", "name": None, "start": 0, "stop": 7, "step": 1}]
    },
    "a range without steps": read_note() | {
        "index_columns": [{"kind": "range", "name": None, "start": 0, "stop": 60, "step": 0}]
    },
    "a range beyond any number": read_note() | {
        "index_columns": [{"kind": "range", "name": None, "start": 0, "stop": 10**30, "step": 1}]
    },
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "nothing": b"",
    "a list": [],
    "a number": 1,
    "null": None,
    "columns that are a number": read_note() | {"columns": 1},
    "columns that are null": read_note() | {"columns": [None]},
    "columns without names": of_columns(name=None),
    "columns of a type that is none": of_columns(numpy_type="spam"),
    "columns that are dates": of_columns(numpy_type="datetime64[ns]", pandas_type="datetime"),
    "columns that are periods": of_columns(numpy_type="period[D]"),
    "columns that are text": of_columns(numpy_type="object", pandas_type="unicode"),
    "columns that are categories": of_columns(numpy_type="int8", pandas_type="categorical"),
    "times on Mars": of_columns(numpy_type="datetime64[ns]", pandas_type="datetimetz", metadata={"timezone": "Mars/X"}),
    "brackets": b"[" * 100_000,
    "digits": b'{"index_columns": [], "columns": [], "x": ' + b"9" * 5000 + b"}",
    "a name of a megabyte": read_note() | {"index_columns": ["x" * 1_000_000]},
}  # fmt: skip


@pytest.mark.parametrize("note", NOTES)
class TestDamagedNotes:
    """A note without the types of columns was a KeyError of pandas, and so was one of an index that is not there."""

    def test_a_table_is_read_without_its_note(self, note: str) -> None:
        said = NOTES[note]
        raw = said if isinstance(said, bytes) else json.dumps(said).encode()
        fit_small()
        pq.write_table(pa.Table.from_pandas(TABLE).replace_schema_metadata({b"pandas": raw}), "x.parquet")
        write(Path("x.parquet").read_bytes())
        assert [verb for verb in SOME_VERBS if not use(verb)] == []
        assert read_stream("d.parquet") == read_stream("folder") == len(TABLE)
        # Categories are among what the note says.
        model = RobustTreeClassifier({"age": 1}, max_depth=2, categorical_features=["colour"])
        expected = model.fit(TABLE.drop(columns="label"), TABLE["label"]).ensemble_
        assert model.fit(stream("d.parquet", "label")).ensemble_.schema == expected.schema


def damage(raw: bytes, seed: int) -> bytes:
    """Return a file of which four bytes are others: anywhere, in its data, or letters of its note, if that is text."""
    generator = np.random.default_rng(seed)
    damaged, note = np.frombuffer(raw, dtype=np.uint8).copy(), raw.find(b"pandas_type")
    if note > 0 and seed % 2:
        letters = (
            note - 200 + np.flatnonzero(np.isin(damaged[note - 200 : note + 600], list(b"abcdefghijklmnopqrstuvwxyz")))
        )
        damaged[generator.choice(letters, 4)] = generator.choice(list(b"abcxyz"), 4)
    else:
        damaged[generator.integers(0, len(raw) if seed % 4 else len(raw) // 2, 4)] = generator.integers(0, 256, 4)
    return damaged.tobytes()


def list_files() -> Iterator[bytes]:
    """Go through files with and without the schema that Arrow keeps beside its own, in base64."""
    for number, kept in enumerate((False, False, True)):
        pq.write_table(pa.Table.from_pandas(TABLE), "x.parquet", store_schema=kept, compression=["snappy", None][kept])
        raw = Path("x.parquet").read_bytes()
        for seed in range(20):
            yield damage(raw, 100 * number + seed)


class TestDamagedFiles:
    def test_no_traceback(self) -> None:
        """One file of a dozen was a traceback. Some were read, and fell apart where a cell was first looked at."""
        fit_small()
        taken = []
        for number, raw in enumerate(list_files()):
            write(raw)
            taken += [use(verb) for verb in list(VERBS)[number % 3 :: 3]]
        assert len(taken) == 180
        assert 20 < sum(taken) < 160

    def test_streams(self) -> None:
        found = []
        for raw in list_files():
            write(raw)
            found += [read_stream("d.parquet"), read_stream("folder")]
        assert len(TABLE) in found
        assert max(len(str(each)) for each in found) < A_SCREEN
        assert any("cannot be read as Parquet" in str(each) for each in found)

    def test_text_that_is_no_text(self) -> None:
        """pandas hands out bytes that are none of UTF-8, and whoever looks at them later stumbles."""
        fit_small()
        pq.write_table(pa.table({"age": [1, 2], "colour": ["red", "QQQ"], "income": [1.0, 2.0], "label": ["a", "b"]}),
                       "x.parquet", use_dictionary=False, compression=None, write_statistics=False)  # fmt: skip
        write(Path("x.parquet").read_bytes().replace(b"QQQ", b"\xff\xfe\xfd"))
        for verb in VERBS:
            assert not use(verb)
        assert "cannot be read as Parquet" in str(read_stream("folder"))
