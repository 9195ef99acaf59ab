"""Tables that are read batch after batch, as often as somebody needs them: larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from hardwood.extras import explain_missing
from hardwood.progress import Progress
from hardwood.quoting import list_some, quote, shorten
from hardwood.table.parquet import can_read_note, get_values, make_frame

# Rows of a batch. Both ends of their reach in 20 columns are 20 MB.
BATCH_ROWS = 1 << 16

# How the types of numbers in Arrow begin.
_NUMBERS = ("int", "uint", "half", "float", "double", "decimal", "bool")


class Batch(NamedTuple):
    """Some rows of a table."""

    X: Any  # an array or a DataFrame
    y: Any  # a label per row; None if nobody said what the target is
    sample_weight: Any  # a weight per row, or None


class Stream:
    """A table that is read batch after batch, as often as somebody needs it; :func:`stream` makes one.

    Iterating over it gives batches ``(X, y, sample_weight)`` from the first row on, every time.
    """

    def __init__(self, name: str, read: Callable[[], Iterator[Batch]], count: Callable[[], int] = lambda: 0) -> None:
        self._name, self._read, self._count = name, read, count

    def __repr__(self) -> str:
        return f"Stream({self._name})"

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._read():
            if batch.X.shape[0]:
                yield batch

    def count_rows(self) -> int:
        """Return how many rows there are if the source knows without being read, as Parquet does; 0 otherwise.

        Examples
        --------
        >>> stream(np.zeros((1000, 3))).count_rows()
        1000
        """
        return self._count()

    def report_to(self, progress: Progress | None) -> Stream:
        """Return a stream whose passes say how far they are: (rows read, rows in all)."""
        if progress is None:
            return self
        total = self.count_rows()

        def read() -> Iterator[Batch]:
            nonlocal total
            done = 0
            for batch in self:
                yield batch  # and come back once it is done with
                done += batch.X.shape[0]
                progress(done, max(total, done) if total else 0)
            if not total:
                total = done
                progress(done, total)

        return Stream(self._name, read, self._count)

    def map(self, function: Callable[[Any], Any]) -> Iterator[Any]:
        """Call a function, such as the `predict` of a model, on the table of every batch, and yield what it returns.

        Examples
        --------
        >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
        >>> [len(part) for part in stream(X, y, batch_rows=2).map(np.sqrt)]
        [2, 1]
        """
        for batch in self:
            yield function(batch.X)

    def collect(self, function: Callable[[Any], np.ndarray]) -> np.ndarray:
        """Call a function on the table of every batch, and return what it says about all rows in one array.

        Examples
        --------
        >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
        >>> stream(X, y, batch_rows=2).collect(lambda rows: rows[:, 0])
        array([0., 1., 2.])
        """
        parts = list(self.map(function))
        if not parts:
            raise ValueError(f"{quote(self)} has no rows")
        return np.concatenate(parts)


def stream(source: Any, target: Any = None, *, sample_weight: Any = None, batch_rows: int = BATCH_ROWS) -> Stream:
    """Read a table batch after batch instead of all at once: for tables larger than memory.

    Trees, forests and boosting are fitted to a stream as to a table, ``model.fit(hardwood.stream(...))``, and the model
    is the same, bit for bit, as that of the table in memory on as many bins.

    Parameters
    ----------
    source : path, pyarrow Dataset or Table, array, or callable
        The path of a Parquet file, or of a folder of them, read in the order of their names; a dataset of pyarrow;
        an array, mapped to memory (``numpy.load(path, mmap_mode="r")``); or a function that returns an iterator of
        batches ``(X, y)`` or ``(X, y, sample_weight)``, arrays or DataFrames. The function is called once per pass, of
        which a fit makes two, and has to return the same rows each time.
    target : str, array-like or None
        The column of labels; for an array as source, the labels. Leave it out for a function, or to predict.
    sample_weight : str, array-like or None
        The column of weights; for an array as source, the weights.
    batch_rows : int, default=65536
        Rows that are read at a time; a function decides for itself.

    Returns
    -------
    Stream

    Examples
    --------
    >>> import hardwood
    >>> X, y = np.arange(1000.0).reshape(-1, 1), np.arange(1000) > 600
    >>> model = hardwood.RobustTreeClassifier(threat=1.0, max_depth=2).fit(hardwood.stream(X, y, batch_rows=100))
    >>> model.predict([[100.0], [900.0]])
    array([False,  True])
    """
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, (int, np.integer)) or batch_rows < 1:
        raise ValueError(f"batch_rows={quote(batch_rows)}: expected an integer >= 1")
    if isinstance(source, (str, os.PathLike)) or type(source).__module__.startswith("pyarrow."):
        return _stream_dataset(source, target, sample_weight, int(batch_rows))
    if isinstance(source, np.ndarray):
        return _stream_arrays(source, target, sample_weight, int(batch_rows))
    if isinstance(source, Iterator):
        raise ValueError(
            f"source: {type(source).__name__!r} can be read once, and a fit makes two passes; "
            "give a function that returns it instead"
        )
    if callable(source):
        for name, value in (("target", target), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(f"{name}: a function returns it with every batch, as (X, y, sample_weight)")
        return _stream_batches(source)
    raise ValueError(
        f"source: {type(source).__name__!r} is neither the path of Parquet files, a pyarrow Dataset, an array, nor a "
        "function that returns an iterator of batches"
    )


def _stream_arrays(X: np.ndarray, y: Any, weight: Any, batch_rows: int) -> Stream:
    if X.ndim != 2:
        raise ValueError(f"source: expected an array of rows and columns, got shape {X.shape}")
    for name, values in (("target", y), ("sample_weight", weight)):
        if isinstance(values, str):
            raise ValueError(f"{name}={quote(values)}: an array has no column names; give an array of values")
        if values is not None and len(values) != len(X):
            raise ValueError(f"{name}: has {len(values)} values, but source has {len(X)} rows")

    def read() -> Iterator[Batch]:
        for start in range(0, len(X), batch_rows):
            rows = slice(start, start + batch_rows)
            yield Batch(
                np.asarray(X[rows]), *(None if part is None else np.asarray(part[rows]) for part in (y, weight))
            )

    return Stream(f"array of shape {X.shape}", read, lambda: len(X))


def _stream_batches(source: Callable[[], Iterable[Any]]) -> Stream:
    def read() -> Iterator[Batch]:
        for number, batch in enumerate(source()):
            if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
                raise ValueError(
                    f"source: batch {number} is {type(batch).__name__!r}; expected (X, y) or (X, y, sample_weight)"
                )
            X, y, *weight = batch
            X = X if hasattr(X, "shape") else np.asarray(X)
            if len(X.shape) != 2:
                raise ValueError(f"source: X of batch {number} has shape {X.shape}; expected rows and columns")
            yield Batch(X, y, *(weight or [None]))

    return Stream("batches of a function", read)


def _stream_dataset(source: Any, target: Any, weight: Any, batch_rows: int) -> Stream:
    try:
        import pandas  # noqa: F401
        import pyarrow.dataset
    except ImportError:
        raise ImportError(explain_missing("reading Parquet", "pyarrow", "pandas")) from None
    is_path = isinstance(source, (str, os.PathLike))
    if is_path and not os.path.exists(source):
        raise FileNotFoundError(f"source: there is no file or folder {quote(os.fspath(source))}")
    is_dataset = isinstance(source, pyarrow.dataset.Dataset)
    try:
        dataset = source if is_dataset else pyarrow.dataset.dataset(source, format="parquet" if is_path else None)
        _check_files(dataset)
    except (pyarrow.ArrowException, OSError) as error:
        raise _refuse(source, error) from None
    names = dataset.schema.names
    if not names:
        raise ValueError(f"source: {quote(source)} has no columns; is it an empty folder?")
    for name, column in (("target", target), ("sample_weight", weight)):
        if column is not None and column not in names:
            raise ValueError(f"{name}={quote(column)}: there is no such column; the columns are {list_some(names)}")
    with_note = can_read_note(dataset.schema)
    # To keep memory small, one batch and one file are read ahead, and no row group as a whole.
    options: dict[str, Any] = {"batch_size": batch_rows, "batch_readahead": 1, "fragment_readahead": 1}
    is_parquet = isinstance(getattr(dataset, "format", None), pyarrow.dataset.ParquetFileFormat)
    if is_parquet:
        options["fragment_scan_options"] = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)

    def read() -> Iterator[Batch]:
        batches = dataset.to_batches(**options)
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                frame = make_frame(batch, with_note=with_note)
            except (pyarrow.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
                raise _refuse(source, error) from None
            own = (None if name is None else get_values(frame, name) for name in (target, weight))
            # An index that was written along is not among the columns of the frame.
            yield Batch(frame[[name for name in frame.columns if name not in (target, weight)]], *own)

    # The footers of Parquet files say how many rows they have; other formats would have to be read.
    count = dataset.count_rows if is_parquet or isinstance(dataset, pyarrow.dataset.InMemoryDataset) else lambda: 0
    return Stream(os.fspath(source) if is_path else type(source).__name__, read, count)


def _refuse(source: Any, error: Exception) -> Exception:
    """Return what is said of a source that cannot be read."""
    if isinstance(error, OSError) and error.errno is not None:
        return error  # such as a file that nobody may read, which Python names
    what = quote(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else f"the {type(source).__name__}"
    return ValueError(f"source: {what} cannot be read as Parquet: {shorten(error)}")


def _check_files(dataset: Any) -> None:
    """Refuse files with other columns than the first, which would be read as missing, or text for numbers."""
    if not hasattr(dataset, "files"):
        return
    first: dict[str, bool] | None = None
    for fragment in dataset.get_fragments():
        own = {field.name: str(field.type).startswith(_NUMBERS) for field in fragment.physical_schema}
        if first is not None and own != first:
            other = sorted({name for name, _ in own.items() ^ first.items()})
            raise ValueError(
                f"source: file {quote(fragment.path)} has other columns or types than the first: {list_some(other)}"
            )
        first = own
