"""The machines of the benches of the whole chip, and of ``tpulite regress``.

They are few because each needs a simulator of its own, which takes a minute to build.
"""

from dataclasses import replace

from tpulite.arch.config import Config

__all__ = ["DEFAULT", "FEW_LANES", "FEW_ROWS", "INT4", "INT16", "SMALL", "TRANSPOSING"]

SMALL = Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4)
"""Rows that are no whole beats; a buffer into which hardly anything fits, so that all is cut."""

INT16 = replace(SMALL, int16=True)
"""A small machine with int16."""

TRANSPOSING = replace(SMALL, transposed_tiles=True)
"""A small machine with transposed weight tiles."""

INT4 = replace(TRANSPOSING, int4=True)
"""One that has weight tiles of int4 as well."""

FEW_LANES = Config(
    array_size=8,
    ub_rows=512,
    acc_rows=64,
    requant_lanes=2,
    vector_lanes=4,
    roundings=("tflite", "ruy", "single", "away"),
    burst_beats=8,
    dma_bursts=2,
    softmax=True,
    ram_registers=True,
)
"""What smaller arrays need not have, fewer lanes than columns, no float32, and what FPGAs' have,
registers behind RAMs; softmax."""

FEW_ROWS = Config(array_size=16, ub_rows=1024, acc_rows=64)
"""Large arrays that must cut as well; only where there is time to build it."""

DEFAULT = Config()
"""The machine that users get who ask for nothing."""
