"""Making trees more robust than they were grown."""

from hardwood.refinement.pruning import prune, pruning_path
from hardwood.refinement.refined import refine
from hardwood.refinement.relabelling import relabel

__all__ = ["prune", "pruning_path", "refine", "relabel"]
