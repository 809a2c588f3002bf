"""What keeps a case from being evidence."""

from __future__ import annotations


class NotStruck(Exception):
    """The fault did not hit anything, so the case says nothing."""
