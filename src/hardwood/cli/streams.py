"""Tables larger than memory: when a Parquet table is read as a stream, and how its parts look."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hardwood
from hardwood.cli.late import pd
from hardwood.cli.messages import CommandError, explaining, say_error
from hardwood.cli.tables import PARQUET, check_names, is_standard_input, spell_columns
from hardwood.quoting import shorten

if TYPE_CHECKING:
    from hardwood import ThreatModel
    from hardwood.table.batches import Batch, Stream

# Different texts of a column that are kept while a stream is looked at. Codes of two bytes tell fewer categories apart.
MOST_TEXTS = 100_000
# What share of the memory that is free a command may take before it reads its table as a stream.
_MOST_OF_MEMORY = 0.5
# What a command takes per cell beyond the table itself: five numbers, for another frame, its matrix, both ends of what
# an attacker can do, and what is made of them.
_CELL_BYTES = 40

AsStream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Whether to read Parquet part after part. By default a folder is read so, and a file if its columns, "
        "uncompressed, and 40 bytes per cell to work on them are more than half of the memory that is free.",
    ),
]


def choose_stream(data: Path, asked: bool | None) -> bool:
    """Say whether a table is read as a stream: as the user says, or if it is a folder, or would fill the memory."""
    is_parquet = data.is_dir() or data.name.lower().endswith(PARQUET)
    if asked and (is_standard_input(data) or not is_parquet):
        raise typer.BadParameter(f"--stream: only Parquet is read part after part, a file or a folder; {data} is not")
    if asked is False and data.is_dir():
        raise typer.BadParameter(f"--no-stream: {data} is a folder, which is always read part after part")
    if asked is not None or data.is_dir():
        return data.is_dir() or bool(asked)
    free = find_free_memory()
    if is_standard_input(data) or not is_parquet or free is None or find_spec("pyarrow") is None:
        return False
    with explaining(f"read {data}"):
        needed = measure_table(data)
    if needed <= _MOST_OF_MEMORY * free:
        return False
    say_error(
        f"note: {data} in memory would take about {needed / 2**30:.1f} GiB of {free / 2**30:.1f} GiB of free memory, "
        "so it is read part after part (to say otherwise: --no-stream)"
    )
    return True


def measure_table(path: Path) -> int:
    """Return how many bytes a command takes that reads a Parquet file all at once, by its footer."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            schema, footer = file.schema_arrow, file.metadata
    except pyarrow.ArrowException as error:
        raise ValueError(shorten(error)) from None
    # Sizes are asked of groups of rows: to ask for those of columns ends the process where the footer is damaged.
    stored = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    widths = [_find_width(field.type) for field in schema]
    # Equal values are stored once in the file, and as often as they occur in memory.
    fixed = footer.num_rows * sum(widths)
    table = max(fixed, stored) if all(widths) else fixed + stored
    return table + _CELL_BYTES * footer.num_rows * len(widths)


def _find_width(kind: Any) -> int:
    """Return the bytes of a value of an Arrow type; 0 if they vary."""
    try:
        return -(-kind.bit_width // 8)
    except ValueError:
        return 0


def find_free_memory() -> int | None:
    """Return how many bytes this process can still have; None where the system does not tell."""
    free = _read_free(Path("/proc/meminfo"))
    limits = [_read_bytes(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current")]
    if free is not None and limits[0] is not None and limits[1] is not None:
        free = min(free, max(0, limits[0] - limits[1]))
    return free


def _read_free(path: Path) -> int | None:
    """Return the line of `/proc/meminfo` that says how much can be had without swapping."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _read_bytes(path: Path) -> int | None:
    """Return the number in a file of a control group; None if it is not there, or no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def refuse_measured(threat: ThreatModel, data: Path) -> None:
    """Refuse a threat model that leaves numbers to the values of a whole table."""
    if threat.is_measured:
        raise CommandError(
            "the threat model leaves distances in std or iqr, within or groups to the values of a whole table, and "
            f"{data} is read part after part: write them out as numbers"
        )


def open_stream(path: Path, text_columns: Collection[str] = ()) -> Stream:
    """Open Parquet as a stream of tables, whose index counts the rows; `text_columns` keep their spelling as text."""
    with explaining(f"read {path}"):
        source = hardwood.stream(path)
        n_rows = source.count_rows()
    if not n_rows:
        raise CommandError(f"{path} has column names but no rows")

    def read() -> Iterator[Batch]:
        start = 0
        for batch in source:
            table = batch.X
            table.columns = table.columns.map(str)
            if not start:
                check_names(path, table.columns.tolist())
            table.index = pd.RangeIndex(start, start + len(table))
            start += len(table)
            yield batch._replace(X=spell_columns(table, text_columns))

    return make_stream(path, read, n_rows)


def make_stream(path: Path, read: Callable[[], Iterator[Batch]], n_rows: int) -> Stream:
    """Return a stream of batches that a function makes, called like a file."""
    from hardwood.table.batches import Stream

    return Stream(str(path), read, lambda: n_rows)
