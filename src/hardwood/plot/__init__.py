"""Pictures of models under attack. The only room that imports matplotlib."""

from hardwood.plot.backend import check_can_draw
from hardwood.plot.curve import RobustnessCurveDisplay, save_robustness_curve
from hardwood.plot.example import AdversarialExampleDisplay
from hardwood.plot.regions import DecisionRegionDisplay
from hardwood.plot.threat_models import plot_threat_models, save_threat_models

__all__ = [
    "AdversarialExampleDisplay",
    "DecisionRegionDisplay",
    "RobustnessCurveDisplay",
    "check_can_draw",
    "plot_threat_models",
    "save_robustness_curve",
    "save_threat_models",
]
