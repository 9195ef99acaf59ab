"""What a threshold is worth if a row has a number, by squared error, once the attacker has moved.

Say the left side has the smaller mean, `a < b` (sign +1). A movable row above `c = (a + b) / 2` is hurt more on the
left, one below more on the right. So the attacker's best answer is a number `c`: movable rows above it ("high") go
left, those below it ("low") go right, and what is left of the squared error is largest where `c` is the midpoint of the
means that it makes. With sign -1 it is the other way round. If any one move levels both sides the gain is 0, so a
single move tells which sign may hold.

The rows of a node are numbered by their numbers: `rank` 0 has the least, and rows with equal numbers have one rank and
move together. A pointer into the ranks stands for `c`. Wherever it stands is a move, which bounds the gain from above;
it is walked to the midpoint only for thresholds whose bound beats the best gain known. If the midpoint falls on a rank,
part of its rows is high, which is known in closed form.

All sums are sums of integers: weights, and weights times numbers less the node's mean, in fixed point. They come out
the same in whatever order rows are added.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.criteria import ROUNDING, SPLITTER
from hardwood._kernels.grow.orders import GROUP, ID_MASK
from hardwood._kernels.grow.scanning import SLACK

END_BIT = uint32(31)  # of an event: whether it is the upper end of a sample's reach, see sweep.py
# Sums of numbers stay below this power of two.
SUM_BITS = 60


class Numbers(NamedTuple):
    """The samples' numbers, and what a node makes of them: scratch, by sample and by rank."""

    target: np.ndarray  # float64 per sample, ascending
    value: np.ndarray  # int64 per sample: weight times (number - mean of the node), in fixed point
    rank: np.ndarray  # int32 per sample
    height: np.ndarray  # float64 per rank: number - mean, in the unit of `value` per weight
    first: np.ndarray  # int32 per rank: its first sample
    held: np.ndarray  # int64 (rank, 3): weight, value and rows of its movable samples; 0 between scans


class Totals(NamedTuple):
    """What a node holds, in integers."""

    weight: int
    value: int
    rows: int
    size: int  # sum of the absolute values
    n_ranks: int


class Side(NamedTuple):
    """Sums of some samples."""

    weight: int
    value: int
    rows: int


class Cut(NamedTuple):
    """What is sure at a threshold, and what is not."""

    left: Side
    right: Side
    movable: Side


class Move(NamedTuple):
    """An answer of the attacker: movable samples below the pointer are low."""

    pointer: int  # a rank
    low: Side


class Found(NamedTuple):
    """The best threshold so far."""

    gain: float
    first_right: int  # the event behind it; -1 if there is none
    sign: int
    turn: int  # movable samples of this rank and above are high


@inner
def weigh(weights, sample):
    """Weight and rows of a sample; (0, 1) numbers say that each is one row."""
    if weights.shape[1] == 1:
        return int64(1), int64(1)
    return weights[sample, 0], weights[sample, 1]


@inner
def _divide(cut, low, sign):
    """Weight and value of both sides once the attacker has moved: left, left, right, right."""
    if sign > 0:
        left_weight, left_value = (
            cut.left.weight + cut.movable.weight - low.weight,
            (cut.left.value + cut.movable.value - low.value),
        )
        right_weight, right_value = cut.right.weight + low.weight, cut.right.value + low.value
    else:
        left_weight, left_value = cut.left.weight + low.weight, cut.left.value + low.value
        right_weight, right_value = (
            cut.right.weight + cut.movable.weight - low.weight,
            (cut.right.value + cut.movable.value - low.value),
        )
    return float(left_weight), float(left_value), float(right_weight), float(right_value)


@inner
def _lead(sides, sign):
    """How far the means are apart, times both weights; positive while the sign holds."""
    left_weight, left_value, right_weight, right_value = sides
    return (right_value * left_weight - left_value * right_weight) * sign


@inner
def _middle(sides):
    """Midpoint of the means."""
    left_weight, left_value, right_weight, right_value = sides
    return 0.5 * (left_value / left_weight + right_value / right_weight)


@inner
def _divide_rank(cut, low, part, height, sign):
    """Gain if the midpoint falls on a rank whose movable rows are not in `low`, and the share of them that is high."""
    left_weight, left_value, right_weight, right_value = _divide(cut, low, sign)
    weight = float(part.weight)
    if sign > 0:
        left_weight, left_value = left_weight - weight, left_value - float(part.value)
    else:
        right_weight, right_value = right_weight - weight, right_value - float(part.value)
    below = (left_weight * height - left_value) * sign
    above = (right_value - right_weight * height) * sign
    on_left = (below * (right_weight + weight) - above * left_weight) / (below + above)
    on_left = on_left if on_left > 0.0 else 0.0
    on_left = on_left if on_left < weight else weight
    left_weight, right_weight = left_weight + on_left, right_weight + weight - on_left
    apart = below / left_weight + above / right_weight
    high = on_left if sign > 0 else weight - on_left
    return left_weight * right_weight / (left_weight + right_weight) * apart * apart, high / weight


@inner
def _with(low, part, sign):
    """Sums with those of a rank added or taken away."""
    return Side(low.weight + sign * part.weight, low.value + sign * part.value, low.rows + sign * part.rows)


