"""What C must know of the layer of a network before its shape is, and which layers have no C."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.isa import CONV, Axis, Drain
from tpulite.arch.numerics import INT8
from tpulite.compiler.bind.network import Network
from tpulite.compiler.geometry.axis import Axis1D, Number, ceil_div, least, most
from tpulite.compiler.operators.conv import Convolution
from tpulite.compiler.operators.depthwise import DepthwiseFilter
from tpulite.compiler.operators.operator import Shape, ShapeRange
from tpulite.compiler.operators.pointwise import Pointwise
from tpulite.compiler.operators.pool import Pooling
from tpulite.compiler.plan.conv_facts import Units
from tpulite.compiler.plan.depthwise import FINENESS, Pattern, stays
from tpulite.compiler.plan.pointwise import SLOTS
from tpulite.compiler.plan.slabs import Strategy
from tpulite.export.c_text import Code, array, define, table


@dataclass(frozen=True)
class OperatorText:
    """An operator in C."""

    function: str  #: The function that says its commands.
    facts: str  #: Definitions, of which ``facts`` is the last.
    kinds: Mapping[str, int]  #: Number of each kind of strategy.
    constants_most: int  #: Most bytes of its constants.
    #: Returns a number that the commands of a strategy for a shape do not exceed, in closed form.
    commands: Callable[[Strategy, Shape], Number]
    #: How often the tiles that a strategy counts as slabs are computed: for each channel block.
    passes: int = 1
    plane: bool = False  #: Whether batch, height and width count as their product alone.


def bytes_text(name: str, data: bytes) -> str:
    """Return the definition of a constant array of bytes."""
    return "static " + array("uint8_t", name, np.frombuffer(data, np.uint8)) + "\n"


def axis_fields(axis: Axis1D) -> dict[str, Any]:
    """Return the fields of a ``tpulite_axis``."""
    names = "kernel", "stride", "dilation", "before", "after"
    return {name: getattr(axis, name) for name in names}


def pointwise_text(operator: Pointwise, network: Network, shapes: ShapeRange) -> OperatorText:
    """Return a layer in C whose vectors need one vector of each input."""
    facts, sources = operator.facts, network.nodes[0].inputs
    assert shapes.channels is not None
    inputs, size = network.layers.inputs, network.config.array_size
    each = RECORD_BYTES if facts.block_rows else len(operator.parameters)
    values = {
        "operation": int(facts.operation),
        "places": SLOTS,
        "low": INT8[0],
        "high": INT8[-1],
        "block_rows": facts.block_rows,
        "common_rows": facts.common_rows,
        "operands": len(sources),
        "sources": [inputs.index(name) for name in sources],
        "broadcast": int(facts.broadcast),
        "constants": Code("constants"),
        "constants_bytes": each,
        "spare": Code("spare" if operator.spare else "NULL"),
    }
    text = bytes_text("constants", operator.parameters)
    if operator.spare:
        text += bytes_text("spare", operator.spare)
    text += define("static const tpulite_pointwise", "facts", values)

    def commands(strategy: Strategy, shape: Shape) -> Number:
        tiles, parts = strategy.sizes["tiles"], strategy.sizes["parts"]
        vectors = parts * ceil_div(shape.channels, size) if facts.block_rows else tiles
        loads = len(sources) + (1 if facts.block_rows else 0)
        return tiles * (loads + 1) + vectors + (1 if facts.common_rows else 0)

    most = ceil_div(shapes.channels[1], size) * size * each if facts.block_rows else each
    kinds = {"planes": 0, "slabs": 1}
    return OperatorText("tpulite_bind_pointwise", text, kinds, most, commands, plane=True)


_MOST_RECORDS = 1024
"""Sizes of windows that C can tell apart; each has a record of its own."""

_POOL_KINDS = {"rows": 0, "block": 0, "lone block": 0, "panel": 1, "lone panel": 1}


def pool_text(operator: Pooling, network: Network) -> OperatorText:
    """Return a pooling layer in C; ValueError if its windows may have too many sizes."""
    facts, layer = operator.facts, operator.layer
    y, x = facts.y, facts.x
    sizes: list[int] = []
    if layer.op == "average":
        sides = range(1, y.kernel + 1), range(1, x.kernel + 1)
        sizes = sorted({high * wide for high, wide in product(*sides)})
        if len(sizes) > _MOST_RECORDS:
            raise ValueError(
                f"{layer.title} cannot be bound in C: its windows have {len(sizes)} sizes, and C "
                f"tells {_MOST_RECORDS} apart"
            )
    records = [operator.record(size) for size in sizes or [1]] if layer.op != "max" else []
    values = {
        **operator.fields,
        "operation": int(operator.fields["operation"]),
        "y": axis_fields(y),
        "x": axis_fields(x),
        "record_rows": facts.record_rows,
        "records": Code("records" if records else "NULL"),
        "record_count": len(records),
        "record_bytes": len(records[0]) if records else 0,
        "window_sizes": Code("window_sizes" if sizes else "NULL"),
    }
    text = bytes_text("records", b"".join(records)) if records else ""
    if sizes:
        text += "static " + array("uint16_t", "window_sizes", np.array(sizes)) + "\n"
    text += define("static const tpulite_pool", "facts", values)

    def commands(strategy: Strategy, shape: Shape) -> Number:
        found = strategy.sizes
        rows, columns = y.outputs(shape.height), x.outputs(shape.width)
        # Windows of one size: clipped ones are alone; and slabs and panels are cut.
        down = shape.batch * least(rows, y.clipped + 1) + found["slabs"]
        across = least(columns, x.clipped + 1) + found["panels"]
        tiles = found["slabs"] * found["panels"] * found["groups"]
        blocks = ceil_div(shape.channels, network.config.array_size)
        return 2 * tiles + down * across * blocks + 1

    return OperatorText("tpulite_bind_pool", text, _POOL_KINDS, sum(map(len, records)), commands)


_CONV_KINDS = {
    "resident": 0,
    "followed": 1,
    "streamed": 2,
    "tiles": 3,
    "lone tiles": 3,
    "panels": 4,
    "lone panels": 4,
}


def conv_text(operator: Convolution, network: Network) -> OperatorText:
    """Return a convolution in C."""
    facts, config = operator.facts, network.config
    columns = operator.axes_of(1, 1)[1]
    numbers = facts.numbers
    values = {
        "y": axis_fields(facts.y),
        "x": axis_fields(facts.x),
        "columns": axis_fields(columns),
        "flat": int(operator.flat),
        "byte_step": facts.byte_step,
        "int4": int(facts.int4),
        "form": int(numbers["form"]),
        "drain": int(numbers["drain"]),
        "requantized": int(facts.form is not None),
        "input_zero": operator.zero_points[0],
        "weight_zero": operator.zero_points[1],
        "blocks": facts.blocks,
        "outputs": facts.n_blocks,
        "accumulators": config.acc_rows,
        "tallest": facts.tallest,
        "widest": facts.widest,
        "small": Code("small"),
        "large": Code("large"),
        "small_count": len(facts.small.output),
        "large_count": len(facts.large.output),
        "constants": Code("constants"),
        "constants_bytes": len(operator.constants),
    }
    text = bytes_text("constants", operator.constants)
    text += _units("small", facts.small) + _units("large", facts.large)
    text += define("static const tpulite_conv", "facts", values)

    def commands(strategy: Strategy, shape: Shape) -> Number:
        found = strategy.sizes
        rows = shape.batch * facts.y.outputs(shape.height)
        width = columns.outputs(shape.width)
        if operator.flat:
            rows, width = shape.batch * shape.height * shape.width, 1
        tiles = found["slabs"] * found["panels"]
        # Regions: slabs are cut at images, and where accumulators are full.
        lines = least(most(config.acc_rows // width, 1), facts.tallest)
        pieces = found["slabs"] + shape.batch + ceil_div(rows, lines)
        across = ceil_div(width, least(config.acc_rows, facts.widest))
        regions = pieces * most(across, found["panels"])
        units = max(len(facts.small.output), len(facts.large.output))
        return regions * units * 3 + tiles * (facts.n_blocks + 1) + units

    most_bytes = len(operator.constants)
    return OperatorText("tpulite_bind_conv", text, _CONV_KINDS, most_bytes, commands)


def _units(name: str, units: Units) -> str:
    rows = units.table.T.tolist()
    return table("tpulite_unit", name, rows)


_WIDEST = CONV.limit("width")

_DEPTHWISE_KINDS = {
    f"{kind} {axis.name}": int(not stays(kind))
    for kind in (
        *(f"{kind}{part}" for kind in ("resident", "streamed") for part in FINENESS),
        *("paired", "lone"),
    )
    for axis in Axis
}


def depthwise_text(operator: DepthwiseFilter, network: Network) -> OperatorText:
    """Return a depthwise convolution in C."""
    facts, config = operator.facts, network.config
    weights, x = facts.weights, facts.x
    text = bytes_text("constants", operator.constants)
    for number, pattern in enumerate(weights.patterns):
        text += table("tpulite_taps", f"taps_{number}", pattern.taps.table.T.tolist())
    patterns = [_pattern(pattern, number) for number, pattern in enumerate(weights.patterns)]
    text += table("tpulite_pattern", "patterns", patterns)
    values = {
        "y": axis_fields(facts.y),
        "x": axis_fields(x),
        "patterns": Code("patterns"),
        "at_once": int(facts.at_once),
        "form": int(weights.form),
        "drain": int(Drain.REQUANTIZE),
        "input_zero": operator.zero_points[0],
        "weight_zero": operator.zero_points[1],
        "blocks": facts.blocks,
        "accumulators": config.acc_rows,
        "widest": _WIDEST,
        "banks": config.ub_banks,
        "record_rows": weights.record_rows,
        "zeros": weights.zeros,
        "constants": Code("constants"),
        "constants_bytes": len(operator.constants),
    }
    text += define("static const tpulite_depthwise", "facts", values)

    def commands(strategy: Strategy, shape: Shape) -> Number:
        found = strategy.sizes
        pattern = weights.patterns[found["pattern"]]
        rows, width = shape.batch * facts.y.outputs(shape.height), x.outputs(shape.width)
        widest = least((_WIDEST - x.reach) // x.stride + 1, config.acc_rows)
        along_rows = pattern.inner == Axis.Y
        across = ceil_div(width, widest) if along_rows else pattern.parts(width, widest)
        lines = most(config.acc_rows // ceil_div(width, across), 1)
        if along_rows:  # outputs are cut into parts of the fewest that any cut has
            lines = least(lines, pattern.few)
        regions = (found["slabs"] + shape.batch + ceil_div(rows, lines)) * across
        return facts.blocks * (regions * (len(pattern.taps) + 1) + 4 * found["slabs"]) + 1

    size = len(operator.constants)
    return OperatorText(
        "tpulite_bind_depthwise", text, _DEPTHWISE_KINDS, size, commands, passes=facts.blocks
    )


def _pattern(pattern: Pattern, number: int) -> dict[str, object]:
    return {
        "inner": int(pattern.inner),
        "along_rows": int(pattern.inner == Axis.Y),
        "most": pattern.most,
        "few": pattern.few,
        "many": pattern.many,
        "numbers": pattern.numbers,
        "offset": pattern.offset,
        "taps": Code(f"taps_{number}"),
        "tap_count": len(pattern.taps),
        "step": pattern.step,
    }


def operator_text(network: Network, shapes: ShapeRange) -> OperatorText:
    """Return a network of one layer in C, but for its selector.

    ValueError if there is more than one layer, or there is no C for the layer.
    """
    first, *others = network.nodes
    layer = first.layer
    if others:
        raise ValueError(
            f"{others[0].layer.title} follows {layer.title}, and C binds one layer to shapes; "
            "--inputs and --outputs cut one out"
        )
    match first.operator:
        case Pointwise() as operator:
            return pointwise_text(operator, network, shapes)
        case Pooling() as operator:
            return pool_text(operator, network)
        case Convolution() as operator:
            return conv_text(operator, network)
        case operator:
            assert isinstance(operator, DepthwiseFilter)
            return depthwise_text(operator, network)
