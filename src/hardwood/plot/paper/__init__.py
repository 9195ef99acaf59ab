"""Figures of the GROOT paper: its idea, its toy tables, its scores."""
