"""What a planned convolution takes if nothing else runs: a timeline of three engines."""

from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.memory import REFERENCE_MEMORY
from tpulite.compiler.plan.conv import ConvExtents, ConvPlan

__all__ = ["Surroundings", "alone_cycles"]

_LOAD = REFERENCE_MEMORY.read_latency + 3
_COMMAND = COMMAND_BYTES // BEAT_BYTES
_WEIGHTS = 3  # beyond the rows of a tile: from the start to the first vector
_DRAIN = 11  # beyond 2 N: from the last vector to its visible result


@dataclass(frozen=True)
class Surroundings:
    """What a layer finds around it.

    Parameters
    ----------
    free_rows : int
        Rows of the unified buffer beside tensors and constants that stay there.
    input_in_dram, output_in_dram : bool
        Whether strips of them come and go; what stays takes no further rows.
    loaded, stored : bool
        Whether the input comes from DRAM and the output goes there, perhaps where it stays.
    weights_in_dram : bool
        Whether they must be loaded.
    vector_rows, record_rows : int
        Rows of an output vector and of the records of an n-block.
    """

    free_rows: int
    input_in_dram: bool
    output_in_dram: bool
    loaded: bool
    stored: bool
    weights_in_dram: bool
    vector_rows: int
    record_rows: int


def alone_cycles(
    plan: ConvPlan, extents: ConvExtents, around: Surroundings, config: Config
) -> float:
    """Estimate the cycles of a layer from its first LOAD to its last STORE.

    Loads come one after the other as early as they can, however little room there is; each command
    waits for its operands; each result is stored when it is complete.
    """
    size, taps = config.array_size, extents.taps
    per_row = max(1, config.row_bytes // BEAT_BYTES)
    load, array, store = float(_LOAD), 0.0, 0.0
    for p, rows in enumerate(plan.parts):
        vectors = len(rows) * extents.width
        read = extents.read(len(rows)) if around.input_in_dram else vectors * extents.stride
        for group in plan.groups(extents):
            for start, stop in _bounds(plan.head if p == group.start == 0 else plan.body):
                last_k = stop == extents.blocks
                if around.loaded and (not plan.whole_k or group.start == 0):
                    load += (stop - start) * read * per_row + _COMMAND
                for n in group:
                    if around.weights_in_dram and not (p and plan.keep_weights):
                        load += (stop - start) * taps * size * per_row + _COMMAND
                        if last_k and n == group.start:
                            load += len(group) * around.record_rows * per_row + _COMMAND
                    load += _COMMAND
                    tiles = (stop - start) * taps
                    array = max(array, load + size + _WEIGHTS) + tiles * max(vectors, size)
                    if last_k and around.stored:
                        load += _COMMAND
                        final = n == extents.n_blocks - 1 and p == len(plan.parts) - 1
                        pieces = plan.tail if final else (len(rows),)
                        done = array + 2 * size + _DRAIN - vectors
                        for piece in pieces:
                            beats = piece * extents.width * around.vector_rows * per_row
                            done += piece * extents.width
                            store = max(store, done) + beats
    return max(array + 2 * size + _DRAIN, store)


def _bounds(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    bounds, start = [], 0
    for size in sizes:
        bounds.append((start, start + size))
        start += size
    return bounds
