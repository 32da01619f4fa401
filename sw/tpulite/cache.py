"""Where files are kept that can be fetched or made again."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

PARTS = {
    "programs": "compiled programs",
    "zoo": "networks of the zoo",
    "onnx_tests": "ONNX conformance tests",
    "explore": "results of explore",
    "evaluate": "results of evaluate",
    "regress": "results of regress",
    "encoders": "int8 sentence encoders",
    "int4": "language models in int4",
    "vectors": "vectors of texts",
    "verilog_cache": "Verilog of chips",
    "verilated": "simulators of chips",
    "models": "simulators of RTL benches",
    "objects": "object files shared by simulators",
}
"""Folders in :func:`cache_home`, and what they hold."""


def cache_home() -> Path:
    """Return $TPULITE_CACHE, or tpulite in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get("TPULITE_CACHE"):
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tpulite"


@dataclass(frozen=True)
class CachePart:
    """A folder of the cache."""

    name: str  #: One of :data:`PARTS`.
    #: How many files it holds, and their bytes.
    files: int
    size: int

    @classmethod
    def measure(cls, name: str) -> "CachePart":
        """Count what is there."""
        files = [path for path in (cache_home() / name).rglob("*") if path.is_file()]
        return cls(name, len(files), sum(path.stat().st_size for path in files))

    def clear(self) -> None:
        """Remove it."""
        if (folder := cache_home() / self.name).exists():
            shutil.rmtree(folder)
