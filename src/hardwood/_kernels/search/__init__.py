"""The loops behind attacks on ensembles and proofs about them."""
