"""Operators of ONNX Runtime's that transformers have, and Einsum, in terms of usual ones.

What follows then looks for one form of each.
"""

import tempfile
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from tpulite.frontend.onnx.library import expose, open_session
from tpulite.quant.floats.axes import Axes
from tpulite.quant.floats.expand_attention import ATTENTION
from tpulite.quant.floats.expand_group_norms import GROUP_NORMS
from tpulite.quant.floats.expand_grouped import GROUPED, ROTATIONS
from tpulite.quant.floats.expand_norms import LAYER_NORM, NORMS, OLD_NORMS
from tpulite.quant.floats.expand_products import EINSUM, PRODUCTS
from tpulite.quant.floats.expansion import Expansion, Rules, Written
from tpulite.quant.floats.graph import Links

_KINDS = {
    f"tensor({name})": kind
    for name, kind in (
        *(("float", onnx.TensorProto.FLOAT), ("bool", onnx.TensorProto.BOOL)),
        *(("int32", onnx.TensorProto.INT32), ("int64", onnx.TensorProto.INT64)),
    )
}
"""Types of tensors by the names that ONNX Runtime has for them."""

_RULES: Rules = NORMS | PRODUCTS | EINSUM | ROTATIONS | ATTENTION | GROUPED


def _rules(model: onnx.ModelProto, opset: int) -> Rules:
    """Return what replaces operators of a network; nothing if it has none of them."""
    rules = _RULES if opset >= LAYER_NORM else _RULES | OLD_NORMS
    return rules if any((x.domain, x.op_type) in rules for x in model.graph.node) else {}


def with_shapes(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return a network with the shapes behind operators that only ONNX Runtime knows.

    What is computed of shapes is constant then. The same network if it has no such operator, or if
    ONNX Runtime does not open it.

    Parameters
    ----------
    opset : int
        Version of the standard operators.
    """
    if not _rules(model, opset):
        return model
    with tempfile.TemporaryDirectory(prefix="tpulite-") as folder, suppress(Exception):
        path = Path(folder, "folded.onnx")
        open_session(model.SerializeToString(), "ENABLE_BASIC", path=path)
        folded, exposed = onnx.load(path), onnx.load(path)
        expose(exposed, (name for node in folded.graph.node for name in node.output if name))
        outputs = open_session(exposed.SerializeToString(), "DISABLE_ALL").get_outputs()
        given = {value.name for value in folded.graph.output}
        del folded.graph.value_info[:]
        folded.graph.value_info.extend(
            helper.make_tensor_value_info(x.name, _KINDS[x.type], x.shape)
            for x in outputs
            if x.type in _KINDS and x.name not in given
        )
        return folded
    return model


def expand_operators(model: onnx.ModelProto, opset: int) -> None:
    """Replace operators in place; those that mean something rarer stay.

    Parameters
    ----------
    model : ModelProto
        The network, with shapes as :func:`with_shapes` finds them.
    opset : int
        Version of the standard operators.
    """
    rules = _rules(model, opset)
    if rules:
        links = Links(model.graph)
        _expand(model, opset, rules, links, Axes(model, links))


def expand_group_norms(model: onnx.ModelProto, opset: int) -> None:
    """Replace normalizations of groups in place, before anything else.

    ONNX has no rule for shapes behind them, and ONNX Runtime takes them apart or has no kernel.
    """
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    found = [node for node in shaped.graph.node if (node.domain, node.op_type) in GROUP_NORMS]
    for node in found:
        node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output[:1]))
    if found:
        _expand(model, opset, GROUP_NORMS, Links(model.graph), Axes(shaped, Links(shaped.graph)))


def _expand(model: onnx.ModelProto, opset: int, rules: Rules, links: Links, axes: Axes) -> None:
    nodes: list[onnx.NodeProto] = []
    shared: dict[Hashable, Any] = {}
    for node in model.graph.node:
        rule = rules.get((node.domain, node.op_type))
        written = Written(node.output[0], opset)
        expansion = Expansion(node, links, axes, written, {**shared})
        if rule is None or not rule(expansion):
            nodes.append(node)
            continue
        shared = expansion.shared
        nodes += written.nodes
        model.graph.initializer.extend(written.constants)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