@inner
def solve(numbers, totals, cut, move, sign, noise):
    """Walk the pointer to the midpoint of the means: (gain, move, rank from which on movable samples are high).

    The gain is 0 if the walk comes by a move that levels both sides.
    """
    held, height = numbers.held, numbers.height
    pointer, low = move.pointer, move.low
    while True:
        sides = _divide(cut, low, sign)
        lead = _lead(sides, sign)
        if lead <= noise:
            return 0.0, Move(pointer, low), pointer
        middle = _middle(sides)
        if pointer > 0 and middle < height[pointer - 1]:
            step = int64(-1)
        elif pointer < totals.n_ranks and middle >= height[pointer]:
            step = int64(1)
        else:
            left_weight, _, right_weight, _ = sides
            return lead * lead / (left_weight * right_weight * totals.weight), Move(pointer, low), pointer
        at = pointer if step > 0 else pointer - 1
        part = Side(held[at, 0], held[at, 1], held[at, 2])
        if part.weight > 0:
            changed = _with(low, part, step)
            sides = _divide(cut, changed, sign)
            if _lead(sides, sign) <= noise:
                return 0.0, Move(pointer, low), pointer
            without = low if step > 0 else changed
            if (_middle(sides) < height[at]) == (step > 0):  # stepped over: part of the rank is high
                score, share = _divide_rank(cut, without, part, height[at], sign)
                return score, Move(at, without), at if share >= 0.5 else at + 1
            low = changed
        pointer += step


@inner
def count_left(cut, numbers, move, turn, sign):
    """Rows on the left if movable samples from `turn` on are high; the pointer is there or one before."""
    low = move.low.rows
    if turn > move.pointer:
        low += numbers.held[move.pointer, 2]
    return cut.left.rows + (cut.movable.rows - low if sign > 0 else low)


@inner
def enter(side, weight, value, rows, times):
    return Side(side.weight + times * weight, side.value + times * value, side.rows + times * rows)


@inner
def _follow(move, rank, weight, value, rows, times):
    """Keep what is low up to date while samples become movable or are so no longer."""
    return Move(move.pointer, enter(move.low, weight, value, rows, times * int64(rank < move.pointer)))


@inner
def _better(numbers, totals, cut, upward, downward, fewest, best):
    """Whether a threshold beats the best: (gain or 0, sign, turn, the two moves).

    `upward` is the move that was last looked at with the left side below the right one, `downward` the other.
    """
    left, right, movable = cut
    nothing = (0.0, int64(1), int64(0), upward, downward)
    if left.weight == 0 or right.weight == 0:
        return nothing  # the attacker can bring everybody to one side
    noise = ROUNDING * totals.weight * totals.size
    apart = float(right.value) * float(left.weight + movable.weight) - (
        float(left.value + movable.value) * float(right.weight)
    )
    sign = int64(1) if apart > 0.0 else int64(-1)
    move = upward if sign > 0 else downward
    sides = _divide(cut, move.low, sign)
    lead = _lead(sides, sign)
    if lead <= noise or lead * lead * SLACK < best * totals.weight * sides[0] * sides[2]:
        return nothing
    gain, turn = lead * lead / (sides[0] * sides[2] * totals.weight), move.pointer
    if movable.weight > 0:
        gain, move, turn = solve(numbers, totals, cut, move, sign, noise)
        if sign > 0:
            upward = move
        else:
            downward = move
    scaled = gain * SPLITTER
    gain = scaled - (scaled - gain)
    on_left = count_left(cut, numbers, move, turn, sign)
    if on_left < fewest or totals.rows - on_left < fewest:
        gain = 0.0
    return gain, sign, turn, upward, downward


@inner
def scan(events, begin, end, moves, weights, numbers, totals, fewest, start, floor):
    """Best threshold of a node's samples on one feature, whose events are `events[begin:end]`.

    `moves`: 1, or 0 for a feature that nobody can move, which has one event per sample. `fewest` rows are needed on
    either side. `start` is the rank of the node's mean. Only gains above `floor` count.
    """
    value, rank, held = numbers.value, numbers.rank, numbers.held
    nobody = Side(int64(0), int64(0), int64(0))
    left, movable = nobody, nobody
    upward, downward = Move(start, nobody), Move(start, nobody)
    found = Found(floor, int64(-1), int64(1), int64(0))
    following = events[begin]
    for i in range(uint64(begin), uint64(end - 1)):
        entry = following
        following = events[i + uint64(1)]
        sample, leaves = uint64(entry & ID_MASK), int64(entry >> END_BIT)
        weight, rows = weigh(weights, sample)
        number = value[sample]
        left = enter(left, weight, number, rows, leaves)
        if moves:
            times, at = int64(1) - int64(2) * leaves, uint64(rank[sample])
            movable = enter(movable, weight, number, rows, times)
            held[at, 0] += times * weight
            held[at, 1] += times * number
            held[at, 2] += times * rows
            upward = _follow(upward, int64(at), weight, number, rows, times)
            downward = _follow(downward, int64(at), weight, number, rows, times)
        if following & GROUP == 0:
            continue
        right = Side(
            totals.weight - left.weight - movable.weight,
            totals.value - left.value - movable.value,
            totals.rows - left.rows - movable.rows,
        )
        gain, sign, turn, upward, downward = _better(
            numbers, totals, Cut(left, right, movable), upward, downward, fewest, found.gain
        )
        if gain > found.gain:
            found = Found(gain, int64(i) + 1, sign, turn)
    last = rank[uint64(following & ID_MASK)]
    for k in range(3):
        held[last, k] = 0
    return found
