"""How long tests that compare bits let the compiler search for better plans."""

from typing import Any

from tpulite.compiler.options import Options
from tpulite_testing.regress import REGRESS

__all__ = ["quick_options"]

_EFFORT = Options().effort if REGRESS else 500
"""A longer search takes most of the time of compiling, and may not change a bit.

``make regress`` searches as users do. Cycles are always compared at the default effort.
"""


def quick_options(**options: Any) -> Options:
    """Return options with the defaults of tests that compare bits."""
    return Options(**{"effort": _EFFORT, **options})
