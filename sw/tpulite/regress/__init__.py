"""Regressions: checks by seed, handed out in ranges."""
