"""Decision trees that hold up against adversarial examples: train them, attack them, evaluate them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardwood.attacks import attack, black_box_attack, is_vulnerable, transfer_attack
    from hardwood.convert import as_ensemble
    from hardwood.datasets import list_datasets, load_dataset
    from hardwood.ensemble import TreeEnsemble
    from hardwood.ensemble.text import export_rules
    from hardwood.estimators import (
        HardenedClassifier,
        OptimalRobustTreeClassifier,
        RobustBoostingClassifier,
        RobustBoostingRegressor,
        RobustForestClassifier,
        RobustForestRegressor,
        RobustTreeClassifier,
        RobustTreeRegressor,
        TreantClassifier,
    )
    from hardwood.evaluation import adversarial_accuracy, evaluate, make_adversarial_scorer
    from hardwood.refinement import prune, pruning_path, refine, relabel
    from hardwood.results import (
        AttackResult,
        Certificate,
        MarginCertificate,
        RegressionAttackResult,
        RegressionReport,
        RobustnessReport,
    )
    from hardwood.table import stream
    from hardwood.threat import AttackRule, OneHotGroup, ThreatModel, find_one_hot_groups
    from hardwood.verification import verify

__version__ = "0.1.0.dev0"

__all__ = [
    "AttackResult",
    "AttackRule",
    "Certificate",
    "HardenedClassifier",
    "MarginCertificate",
    "OneHotGroup",
    "OptimalRobustTreeClassifier",
    "RegressionAttackResult",
    "RegressionReport",
    "RobustBoostingClassifier",
    "RobustBoostingRegressor",
    "RobustForestClassifier",
    "RobustForestRegressor",
    "RobustTreeClassifier",
    "RobustTreeRegressor",
    "RobustnessReport",
    "ThreatModel",
    "TreantClassifier",
    "TreeEnsemble",
    "adversarial_accuracy",
    "as_ensemble",
    "attack",
    "black_box_attack",
    "evaluate",
    "export_rules",
    "find_one_hot_groups",
    "is_vulnerable",
    "list_datasets",
    "load_dataset",
    "make_adversarial_scorer",
    "prune",
    "pruning_path",
    "refine",
    "relabel",
    "stream",
    "transfer_attack",
    "verify",
]

# Imported when first used: a command that only prints its help should not wait for numba and scikit-learn.
_HOME = {
    "AttackRule": "threat",
    "AttackResult": "results",
    "Certificate": "results",
    "HardenedClassifier": "estimators",
    "OneHotGroup": "threat",
    "MarginCertificate": "results",
    "OptimalRobustTreeClassifier": "estimators",
    "RegressionAttackResult": "results",
    "RegressionReport": "results",
    "RobustBoostingClassifier": "estimators",
    "RobustBoostingRegressor": "estimators",
    "RobustForestClassifier": "estimators",
    "RobustForestRegressor": "estimators",
    "RobustTreeClassifier": "estimators",
    "RobustTreeRegressor": "estimators",
    "RobustnessReport": "results",
    "ThreatModel": "threat",
    "TreantClassifier": "estimators",
    "TreeEnsemble": "ensemble",
    "adversarial_accuracy": "evaluation",
    "as_ensemble": "convert",
    "attack": "attacks",
    "black_box_attack": "attacks",
    "evaluate": "evaluation",
    "export_rules": "ensemble",
    "find_one_hot_groups": "threat",
    "is_vulnerable": "attacks",
    "list_datasets": "datasets",
    "load_dataset": "datasets",
    "make_adversarial_scorer": "evaluation",
    "prune": "refinement",
    "pruning_path": "refinement",
    "refine": "refinement",
    "relabel": "refinement",
    "stream": "table",
    "transfer_attack": "attacks",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardwood' has no attribute {name!r}")
    return getattr(import_module(f"hardwood.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
