"""Heads that share keys and values: attention repeats these, and need not.

Queries of the heads that share them become rows of one product; only shapes change.
"""

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import Axes, add_constant
from tpulite.quant.floats.graph import PRODUCTS, Links, replace_node

_RANK = 4  # batch, heads, rows, columns
_REPEATED = 2
"""Axis of the copies of a head, before a reshape joins it with the heads."""

_SWAPPED = [0, 1, 3, 2]


def share_heads(model: onnx.ModelProto) -> None:
    """Multiply with keys and values as they are, not with a copy for each head.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place. Copies that other operators read stay.
    """
    graph = model.graph
    links = Links(graph)
    axes = Axes(model, links)
    for node in [x for x in graph.node if x.op_type == "MatMul"]:
        swap = links.writer.get(node.input[1])
        swapped = swap is not None and attributes_of(swap).get("perm") in (_SWAPPED, (*_SWAPPED,))
        copies = swap.input[0] if swap is not None and swapped else node.input[1]
        source = _source(copies, links, axes)
        rows, result = axes.shape(node.input[0]), axes.shape(node.output[0])
        if source is None or len(rows) != _RANK or rows[1] != axes.shape(copies)[1]:
            continue
        if 0 in rows or not result or 0 in result:
            continue
        heads = axes.shape(source)[1]
        made = []
        if swapped:
            key = f"{node.output[0]}_shared"
            made.append(helper.make_node("Transpose", [source], [key], name=key, perm=_SWAPPED))
            source = key
        together = [rows[0], heads, rows[1] // heads * rows[2]]
        x, y = f"{node.output[0]}_rows", f"{node.output[0]}_together"
        made += [
            _reshape(graph, node.input[0], x, [*together, rows[3]]),
            helper.make_node("MatMul", [x, source], [y], name=node.name),
            _reshape(graph, y, node.output[0], result),
        ]
        replace_node(graph, node, made)


def repeat_by_tiles(model: onnx.ModelProto) -> None:
    """Write what Expand repeats behind a product with Tile, which integers have.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place.
    """
    links = Links(model.graph)
    axes = Axes(model, links)
    for node in [x for x in model.graph.node if x.op_type == "Expand"]:
        x, y = axes.shape(node.input[0]), axes.shape(node.output[0])
        behind = any(each.op_type in PRODUCTS for each in links.before(node.input[0]))
        if behind and len(x) == len(y) and 0 not in (*x, *y) and node.input[1] in links.constants:
            times = [many // one for one, many in zip(x, y, strict=True)]
            node.op_type = "Tile"
            name = f"{node.output[0]}_times"
            node.input[1] = add_constant(model.graph, name, times, np.int64)


def _source(name: str, links: Links, axes: Axes) -> str | None:
    """Return the tensor of which another has several copies of each head: [B, H, T, C]."""
    joined = links.writer.get(name)
    if joined is None or joined.op_type != "Reshape":
        return None
    repeated = links.writer.get(joined.input[0])
    if repeated is None or repeated.op_type not in ("Expand", "Tile"):
        return None
    apart = links.writer.get(repeated.input[0])
    if apart is None or apart.op_type not in ("Unsqueeze", "Reshape"):
        return None
    source, many = apart.input[0], axes.shape(repeated.output[0])
    shape = axes.shape(source)
    if len(shape) != _RANK or 0 in shape or len(many) != _RANK + 1:
        return None
    one = [*shape[:_REPEATED], 1, *shape[_REPEATED:]]
    copies = [*shape[:_REPEATED], many[_REPEATED], *shape[_REPEATED:]]
    all_heads = [shape[0], shape[1] * many[_REPEATED], *shape[_REPEATED:]]
    fits = axes.shape(apart.output[0]) == one and many == copies
    return source if fits and axes.shape(name) == all_heads else None


def _reshape(graph: onnx.GraphProto, x: str, y: str, shape: list[int]) -> onnx.NodeProto:
    constant = add_constant(graph, f"{y}_shape", shape, np.int64)
    return helper.make_node("Reshape", [x, constant], [y], name=f"{y}_Reshape")
