"""Threats: what an attacker may do, in the user's words and as arrays for one table."""

from hardwood.threat.attack_rules import AttackRule
from hardwood.threat.group_finding import find_one_hot_groups
from hardwood.threat.groups import OneHotGroup
from hardwood.threat.reach import Reach
from hardwood.threat.threat_model import ThreatModel

__all__ = ["AttackRule", "OneHotGroup", "Reach", "ThreatModel", "find_one_hot_groups"]
