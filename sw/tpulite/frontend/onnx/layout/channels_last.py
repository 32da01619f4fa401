"""From the file's order of axes to channels last."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tpulite.frontend.onnx.layout.orders import (
    LayoutPreferences,
    Orders,
    Perm,
    compose,
    identity,
    invert,
    keeps_elements,
    layout_preferences,
    nhwc,
)
from tpulite.frontend.onnx.translate.elementwise import BINARY, UNARY
from tpulite.frontend.onnx.translate.shapes import REDUCTIONS
from tpulite.frontend.onnx.weights import (
    block_diagonal,
    conv_weights,
    dense_weights,
    flat_bias,
    transposed_weights,
)
from tpulite.graph.graph import Graph, Node, Origin, Tensor


def channels_last(graph: Graph) -> tuple[Graph, Mapping[str, Origin]]:
    """Put channels last, with as few transposes as possible.

    Operators on images want channels last, elementwise operators take what comes or what is wanted
    behind them, everything else wants the file's order. A transpose of the file is no operator but
    another order of the same tensor. Before a dense layer the weights change instead of an image.

    Parameters
    ----------
    graph : Graph
        Images and weights in the file's order of axes.

    Returns
    -------
    graph : Graph
        The same network in the order that graphs promise; inputs and outputs are as they were.
    origins : mapping of str to Origin
        Which tensor of the given graph each of its tensors is, and in which order.
    """
    orders = Orders(graph)
    preferences = layout_preferences(graph)
    for name in graph.inputs:
        orders.define(name, identity(orders.rank(name)))
    for node in graph.nodes:
        LAYOUTS.get(node.op, _other)(orders, node, preferences)
    for name in graph.outputs:
        made = orders.get(name)
        if made != name:
            orders.define(name, identity(orders.rank(name)))
            orders.add("reshape", (made,), name, shape=graph.tensors[name].shape)
    ends = graph.inputs, graph.outputs
    ordered = Graph(graph.name, tuple(orders.nodes), orders.tensors, *ends, "onnx")
    return ordered, orders.origins


def _conv(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    tensors = [orders.graph.tensors[name] for name in node.inputs if name]
    attributes = dict(node.attributes)
    group = attributes["group"]
    known = all(tensor.data is not None for tensor in tensors[1:])
    weights = None
    if known and node.op == "transposed_conv":
        weights = transposed_weights(tensors[1], group, attributes.pop("dilation"))
        del attributes["group"]  # its weights are those of one
    elif known:
        weights = conv_weights(tensors[1], group)
    if weights is None:
        reason = (
            f"it has {group} groups of channels"
            if known
            else "its weights are computed at run time"
        )
        _other(orders, replace(node, op="unsupported", attributes={"reason": reason}), preferences)
        return
    op, weight = weights
    constants = [orders.add_constant(weight)]
    channels = orders.graph.tensors[node.outputs[0]].shape[1]
    if op == "depthwise":
        attributes["multiplier"] = channels // attributes.pop("group")
    constants += [orders.add_constant(flat_bias(bias, channels)) for bias in tensors[2:]]
    _window(orders, replace(node, op=op, attributes=attributes), constants)


def _pool(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    _window(orders, node, [])


def _batch_norm(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    perm = nhwc(orders.rank(node.inputs[0]))
    inputs = (orders.get(node.inputs[0], perm), *(orders.get(name) for name in node.inputs[1:]))
    output = orders.define(node.outputs[0], perm)
    orders.nodes.append(replace(node, inputs=inputs, outputs=(output,)))


def _pad(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    """Place a pad: rows and columns are padded, other axes get constants before and after them."""
    x, y = node.inputs[0], node.outputs[0]
    perm = _choose(orders, node, preferences)
    source, result = orders.get(x, perm), orders.define(y, perm)
    others = [axis for axis, pad in enumerate(node["around"]) if any(pad)]
    pixels = len(perm) in (3, 4) and perm == nhwc(len(perm)) and max(others, default=0) > 1
    if pixels:
        others = [axis for axis in others if axis < 2]
    for axis in others:
        place, parts = perm.index(axis), [source]
        shape = list(orders.tensors[source].shape)
        for role, count in zip(("before", "after"), node["around"][axis], strict=True):
            if count:
                extents = (*shape[:place], count, *shape[place + 1 :])
                name = orders.add_tensor(
                    _filled(orders, node, f"{node.name}/{axis}/{role}", extents)
                )
                parts.insert(0 if role == "before" else len(parts), name)
        shape[place] += sum(node["around"][axis])
        target = result
        if pixels or axis != others[-1]:
            role = f"{y}/{axis}"
            target = orders.add_tensor(
                replace(orders.tensors[result], name=role, shape=tuple(shape))
            )
        attributes = {"axis": place, "activation": "none"}
        names = f"{node.name}/{axis}", tuple(parts), (target,)
        orders.nodes.append(Node(names[0], "concat", *names[1:], attributes, node.source))
        source = target
    if pixels:
        none = ((0, 0),) * (4 - len(perm))
        (top, bottom), (left, right) = (*none, *node["around"][2:])
        attributes = {"padding": (top, left, bottom, right), "value": node["value"]}
        _over_image(orders, replace(node, attributes=attributes), source, result, [])
    elif not others:
        orders.add("reshape", (source,), result, shape=orders.tensors[result].shape)


def _filled(orders: Orders, node: Node, name: str, shape: tuple[int, ...]) -> Tensor:
    """Return what a pad adds: a constant that means what its result does."""
    like = orders.graph.tensors[node.outputs[0]]
    data = np.full(shape, node["value"], like.dtype)
    return replace(like, name=name, shape=shape, data=data)


def _window(orders: Orders, node: Node, constants: list[str]) -> None:
    """Place an operator with a window."""
    perm = nhwc(orders.rank(node.inputs[0]))
    source, result = orders.get(node.inputs[0], perm), orders.define(node.outputs[0], perm)
    _over_image(orders, node, source, result, constants)


def _over_image(orders: Orders, node: Node, source: str, result: str, constants: list[str]) -> None:
    """Add a node on an image; one of one dimension becomes one row of two."""
    if len(orders.tensors[source].shape) == 4:
        orders.nodes.append(replace(node, inputs=(source, *constants), outputs=(result,)))
        return
    image, rows = (
        orders.add_tensor(_row(orders.tensors[name], f"{node.name}/{role}"))
        for name, role in ((source, "row"), (result, "rows"))
    )
    orders.add("reshape", (source,), image, shape=orders.tensors[image].shape)
    orders.nodes.append(replace(node, inputs=(image, *constants), outputs=(rows,)))
    orders.add("reshape", (rows,), result, shape=orders.tensors[result].shape)


def _row(tensor: Tensor, name: str) -> Tensor:
    batch, width, channels = tensor.shape
    return replace(tensor, name=name, shape=(batch, 1, width, channels))


def _dense(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    x, weight, *rest = (orders.graph.tensors[name] for name in node.inputs if name)
    attributes = dict(node.attributes)
    transposed = attributes.pop("transposed")
    if weight.data is None or any(tensor.data is None for tensor in rest):
        reason = "its weights are computed at run time"
        _other(orders, replace(node, op="unsupported", attributes={"reason": reason}), preferences)
        return
    if weight.data.ndim > 2:
        _matrices(orders, node, attributes, block_diagonal(weight))
        return
    image = orders.flat.get(x.name)
    matrix = dense_weights(weight, transposed=transposed, image=image)
    if image is not None:
        attributes["image"] = image
    constants = [orders.add_constant(matrix)]
    constants += [orders.add_constant(flat_bias(bias, matrix.shape[0])) for bias in rest]
    inputs = (orders.get(x.name), *constants)
    output = orders.define(node.outputs[0], identity(2))
    orders.nodes.append(replace(node, inputs=inputs, outputs=(output,), attributes=attributes))


def _matrices(orders: Orders, node: Node, attributes: dict, matrix: Tensor) -> None:
    """Place the product of several matrices with a constant each: their rows, side by side."""
    x, y = node.inputs[0], node.outputs[0]
    *_, rows, inputs = orders.graph.tensors[x].shape
    outputs = orders.graph.tensors[y].shape[-1]
    count = matrix.shape[0] // outputs
    source, side_by_side, product, result = (
        orders.add_tensor(replace(orders.graph.tensors[tensor], name=f"{y}/{role}", shape=shape))
        for tensor, role, shape in (
            (x, "matrices", (count, rows, inputs)),
            (x, "rows", (rows, count * inputs)),
            (y, "products", (rows, count * outputs)),
            (y, "apart", (rows, count, outputs)),
        )
    )
    turned = orders.add_tensor(
        replace(orders.tensors[source], name=f"{y}/turned", shape=(rows, count, inputs))
    )
    orders.add("reshape", (orders.get(x),), source, shape=(count, rows, inputs))
    orders.add("transpose", (source,), turned, perm=(1, 0, 2))
    orders.add("reshape", (turned,), side_by_side, shape=(rows, count * inputs))
    weights = orders.add_constant(matrix)
    orders.nodes.append(
        replace(node, inputs=(side_by_side, weights), outputs=(product,), attributes=attributes)
    )
    orders.add("reshape", (product,), result, shape=(rows, count, outputs))
    back = orders.add_tensor(
        replace(orders.tensors[result], name=f"{y}/back", shape=(count, rows, outputs))
    )
    orders.add("transpose", (result,), back, perm=(1, 0, 2))
    output = orders.define(y, identity(orders.rank(y)))
    orders.add("reshape", (back,), output, shape=orders.tensors[output].shape)


def _elementwise(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    """Place an operator that works number by number, on one tensor or two, or joins tensors."""
    y = node.outputs[0]
    if node.inputs[0] in orders.flat:
        orders.flat[y] = orders.flat[node.inputs[0]]
    perm = _choose(orders, node, preferences)
    inputs = tuple(_operand(orders, name, perm) for name in node.inputs)
    attributes = dict(node.attributes)
    if "axis" in attributes:
        attributes["axis"] = perm.index(attributes["axis"])
    output = orders.define(y, perm)
    orders.nodes.append(replace(node, inputs=inputs, outputs=(output,), attributes=attributes))


def _pick(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    """Place an operator that picks positions of each axis."""
    perm = _choose(orders, node, preferences)
    source = orders.get(node.inputs[0], perm)
    output = orders.define(node.outputs[0], perm)
    indices = tuple(node["indices"][axis] for axis in perm)
    attributes = {"indices": indices}
    orders.nodes.append(replace(node, inputs=(source,), outputs=(output,), attributes=attributes))


def _choose(orders: Orders, node: Node, preferences: LayoutPreferences) -> Perm:
    """Return what is wanted behind a node, or what comes if it is all the same."""
    y = node.outputs[0]
    rank = orders.rank(y)
    if y in preferences.orders:
        return preferences.orders[y]
    for name in node.inputs:
        if orders.is_constant(name) or orders.rank(name) != rank:
            continue
        if identity(rank) not in orders.existing(name):
            return next(iter(orders.existing(name)))
    return identity(rank)


def _operand(orders: Orders, name: str, perm: Perm) -> str:
    """Return an operand in an order; missing axes in front are ones."""
    missing = len(perm) - orders.rank(name)
    if not missing or perm == identity(len(perm)):
        return orders.get(name, None if missing else perm)
    tensor = orders.graph.tensors[name]
    shape = (1,) * missing + tensor.shape
    order = "".join(str(axis) for axis in perm)
    new = f"{name}.{order}"
    if new in orders.tensors:
        return new
    permuted = tuple(shape[axis] for axis in perm)
    data = None if tensor.data is None else tensor.data.reshape(shape).transpose(perm).copy()
    orders.add_tensor(replace(tensor, name=new, shape=permuted, data=data))
    if data is not None:
        return new
    source = orders.get(name)
    if not keeps_elements(shape, perm):
        wide = orders.add_tensor(replace(tensor, name=f"{name}.wide", shape=shape))
        orders.add("reshape", (source,), wide, shape=shape)
        orders.add("transpose", (wide,), new, perm=perm)
    else:
        orders.add("reshape", (source,), new, shape=permuted)
    return new


def _reduction(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    x, y, axes = node.inputs[0], node.outputs[0], node["axes"]
    perm = preferences.orders.get(x) or next(iter(orders.existing(x)), identity(orders.rank(x)))
    result = perm
    if not node["keep_dims"]:
        kept = [axis for axis in perm if axis not in axes]
        result = tuple(sorted(kept).index(axis) for axis in kept)
    inputs = (orders.get(x, perm),)
    output = orders.define(y, result)
    attributes = {**node.attributes, "axes": tuple(sorted(perm.index(axis) for axis in axes))}
    orders.nodes.append(replace(node, inputs=inputs, outputs=(output,), attributes=attributes))


def _transpose(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    x, y = node.inputs[0], node.outputs[0]
    if orders.is_constant(x):
        orders.get(x)
    undo = invert(node["perm"])
    for perm, name in orders.existing(x).items():
        orders.share(y, compose(undo, perm), name)


def _reshape(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    x, y = node.inputs[0], node.outputs[0]
    shape = orders.graph.tensors[x].shape
    source = None
    for perm, name in orders.existing(x).items():
        if keeps_elements(shape, perm):
            source = name
    images = orders.existing(x).get(nhwc(4))
    if source is None and images is not None and y in preferences.flat:
        orders.flat[y] = preferences.flat[y]
        source = images
    source = orders.get(x) if source is None else source
    output = orders.define(y, identity(orders.rank(y)))
    orders.nodes.append(replace(node, inputs=(source,), outputs=(output,)))


def _other(orders: Orders, node: Node, preferences: LayoutPreferences) -> None:
    """Place an operator that wants the file's order."""
    inputs = tuple(orders.get(name) for name in node.inputs)
    outputs = tuple(orders.define(name, identity(orders.rank(name))) for name in node.outputs)
    orders.nodes.append(replace(node, inputs=inputs, outputs=outputs))


LAYOUTS: dict[str, Callable[[Orders, Node, LayoutPreferences], None]] = {
    **dict.fromkeys((*BINARY, *UNARY), _elementwise),
    **dict.fromkeys(REDUCTIONS.values(), _reduction),
    "average_pool": _pool,
    "batch_norm": _batch_norm,
    "concat": _elementwise,
    "conv": _conv,
    "dense": _dense,
    "depth_to_space": _pool,
    "log_softmax": _elementwise,
    "max_pool": _pool,
    "pad": _pad,
    "pick": _pick,
    "reshape": _reshape,
    "softmax": _elementwise,
    "space_to_depth": _pool,
    "transpose": _transpose,
    "transposed_conv": _conv,
}
