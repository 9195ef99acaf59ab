"""Digests of models and answers, and the file that keeps them.

``python tests/characterising/digests.py compare`` goes through all settings, which takes some minutes, and lists those
that moved; ``write`` keeps what is found from now on, which a change has to give a reason for.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# What mathematical libraries may differ in is beyond these digits.
SIGNIFICANT_DIGITS = 9


def read(name: str) -> dict[str, str]:
    """Return the digests that are kept, by setting."""
    lines = (HERE / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {setting: digest for digest, _, setting in (line.partition(" ") for line in lines)}


def sum_up(make: Callable[[], Any]) -> str:
    """Return the digest of a model, of a list of arrays, or of the refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = make()
        except ValueError:
            return "refused"
    values = json.loads(made.to_json()) if hasattr(made, "to_json") else [array.tolist() for array in made]
    return hashlib.sha256(json.dumps(_shorten(values)).encode()).hexdigest()[:12]


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shorten(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shorten(item) for item in value]
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") + 0.0 if isinstance(value, float) else value


def find_moved(kept: dict[str, str], settings: Iterable[tuple[str, Callable[[], Any]]]) -> Iterator[tuple[str, str]]:
    """Go through settings whose digest is not the one that is kept: the name and the new digest."""
    for setting, make in settings:
        digest = sum_up(make)
        if digest != kept.get(setting):
            yield setting, digest


def main(verb: str, name: str, settings: Iterable[tuple[str, Callable[[], Any]]]) -> bool:
    """Write all digests, or print those that moved. Return whether all are as they are kept."""
    if verb == "write":
        lines = [f"{sum_up(make)} {setting}\n" for setting, make in settings]
        (HERE / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
        return True
    moved = list(find_moved(read(name), settings))
    print(*(f"{name}: {setting}: {digest}" for setting, digest in moved), f"{name}: {len(moved)} moved", sep="\n")
    return not moved


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    from characterising.answers import list_answers
    from characterising.documents import list_models

    stand = [main(sys.argv[1], *work) for work in (("models", list_models()), ("answers", list_answers()))]
    sys.exit(not all(stand))
