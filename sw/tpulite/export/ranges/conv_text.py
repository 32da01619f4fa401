"""Convolutions in C."""

from tpulite.compiler.bind.network import Network
from tpulite.compiler.geometry.closed_forms import Number, ceil_div, least, most
from tpulite.compiler.operators.conv import Convolution
from tpulite.compiler.operators.shapes import Shape
from tpulite.compiler.plan.strategy import Strategy
from tpulite.compiler.plan.units import Units
from tpulite.export.c_text import Code, define, table
from tpulite.export.ranges.operator_text import OperatorText, axis_fields, bytes_text

_KINDS = {
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
    return OperatorText("tpulite_bind_conv", text, _KINDS, most_bytes, commands)


def _units(name: str, units: Units) -> str:
    rows = units.table.T.tolist()
    return table("tpulite_unit", name, rows)
