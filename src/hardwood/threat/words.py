"""What a threat model says: kept in its shortest spelling, shown, compared and written."""

from __future__ import annotations

import copy
import os
from typing import Any, Self

from hardwood.files import write_whole
from hardwood.table.columns import Label
from hardwood.threat.attack_rules import AttackRule
from hardwood.threat.attackers import spell_classes
from hardwood.threat.groups import OneHotGroup
from hardwood.threat.options import Options
from hardwood.threat.spelling import abbreviate, with_string_keys
from hardwood.threat.toml import write_toml


class Words:
    """The words of a threat model, as properties that cannot be changed."""

    __slots__ = ("_features", "_options")

    _features: Any
    _options: Options

    @property
    def features(self) -> Any:
        """What can be done to the features, in the shortest spelling (a copy)."""
        return copy.deepcopy(self._features)

    @property
    def attacking_classes(self) -> list[Label] | dict[Label, list[Label]] | None:
        """The labels of the classes that attack, or of each those that it wants to be taken for; None for all."""
        classes: list[Label] | dict[Label, list[Label]] | None = spell_classes(self._options.attacking_classes)
        return classes

    @property
    def rules(self) -> list[AttackRule]:
        """What can be done at a cost."""
        return list(self._options.rules)

    @property
    def budget(self) -> float | None:
        """What the changes of a row may cost together; None without rules."""
        return self._options.budget

    @property
    def repeat(self) -> bool:
        """Whether rules are applied to a feature as often as the budget allows."""
        return self._options.repeat

    @property
    def unseen_categories(self) -> str:
        """Whether the attacker can bring categories that a table does not have: "error", "ignore" or "allow"."""
        return self._options.unseen_categories

    @property
    def whole_numbers(self) -> list[Label] | str:
        """The columns that hold whole numbers only; "from_dtype" if a DataFrame is to say."""
        columns = self._options.whole_numbers
        return columns if isinstance(columns, str) else list(columns)

    @property
    def within(self) -> Any:
        """The smallest and the largest value of columns, of others all exist; or that a table is to say."""
        return copy.copy(self._options.within)

    @property
    def groups(self) -> list[OneHotGroup] | str | None:
        """The one-hot groups; "from_table" if a table is to say; None for none."""
        groups = self._options.groups
        return groups if isinstance(groups, str) else list(groups) or None

    @property
    def blank(self) -> list[Label] | str | None:
        """The columns in which a value can be made missing; "all" or None."""
        columns = self._options.blank
        return columns if columns is None or isinstance(columns, str) else list(columns)

    @property
    def fill(self) -> list[Label] | str | None:
        """The columns in which a missing value can be given any other; "all" or None."""
        columns = self._options.fill
        return columns if columns is None or isinstance(columns, str) else list(columns)

    @property
    def max_changes(self) -> int | None:
        """How many columns of a row may be changed; None: any number."""
        return self._options.max_changes

    @property
    def radius(self) -> float | None:
        """How far all changes of a row may go together; None: each for itself."""
        return self._options.radius

    @property
    def norm(self) -> int:
        """The norm of the radius: 1 or 2."""
        return self._options.norm

    @property
    def units(self) -> dict[Label, float] | float | None:
        """What counts as a distance of 1: by column, or for all of them; None: 1."""
        return copy.copy(self._options.units)

    @property
    def relations(self) -> list[str]:
        """What holds between columns, and has to hold after a move."""
        return list(self._options.relations)

    def __repr__(self) -> str:
        parts = [] if self._features is None and self._options.rules else [("", self._features)]
        parts += [(f"{key}=", value) for key, value in self._options.spell().items()]
        return f"ThreatModel({abbreviate(parts)})"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Words):
            return False
        same_features = with_string_keys(self._features) == with_string_keys(other._features)
        return same_features and self._options.means_the_same(other._options)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        """Return what the constructor takes, as plain values: what pickle, joblib and skops keep."""
        return {"features": _pack(self._features)} | {key: _pack(said) for key, said in self._options.spell().items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**{key: _unpack(said) for key, said in state.items()})  # type: ignore[misc]

    def __copy__(self) -> Self:
        return self  # nothing in it changes

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the threat model as TOML text, and write it to `path` if one is given.

        Keys of TOML are strings, so a category or a column index that is a number is written as
        one, and read as standing for the number.

        Examples
        --------
        >>> from hardwood import ThreatModel
        >>> print(ThreatModel({"age": (1, 2), "income": ">"}, attacking_classes=[1]).to_toml())
        attacking_classes = [1]
        <BLANKLINE>
        [features]
        age = [1.0, 2.0]
        income = ">"
        <BLANKLINE>
        """
        text = write_toml(self._features, self._options.spell())
        if path is not None:
            write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))
        return text


def _pack(said: Any) -> Any:
    """Return the same without dictionaries, whose keys JSON would make strings: as lists of pairs below a word."""
    if isinstance(said, dict):
        return {"pairs": [[key, _pack(value)] for key, value in said.items()]}
    if isinstance(said, (list, tuple)):
        return type(said)(map(_pack, said))
    return said


def _unpack(packed: Any) -> Any:
    if isinstance(packed, dict):
        return {key: _unpack(value) for key, value in packed["pairs"]}
    if isinstance(packed, (list, tuple)):
        return type(packed)(map(_unpack, packed))
    return packed
