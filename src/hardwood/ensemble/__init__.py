"""Tree ensembles: the one form that every grower and importer ends in."""

from hardwood.ensemble.text import export_rules
from hardwood.ensemble.tree_ensemble import TreeEnsemble

__all__ = ["TreeEnsemble", "export_rules"]
