"""Growing trees: a matrix, classes, weights and a reach become a TreeEnsemble."""
