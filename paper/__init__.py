"""The GROOT paper's experiments, run again beside its published figures: ``python -m paper``.

A user of hardwood as any other: what it imports from there is public.
"""
