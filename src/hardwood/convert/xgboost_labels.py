"""The labels of categories as XGBoost keeps them, and what to do where it does not."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hardwood.quoting import quote

if TYPE_CHECKING:
    from hardwood.convert.xgboost_document import Document

COUNTS_BYTES = (3, 4)  # the version of XGBoost from which on labels that are not ASCII are kept whole


def read_labels(column: dict[str, Any], version: tuple[int, ...]) -> "tuple | CutText":
    """Return the labels of the categories of a feature, or what is left of them."""
    if "offsets" not in column:
        return tuple(column["values"])
    text = bytes(byte & 255 for byte in column["values"])
    ends = tuple(column["offsets"])
    if version < COUNTS_BYTES and not text.isascii():
        return CutText(text, ends)
    try:
        return tuple(text[start:end].decode() for start, end in pairwise(ends))
    except UnicodeDecodeError:
        return CutText(text, ends)


@dataclass(frozen=True)
class CutText:
    """Labels as XGBoost 3.1 to 3.3 keep them if they are not ASCII.

    They are kept one after the other, in UTF-8. These versions count letters where they should count bytes: the ends of
    the labels are in letters, and so is the length, so that the last bytes are lost.
    """

    text: bytes
    ends: tuple[int, ...]

    def restore(self, labels: Sequence[Any]) -> tuple[str, ...] | None:
        """Return the labels of a table if they are those that the model was trained on, as far as it can tell."""
        if not all(isinstance(label, str) for label in labels):
            return None
        whole = "".join(labels).encode()
        for lengths in ([len(label) for label in labels], [len(label.encode()) for label in labels]):
            if tuple(np.cumsum([0, *lengths]).tolist()) == self.ends and whole[: self.ends[-1]] == self.text:
                return tuple(labels)
        return None


def restore_labels(document: "Document", features: Sequence[int], table: Any) -> dict[int, tuple]:
    """Return the labels that categorical features have in a pandas table, where the model does not know its own.

    XGBoost before version 3.1 keeps no labels: it takes the codes of a table for its own, whatever their labels. Later
    versions compare the labels, as they keep them.

    Raises
    ------
    ValueError
        If XGBoost has cut the labels, and what it has kept are not those of the table.
    """
    dtypes = list(getattr(table, "dtypes", ()))
    found = {}
    for j in features:
        if j >= len(dtypes) or str(dtypes[j]) != "category":
            continue
        labels, kept = dtypes[j].categories.tolist(), document.labels.get(j)
        if kept is None:
            n_codes = document.right_code[document.feature[document.right_node] == j].max(initial=-1) + 1
            if len(labels) >= n_codes:
                found[j] = tuple(labels)
            continue
        assert isinstance(kept, CutText)
        restored = kept.restore(labels)
        if restored is None:
            assert document.feature_names is not None
            text = kept.text.decode(errors="replace")
            raise ValueError(
                f"X: feature {quote(document.feature_names[j])} has the categories {quote(labels)}. XGBoost before "
                "version 3.4 keeps labels that are not ASCII in part only, and what this model has kept, "
                f"{quote(text)}, is not the "
                "beginning of these: give the categories of the table that the model was trained on, all of them and "
                "in that order, or train with XGBoost 3.4 or later"
            )
        found[j] = restored
    return found
