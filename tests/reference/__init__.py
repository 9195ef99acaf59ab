"""Slow, obvious oracles in plain NumPy."""
