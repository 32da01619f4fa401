"""Where files are kept that can be fetched or made again."""

import os
from pathlib import Path

__all__ = ["cache_home"]


def cache_home() -> Path:
    """Return $TPULITE_CACHE, or tpulite in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get("TPULITE_CACHE"):
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tpulite"
