"""Growing over blocks: steps go to every block, what they count comes back merged, states stay where they are."""

import numpy as np
import pytest

from hardwood.grow.blocks import FAN, LocalRun, Step, grow_over, merge_all


class Add(Step):
    """Adds a number to the state of every block, and counts the rows."""

    name = "add"

    def __init__(self, number):
        self.number = number

    def do(self, block, state):
        state = (0 if state is None else state) + self.number
        return state, (np.array(len(block)), np.array(state))


class Largest(Step):
    name = "largest"

    def do(self, block, state):
        return state, (np.max(block),)

    @staticmethod
    def merge(counts, others):
        return (np.maximum(counts[0], others[0]),)


def grow(number, n_steps):
    seen = []
    for _ in range(n_steps):
        seen.append(tuple(int(count) for count in (yield Add(number))))
    (largest,) = yield Largest()
    return seen, int(largest)


@pytest.mark.parametrize("n_blocks", [1, 2, 3, FAN, FAN + 1, 70])
def test_growers_side_by_side(n_blocks):
    blocks = np.array_split(np.arange(100), n_blocks)
    short, long = grow_over(LocalRun(), blocks, [grow(1, 1), grow(2, 3)])
    assert short == ([(100, n_blocks)], 99)
    assert long == ([(100, 2 * n_blocks), (100, 4 * n_blocks), (100, 6 * n_blocks)], 99)


def test_a_grower_that_wants_nothing():
    def nothing():
        return "done"
        yield

    assert grow_over(LocalRun(), [np.arange(3)], [nothing()]) == ["done"]


def test_merging_few_at_a_time():
    sizes = []

    def add(parts):
        sizes.append(len(parts))
        return sum(parts)

    assert merge_all(LocalRun(), add, list(range(100)), name="add") == 4950
    assert max(sizes) <= FAN
