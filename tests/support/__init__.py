"""Processes and helpers that tests start."""
