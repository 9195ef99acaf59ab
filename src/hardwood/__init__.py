"""Decision trees that hold up against adversarial examples: train them, attack them, evaluate them."""

from hardwood.attack import attack, is_vulnerable
from hardwood.convert import as_ensemble
from hardwood.datasets import list_datasets, load_dataset
from hardwood.ensemble import TreeEnsemble
from hardwood.estimators import RobustTreeClassifier
from hardwood.metrics import adversarial_accuracy
from hardwood.results import AttackResult
from hardwood.rules import export_rules
from hardwood.threat import ThreatModel

__version__ = "0.1.0.dev0"

__all__ = [
    "AttackResult",
    "RobustTreeClassifier",
    "ThreatModel",
    "TreeEnsemble",
    "adversarial_accuracy",
    "as_ensemble",
    "attack",
    "export_rules",
    "is_vulnerable",
    "list_datasets",
    "load_dataset",
]
