"""What is known of an operator before its shape is, as C has it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import RECORD_BYTES
from tpulite.arch.numerics import INT8
from tpulite.compiler.bind.network import Network
from tpulite.compiler.bind.pointwise import Pointwise
from tpulite.compiler.bind.shapes import ShapeRange
from tpulite.compiler.plan.closed_forms import ceil_div
from tpulite.compiler.plan.pointwise import SLOTS
from tpulite.export.c_text import Code, array, define

__all__ = ["OperatorText", "operator_text"]


@dataclass(frozen=True)
class OperatorText:
    """An operator in C.

    Parameters
    ----------
    function : str
        The function that says its commands.
    facts : str
        Definitions, of which ``facts`` is the last.
    kinds : mapping of str to int
        Number of each kind of strategy.
    constants_most : int
        Most bytes of its constants.
    """

    function: str
    facts: str
    kinds: Mapping[str, int]
    constants_most: int


def operator_text(network: Network, shapes: ShapeRange) -> OperatorText:
    """Return a network of one layer in C, but for its selector.

    Raises
    ------
    ValueError
        If there is no C for such a layer, or for more than one.
    """
    first, *others = network.nodes
    layer = first.layer
    if others:
        raise ValueError(
            f"{others[0].layer.title} follows {layer.title}, and C binds one layer to shapes; "
            "--inputs and --outputs cut one out"
        )
    if isinstance(first.operator, Pointwise):
        return _pointwise(first.operator, network, shapes)
    raise ValueError(
        f"{layer.title} cannot be bound in C: it is {type(layer).__name__}, and only affine, "
        "elementwise and table layers can"
    )


def _pointwise(operator: Pointwise, network: Network, shapes: ShapeRange) -> OperatorText:
    facts, node = operator.facts, network.nodes[0]
    assert shapes.channels is not None
    inputs = network.layers.inputs
    each = RECORD_BYTES if facts.block_rows else len(operator.parameters)
    values = {
        "operation": int(facts.operation),
        "places": SLOTS,
        "low": INT8[0],
        "high": INT8[-1],
        "block_rows": facts.block_rows,
        "common_rows": facts.common_rows,
        "operands": len(node.inputs),
        "sources": [inputs.index(name) for name in node.inputs],
        "broadcast": int(facts.broadcast),
        "constants": Code("constants"),
        "constants_bytes": each,
        "spare": Code("spare" if operator.spare else "NULL"),
    }
    text = _bytes("constants", operator.parameters)
    if operator.spare:
        text += _bytes("spare", operator.spare)
    text += define("static const tpulite_pointwise", "facts", values)
    blocks = ceil_div(shapes.channels[1], network.config.array_size)
    most = blocks * network.config.array_size * each if facts.block_rows else each
    return OperatorText("tpulite_bind_pointwise", text, {"planes": 0, "slabs": 1}, most)


def _bytes(name: str, data: bytes) -> str:
    return "static " + array("uint8_t", name, np.frombuffer(data, np.uint8)) + "\n"
