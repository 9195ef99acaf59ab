"""Pictures of trees and threat models. The only room that imports matplotlib."""

from hardwood.plot.regions import DecisionRegionDisplay
from hardwood.plot.threat_models import plot_threat_models, save_threat_models

__all__ = ["DecisionRegionDisplay", "plot_threat_models", "save_threat_models"]
