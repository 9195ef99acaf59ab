"""What attacks, proofs and evaluations return: frozen records, and the figures that follow from them."""

from hardwood.results.records import AttackResult, Bounds, Certificate, unless_interrupted
from hardwood.results.report import RobustnessReport

__all__ = ["AttackResult", "Bounds", "Certificate", "RobustnessReport", "unless_interrupted"]
