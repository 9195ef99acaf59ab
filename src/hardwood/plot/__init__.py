"""Pictures of models under attack. The only room that imports matplotlib."""

from hardwood.plot.backend import check_can_draw
from hardwood.plot.curve import RobustnessCurveDisplay, save_robustness_curve
from hardwood.plot.example import AdversarialExampleDisplay
from hardwood.plot.paper.adversarial_gini import plot_adversarial_gini, plot_concavity
from hardwood.plot.paper.black_box import plot_black_box
from hardwood.plot.paper.ranks import plot_critical_differences
from hardwood.plot.paper.scores import plot_average_scores, plot_rho, plot_run_times
from hardwood.plot.paper.threat_models import plot_threat_models, save_threat_models
from hardwood.plot.pictures import save_picture
from hardwood.plot.regions import DecisionRegionDisplay

__all__ = [
    "AdversarialExampleDisplay",
    "DecisionRegionDisplay",
    "RobustnessCurveDisplay",
    "check_can_draw",
    "plot_adversarial_gini",
    "plot_average_scores",
    "plot_black_box",
    "plot_concavity",
    "plot_critical_differences",
    "plot_rho",
    "plot_run_times",
    "plot_threat_models",
    "save_picture",
    "save_robustness_curve",
    "save_threat_models",
]
