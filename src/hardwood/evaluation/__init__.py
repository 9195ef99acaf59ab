"""Evaluation: what a model keeps under attack, what the simplest keeps, and what the best could keep."""

from hardwood.evaluation.metrics import adversarial_accuracy, make_adversarial_scorer
from hardwood.evaluation.robustness import evaluate

__all__ = ["adversarial_accuracy", "evaluate", "make_adversarial_scorer"]
