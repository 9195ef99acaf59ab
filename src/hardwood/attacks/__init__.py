"""Attacks: the nearest adversarial example of every row."""

from hardwood.attacks.nearest import attack, is_vulnerable

__all__ = ["attack", "is_vulnerable"]
