"""Kernels that refine a tree that has been grown."""
