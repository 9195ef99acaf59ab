"""What an attacker may do to a row: in the user's words, and as arrays for one table."""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from hardwood.columns import Label
from hardwood.files import write_whole
from hardwood.reach import Reach
from hardwood.spelling import (
    INTERVALS,
    ONE_FEATURE,
    plain,
    read_classes,
    scale,
    shorten_table,
    toml_key,
    toml_value,
    with_string_keys,
)
from hardwood.table import Schema


class ThreatModel:
    """What an attacker may do to a row, and which classes attack. Immutable.

    Distances are in the units of the table. What can be done to one feature is spelled as

    * ``None`` or ``""``: nothing;
    * ``">"``, ``"<"``, ``"<>"``: increase it, decrease it, change it, without limit;
    * a number: move it that far to either side;
    * a pair ``(left, right)``: move it down by as much as `left`, up by as much as `right`;
    * a dict ``{category: [categories it can become]}`` if it is categorical; ``"<>"`` there means
      that any category can become any other, those not in the table included.

    Parameters
    ----------
    features : None, number, str, list, dict or ThreatModel
        None: nothing can be changed. A number or a string: the same for every feature; only
        ``"<>"`` reaches the categorical ones. A list, tuple or array: one entry per feature, also
        if its length is two. A dict or a pandas Series: by column name, or by index if the table
        has no names; columns that are not named cannot be changed.
    attacking_classes : None, label or list of labels
        The classes whose rows are changed. None: all.

    Examples
    --------
    >>> ThreatModel({"age": 2, "income": (0, np.inf)}, attacking_classes="fraud")
    ThreatModel({'age': 2.0, 'income': '>'}, attacking_classes=['fraud'])
    """

    __slots__ = ("_attacking_classes", "_features")

    _features: Any
    _attacking_classes: tuple[Label, ...] | None

    def __init__(self, features: Any = None, attacking_classes: Any = None) -> None:
        given = isinstance(features, ThreatModel)
        self._features = features._features if given else shorten_table(features)
        self._attacking_classes = features._attacking_classes if given else None
        if attacking_classes is not None:
            self._attacking_classes = read_classes(attacking_classes)

    @classmethod
    def coerce(cls, spec: Any, attacking_classes: Any = None) -> ThreatModel:
        """Return `spec` as a threat model, whatever its spelling.

        Examples
        --------
        >>> ThreatModel.coerce(0.1, attacking_classes=[1])
        ThreatModel(0.1, attacking_classes=[1])
        """
        if isinstance(spec, ThreatModel) and attacking_classes is None:
            return spec
        return cls(spec, attacking_classes)

    @property
    def features(self) -> Any:
        """What can be done to the features, in the shortest spelling (a copy)."""
        return copy.deepcopy(self._features)

    @property
    def attacking_classes(self) -> list[Label] | None:
        """The labels of the classes that attack; None for all."""
        return None if self._attacking_classes is None else list(self._attacking_classes)

    def __repr__(self) -> str:
        classes = self.attacking_classes
        tail = "" if classes is None else f", attacking_classes={classes!r}"
        return f"ThreatModel({self._features!r}{tail})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThreatModel) and self._comparable() == other._comparable()

    __hash__ = None  # type: ignore[assignment]

    def resolve(self, schema: Schema, classes: Iterable[Any] | None = None) -> Reach:
        """Turn the words into arrays for one table.

        Parameters
        ----------
        schema : Schema
            What the columns are.
        classes : sequence of labels, or None
            The classes in the order of their indices. None: there is no class information, and
            every row may be changed.

        Returns
        -------
        Reach
            A category that is named here but not in `schema` counts as one never seen.

        Examples
        --------
        >>> schema = Schema(1, ("color",), (("blue", "red"),))
        >>> ThreatModel({"color": {"red": ["blue"]}}).resolve(schema).categories[0]
        array([[ True, False, False],
               [ True,  True, False],
               [False, False,  True]])
        """
        entries = self._entries(schema)
        _check_categories_known(entries, schema)
        return _reach(entries, schema, self._attacks(classes))

    def extend(self, schema: Schema) -> Schema:
        """Add the categories that are named here to those of the schema, after the last.

        Examples
        --------
        >>> schema = Schema(1, ("color",), (("blue", "red"),))
        >>> ThreatModel({"color": {"red": ["purple"]}}).extend(schema).categories
        (('blue', 'red', 'purple'),)
        """
        entries = self._entries(schema)
        _check_categories_known(entries, schema)
        return _extended(entries, schema)

    def scaled(self, factor: float) -> ThreatModel:
        """Return the threat model with every distance multiplied by `factor`.

        What has no size cannot be scaled: a feature that can be moved without limit still can, and categories become
        what they could become before. At 0 there is no attacker at all, at infinity there are no limits.

        Parameters
        ----------
        factor : float >= 0

        Examples
        --------
        >>> threat = ThreatModel({"age": 2, "income": (1, 3), "debt": ">"})
        >>> threat.scaled(0.5)
        ThreatModel({'age': 1.0, 'income': (0.5, 1.5), 'debt': '>'})
        >>> threat.scaled(np.inf)
        ThreatModel({'age': inf, 'income': inf, 'debt': '>'})
        """
        if not isinstance(factor, Real) or isinstance(factor, bool) or not float(factor) >= 0.0:
            raise ValueError(f"factor={factor!r}: expected a number >= 0")
        classes = self.attacking_classes
        if factor == 0.0:
            return ThreatModel(None, classes)
        table = self._features
        if isinstance(table, dict):
            return ThreatModel({key: scale(entry, float(factor)) for key, entry in table.items()}, classes)
        if isinstance(table, list):
            return ThreatModel([scale(entry, float(factor)) for entry in table], classes)
        return ThreatModel(scale(table, float(factor)), classes)

    def contains(self, X: Any, X_adv: Any, y: Any = None, schema: Schema | None = None) -> np.ndarray:
        """Say of each row of `X` whether it can be turned into the same row of `X_adv`.

        Parameters
        ----------
        X, X_adv : tables of the same shape
            The rows before and after. A missing number stays missing, and no other becomes
            missing. So does a missing category if `schema` accepts missing values; otherwise it
            counts as one never seen.
        y : array-like of shape (n_rows,), or None
            The classes of the rows; needed if only some classes attack.
        schema : Schema or None
            What the columns are; by default ``Schema.from_table(X)``.

        Returns
        -------
        ndarray of shape (n_rows,)
            Booleans, by the same two numbers as `Reach.box`.

        Examples
        --------
        >>> ThreatModel([0.5, None]).contains([[1, 2], [1, 2]], [[1.5, 2], [1, 3]])
        array([ True, False])
        """
        if schema is None:
            # These rows need not hold any of the categories named: they are not the training table.
            schema = Schema.from_table(X)
            schema = _extended(self._entries(schema), schema)
        else:
            schema = self.extend(schema)
        accepting = replace(schema, accepts_missing=True)
        before, after = accepting.encode(X), accepting.encode(X_adv)
        if len(before) != len(after):
            raise ValueError(f"X_adv: {len(after)} rows, but X has {len(before)}")
        moves = self._moves(y, len(before))
        if not schema.accepts_missing:
            for j, labels in enumerate(schema.categories):
                if labels is not None:
                    for matrix in (before, after):
                        matrix[np.isnan(matrix[:, j]), j] = len(labels)
        reach = _reach(self._entries(schema), schema, np.array([False, True]))
        return reach.contains(before, after, moves.astype(np.intp))

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the threat model as TOML text, and write it to `path` if one is given.

        Keys of TOML are strings, so a category or a column index that is a number is written as
        one, and read as standing for the number.

        Examples
        --------
        >>> print(ThreatModel({"age": (1, 2), "income": ">"}, attacking_classes=[1]).to_toml())
        attacking_classes = [1]
        <BLANKLINE>
        [features]
        age = [1.0, 2.0]
        income = ">"
        <BLANKLINE>
        """
        lines = []
        if self._attacking_classes is not None:
            lines += [f"attacking_classes = {toml_value(self._attacking_classes)}", ""]
        if isinstance(self._features, dict):
            lines.append("[features]")
            lines += [f"{toml_key(key)} = {toml_value(e)}" for key, e in self._features.items()]
        else:
            lines.append(f"features = {toml_value(self._features)}")
        text = "\n".join(lines) + "\n"
        if path is not None:
            write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))
        return text

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> ThreatModel:
        """Read a threat model from a TOML file.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = ThreatModel({"age": 2}).to_toml(Path(folder) / "threat.toml")
        ...     ThreatModel.from_toml(Path(folder) / "threat.toml")
        ThreatModel({'age': 2.0})
        """
        try:
            return cls.parse(Path(path).read_text(encoding="utf-8-sig"))
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None

    @classmethod
    def parse(cls, text: str) -> ThreatModel:
        """Read a threat model from TOML text.

        Examples
        --------
        >>> ThreatModel.parse('features = [0.5, "<", [0, inf], {red = ["blue"]}, ""]')
        ThreatModel([0.5, '<', '>', {'red': ['blue']}, None])
        """
        try:
            record = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"not valid TOML: {error}") from None
        for key in record:
            if key not in ("features", "attacking_classes"):
                raise ValueError(f"unknown key {key!r}; the keys are 'features' and 'attacking_classes'")
        return cls(**record)

    def _comparable(self) -> tuple[Any, set[Label] | None]:
        classes = self._attacking_classes
        return with_string_keys(self._features), None if classes is None else set(classes)

    def _entries(self, schema: Schema) -> list[Any]:
        """Return one entry per feature of a table, of a kind that suits the feature."""
        table, n_features = self._features, schema.n_features
        if isinstance(table, list):
            if len(table) != n_features:
                raise ValueError(
                    f"threat: {len(table)} entries for a table of {n_features} features; "
                    "give one entry per feature, or a dict by column name"
                )
            entries = list(table)
        elif isinstance(table, dict):
            entries = [None] * n_features
            positions = {str(schema.key(j)): j for j in range(n_features)}
            for key, entry in table.items():
                if str(key) not in positions:
                    shown = ", ".join([repr(schema.key(j)) for j in range(min(n_features, 20))])
                    raise ValueError(
                        f"threat for feature {key!r}: there is no such column; "
                        f"the columns are {shown}{', ...' if n_features > 20 else ''}"
                    )
                entries[positions[str(key)]] = entry
        else:
            entries = [table if labels is None or table == "<>" else None for labels in schema.categories]
        for j, (entry, labels) in enumerate(zip(entries, schema.categories, strict=True)):
            _check_kind(entry, labels is not None, f"threat for feature {schema.key(j)!r}")
        return entries

    def _attacks(self, classes: Iterable[Any] | None) -> np.ndarray:
        """Say of each class whether it attacks."""
        attackers = self._attacking_classes
        if classes is None:
            if attackers is not None:
                raise ValueError(f"attacking_classes: {list(attackers)!r} is given, but there are no classes")
            return np.array([True])
        known = [plain(label) for label in classes]
        for label in attackers or ():
            if label not in known:
                raise ValueError(f"attacking_classes: {label!r} is not a class; the classes are {known!r}")
        return np.array([attackers is None or label in attackers for label in known])

    def _moves(self, y: Any, n_rows: int) -> np.ndarray:
        """Say of each row whether its class attacks."""
        attackers = self._attacking_classes
        if y is None and attackers is not None:
            raise ValueError(f"y: needed to tell which rows may be moved, as attacking_classes={list(attackers)}")
        if attackers is None:
            return np.ones(n_rows, dtype=bool)
        labels = np.asarray(y)
        if labels.shape != (n_rows,):
            raise ValueError(f"y: expected shape ({n_rows},), a label per row, got {labels.shape}")
        return np.array([label in attackers for label in labels.tolist()])


def _check_kind(entry: Any, is_categorical: bool, where: str) -> None:
    if isinstance(entry, dict) and not is_categorical:
        raise ValueError(
            f"{where}: {entry!r} is for categories, but the feature is numerical; "
            f"declare it in categorical_features or {ONE_FEATURE}"
        )
    if is_categorical and not isinstance(entry, dict) and entry not in (None, "<>"):
        raise ValueError(
            f"{where}: {entry!r} is for numbers, but the feature is categorical; "
            "give a dict {category: [categories it can become]}, '<>' or None"
        )


def _named(moves: Mapping[Label, Sequence[Label]]) -> list[Label]:
    """Return the categories that a dict names, each once."""
    return list(dict.fromkeys(label for a, targets in moves.items() for label in (a, *targets)))


def _codes(labels: tuple[Label, ...]) -> dict[Label, int]:
    """Return the codes of labels, under their own name and under that which TOML gives them."""
    return {str(label): code for code, label in enumerate(labels)} | {label: code for code, label in enumerate(labels)}


def _category_dicts(
    entries: Sequence[Any], schema: Schema
) -> Iterator[tuple[int, dict[Label, list[Label]], tuple[Label, ...]]]:
    """Go through the features whose entry is a dict, with the labels of the feature."""
    for j, (entry, labels) in enumerate(zip(entries, schema.categories, strict=True)):
        if isinstance(entry, dict) and labels is not None:
            yield j, entry, labels


def _check_categories_known(entries: Sequence[Any], schema: Schema) -> None:
    """Refuse a dict that names no category of the table: surely not what was meant."""
    for j, moves, labels in _category_dicts(entries, schema):
        if _codes(labels).keys().isdisjoint(_named(moves)):
            raise ValueError(
                f"threat for feature {schema.key(j)!r}: {moves!r} names no category of the table; "
                f"its categories are {list(labels)!r}"
            )


def _extended(entries: Sequence[Any], schema: Schema) -> Schema:
    categories = list(schema.categories)
    for j, moves, labels in _category_dicts(entries, schema):
        codes = _codes(labels)
        categories[j] = (*labels, *(label for label in _named(moves) if label not in codes))
    return replace(schema, categories=tuple(categories))


def _reach(entries: Sequence[Any], schema: Schema, attacks: np.ndarray) -> Reach:
    intervals = np.zeros((2, schema.n_features))
    categories: list[np.ndarray | None] = []
    for j, (entry, labels) in enumerate(zip(entries, schema.categories, strict=True)):
        if labels is None:
            intervals[:, j] = INTERVALS.get(entry, entry)
            categories.append(None)
        else:
            categories.append(_category_matrix(entry, labels))
    return Reach(intervals[0], intervals[1], tuple(categories), attacks)


def _category_matrix(entry: Any, labels: tuple[Label, ...]) -> np.ndarray:
    unseen = len(labels)
    if entry == "<>":
        return np.ones((unseen + 1, unseen + 1), dtype=bool)
    allowed, codes = np.eye(unseen + 1, dtype=bool), _codes(labels)
    for category, targets in (entry or {}).items():
        allowed[codes.get(category, unseen), [codes.get(t, unseen) for t in targets]] = True
    return allowed
