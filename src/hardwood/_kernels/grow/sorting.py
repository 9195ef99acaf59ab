"""Sorting one column: a radix argsort, several times faster than comparing."""

import numpy as np
from numpy import float64, uint64

from hardwood._kernels.compiling import inner, part

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
PASSES = 3  # 3 x 11 bits cover a 32-bit key
KEYS = float64(0xFFFFFFFF)
LOW_HALF = uint64(0xFFFFFFFF)
ROW_MASK = uint64(0x7FFFFFFF)


@inner
def _sort_by_key(packed, buffer, counts):
    """Sort `key << 32 | payload` stably by the key, least significant digit first. The result is in `buffer`."""
    n = uint64(packed.shape[0])
    one, mask = uint64(1), uint64(DIGITS - 1)
    passes = counts.shape[0]  # no constant, unlike PASSES: so the loops are not unrolled, and half as long to compile
    for digit in range(passes):
        for bucket in range(DIGITS):
            counts[digit, bucket] = 0
    for i in range(n):
        key = packed[i] >> uint64(32)
        counts[0, key & mask] += one
        counts[1, (key >> uint64(DIGIT_BITS)) & mask] += one
        counts[2, key >> uint64(2 * DIGIT_BITS)] += one
    for digit in range(passes):
        offset = uint64(0)
        for bucket in range(DIGITS):
            count = counts[digit, bucket]
            counts[digit, bucket] = offset
            offset += count
        shift = uint64(32 + DIGIT_BITS * digit)
        source, target = (buffer, packed) if digit == 1 else (packed, buffer)
        for i in range(n):
            item = source[i]
            bucket = (item >> shift) & mask
            target[counts[digit, bucket]] = item
            counts[digit, bucket] += one


@inner
def _repair(column, packed, values):
    """Fetch the values in the new order, and put right by insertion what the key left unsorted.

    Gives up (False) when that is too much work.
    """
    n = column.shape[0]
    budget = 8 * n
    for i in range(n):
        item = packed[i]
        value = column[item & ROW_MASK]
        j = i
        while j > 0 and values[j - 1] > value:
            packed[j] = packed[j - 1]
            values[j] = values[j - 1]
            j -= 1
        packed[j] = item
        values[j] = value
        budget -= i - j
        if budget < 0:
            return False
    return True


@part
def sort_column(column, payload, packed, buffer, values, counts):
    """Sort a column: its values into `values`, the rows' payloads into the low half of `buffer`, equal values by row.

    The payload of a row is its number with whatever the caller packed into the top bit. `packed` and `counts` are
    scratch; `packed` may share its memory with `values`.

    The values are mapped linearly to 32-bit keys, and what shares a key is put right by insertion. Where too many
    values crowd together for that (beside an outlier a billion times as far off) it gives up: False.
    """
    n = column.shape[0]
    low, high = column[0], column[0]
    for i in range(n):
        value = column[i]
        low = value if value < low else low
        high = value if value > high else high
    scale = KEYS / (high - low)
    if not 0.0 < scale < np.inf:
        return False
    for i in range(n):
        packed[i] = uint64((column[i] - low) * scale) << uint64(32) | uint64(payload[i])
    _sort_by_key(packed, buffer, counts)
    return _repair(column, buffer, values)
