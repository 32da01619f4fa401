"""How large a machine is on an ECP5: closed forms for memories and multipliers, a fit for the rest.

The fit has a few numbers for each group of blocks (``area.csv``: ``scripts/area.py`` writes it from
configurations that were synthesized) and is linear in what such blocks grow with.
"""

import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tpulite.arch.build import Build
from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import COMMANDS, ENGINE_OF
from tpulite.arch.timing import fetch_buffer, operand_rows
from tpulite.parts import Part

FITTED = ("lut", "ff", "gates")
"""What is fitted; DSP blocks and block RAMs follow from the configuration. Gates are those of a
standard-cell library, in NAND2, without large memories."""

_SLICES = {"lut": 594, "ff": 1038, "gates": 8558}
"""Register slices of both AXI ports, on any machine: two places for 504 bits."""

_DELAY_LINES = {"lut": 152, "ff": 142, "gates": 703}
"""Delay lines, a column: buses for each of two vectors with a choice, the shorter lines, the skew
of the second vector, what chooses the taps of a line, and who tells them the delay. The longer
lines are block RAMs. The unified buffer is left out, whose lookup tables became 2,398 fewer by
themselves."""

_TRANSPOSED_TILES = {"lut": 11, "ff": 1.9, "gates": 15.1}
"""Transposed weight tiles, an element: a choice of its weight, a ninth bit of its activation."""

_INT16 = {"lut": 192, "ff": 66, "gates": 1203}
"""Vectors of int16, a column: sums enter the accumulators at one of five places, requantizers keep
16 bits. 8x8 has 64 lookup tables and 50 flip-flops more."""

_INT4 = {"lut": (0.6, 15), "ff": (4.9, 5.3), "gates": (23.7, 0)}
"""Weight tiles of int4, an element, and a column: a second line that weights enter by."""

_RAM_REGISTERS = {"lut": (0, 0), "ff": (92, 56), "gates": (755, 287)}
"""Registers behind RAMs, on any machine, and for each column: a byte of six readers and of records.
Of lookup tables 4x4 has 25 less, and 8x8 50 more."""

_BRAM_FORMS = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""Rows and bits of a row that a block RAM (DP16KD) can have."""

_DISTRIBUTED_ROWS = 32
"""Memories of no more rows are lookup tables: 16 rows of 4 bits take 6."""

_TABLE_BYTES = 256

_INDEX_BITS = 24
"""Of a command's index, which goes with it through the queues."""

_QUEUE_BITS = 2048
"""Queues of so many bits are a RAM with a clock on its read port."""


@dataclass(frozen=True)
class Group:
    """Blocks that grow alike."""

    pattern: str  #: Their names begin like this regular expression.
    #: What their size is a sum of, each times a weight: numbers by machine and build.
    terms: Mapping[str, Callable[[Config, Build], float]]


def _logic_share(config: Config, build: Build) -> float:
    """Return the share of the array's columns that multiply in logic."""
    styles = [build.column_style(column) for column in range(config.array_size)]
    return styles.count("logic") / len(styles)


def _few(lanes: int, config: Config) -> int:
    """Return the channels that take turns, 0 if each has a lane."""
    return 0 if lanes == config.array_size else config.array_size


def _vector_lanes(config: Config) -> int:
    return config.array_size // config.vector_cycles


GROUPS = {
    "elements": Group(
        r"mxu\.array\.pe_",
        {
            "with_dsp": lambda c, b: c.array_size**2 * (1 - _logic_share(c, b)),
            "in_logic": lambda c, b: c.array_size**2 * _logic_share(c, b),
        },
    ),
    "skew": Group(
        r"mxu\.array\.", {"triangle": lambda c, b: c.array_size * (c.array_size - 1) / 2}
    ),
    "requantizer": Group(
        r"mxu\.requantizer\.lane_",
        {
            "lanes": lambda c, b: c.lanes,
            "lanes_in_logic": lambda c, b: c.lanes * (b.multipliers == "logic"),
        },
    ),
    "elementwise": Group(
        r"vpu\.lanes\.elementwise_",
        {
            "lanes": lambda c, b: _vector_lanes(c),
            "lanes_in_logic": lambda c, b: _vector_lanes(c) * (b.multipliers == "logic"),
        },
    ),
    "tables": Group(
        r"vpu\.lanes\.table",
        {
            "lanes": lambda c, b: _vector_lanes(c),
            "lanes_of_luts": lambda c, b: _vector_lanes(c) * _distributed(_TABLE_BYTES, c),
        },
    ),
    "buffer": Group(
        r"buffer$",
        {
            "one": lambda c, b: 1,
            "banks": lambda c, b: c.ub_banks,
            "bank_bytes": lambda c, b: c.ub_banks * c.array_size,
        },
    ),
    "queues": Group(
        r"processor\.dispatcher",
        {
            "one": lambda c, b: 1,
            "second": lambda c, b: c.queue_depth > 1,
            "longer": lambda c, b: c.queue_depth > 2,
            "depth": lambda c, b: c.queue_depth,
        },
    ),
    "rest": Group(
        r"(?!buffer\.bank)",  # the banks are memory
        {
            "one": lambda c, b: 1,
            "columns": lambda c, b: c.array_size,
            "drain_in_turns": lambda c, b: _few(c.lanes, c),
            "vectors_in_turns": lambda c, b: _few(_vector_lanes(c), c),
        },
    ),
}
"""Groups of blocks; a block belongs to the first that its name fits."""

