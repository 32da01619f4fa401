"""What must hold of a graph whatever file it came from."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from tpulite.graph.functions import FUNCTIONS as REAL_FUNCTIONS
from tpulite.graph.graph import Graph, Node, Tensor

FUNCTIONS = frozenset(REAL_FUNCTIONS) | {"relu_0_1", "rsqrt", "expression"}
"""Operators that apply a function of one number to each element."""

Inputs = list[Tensor | None]


def verify(graph: Graph) -> None:
    """Check that shapes fit together and that integers have scales.

    Operators that only the CPU computes are not checked. ValueError if a node's shapes contradict
    each other or its attributes, or if an int8 or uint8 tensor of a node that computes has no
    quantization; the message names the node.
    """
    for node in graph.nodes:
        if node.op not in _CHECKS:
            continue
        inputs = [graph.tensors[name] if name else None for name in node.inputs]
        outputs = [graph.tensors[name] for name in node.outputs]
        try:
            if len(outputs) != 1:
                raise ValueError(f"it has {len(outputs)} outputs, not 1")
            _CHECKS[node.op](node, inputs, outputs[0])
            if node.op not in (*_MOVES, *_UNSCALED):
                _check_quantization(node, [*inputs, outputs[0]])
        except ValueError as error:
            raise ValueError(f"node {node.name!r} ({node.source or node.op}): {error}") from error


def _expect(what: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise ValueError(f"{what} must be {expected}, not {actual}")


def _rank(what: str, tensor: Tensor, rank: int) -> None:
    if len(tensor.shape) != rank:
        raise ValueError(f"{what} must have {rank} axes, not shape {list(tensor.shape)}")


def _given(inputs: Inputs, count: int) -> list[Tensor]:
    given = [tensor for tensor in inputs[:count] if tensor is not None]
    if len(given) != count:
        raise ValueError(f"it must have at least {count} inputs, not {len(given)}")
    return given


def _check_bias(inputs: Inputs, channels: int) -> None:
    if len(inputs) > 2 and inputs[2] is not None:
        _expect("its bias", inputs[2].shape, (channels,))


def _check_window(node: Node, x: Tensor, y: Tensor, window: tuple[int, ...]) -> None:
    top, left, bottom, right = node["padding"]
    if min(node["padding"]) < 0:
        raise ValueError(f"its padding must not be negative, not {node['padding']}")
    extents = []
    for axis, before, after in ((0, top, bottom), (1, left, right)):
        stride = node["stride"][axis]
        dilation = node.attributes.get("dilation", (1, 1))[axis]
        if min(stride, dilation, window[axis]) < 1:
            raise ValueError(
                f"strides, dilations and windows must be positive, not {stride}, {dilation} and "
                f"{window[axis]}"
            )
        reach = dilation * (window[axis] - 1) + 1
        extents.append((x.shape[1 + axis] + before + after - reach) // stride + 1)
    _expect("height and width of its output", y.shape[1:3], tuple(extents))


def _check_filters(inputs: Inputs, y: Tensor, group: int = 1) -> tuple[Tensor, Tensor]:
    """Check input, weights [filters, height, width, channels] and output; return the first two."""
    x, weight = _given(inputs, 2)
    for what, tensor in (("its input", x), ("its weights", weight), ("its output", y)):
        _rank(what, tensor, 4)
    _expect("channels of its weights", weight.shape[3] * group, x.shape[3])
    _expect("filters beyond whole groups", weight.shape[0] % group, 0)
    _expect(
        "batch and channels of its output", (y.shape[0], y.shape[3]), (x.shape[0], weight.shape[0])
    )
    return x, weight


def _check_conv(node: Node, inputs: Inputs, y: Tensor) -> None:
    x, weight = _check_filters(inputs, y, node.attributes.get("group", 1))
    _check_bias(inputs, weight.shape[0])
    _check_window(node, x, y, weight.shape[1:3])


def _check_depthwise(node: Node, inputs: Inputs, y: Tensor) -> None:
    x, weight = _given(inputs, 2)
    for what, tensor, rank in (
        ("its input", x, 4),
        ("its weights", weight, 3),
        ("its output", y, 4),
    ):
        _rank(what, tensor, rank)
    _expect("channels of its weights", weight.shape[2], x.shape[3] * node["multiplier"])
    _expect(
        "batch and channels of its output", (y.shape[0], y.shape[3]), (x.shape[0], weight.shape[2])
    )
    _check_bias(inputs, weight.shape[2])
    _check_window(node, x, y, weight.shape[:2])


def _check_transposed_conv(node: Node, inputs: Inputs, y: Tensor) -> None:
    _, weight = _check_filters(inputs, y)
    if min(node["stride"]) < 1 or min(node["padding"]) < 0:
        raise ValueError(
            f"strides must be positive and padding not negative, not {node['stride']} and "
            f"{node['padding']}"
        )
    _check_bias(inputs, weight.shape[0])


def _check_dense(node: Node, inputs: Inputs, y: Tensor) -> None:
    x, weight = _given(inputs, 2)
    _rank("its weights", weight, 2)
    channels, k = weight.shape
    batch, rest = divmod(math.prod(x.shape), k)
    if rest:
        raise ValueError(f"its input {list(x.shape)} is no multiple of {k} elements")
    _expect("channels of its output", y.shape[-1:], (channels,))
    _expect("elements of its output", math.prod(y.shape), batch * channels)
    _check_bias(inputs, channels)


def _check_matmul(node: Node, inputs: Inputs, y: Tensor) -> None:
    a, b = _given(inputs, 2)
    shapes = []
    for what, tensor, adjoint in (
        ("its first", a, node["adj_x"]),
        ("its second", b, node["adj_y"]),
    ):
        if len(tensor.shape) < 2:
            raise ValueError(f"{what} input must have 2 axes or more, not {list(tensor.shape)}")
        *batch, rows, columns = tensor.shape
        shapes.append((*batch, columns, rows) if adjoint else tensor.shape)
    (*heights, rows, inner), (*others, depth, columns) = shapes
    _expect("rows of the matrices of its second input", depth, inner)
    _expect("its output", y.shape, (*np.broadcast_shapes(heights, others), rows, columns))


def _check_elementwise(node: Node, inputs: Inputs, y: Tensor) -> None:
    a, b = _given(inputs, 2)
    _expect("its output", y.shape, np.broadcast_shapes(a.shape, b.shape))


def _check_pool(node: Node, inputs: Inputs, y: Tensor) -> None:
    (x,) = _given(inputs, 1)
    _rank("its input", x, 4)
    _rank("its output", y, 4)
    _expect("batch and channels of its output", (y.shape[0], y.shape[3]), (x.shape[0], x.shape[3]))
    _check_window(node, x, y, node["window"])


def _check_reduction(node: Node, inputs: Inputs, y: Tensor) -> None:
    (x,) = _given(inputs, 1)
    kept = [(i, 1 if i in node["axes"] else extent) for i, extent in enumerate(x.shape)]
    shape = tuple(n for i, n in kept if node["keep_dims"] or i not in node["axes"])
    _expect("its output", y.shape, shape)


def _check_pad(node: Node, inputs: Inputs, y: Tensor) -> None:
    (x,) = _given(inputs, 1)
    _rank("its input", x, 4)
    top, left, bottom, right = node["padding"]
    batch, height, width, channels = x.shape
    _expect("its output", y.shape, (batch, height + top + bottom, width + left + right, channels))


def _check_pad_axes(node: Node, inputs: Inputs, y: Tensor) -> None:
    (x,) = _given(inputs, 1)
    pairs = zip(x.shape, node["around"], strict=True)
    _expect("its output", y.shape, tuple(extent + sum(pair) for extent, pair in pairs))


def _check_concat(node: Node, inputs: Inputs, y: Tensor) -> None:
    parts = _given(inputs, max(len(inputs), 1))
    axis = node["axis"]
    if not 0 <= axis < len(y.shape):
        raise ValueError(f"axis {axis} is not one of its output {list(y.shape)}")
    for part in parts:
        _expect(
            "an input",
            part.shape,
            (*y.shape[:axis], *part.shape[axis : axis + 1], *y.shape[axis + 1 :]),
        )
    _expect(f"axis {axis} of its output", y.shape[axis], sum(part.shape[axis] for part in parts))


def _check_reshape(node: Node, inputs: Inputs, y: Tensor) -> None:
    (x,) = _given(inputs, 1)
    _expect("its output", y.shape, tuple(node["shape"]))
    _expect("elements of its output", math.prod(y.shape), math.prod(x.shape))


def _check_same_shape(node: Node, inputs: Inputs, y: Tensor) -> None:
    (x,) = _given(inputs, 1)
    _expect("its output", y.shape, x.shape)


def _check_batch_norm(node: Node, inputs: Inputs, y: Tensor) -> None:
    x, *parameters = _given(inputs, 5)
    _expect("its output", y.shape, x.shape)
    for what, tensor in zip(("gamma", "beta", "mean", "variance"), parameters, strict=True):
        _expect(what, tensor.shape, x.shape[-1:])


def _check_quantization(node: Node, tensors: Inputs) -> None:
    """Integers that are computed with need scales, activations one scale for all channels."""
    for i, tensor in enumerate(tensors):
        if tensor is None or tensor.dtype not in ("int8", "uint8"):
            continue
        if tensor.quantization is None:
            raise ValueError(f"tensor {tensor.name!r} is {tensor.dtype} and has no scale")
        is_weight = node.op in _WEIGHTED and i == 1
        if tensor.quantization.axis is not None and not is_weight:
            raise ValueError(f"tensor {tensor.name!r} must have one scale, not one a channel")


_WEIGHTED = ("conv", "depthwise", "dense", "transposed_conv")

# Operators that only move elements, whatever these mean.
_MOVES = ("concat", "pad", "reshape")

_UNSCALED = (
    *("maximum", "minimum", "reduce_max", "reduce_min", "squared_difference", "prelu", "sum"),
    *("neg", "sqrt", "rsqrt", "relu_0_1"),
)
"""Operators that are the library's if their integers have no scale, or several."""

_CHECKS: Mapping[str, Callable[[Node, Inputs, Tensor], None]] = {
    "conv": _check_conv,
    "depthwise": _check_depthwise,
    "dense": _check_dense,
    "transposed_conv": _check_transposed_conv,
    "matmul": _check_matmul,
    "add": _check_elementwise,
    "sub": _check_elementwise,
    "mul": _check_elementwise,
    "maximum": _check_elementwise,
    "minimum": _check_elementwise,
    "squared_difference": _check_elementwise,
    "prelu": _check_elementwise,
    "max_pool": _check_pool,
    "average_pool": _check_pool,
    **dict.fromkeys(("mean", "sum", "reduce_max", "reduce_min"), _check_reduction),
    "pad": _check_pad,
    "pad_axes": _check_pad_axes,
    "concat": _check_concat,
    "reshape": _check_reshape,
    "batch_norm": _check_batch_norm,
    **dict.fromkeys((*FUNCTIONS, "quantize", "dequantize", "requantize"), _check_same_shape),
}
