"""Load a table by name: from the package, from the user's folder or from OpenML."""

import csv
import difflib
import gzip
import os
import zlib
from importlib import resources
from pathlib import Path
from typing import IO

import numpy as np
from sklearn.utils import Bunch

from hardwood.datasets import openml
from hardwood.datasets.catalogue import CATALOGUE, OpenMLSource, TableEntry
from hardwood.extras import explain_missing
from hardwood.files import naming
from hardwood.quoting import list_some, quote, shorten

_FOLDER_VARIABLE = "HARDWOOD_DATA"


def list_datasets() -> list[str]:
    """Return the names that :func:`load_dataset` knows.

    Examples
    --------
    >>> from hardwood.datasets import list_datasets
    >>> list_datasets()[:3]
    ['banknote-authentication', 'blood-transfusion', 'breast-cancer']
    """
    return list(CATALOGUE)


def load_dataset(name: str, *, as_frame: bool = False) -> Bunch:
    """Load a table with two classes, in raw units.

    Most tables come with the package. ``climate-model-simulation``, ``cylinder-bands`` and
    ``planning-relax`` come from the folder that the environment variable ``HARDWOOD_DATA`` names
    or, failing that, from OpenML.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`, or a table of your own: ``name.csv`` or ``name.csv.gz`` in
        the folder ``HARDWOOD_DATA``, with a header row, numbers only, and a last column
        ``target`` of zeros and ones.
    as_frame : bool, default=False
        Whether ``data`` and ``target`` are a pandas DataFrame and Series.

    Returns
    -------
    Bunch
        ``data`` (float64, rows by features), ``target`` (int64; 1 is the positive or malicious
        class), ``feature_names`` and ``target_names`` (lists; the latter by label), ``DESCR``
        (what the table is and whom to cite) and ``frame`` (the DataFrame with both, or None).

    Raises
    ------
    ValueError
        If the name is unknown, or a file is not such a table.
    ConnectionError
        If the table is on OpenML and OpenML cannot be reached.

    Notes
    -----
    Rows of most tables are grouped by class, in the order of the source inside each: shuffle
    before you split.

    Examples
    --------
    >>> from hardwood.datasets import load_dataset
    >>> spam = load_dataset("spambase")
    >>> spam.data.shape
    (4601, 57)
    >>> spam.feature_names[52], spam.target_names[1]
    ('char_freq_$', 'spam')
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {quote(name)}")
    entry = CATALOGUE.get(name)
    if entry is None:
        return _load_own(name, as_frame)
    if entry.source == "bundled":
        data, target = _read_bundled(name)
        origin = "bundled with hardwood, rows grouped by class"
    elif entry.source == "scikit-learn":
        data, target = _breast_cancer()
        origin = "bundled with scikit-learn, labels exchanged"
    else:
        data, target, origin = _load_unbundled(entry, entry.source)
    return _bunch(
        data,
        target,
        list(entry.feature_names),
        list(entry.target_names),
        f"{name}: {entry.description}.\n"
        f"Positive class (1): {entry.target_names[1]}.\n"
        f"{entry.citation}. UCI Machine Learning Repository, CC BY 4.0.\n"
        f"This copy: {origin}.\n",
        as_frame,
    )


def _load_own(name: str, as_frame: bool) -> Bunch:
    path = _find_in_folder(name)
    if path is None:
        known = {key.casefold(): key for key in CATALOGUE}
        close = difflib.get_close_matches(name.casefold(), known, n=1)
        hint = f" Did you mean {known[close[0]]!r}?" if close else ""
        raise ValueError(
            f"name={quote(name)} is not a known table.{hint} Known: {', '.join(CATALOGUE)}; or set "
            f"{_FOLDER_VARIABLE} to a folder that holds {shorten(name)}.csv"
        )
    header, data, target = _read(path)
    return _bunch(data, target, header, ["0", "1"], f"{name}: read from {path}.\n", as_frame)


def _load_unbundled(entry: TableEntry, source: OpenMLSource) -> tuple[np.ndarray, np.ndarray, str]:
    path = _find_in_folder(entry.name)
    if path is not None:
        header, data, target = _read(path)
        placeholders = [f"x{k}" for k in range(1, len(header) + 1)]
        if header not in (placeholders, list(entry.feature_names)):
            raise ValueError(
                f"{path}: the columns must be x1, x2, ... or, in this order, "
                f"{', '.join(entry.feature_names)}; got {list_some(header, 20)}"
            )
        origin = str(path)
    else:
        try:
            data, target = openml.fetch(source)
        except ConnectionError as error:
            raise ConnectionError(
                f"{entry.name!r} is not bundled and {error}. Set {_FOLDER_VARIABLE} to a folder "
                f"that holds {entry.name}.csv, or try again when online"
            ) from error
        origin = f"OpenML's {source.name!r} (version {source.version}), rows grouped by class"
    expected = (entry.n_rows, len(entry.feature_names))
    if data.shape != expected:
        raise ValueError(
            f"{origin}: {entry.name!r} must have {expected[0]} complete rows and {expected[1]} "
            f"features, got {data.shape[0]} and {data.shape[1]}"
        )
    return data, target, origin


def _find_in_folder(name: str) -> Path | None:
    """Return the file in the user's folder that holds a table, if there is one."""
    setting = os.environ.get(_FOLDER_VARIABLE)
    if not setting:
        return None
    folder = Path(setting).expanduser()
    if not folder.is_dir():
        raise ValueError(f"{_FOLDER_VARIABLE}={setting!r} is not a folder")
    candidates = (folder / f"{name}.csv", folder / f"{name}.csv.gz")
    with naming(name):
        return next((path for path in candidates if path.is_file()), None)


