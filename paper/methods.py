"""The methods of the paper's table, and what refinement adds, each as an estimator with the paper's settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from hardwood import AttackRule, HardenedClassifier, RobustTreeClassifier, ThreatModel, TreantClassifier
from paper.published import DEPTH, EPSILON

HARDENED_TREES = 10
HARDENING_ROUNDS = 2


@dataclass(frozen=True)
class Learner:
    """A way to grow trees: its key, its name, and how it is made from the number of features and the depth."""

    key: str
    title: str
    make: Callable[[int, int], Any]


@dataclass(frozen=True)
class Method(Learner):
    """A learner with a column in the published table, by its key.

    A score that is further than `bar` from the published one is explained on the page.
    """

    bar: float


def radius_as_rules(features: int, budget: int) -> ThreatModel:
    """Write the radius as the paper did for TREANT: two rules per feature, each feature once.

    Examples
    --------
    >>> radius_as_rules(1, 4)
    ThreatModel(rules=[AttackRule(0, add=-0.1), AttackRule(0, add=0.1)], budget=4.0, repeat=False)
    """
    rules = [AttackRule(feature, add=step) for feature in range(features) for step in (-EPSILON, EPSILON)]
    return ThreatModel(rules=rules, budget=budget, repeat=False)


def _make_natural(features: int, depth: int) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=depth, random_state=1)


def _make_chen(features: int, depth: int) -> RobustTreeClassifier:
    return RobustTreeClassifier(EPSILON, attacker="chen", max_depth=depth, n_jobs=1)


def _make_chen_greedy(features: int, depth: int) -> RobustTreeClassifier:
    return RobustTreeClassifier(EPSILON, attacker="chen-greedy", max_depth=depth, n_jobs=1)


def _make_groot(features: int, depth: int) -> RobustTreeClassifier:
    return RobustTreeClassifier(EPSILON, max_depth=depth, n_jobs=1)


def _make_refined(refine: str, features: int, depth: int) -> RobustTreeClassifier:
    return RobustTreeClassifier(EPSILON, refine=refine, max_depth=depth, random_state=1, n_jobs=1)


def _make_treant(features: int, depth: int) -> TreantClassifier:
    return TreantClassifier(radius_as_rules(features, depth), max_depth=depth, n_jobs=1)


def _make_hardened(method: str, features: int, depth: int) -> HardenedClassifier:
    from sklearn.ensemble import GradientBoostingClassifier  # slow to import, and the command line need not wait

    boosting = GradientBoostingClassifier(n_estimators=HARDENED_TREES, max_depth=depth, random_state=1)
    norm = 0 if method == "coordinate" else np.inf
    return HardenedClassifier(boosting, EPSILON, method=method, norm=norm, rounds=HARDENING_ROUNDS, n_jobs=1)


METHODS = (
    Method("natural", "Natural", _make_natural, bar=0.002),
    Method("chen", "Chen et al.", _make_chen, bar=0.02),
    Method("groot", "GROOT", _make_groot, bar=0.01),
    Method("treant", "TREANT", _make_treant, bar=0.02),
)

# GROOT's trees, refined at the same depth: not in the paper.
REFINED = (
    Learner("alternate", "Refined, alternate", partial(_make_refined, "alternate")),
    Learner("search", "Refined, search", partial(_make_refined, "search")),
)

# Those in the paper's overview of complexities that are not in its table of scores.
GREEDY = Learner("chen-greedy", "Chen et al., greedy", _make_chen_greedy)
EXACT_HARDENING = Learner("hardening-exact", "Hardening, exact attack", partial(_make_hardened, "search"))
L0_HARDENING = Learner("hardening-coordinate", "Hardening, L0 attack", partial(_make_hardened, "coordinate"))


def make_rho_tree(rho: float) -> RobustTreeClassifier:
    """Return the robust tree of the paper's settings for attackers of whom a share `rho` attacks."""
    return RobustTreeClassifier(EPSILON, rho=rho, max_depth=DEPTH, n_jobs=1)
