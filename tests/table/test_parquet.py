"""What pandas notes in Parquet files: when it can be understood, and DataFrames that are made without it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from hardwood.table.parquet import can_read_note, make_frame

pa = pytest.importorskip("pyarrow")


def test_notes_of_odd_names() -> None:
    """Names that are no text are text in the file, and an index is not among the columns."""
    for names in ([1, 2], [0.5, 1.5], [("a", "b"), ("a", "c")], pd.date_range("2020-01-01", periods=2)):
        frame = pd.DataFrame([[1, 2]], columns=pd.Index(names), index=pd.Index([7], name="id"))
        assert can_read_note(pa.Table.from_pandas(frame).schema)
    table = pd.DataFrame({"age": [1], "income": [2], "x": [3]})
    assert can_read_note(pa.Table.from_pandas(table.set_index(["age", "income"])).schema)
    assert can_read_note(pa.schema({"age": pa.int64()}))


def test_a_note_that_names_no_column() -> None:
    """All columns were called None: the target was then looked for in the index, which was a KeyError of pandas."""
    note = '{"index_columns": [], "columns": [{"name": null, "field_name": "age", "pandas_type": "int64", '
    note += '"numpy_type": "int64", "metadata": null}]}'
    table = pa.table({"age": [1, 2], "__index_level_0__": [3, 4]}).replace_schema_metadata({"pandas": note})
    assert not can_read_note(table.schema)
    assert make_frame(table, with_note=False).to_dict("list") == {"age": [1, 2]}


def test_a_note_that_is_about_other_values() -> None:
    """It fits a table without rows, and not these: they are given without it."""
    note = '{"index_columns": [], "columns": [{"name": "age", "field_name": "age", "pandas_type": "object", '
    note += '"numpy_type": "period[D]", "metadata": null}]}'
    table = pa.table({"age": [1, 2, 3]}).cast(pa.schema({"age": pa.int8()})).replace_schema_metadata({"pandas": note})
    assert make_frame(table)["age"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("make", [pa.table, pa.record_batch], ids=["table", "batch"])
def test_bytes_that_are_no_text(make: Any) -> None:
    """pandas takes them, and whoever looks at the cell later has an error that does not say where it is from."""
    text = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff"))
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        make_frame(make({"town": text}))
