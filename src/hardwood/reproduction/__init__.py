"""The paper's experiments, run again beside its published figures."""

from hardwood.reproduction.experiment import Experiment, Outcome
from hardwood.reproduction.report import write_report

__all__ = ["Experiment", "Outcome", "write_report"]
