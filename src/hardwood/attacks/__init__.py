"""Attacks: adversarial examples, the nearest or any, of tree models and of others."""

from hardwood.attacks.black_box import black_box_attack
from hardwood.attacks.nearest import attack, is_vulnerable
from hardwood.attacks.transfer import transfer_attack

__all__ = ["attack", "black_box_attack", "is_vulnerable", "transfer_attack"]
