"""Parquet as DataFrames. pandas leaves a note in such files, JSON on indices and types, which nobody else checks."""

from contextlib import suppress
from typing import Any

import numpy as np

_NOTE = b"pandas"
# What pandas calls an index without a name.
_INDEX = "__index_level_"


def can_read_note(schema: Any) -> bool:
    """Say whether the note of pandas in a schema of Arrow, if there is one, can be understood.

    Examples
    --------
    >>> import pyarrow
    >>> schema = pyarrow.schema({"age": pyarrow.int64()})
    >>> can_read_note(schema), can_read_note(schema.with_metadata({"pandas": '{"columns": 1}'}))
    (True, False)
    """
    try:
        frame = schema.empty_table().to_pandas()
    except Exception:  # whatever is wrong with it
        return False
    found = {str(name) for name in [*frame.columns, *frame.index.names]}
    return all(name in found for name in schema.names if not name.startswith(_INDEX))


def make_frame(rows: Any, *, with_note: bool = True) -> Any:
    """Return a Table or a RecordBatch of Arrow as a DataFrame; without the note, every column that is no bare index.

    Bytes that are no text are an error here: pandas would stumble over them wherever they are first looked at.
    """
    for column in rows.columns:
        if "string" in str(column.type):
            column.validate(full=True)
    if with_note:
        with suppress(Exception):  # the note may be about other values than there are
            return rows.to_pandas()
    metadata = {key: value for key, value in (rows.schema.metadata or {}).items() if key != _NOTE}
    frame = rows.replace_schema_metadata(metadata).to_pandas()
    return frame[[name for name in frame.columns if not str(name).startswith(_INDEX)]]


def get_values(frame: Any, name: str) -> np.ndarray:
    """Return a column of a DataFrame, or an index that was written along with it.

    Examples
    --------
    >>> import pandas as pd
    >>> get_values(pd.DataFrame({"age": [31, 54], "spam": [0, 1]}).set_index("spam"), "spam")
    array([0, 1])
    """
    values = frame[name] if name in frame.columns else frame.index.get_level_values(name)
    return np.asarray(values.to_numpy())
