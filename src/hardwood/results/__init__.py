"""What attacks, proofs and evaluations return: frozen records, and the figures that follow from them."""

from hardwood.results.records import (
    AttackResult,
    Bounds,
    Certificate,
    DetectionRates,
    MarginCertificate,
    unless_interrupted,
)
from hardwood.results.report import RobustnessReport

__all__ = [
    "AttackResult",
    "Bounds",
    "Certificate",
    "DetectionRates",
    "MarginCertificate",
    "RobustnessReport",
    "unless_interrupted",
]
