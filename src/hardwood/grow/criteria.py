"""The criteria by which splits are compared, by the names that users give them."""

from hardwood._kernels.grow.criteria import ENTROPY, ERROR, GINI

CRITERIA = {"gini": GINI, "entropy": ENTROPY, "error": ERROR}
