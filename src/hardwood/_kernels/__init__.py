"""Compiled kernels: arrays in, arrays out. The only room that imports numba."""
