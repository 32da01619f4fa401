"""Normalizations as exporters write them: one operator, or several."""

import numpy as np
import onnx

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import Axes
from tpulite.quant.floats.graph import Links, is_square
from tpulite.quant.floats.norms import Norm

_WHOLE = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
"""Operators that are a normalization; ONNX Runtime has the last one."""

_SUMS = ("ReduceMean", "ReduceSum", "ReduceSumSquare")
"""Operators that add squares, or what is squared."""

_HALF = 0.5

_SAME = 1e-6
"""How far a float32 constant may be from the number it means, relative to that."""


def find_norms(model: onnx.ModelProto) -> list[Norm]:
    """Return the normalizations over the last axis whose factors are constants."""
    links = Links(model.graph)
    axes = Axes(model, links)
    found = (
        _whole(node, links, axes) or _decomposed(node, links, axes) or _rms(node, links, axes)
        for node in model.graph.node
    )
    norms = [norm for norm in found if norm is not None]
    inner = {id(node) for norm in norms if norm.centered for node in norm.nodes}
    # Behind the difference from a mean is a normalization by the root mean square.
    return [norm for norm in norms if norm.centered or id(norm.nodes[-1]) not in inner]


def _whole(node: onnx.NodeProto, links: Links, axes: Axes) -> Norm | None:
    """Return what one operator is."""
    if node.op_type not in _WHOLE or len([x for x in node.output if x]) > 1:
        return None
    flags = attributes_of(node)
    gamma = links.constants.get(node.input[1])
    given = len(node.input) > 2 and node.input[2]
    beta = links.constants.get(node.input[2]) if given else np.zeros(1, np.float32)
    if gamma is None or beta is None or gamma.ndim != 1:
        return None
    if flags.get("axis", -1) not in (-1, axes.rank(node.input[0]) - 1):
        return None
    epsilon = float(flags.get("epsilon", 1e-5))
    beta = np.broadcast_to(beta, gamma.shape)
    centered = node.op_type == "LayerNormalization"
    places = [(node, 1), (node, 2)] if centered else [(node, 1)]
    wide = _wide(gamma, beta)
    return Norm(node.input[0], node.output[0], *wide, epsilon, [node], places, centered)


def _decomposed(node: onnx.NodeProto, links: Links, axes: Axes) -> Norm | None:
    """Return the normalization that begins with the difference from a mean."""
    if node.op_type != "Sub":
        return None
    mean = links.writer.get(node.input[1])
    centered = node.output[0]
    alone = links.only_reader(node.input[1]) is node and centered not in links.outputs
    if not alone or not _is_mean(mean, node.input[0], links, axes):
        return None
    readers = links.readers.get(centered, [])
    square = next((x for x in readers if is_square(x, links)), None)
    variance = None if square is None else links.only_reader(square.output[0])
    if square is None or not _is_mean(variance, square.output[0], links, axes):
        return None
    assert mean is not None and variance is not None
    add = links.only_reader(variance.output[0])
    epsilon = None if add is None else next(filter(None, map(links.scalar, add.input)), None)
    root = None if add is None or add.op_type != "Add" else links.only_reader(add.output[0])
    if epsilon is None or root is None or root.op_type != "Sqrt":
        return None
    divide = links.only_reader(root.output[0])
    if divide is None or divide.op_type != "Div" or list(divide.input) != [centered, *root.output]:
        return None
    assert add is not None
    scaled, shifted = _next(divide, "Mul", links), None
    if scaled is not None:
        shifted = _next(scaled[0], "Add", links)
    if scaled is None or shifted is None or len(readers) != 2 + (square.op_type == "Mul"):
        return None
    constants = [links.constants[each.input[index]] for each, index in (scaled, shifted)]
    if any(each.ndim != 1 or each.size == 1 for each in constants):
        return None
    nodes = [mean, node, square, variance, add, root, divide, scaled[0], shifted[0]]
    y = shifted[0].output[0]
    return Norm(
        node.input[0], y, *_wide(constants[0], constants[1]), epsilon, nodes, [scaled, shifted]
    )


def _rms(node: onnx.NodeProto, links: Links, axes: Axes) -> Norm | None:
    """Return the normalization by the root mean square that sums its squares with an operator."""
    found = _mean_square(node, links, axes)
    if found is None:
        return None
    x, nodes = found
    add = links.only_reader(nodes[-1].output[0])
    epsilon = None if add is None else next(filter(None, map(links.scalar, add.input)), None)
    if add is None or add.op_type != "Add" or epsilon is None:
        return None
    root = _inverse_root(add.output[0], links)
    if root is None:
        return None
    gained = _gained(x, root, axes.shape(x)[-1], links)
    if gained is None:
        return None
    behind, places = gained
    gamma = np.ones(axes.shape(x)[-1])
    if places:
        (multiply, index), *_ = places
        gamma = links.constants[multiply.input[index]].ravel().astype(np.float64)
    nodes = [*nodes, add, *behind]
    y = nodes[-1].output[0]
    return Norm(x, y, gamma, np.zeros(gamma.size), epsilon, nodes, places, centered=False)