def _read_bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    location = resources.files("hardwood.datasets") / "data" / f"{name}.csv.gz"
    with location.open("rb") as stream, gzip.open(stream, "rt", encoding="ascii") as file:
        _, data, target = _parse(file)
    return data, target


def _read(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        # utf-8-sig also reads files that a spreadsheet starts with a byte order mark.
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            return _parse(file)
    except (ValueError, EOFError, csv.Error, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: {error}") from error


def _parse(file: IO[str]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the feature names, the features and the target of a CSV file."""
    header = [column.strip() for column in next(csv.reader(file), [])]
    if len(header) < 2 or header[-1] != "target":
        raise ValueError(f"the header must be names of features and then 'target', got {', '.join(header)!r}")
    repeated = sorted({column for column in header if header.count(column) > 1})
    if repeated:
        raise ValueError(f"column names must differ, got {', '.join(repeated)} more than once")
    lines = file.readlines()
    if not any(line.strip() for line in lines):
        raise ValueError("there are no rows below the header")
    table = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
    if table.shape[1] != len(header):
        raise ValueError(f"the header has {len(header)} columns, the rows have {table.shape[1]}")
    labels = table[:, -1]
    unexpected = labels[~np.isin(labels, (0, 1))]
    if unexpected.size:
        raise ValueError(f"the column 'target' must be 0 or 1, got {unexpected[0]:g}")
    return header[:-1], np.ascontiguousarray(table[:, :-1]), labels.astype(np.int64)


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    data, benign = load_breast_cancer(return_X_y=True)
    return data, 1 - benign.astype(np.int64)


def _bunch(
    data: np.ndarray,
    target: np.ndarray,
    feature_names: list[str],
    target_names: list[str],
    description: str,
    as_frame: bool,
) -> Bunch:
    frame = None
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(explain_missing("as_frame=True", "pandas")) from error
        frame = pd.DataFrame(data, columns=feature_names).assign(target=target)
    return Bunch(
        data=data if frame is None else frame[feature_names],
        target=target if frame is None else frame["target"],
        feature_names=feature_names,
        target_names=target_names,
        DESCR=description,
        frame=frame,
    )
