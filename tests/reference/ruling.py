"""What attack rules allow, by applying them one by one on a grid.

Everything (values, conditions, steps) is a multiple of the grid's step, so that what can be reached at all can be
reached by way of grid points.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from hardwood import AttackRule, TreeEnsemble
from reference import attacking

STEP = 0.5


def apply_rule(rule: AttackRule, value: Any) -> list[Any]:
    """Everything on the grid that one application of a rule makes of a number."""
    low, high = (-math.inf, math.inf) if rule.when is None else rule.when
    if not low <= value <= high:
        return []
    if rule.set_to is not None:
        return [float(rule.set_to)]
    least, most = rule.add
    amounts = np.arange(round(least / STEP), round(most / STEP) + 1) * STEP
    return [value + float(amount) for amount in amounts]


def apply_category_rule(rule: AttackRule, value: Any) -> list[Any]:
    return [rule.set_to] if rule.when is None or value in rule.when else []


def least_costs(
    rules: list[AttackRule], value: Any, budget: float, repeat: bool, *, categorical: bool = False
) -> dict[Any, float]:
    """What every value that can be reached costs at least, by trying all orders of rules."""
    apply = apply_category_rule if categorical else apply_rule
    costs = {value: 0.0}
    pending = [(value, 0.0)]
    while pending:
        here, spent = pending.pop()
        if spent > 0.0 and not repeat:
            continue
        for rule in rules:
            cost = spent + rule.cost
            if cost > budget:
                continue
            for there in apply(rule, here):
                if cost < costs.get(there, math.inf):
                    costs[there] = cost
                    pending.append((there, cost))
    return costs


def cheapest_example(
    trees: TreeEnsemble, row: np.ndarray, label: int, options: list[dict[float, float]], budget: float
) -> float:
    """The least cost of a point that the model gives another class, by trying all of them; inf if there is none."""
    best = math.inf
    for point in product(*(costs.items() for costs in options)):
        cost = sum(price for _, price in point)
        if cost <= budget and cost < best and attacking.predict(trees, np.array([v for v, _ in point])) != label:
            best = cost
    return best
