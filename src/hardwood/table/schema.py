"""What the columns of a table are, and the float64 matrix every kernel works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from hardwood.quoting import MOST, quote, shorten
from hardwood.table.columns import (
    Label,
    MissingValueError,
    check_labels,
    chosen_columns,
    column_names,
    get_column,
    is_plain_numbers,
    labels_of,
    name_unseen,
    open_table,
    read_codes,
    read_labels,
    read_numbers,
    say_where,
)

# Rows that are widened at a time, where a table of float32 is kept as it is.
BLOCK_ROWS = 1 << 16

# Characters of a name in a list of them.
_LONGEST_NAME = 80

# As `check_estimator` wants to hear it.
_OTHER_NAMES = "The feature names should match those that were passed during fit.\n"


@dataclass(frozen=True)
class Schema:
    """What the columns of a table are: their names and, where categorical, their labels.

    A schema turns a table into the float64 matrix that the kernels work on, and back. Numbers stay
    what they are; label ``k`` of a categorical column becomes the number ``k``. With ``c`` labels,
    ``c`` is the code of every value that is not among them.

    Parameters
    ----------
    n_features : int
        The number of columns.
    feature_names : sequence of str, or None
        One name per column, or None for a table without names.
    categories : sequence
        Per column None (numerical) or its labels: str, bool, or number that a float64 can hold, each once.
    accepts_missing : bool, default=False
        Whether values may be missing: a model knows where to send them. Then they are NaN in the
        matrix, in categorical columns too. Otherwise a missing number is refused, and a missing
        category counts as one that is not among the labels.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [31, 54], "color": pd.Categorical(["red", "blue"])})
    >>> schema = Schema.from_table(table)
    >>> schema
    Schema(n_features=2, feature_names=('age', 'color'), categories=(None, ('blue', 'red')), accepts_missing=False)
    >>> schema.encode(table)
    array([[31.,  1.],
           [54.,  0.]])
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    categories: tuple[tuple[Label, ...] | None, ...]
    accepts_missing: bool = False

    def __post_init__(self) -> None:
        n, names, categories = self.n_features, self.feature_names, self.categories
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n_features: expected an integer >= 1, got {quote(n)}")
        if names is not None:
            if not isinstance(names, (list, tuple)) or len(names) != n:
                raise ValueError(f"feature_names: expected {n} names or None, got {quote(names)}")
            if not all(isinstance(name, str) for name in names) or len(set(names)) != n:
                raise ValueError(f"feature_names: expected strings, each once, got {quote(names)}")
        if not isinstance(categories, (list, tuple)) or len(categories) != n:
            raise ValueError(f"categories: expected {n} entries (None or a list of labels), got {quote(categories)}")
        for j, labels in enumerate(categories):
            if labels is not None:
                check_labels(labels, f"categories of {say_where(names, j)}")
        if not isinstance(self.accepts_missing, bool):
            raise ValueError(f"accepts_missing: expected true or false, got {quote(self.accepts_missing)}")
        object.__setattr__(self, "n_features", int(n))
        object.__setattr__(self, "feature_names", None if names is None else tuple(names))
        as_tuples = tuple(None if labels is None else tuple(labels) for labels in categories)
        object.__setattr__(self, "categories", as_tuples)

    @cached_property
    def categorical(self) -> tuple[int, ...]:
        """The positions of the categorical columns.

        Examples
        --------
        >>> Schema(2, None, (None, ("blue", "red"))).categorical
        (1,)
        """
        return tuple(j for j, labels in enumerate(self.categories) if labels is not None)

    @classmethod
    def numeric(cls, n_features: int, feature_names: Sequence[str] | None = None) -> Schema:
        """Describe a table of numbers.

        Examples
        --------
        >>> Schema.numeric(2)
        Schema(n_features=2, feature_names=None, categories=(None, None), accepts_missing=False)
        """
        names = None if feature_names is None else tuple(feature_names)
        return cls(n_features, names, (None,) * n_features)

    @classmethod
    def from_table(cls, X: Any, categorical_features: Any = "from_dtype", *, accepts_missing: bool = False) -> Schema:
        """Read the schema off a table.

        Parameters
        ----------
        X : pandas or polars DataFrame, or array-like of shape (n_rows, n_features)
            Text is accepted in categorical columns only. As in scikit-learn, column names that
            are not strings are ignored.
        categorical_features : "from_dtype", None or array-like
            Which columns are categorical: those whose dtype says so (pandas ``category``, polars
            ``Categorical`` and ``Enum``), none, or the listed ones (names, indices or a boolean
            mask) and no others.
        accepts_missing : bool, default=False
            Whether values may be missing, see :class:`Schema`.

        Returns
        -------
        Schema
            The labels of a categorical column are the values that occur in it together with those
            that its dtype declares, sorted. Whether numbers are finite is checked by `encode`.

        Examples
        --------
        >>> Schema.from_table([["red", 1.5], ["blue", 2.5]], categorical_features=[0]).categories
        (('blue', 'red'), None)
        """
        return cls._look(open_table(X), categorical_features, accepts_missing)[0]

    @classmethod
    def read(
        cls, X: Any, categorical_features: Any = "from_dtype", *, accepts_missing: bool = False, narrow: bool = False
    ) -> tuple[Schema, np.ndarray]:
        """Read the schema off a table, and encode the table by it: every column of numbers is read once.

        narrow : whether an array of float32 stays as it is, see `encode_narrow`

        Examples
        --------
        >>> Schema.read([[0.5, "red"], [1.5, "blue"]], [1])[1]
        array([[0.5, 1. ],
               [1.5, 0. ]])
        """
        table = open_table(X)
        schema, numbers = cls._look(table, categorical_features, accepts_missing)
        stays = narrow and not numbers and not schema.categorical
        return schema, schema.encode_narrow(table) if stays else schema._encode(table, numbers)

    @classmethod
    def _look(
        cls, table: Any, categorical_features: Any, accepts_missing: bool
    ) -> tuple[Schema, dict[int, np.ndarray]]:
        """Return the schema of a table, and the columns that had to be read as numbers to find it."""
        names, n_features = column_names(table), table.shape[1]
        chosen = chosen_columns(table, categorical_features)
        if not chosen and is_plain_numbers(table):
            return cls(n_features, None if names is None else tuple(names), (None,) * n_features, accepts_missing), {}
        categories: list[tuple[Label, ...] | None] = []
        numbers: dict[int, np.ndarray] = {}
        for j in range(n_features):
            column, where = get_column(table, j), say_where(names, j)
            if j in chosen:
                categories.append(read_labels(column, where, keep_missing=accepts_missing))
            else:
                numbers[j] = read_numbers(column, where)
                categories.append(None)
        return cls(n_features, names, tuple(categories), accepts_missing), numbers

    def encode(self, X: Any) -> np.ndarray:
        """Turn a table into the matrix that the kernels work on.

        Parameters
        ----------
        X : pandas or polars DataFrame, or array-like of shape (n_rows, n_features)
            Categorical columns hold labels, never codes, whatever the container. A value is missing
            if it is NaN, None or a marker of pandas. Infinity is no number here.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            float64 and C-ordered. Not a copy of `X` where `X` is just that.

        Examples
        --------
        >>> schema = Schema(2, None, (None, ("blue", "red")))
        >>> schema.encode([[0.5, "red"], [1.5, "purple"]])
        array([[0.5, 1. ],
               [1.5, 2. ]])
        >>> Schema(2, None, (None, ("blue", "red")), accepts_missing=True).encode([[None, "red"], [1.5, None]])
        array([[nan, 1. ],
               [1.5, nan]])
        """
        table = open_table(X)
        self.check_columns(table)
        return self._encode(table, {})

    def _encode(self, table: Any, numbers: Mapping[int, np.ndarray]) -> np.ndarray:
        """Return a table as a matrix; `numbers` are the columns that have been read already."""
        if not self.categorical and is_plain_numbers(table):
            matrix = table
        else:
            matrix = np.empty((len(table), self.n_features))
            for j, labels in enumerate(self.categories):
                column, where = get_column(table, j), say_where(self.feature_names, j)
                if labels is None:
                    matrix[:, j] = numbers[j] if j in numbers else read_numbers(column, where)
                else:
                    matrix[:, j] = read_codes(column, labels, where, keep_missing=self.accepts_missing)
        if type(matrix) is np.ndarray:
            matrix = np.ascontiguousarray(matrix, dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                if matrix.size and np.isfinite(matrix.sum()):
                    return matrix
        # Something may not be finite.
        matrix = check_array(matrix, dtype=np.float64, order="C", input_name="X", ensure_all_finite=False)
        self._check_finite(matrix)
        return np.asarray(matrix)

    def encode_narrow(self, X: Any) -> np.ndarray:
        """Return the matrix, but an array of float32 as it is: for growers that widen it a block of rows at a time.

        Examples
        --------
        >>> table = np.zeros((2, 1), dtype=np.float32)
        >>> Schema.numeric(1).encode_narrow(table) is table
        True
        """
        is_narrow = type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float32 and X.flags.c_contiguous
        if not is_narrow or self.categorical or not len(X):
            return self.encode(X)
        self.check_columns(open_table(X))
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(X.sum()):
                return X
        for first in range(0, len(X), BLOCK_ROWS):
            self.encode(X[first : first + BLOCK_ROWS])  # refuses what is no number
        return X

    def decode(self, matrix: Any) -> Any:
        """Turn a matrix back into a table that a person can read.

        Parameters
        ----------
        matrix : array-like of shape (n_rows, n_features)
            Rows as `encode` returns them. NaN stays a missing value, also in categorical columns.

        Returns
        -------
        DataFrame or ndarray
            A pandas DataFrame if the columns have names and pandas is installed. Otherwise an
            array: of float64, or of objects if a column is categorical. A category that is not in
            the schema is a missing value; if missing is something else (`accepts_missing`), it is
            a label that is not among those of its column, such as "unseen" or the next number.

        Examples
        --------
        >>> Schema(2, None, (None, ("blue", "red"))).decode([[0.5, 1.0], [1.5, 2.0]])
        array([[0.5, 'red'],
               [1.5, None]], dtype=object)
        >>> Schema(2, None, (None, ("blue", "red")), accepts_missing=True).decode([[np.nan, 1.0], [1.5, 2.0]])
        array([[nan, 'red'],
               [1.5, 'unseen']], dtype=object)
        """
        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != self.n_features:
            raise ValueError(f"matrix: expected shape (n_rows, {self.n_features}), got {matrix.shape}")
        pandas = None if self.feature_names is None else _pandas_if_installed()
        if pandas is None:
            table = matrix.astype(object) if self.categorical else matrix
            for j, labels in enumerate(self.categories):
                if labels is not None:
                    table[:, j] = labels_of(matrix[:, j], labels, self.unseen(j))
            return table
        frame = pandas.DataFrame(matrix, columns=list(self.feature_names or ()))
        for j, labels in enumerate(self.categories):
            if labels is not None:
                unseen = self.unseen(j)
                values = labels_of(matrix[:, j], labels, unseen)
                known = [*labels, unseen] if unseen is not None and unseen in values else list(labels)
                frame[self.name(j)] = pandas.Categorical(values, categories=known)
        return frame

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of every feature, by what it goes by as a string.

        Examples
        --------
        >>> Schema.numeric(2, ["age", "income"]).positions, Schema.numeric(2).positions
        ({'age': 0, 'income': 1}, {'0': 0, '1': 1})
        """
        return {str(self.key(j)): j for j in range(self.n_features)}

    def key(self, j: int) -> str | int:
        """Return what feature `j` goes by: its name, or its index in a table without names.

        Examples
        --------
        >>> Schema.numeric(2, ["age", "income"]).key(1), Schema.numeric(2).key(1)
        ('income', 1)
        """
        return j if self.feature_names is None else self.feature_names[j]

    def name(self, j: int) -> str:
        """Return the name of feature `j` to show to a person.

        Examples
        --------
        >>> Schema.numeric(2, ["age", "income"]).name(1), Schema.numeric(2).name(1)
        ('income', 'feature 1')
        """
        return f"feature {j}" if self.feature_names is None else self.feature_names[j]

    def unseen(self, j: int) -> Label | None:
        """Return what stands for a category of feature `j` that is not among its labels; None if it counts as missing.

        Examples
        --------
        >>> Schema(1, None, (("blue", "red"),), accepts_missing=True).unseen(0)
        'unseen'
        """
        return name_unseen(self.categories[j] or ()) if self.accepts_missing else None

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as lists, strings and numbers, for JSON.

        Examples
        --------
        >>> Schema(1, ("color",), (("blue", "red"),)).to_dict()
        {'n_features': 1, 'feature_names': ['color'], 'categories': [['blue', 'red']], 'accepts_missing': False}
        """
        return {
            "n_features": self.n_features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "categories": [None if labels is None else list(labels) for labels in self.categories],
            "accepts_missing": self.accepts_missing,
        }

    @classmethod
    def from_dict(cls, record: Any) -> Schema:
        """Read back what `to_dict` wrote, and check it; without a word on missing values there are none.

        Examples
        --------
        >>> schema = Schema(1, ("color",), (("blue", "red"),))
        >>> Schema.from_dict(schema.to_dict()) == schema
        True
        """
        expected = ["accepts_missing", "categories", "feature_names", "n_features"]
        if not isinstance(record, Mapping) or sorted({*map(str, record), "accepts_missing"}) != expected:
            found = list(record) if isinstance(record, Mapping) else record
            raise ValueError(f"schema: expected an object with the keys {expected}, got {quote(found)}")
        return cls(**record)

    def _check_finite(self, matrix: np.ndarray) -> None:
        """Refuse infinity and, unless they are accepted, missing values; the first is named."""
        infinite = np.isinf(matrix)
        if infinite.any():
            row, j = map(int, np.argwhere(infinite)[0])
            raise ValueError(
                f"Input X contains infinity: {say_where(self.feature_names, j)} is {matrix[row, j]:g} in row {row} "
                "(counted from 0); expected finite numbers"
            )
        missing = np.isnan(matrix)
        if missing.any() and not self.accepts_missing:
            row, j = map(int, np.argwhere(missing)[0])
            raise MissingValueError(
                f"Input X contains NaN: {say_where(self.feature_names, j)} has no value in row {row} (counted from 0)",
                "this model has no place for missing values",
                "fill them in, or leave out such rows",
            )

    def find_features(self, names: Sequence[str]) -> list[int]:
        """Return where each feature is among the columns of a table that have these names.

        Raises
        ------
        ValueError
            If a feature is not among them, or one of them is no feature; in the words that `check_estimator` looks for.

        Examples
        --------
        >>> Schema.numeric(2, ["age", "income"]).find_features(["income", "age"])
        [1, 0]
        """
        own = self.feature_names or ()
        unseen, missing = sorted(set(names) - set(own)), sorted(set(own) - set(names))
        message = ""
        if unseen:
            message += "Feature names unseen at fit time:\n" + _bullets(unseen)
        if missing:
            message += "Feature names seen at fit time, yet now missing:\n" + _bullets(missing)
        if message:
            raise ValueError(_OTHER_NAMES + message)
        position = {name: j for j, name in enumerate(names)}
        return [position[name] for name in own]

    def check_columns(self, table: Any) -> None:
        """Refuse a table with other columns, or with the same ones in another order.

        Examples
        --------
        >>> Schema.numeric(2).check_columns(np.zeros((5, 2)))
        """
        names = column_names(table)
        if names is not None and self.feature_names is not None and names != self.feature_names:
            self.find_features(names)
            raise ValueError(_OTHER_NAMES + "Feature names must be in the same order as they were in fit.\n")
        if table.shape[1] != self.n_features:
            raise ValueError(
                f"X has {table.shape[1]} features, but Schema is expecting {self.n_features} features as input"
            )


def _bullets(names: list[str]) -> str:
    shown = [shorten(name, _LONGEST_NAME) for name in names[:MOST]]
    more = [f"... {len(names) - MOST:,} more"] if len(names) > MOST else []
    return "".join(f"- {name}\n" for name in [*shown, *more])


def _pandas_if_installed() -> ModuleType | None:
    try:
        import pandas
    except ImportError:
        return None
    return pandas