Weights = Mapping[tuple[str, str], Mapping[str, float]]
"""By group and term, the weight of each of :data:`FITTED`."""


def group_of(block: str) -> str | None:
    """Return the group of a block by its name; None if it is memory and nothing else."""
    return next((name for name, group in GROUPS.items() if re.match(group.pattern, block)), None)


def area(config: Config, build: Build, weights: Weights | None = None) -> Part:
    """Estimate what a machine takes of an ECP5, blocks synthesized alone.

    Parameters
    ----------
    build : Build
        How it is written; macros count as if memories were ``generic``.
    weights : Weights, optional
        By default those of the package.
    """
    memories = _memories(config)
    luts = _fitted(config, build, "lut", weights)
    luts += sum(6 * count * _tables(*shape) for count, *shape in memories)
    brams = sum(count * _brams(*shape) for count, *shape in memories)
    if build.memories == "block":
        asked = _block_if_asked(config)
        luts -= sum(6 * count * _columns(*shape) for count, *shape in asked)
        brams += sum(count * _block_rams(*shape) for count, *shape in asked)
    ffs = _fitted(config, build, "ff", weights)
    return Part(round(luts), round(ffs), _dsps(config, build), brams)


def gates(config: Config, weights: Weights | None = None) -> int:
    """Estimate the area of a machine in standard cells, in NAND2, without large memories.

    There are no DSP blocks, so that how it is written does not matter.

    Parameters
    ----------
    weights : Weights, optional
        By default those of the package.
    """
    return round(_fitted(config, Build(), "gates", weights))


def _fitted(config: Config, build: Build, resource: str, weights: Weights | None) -> float:
    weights = _weights() if weights is None else weights
    fixed = _SLICES[resource] * config.axi_slices
    once, column = _RAM_REGISTERS[resource]
    fixed += (once + column * config.array_size) * config.ram_registers
    fixed += _DELAY_LINES[resource] * config.array_size * config.has_delay_lines
    fixed += _TRANSPOSED_TILES[resource] * config.array_size**2 * config.has_transposed_tiles
    fixed += _INT16[resource] * config.array_size * config.int16
    element, column = _INT4[resource]
    fixed += (element * config.array_size + column) * config.array_size * config.int4
    return fixed + sum(
        weights[name, term][resource] * value(config, build)
        for name, group in GROUPS.items()
        for term, value in group.terms.items()
    )


def read_weights(text: str) -> Weights:
    """Return the weights of a table with the columns group, term, and :data:`FITTED`."""
    rows = csv.DictReader(text.splitlines())
    return {(row["group"], row["term"]): {x: float(row[x]) for x in FITTED} for row in rows}


@cache
def _weights() -> Weights:
    return read_weights(files("tpulite.explore").joinpath("area.csv").read_text())


def _memories(config: Config) -> list[tuple[int, int, int]]:
    """Return how many there are of each large memory, its rows and the bits of a row."""
    size = config.array_size
    return [
        (config.ub_banks, config.ub_rows // config.ub_banks, 8 * size),
        (1, config.acc_rows, 32 * size),
        (1, 64, 32),  # counters
        # Of the tables' and the records' luts the fit knows.
        (_vector_lanes(config) * (not _distributed(_TABLE_BYTES, config)), 64, 32),
        (int(size > 4), 64, 8 * size),
        (2 * config.has_delay_lines, 64, 8 * size),
    ]


def _block_if_asked(config: Config) -> list[tuple[int, int, int]]:
    """Return the same of what is block RAM only if the configuration asks for it.

    That are lookup tables of few rows, and queues that are a RAM (``lib.fifo``); of the tables that
    they take otherwise the fit knows.
    """
    row = 8 * config.array_size
    queues = [
        (1, fetch_buffer(config), 8 * COMMAND_BYTES),
        (int(config.array_size == 4), 64, row + 6),  # records; in larger machines block RAM anyway
        (1, 2 * config.array_size, row),  # weights
        (2, operand_rows(config), row),
        (1, 16, row),  # results of the vector path
    ]
    queues += [(1, config.queue_depth, COMMANDS[code].width + _INDEX_BITS) for code in ENGINE_OF]
    found = [(count, rows, bits) for count, rows, bits in queues if rows * bits >= _QUEUE_BITS]
    if _distributed(_TABLE_BYTES, config):
        found.append((_vector_lanes(config), _TABLE_BYTES // config.row_bytes, row))
    return found


def _distributed(content: int, config: Config) -> bool:
    """Tell whether a memory of so many bytes, in rows of the buffer, is made of lookup tables."""
    return content // config.row_bytes <= _DISTRIBUTED_ROWS


def _tables(rows: int, bits: int) -> int:
    return 0 if rows > _DISTRIBUTED_ROWS else _columns(rows, bits)


def _columns(rows: int, bits: int) -> int:
    return -(-rows // 16) * -(-bits // 4)


def _brams(rows: int, bits: int) -> int:
    return 0 if rows <= _DISTRIBUTED_ROWS else _block_rams(rows, bits)


def _block_rams(rows: int, bits: int) -> int:
    return min(-(-rows // depth) * -(-bits // width) for depth, width in _BRAM_FORMS)


def _dsps(config: Config, build: Build) -> int:
    """Return the multipliers of 18 x 18 of elements, lanes and a divider."""
    elements = round(config.array_size**2 * (1 - _logic_share(config, build)))
    if build.lane_style == "logic":
        return elements
    wide = config.lanes + config.has_softmax
    return elements + 2 * _vector_lanes(config) + 4 * wide
