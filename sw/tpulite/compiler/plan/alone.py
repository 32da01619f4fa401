"""What a planned convolution takes if nothing else runs: a timeline of three engines."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.arch.effects import tile_rows
from tpulite.arch.timing import COMMAND_BEATS, LOAD_LATENCY, row_cycles
from tpulite.compiler.plan.conv import ConvExtents, ConvPlan
from tpulite.compiler.plan.conv_cost import result_latency, weights_latency


@dataclass(frozen=True)
class Surroundings:
    """What a layer finds around it."""

    free_rows: int  #: Rows of the unified buffer beside tensors and constants that stay there.
    #: Whether strips of them come and go; what stays takes no further rows.
    input_in_dram: bool
    output_in_dram: bool
    #: Whether the input comes from DRAM and the output goes there, perhaps where it stays.
    loaded: bool
    stored: bool
    weights_in_dram: bool  #: Whether they must be loaded.
    #: Rows of an output vector and of the records of an n-block.
    vector_rows: int
    record_rows: int


def alone_cycles(
    plan: ConvPlan, extents: ConvExtents, around: Surroundings, config: Config
) -> float:
    """Estimate the cycles of a layer from its first LOAD to its last STORE.

    Loads come one after the other as early as they can, however little room there is; each command
    waits for its operands; each result is stored when it is complete.
    """
    size, taps = tile_rows(extents.int4, config), extents.taps
    per_row, way = row_cycles(config), result_latency(config)
    lead = weights_latency(config, int4=extents.int4)
    load, array, store = float(LOAD_LATENCY), 0.0, 0.0
    for p, rows in enumerate(plan.parts):
        vectors = len(rows) * extents.width
        read = extents.read(len(rows)) if around.input_in_dram else vectors * extents.stride
        for group in plan.groups(extents):
            for start, stop in _bounds(plan.head if p == group.start == 0 else plan.body):
                last_k = stop == extents.blocks
                if around.loaded and (not plan.whole_k or group.start == 0):
                    load += (stop - start) * read * per_row + COMMAND_BEATS
                for n in group:
                    if around.weights_in_dram and not (p and plan.keep_weights):
                        load += (stop - start) * taps * size * per_row + COMMAND_BEATS
                        if last_k and n == group.start:
                            load += len(group) * around.record_rows * per_row + COMMAND_BEATS
                    load += COMMAND_BEATS
                    tiles = (stop - start) * taps
                    array = max(array, load + lead) + tiles * max(vectors, size)
                    if last_k and around.stored:
                        load += COMMAND_BEATS
                        final = n == extents.n_blocks - 1 and p == len(plan.parts) - 1
                        pieces = plan.tail if final else (len(rows),)
                        done = array + way - vectors
                        for piece in pieces:
                            beats = piece * extents.width * around.vector_rows * per_row
                            done += piece * extents.width
                            store = max(store, done) + beats
    return max(array + way, store)


def _bounds(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    bounds, start = [], 0
    for size in sizes:
        bounds.append((start, start + size))
        start += size
    return bounds
