"""From a network to the layout of its weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.frontend.files import load_graph
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes import simplify
from tpulite.graph.passes.fold_batch_norm import fold_batch_norm
from tpulite.layout.bm1684x import (
    BM1684X,
    ConvSpec,
    Fold,
    Geometry,
    from_bfloat16,
    to_bfloat16,
)
from tpulite.layouts.layer import Layer, Requant
from tpulite.layouts.layout import Layout, LeftOut
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.products import requantization_of, require_rank, weight_zero_point
from tpulite.quant.tensors import UNSIGNED, Quantized, UnsupportedError, centered
from tpulite.zoo import find_network

FLOAT_TYPES = ("f32", "f16", "bf16")
"""How weights of float layers may be stored."""

_FLOATS = {"float32": "f32", "float16": "f16"}
"""Types of a file's weights, and how they are stored unless another type is asked for."""

_KINDS = {"conv": (4, 0), "depthwise": (3, 2), "dense": (2, 0)}
"""Operators that are laid out: axes of their weights, and which is that of the channels."""

_FOREIGN = {
    "transposed_conv": "the document has no layout for transposed convolutions",
    "matmul": "",
}
"""Products of other kinds: why they are left out."""


@dataclass(frozen=True)
class _Request:
    """What was asked for."""

    geometry: Geometry
    fold: Fold | None
    weights: str | None


def lay_out(
    network: str | Path | Graph,
    *,
    geometry: Geometry = BM1684X,
    optimize_3ic: int | None = None,
    weights: str | None = None,
) -> Layout:
    """Lay out every convolution, depthwise and dense layer of a network.

    Layers of int8 or uint8 are laid out as int8, float layers as ``weights`` says. Nothing is
    compiled, and no library is needed but to read the file. Batch normalizations are folded into
    float weights first. Multiplier and shift are those of the numerics ``bm1684x``: the scale of
    input and weights over that of the output, in 31 bits.

    Parameters
    ----------
    network : str, Path or Graph
        A file (.tflite, .onnx, .npz), a name of the zoo, or what was read from one.
    geometry : Geometry
        The machine; the vendor's by default, with 64 lanes.
    optimize_3ic : int, optional
        The document's ``3ic_optimize``: 1, 2 or 3 folds kernel rows, columns or both into the
        input channels of layers in which they fit, 0 folds none. By default each int8 layer
        gets the mode that the vendor's compiler chooses.
    weights : str, optional
        ``f32``, ``f16`` or ``bf16``, for float layers; rounded to nearest, ties to even. By default
        what the network has.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is no network, none of its layers can be laid out, ``weights`` has no float layer to
        act on, or a weight is beyond f16 or bf16.
    """
    graph = network if isinstance(network, Graph) else load_graph(find_network(network))
    graph = fold_batch_norm(simplify(graph), _FLOATS)  # of float16, too
    if weights is not None and weights not in FLOAT_TYPES:
        raise ValueError(f"weights must be one of {list(FLOAT_TYPES)}, not {weights!r}")
    if optimize_3ic not in (None, *Fold):
        raise ValueError(
            f"optimize_3ic must be one of {[int(f) for f in Fold]}, not {optimize_3ic!r}"
        )
    fold = None if optimize_3ic is None else Fold(optimize_3ic)
    request = _Request(geometry, fold, weights)
    context = GraphContext(graph, Exactness.BM1684X)
    layers, left_out = [], []
    for node in graph.nodes:
        try:
            layers.append(_layer(node, context, request))
        except UnsupportedError as error:
            if node.source or str(error):  # else it is none of the file
                left_out.append(LeftOut(node.name, node.source or node.op, str(error)))
    if not layers:
        first = next((each for each in left_out if each.reason), None)
        why = "" if first is None else f" ({first.source} {first.name!r}: {first.reason})"
        raise ValueError(f"{graph.name} has no layer to lay out{why}")
    if weights is not None and all(layer.requant is not None for layer in layers):
        raise ValueError(f"{graph.name} has no float layers: leave out --weights {weights}")
    return Layout(graph.name, geometry, tuple(layers), tuple(left_out))


def _layer(node: Node, context: GraphContext, request: _Request) -> Layer:
    """Lay out a node; UnsupportedError says why not, with no text if it has no weights."""
    if node.op not in _KINDS:
        raise UnsupportedError(_why_not(node, context))
    x, weight = (context.tensor(name) for name in node.inputs[:2])
    if weight.data is None:
        raise UnsupportedError(f"its weights {weight.name!r} are computed at run time")
    require_rank(weight, _KINDS[node.op][0])
    if weight.dtype in _FLOATS and x.dtype in _FLOATS:
        return _float_layer(node, weight, context, request)
    return _integer_layer(node, weight, context, request)


def _why_not(node: Node, context: GraphContext) -> str:
    if node.op in _FOREIGN:
        return _FOREIGN[node.op]
    if node.op == "unsupported":
        return node["reason"]
    constants = (context.tensor(name) for name in node.inputs if name)
    numbers = ("float32", "float16", "int8", "uint8")
    if any(x.data is not None and x.dtype in numbers and x.data.size > 1 for x in constants):
        return "it is not a convolution, depthwise or dense layer"
    return ""


