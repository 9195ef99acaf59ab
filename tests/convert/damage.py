"""Damaged copies of saved models: run as a program, in a process of its own, because a reader may take it along."""

from __future__ import annotations

import faulthandler
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np


def damage(raw: bytes, n_copies: int, seed: int = 0) -> Iterator[bytes]:
    """Yield copies with lines or bytes that are left out, doubled, exchanged, changed or cut off."""
    generator = np.random.default_rng(seed)
    lines = raw.splitlines(keepends=True)
    for _ in range(n_copies):
        at, other = generator.integers(0, len(raw), 2).tolist()
        line, second = generator.integers(0, len(lines), 2).tolist()
        kind = generator.integers(0, 8)
        if kind == 0:
            yield b"".join(lines[:line] + lines[line + 1 :])
        elif kind == 1:
            yield b"".join(lines[: line + 1] + lines[line:])
        elif kind == 2:
            swapped = list(lines)
            swapped[line], swapped[second] = swapped[second], swapped[line]
            yield b"".join(swapped)
        elif kind == 3:
            yield raw[:at]
        elif kind == 4:
            yield raw[:at] + bytes([raw[at] ^ 1 << int(generator.integers(0, 8))]) + raw[at + 1 :]
        elif kind == 5:
            digits = [k for k, byte in enumerate(raw) if 48 <= byte <= 57]
            digit = digits[generator.integers(0, len(digits))]
            yield raw[:digit] + bytes([48 + int(generator.integers(0, 10))]) + raw[digit + 1 :]
        elif kind == 6:
            low, high = sorted((at, other))
            yield raw[:low] + raw[min(high, low + 40) :]
        else:
            low, high = sorted((at, other))
            yield raw[:low] + raw[low : low + 40] + raw[low:]


def main(path: Path, n_copies: int) -> None:
    """Read the damaged copies of a file: each is refused with a sentence, or taken for the model that it still is."""
    from hardwood import as_ensemble

    warnings.simplefilter("ignore")
    raw, copy = path.read_bytes(), path.with_name(f"damaged-{path.name}")
    n_refused = 0
    for number, damaged in enumerate(damage(raw, n_copies)):
        copy.write_bytes(damaged)
        faulthandler.dump_traceback_later(60, exit=True)  # none of these is more than a second's work
        try:
            as_ensemble(copy)
        except ValueError:
            n_refused += 1
        except Exception as error:
            raise AssertionError(f"copy {number}") from error
    print(n_refused)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
