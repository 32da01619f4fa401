"""Functions of one number that a file writes with several operators."""

from collections.abc import Mapping
from typing import Any

Step = tuple[str, tuple[int, ...], Mapping[str, Any]]
"""Operator, the steps whose results it takes, and its attributes; ``constant`` has a ``value``."""

X = -1
"""The step that is the argument."""

PAIRS = ("add", "sub", "mul", "maximum", "minimum")
"""Operators of two numbers that steps may have, besides the functions of one."""
