"""What attacks, proofs and evaluations return: frozen records, and the figures that follow from them."""

from hardwood.results.records import (
    AttackResult,
    Bounds,
    Certificate,
    DetectionRates,
    ErrorBounds,
    MarginCertificate,
    RegressionAttackResult,
    unless_interrupted,
)
from hardwood.results.regression_report import RegressionReport
from hardwood.results.report import RobustnessReport

__all__ = [
    "AttackResult",
    "Bounds",
    "Certificate",
    "DetectionRates",
    "ErrorBounds",
    "MarginCertificate",
    "RegressionAttackResult",
    "RegressionReport",
    "RobustnessReport",
    "unless_interrupted",
]
