"""Lowering: a plan becomes commands without addresses; one file, or folder, a family of layers."""
