"""Pooling: on the vector path, and windows that do not fit by tiles."""