def _filter(node: Node, values: np.ndarray) -> np.ndarray:
    """Return weights ``[oc, ic, kh, kw]`` in the order of the file; a dense layer is 1 x 1."""
    if node.op == "conv":
        ordered = values.transpose(0, 3, 1, 2)
    elif node.op == "depthwise":
        ordered = values.transpose(2, 0, 1)[:, None]
    else:
        if "image" in node.attributes:
            channels, height, width = node["image"]
            images = values.reshape(-1, height, width, channels).transpose(0, 3, 1, 2)
            values = images.reshape(values.shape)
        ordered = values[:, :, None, None]
    return np.ascontiguousarray(ordered)


def _kind(node: Node, shape: Sequence[int]) -> tuple[str, int]:
    """Return ``conv``, ``depthwise`` or ``dense``, and the groups of channels.

    Depthwise is what the vendor's compiler takes for it, whatever the file says: as many groups as
    channels before and behind it, and more than one.
    """
    oc, ic = shape[:2]
    if node.op == "dense":
        return "dense", 1
    group = oc // node["multiplier"] if node.op == "depthwise" else node.attributes.get("group", 1)
    return "depthwise" if ic == 1 and 1 < oc == group else "conv", group


def _spec(node: Node, shape: Sequence[int], dtype: str, request: _Request, bias: bool) -> ConvSpec:
    """Return the convolution that a node is, with the asked fold where it fits."""
    oc, ic, kh, kw = shape
    kind, group = _kind(node, shape)
    spec = ConvSpec(
        oc=oc,
        ic=ic,
        kh=kh,
        kw=kw,
        dtype=dtype,
        depthwise=kind == "depthwise",
        has_bias=bias,
        fold=Fold.NONE if group > 1 else None,
        geometry=request.geometry,
    )
    if request.fold is None:
        return spec
    factor = request.fold.factor(kh, kw)
    fits = group == 1 and dtype != "f32" and factor > 1 and ic * factor <= spec.parallel
    return replace(spec, fold=request.fold if fits else Fold.NONE)


def _integer_layer(node: Node, weight: Tensor, context: GraphContext, request: _Request) -> Layer:
    values = _filter(node, weight.data)  # type: ignore[arg-type]
    centered(weight)  # refuses what is not of 8 bits
    x, axis = context.quantized(node.inputs[0]), _KINDS[node.op][1]
    made = requantization_of(node, context, node.op, axis)
    if made is None:
        raise UnsupportedError("its results are int32 sums, which are not requantized")
    y, channels = context.quantized(node.outputs[0]), len(values)

    def each(numbers: np.ndarray) -> np.ndarray:
        return np.broadcast_to(numbers, channels).astype(np.int32)

    requant = Requant(
        multiplier=each(made.multiplier),
        rshift=each(31 - made.shift),
        zero_point=y.zero_point,
        input_zero_point=x.zero_point,
        filter_zero_point=weight_zero_point(weight) + UNSIGNED * (weight.dtype == "uint8"),
        input_type=_type(x),
        output_type=_type(y),
        low=int(made.low) - INT8[0] + y.low,
        high=int(made.high) - INT8[0] + y.low,
    )
    has_bias = len(node.inputs) > 2 and bool(node.inputs[2])
    kind, group = _kind(node, values.shape)
    return Layer(
        name=node.name,
        kind=kind,
        source=node.source or node.op,
        spec=_spec(node, values.shape, "int8", request, has_bias or x.zero_point != 0),
        filter=values,
        bias=each(made.bias) if has_bias else None,
        group=group,
        requant=requant,
    )


def _type(activation: Quantized) -> str:
    return "uint8" if activation.unsigned else "int8"


def _float_layer(node: Node, weight: Tensor, context: GraphContext, request: _Request) -> Layer:
    dtype = request.weights or _FLOATS[weight.dtype]
    values = _rounded(_filter(node, weight.data), dtype, node)  # type: ignore[arg-type]
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        tensor = context.tensor(node.inputs[2])
        if tensor.data is None or tensor.dtype not in _FLOATS:
            raise UnsupportedError(f"its bias {tensor.name!r} is not a float constant")
        bias = tensor.data.reshape(-1).astype(np.float32)
    kind, group = _kind(node, values.shape)
    return Layer(
        name=node.name,
        kind=kind,
        source=node.source or node.op,
        spec=_spec(node, values.shape, dtype, request, bias is not None),
        filter=values,
        bias=bias,
        group=group,
    )


def _rounded(values: np.ndarray, dtype: str, node: Node) -> np.ndarray:
    """Round weights to a type; bf16 stays float32."""
    values = values.astype(np.float32)
    if dtype == "f32":
        return values
    if dtype == "f16":
        with np.errstate(over="ignore"):  # said below
            rounded = values.astype(np.float16)
    else:
        rounded = from_bfloat16(to_bfloat16(values))
    lost = np.isinf(rounded) & np.isfinite(values)
    if lost.any():
        raise ValueError(f"{node.name}: the weight {values[lost][0]:g} overflows {dtype}")
    return rounded
