"""Affine, elementwise and table layers in C."""

from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.numerics import INT8
from tpulite.compiler.bind.network import Network
from tpulite.compiler.geometry.closed_forms import Number, ceil_div
from tpulite.compiler.operators.pointwise import Pointwise
from tpulite.compiler.operators.shapes import Shape, ShapeRange
from tpulite.compiler.plan.pointwise import SLOTS
from tpulite.compiler.plan.strategy import Strategy
from tpulite.export.c_text import Code, define
from tpulite.export.ranges.operator_text import OperatorText, bytes_text


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