def _mean_square(
    node: onnx.NodeProto, links: Links, axes: Axes
) -> tuple[str, list[onnx.NodeProto]] | None:
    """Return what is squared, and the operators of its mean square, the last one last."""
    if node.op_type not in _SUMS:
        return None
    nodes, x = [node], node.input[0]
    if node.op_type != "ReduceSumSquare":
        square = links.writer.get(x)
        if square is None or not is_square(square, links) or links.only_reader(x) is not node:
            return None
        nodes, x = [square, node], square.input[0]
    channels = (axes.shape(x) or [0])[-1]
    if channels < 1 or not _is_over_last(node, links, axes):
        return None
    if node.op_type == "ReduceMean":
        return x, nodes
    divided = links.only_reader(node.output[0])
    if divided is None:
        return None
    value = next((v for v in map(links.scalar, divided.input) if v is not None), None)
    wanted = {"Mul": 1 / channels, "Div": channels}.get(divided.op_type)
    if value is None or wanted is None or abs(value - wanted) > _SAME * wanted:
        return None
    return x, [*nodes, divided]


def _inverse_root(name: str, links: Links) -> list[onnx.NodeProto] | None:
    """Return the operators of a reciprocal root; the last one may divide something by the root."""
    root = links.only_reader(name)
    if root is None:
        return None
    if root.op_type == "Pow":
        power = links.scalar(root.input[1])
        if power == -_HALF:
            return [root]
        if power != _HALF:
            return None
    elif root.op_type != "Sqrt":
        return None
    inverse = links.only_reader(root.output[0])
    if inverse is not None and inverse.op_type == "Reciprocal":
        return [root, inverse]
    if inverse is not None and inverse.op_type == "Div" and inverse.input[1] == root.output[0]:
        return [root, inverse]
    return None


def _gained(
    x: str, root: list[onnx.NodeProto], channels: int, links: Links
) -> tuple[list[onnx.NodeProto], list[tuple[onnx.NodeProto, int]]] | None:
    """Return a reciprocal root and what multiplies with it, and where factors are read.

    The operator of the result is the last one. The product of three may begin with any two of them;
    there may be no factors.
    """

    def factors(node: onnx.NodeProto | None) -> list[tuple[onnx.NodeProto, int]]:
        if node is None or node.op_type != "Mul":
            return []
        sizes = [
            (i, links.constants[each])
            for i, each in enumerate(node.input)
            if each in links.constants
        ]
        return [(node, i) for i, each in sizes if each.shape[-1:] == (channels,) == (each.size,)]

    last, above = root[-1], root
    if last.op_type == "Div" and links.scalar(last.input[0]) != 1:
        first, above, more = last.input[0], root[:-1], [last]
    else:
        multiply = links.only_reader(last.output[0])
        if multiply is None or multiply.op_type != "Mul":
            return None
        if found := factors(multiply):
            last, more = links.only_reader(multiply.output[0]), [multiply]
            whole = last is not None and last.op_type == "Mul" and x in last.input
            return ([*root, multiply, last], found) if whole and last is not None else None
        first = next((each for each in multiply.input if each != last.output[0]), "")
        last, more = multiply, [multiply]
    if first == x:
        gain = links.only_reader(last.output[0])
        found = factors(gain)
        more = [*above, *more]
        return ([*more, gain], found) if found and gain is not None else (more, [])
    scaled = links.writer.get(first)
    found = factors(scaled) if links.only_reader(first) is not None else []
    if scaled is None or not found or x not in scaled.input:
        return None
    return ([*above, scaled, *more], found)


def _next(node: onnx.NodeProto, kind: str, links: Links) -> tuple[onnx.NodeProto, int] | None:
    """Return the one operator behind another, and which of its inputs is a constant."""
    found = links.only_reader(node.output[0])
    if found is None or found.op_type != kind:
        return None
    places = [i for i, x in enumerate(found.input) if x in links.constants]
    return (found, places[0]) if places else None


def _is_mean(node: onnx.NodeProto | None, x: str, links: Links, axes: Axes) -> bool:
    """Tell whether an operator is the mean of a tensor over its last axis, which it keeps."""
    mean = node is not None and node.op_type == "ReduceMean" and node.input[0] == x
    return mean and node is not None and _is_over_last(node, links, axes)


def _is_over_last(node: onnx.NodeProto, links: Links, axes: Axes) -> bool:
    """Tell whether an operator reduces a tensor over its last axis, which it keeps."""
    flags = attributes_of(node)
    # An attribute up to opset 17, an input from then on.
    over = links.constants.get(node.input[1]) if len(node.input) > 1 else flags.get("axes")
    last = over is not None and list(over) in ([-1], [axes.rank(node.input[0]) - 1])
    return last and flags.get("keepdims", 1) == 1


def _wide(gamma: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return gamma.astype(np.float64), beta.astype(np.float64)
