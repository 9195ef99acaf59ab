"""Attacks: the nearest adversarial example of every row."""

from hardwood.attacks.single import attack, is_vulnerable

__all__ = ["attack", "is_vulnerable"]
