"""What a tree is grown from."""

from hardwood.rows.task import Task as Problem

__all__ = ["Problem"]
