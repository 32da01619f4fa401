"""How long tests that compare bits let the compiler search for better plans."""

import os
from typing import Any

from tpulite.compiler.options import Options

__all__ = ["REGRESS", "quick_options"]

REGRESS = bool(os.environ.get("TPULITE_REGRESS"))
"""Whether this is ``make regress``."""

_EFFORT = Options().effort if REGRESS else 500
"""A longer search takes most of the time of compiling, and may not change a bit.

``make regress`` searches as users do. Cycles are always compared at the default effort.
"""


def quick_options(**options: Any) -> Options:
    """Return options with the defaults of tests that compare bits."""
    return Options(**{"effort": _EFFORT, **options})
