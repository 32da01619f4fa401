"""Unified buffer."""
