"""What models were turned into, for as long as they are there and are what they were.

Reading a model takes tens of milliseconds and comparing it with its import as long again; and what it takes to search
an ensemble is kept with the ensemble. Whoever asks about the same model again need not wait for any of it again.

A model is known again by a digest of all that pickling it writes: its trees and its settings, whoever has changed them
and by whatever means. One that cannot be pickled is read anew every time.
"""

import copy
import hashlib
import pickle
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from hardwood.convert.source import Source
from hardwood.ensemble import TreeEnsemble

Reading = TreeEnsemble | Source
Known = WeakKeyDictionary[Any, tuple[bytes, Reading]]


class _Digest:
    """A file of which nothing is kept but a digest."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=32)

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return memoryview(data).nbytes


def take_digest(model: Any) -> bytes | None:
    """Return a digest of all that a model is; None if it cannot be pickled."""
    file = _Digest()
    try:
        pickle.Pickler(file, pickle.HIGHEST_PROTOCOL).dump(model)
    except Exception:  # whatever a foreign class raises
        return None
    return file.hash.digest()


def read_once(known: Known, model: Any, read: Callable[[Any], Reading]) -> Reading:
    """Return what is known of a model, or else read it and remember that, if that is possible.

    What is remembered was read of a shallow copy. It refers to the trees of the model, but not to the model, which can
    go when nobody else needs it, and takes what is remembered along.
    """
    digest = take_digest(model)
    if digest is None:
        return read(model)
    try:
        before = known.get(model)
        if before is not None and before[0] == digest:
            return before[1]
        twin = copy.copy(model)
        source = read(twin)
        if twin is not model and take_digest(twin) == digest:
            known[model] = digest, source
            return source
    except TypeError:  # a model that cannot be hashed, or referred to weakly
        pass
    return read(model)
