"""Verification: what an attacker can and cannot do to each row, proved."""

from hardwood.verification.certify import verify

__all__ = ["verify"]
