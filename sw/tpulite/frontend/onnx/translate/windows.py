"""Convolutions and pooling of ONNX: everything with a window that moves over an image."""

from dataclasses import dataclass

from tpulite.frontend.onnx.read.model import OnnxNode
from tpulite.frontend.onnx.translate.importer import Importer, Rule, UncoveredError
from tpulite.frontend.onnx.translate.movement import emit_pick
from tpulite.frontend.padding import pad_same

_DIMENSIONS = "it does not have one or two spatial dimensions"
_DILATED = "it pools with dilations"


@dataclass(frozen=True)
class SlidingWindow:
    """Pairs are (y, x), padding is (top, left, bottom, right); ``extra`` is what ceil_mode adds."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    extra: tuple[int, int]

    def extended(self, padding: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        """Return padding with what ceil_mode adds."""
        top, left, bottom, right = padding
        return top, left, bottom + self.extra[0], right + self.extra[1]


def window_of(node: OnnxNode, image: tuple[int, ...], kernel: tuple[int, ...]) -> SlidingWindow:
    """Return the window of a node over an image of one or two dimensions.

    A one-dimensional image is one row.
    """
    axes = len(image) - 2
    if axes not in (1, 2) or len(kernel) != axes:
        raise UncoveredError(_DIMENSIONS)
    size = image[2:]
    stride = tuple(node.attributes.get("strides", (1,) * axes))
    dilation = tuple(node.attributes.get("dilations", (1,) * axes))
    pads = tuple(node.attributes.get("pads", (0,) * 2 * axes))
    auto = node.attributes.get("auto_pad", "NOTSET")
    if min((*kernel, *stride, *dilation)) < 1 or min(pads) < 0:
        raise ValueError(
            f"Node {node.name!r}: kernel {list(kernel)}, strides {list(stride)} and dilations "
            f"{list(dilation)} must be positive, pads {list(pads)} not negative"
        )
    before, after, extra = [], [], []
    for i in range(axes):
        reach = (kernel[i] - 1) * dilation[i] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            first, last = pad_same(size[i], kernel[i], stride[i], dilation[i])
            if auto == "SAME_LOWER":
                first, last = last, first
        elif auto == "VALID":
            first = last = 0
        else:
            first, last = pads[i], pads[axes + i]
        free = first + size[i] + last - reach
        if free < 0:
            raise ValueError(
                f"Node {node.name!r}: a window of {reach} does not fit an input of {size[i]} with "
                f"padding {first} and {last}"
            )
        more = 0
        if node.attributes.get("ceil_mode", 0) and free % stride[i]:
            begins = (free // stride[i] + 1) * stride[i]
            # A window that begins beyond the image and its first padding does not exist.
            if begins < size[i] + first:
                more = begins - free
        before.append(first)
        after.append(last)
        extra.append(more)
    one = (1,) * (2 - axes)
    none = (0,) * (2 - axes)
    return SlidingWindow(
        (*one, *kernel),  # type: ignore[arg-type]
        (*one, *stride),  # type: ignore[arg-type]
        (*one, *dilation),  # type: ignore[arg-type]
        (*none, *before, *none, *after),  # type: ignore[arg-type]
        (*none, *extra),  # type: ignore[arg-type]
    )


def _conv(graph: Importer, node: OnnxNode) -> None:
    x, weight = node.inputs[:2]
    image, kernel = graph.known_shape(x), graph.known_shape(weight)
    if not all(graph.is_weight(name) for name in node.inputs[1:] if name):
        raise UncoveredError("its weights are computed at run time")
    window = window_of(node, image, kernel[2:])
    graph.emit("conv", node.inputs, node.outputs, **conv_attributes(graph, node, window))


def _transposed_conv(graph: Importer, node: OnnxNode) -> None:
    """Emit a convolution backwards; what its output has more than its windows is bias alone."""
    x, weight = node.inputs[:2]
    image, kernel, result = map(graph.known_shape, (x, weight, node.outputs[0]))
    if not all(graph.is_weight(name) for name in node.inputs[1:] if name):
        raise UncoveredError("its weights are computed at run time")
    axes, group = len(image) - 2, node.attributes.get("group", 1)
    if axes not in (1, 2):
        raise UncoveredError(_DIMENSIONS)
    if len(kernel) != len(image) or kernel[0] != image[1] or group < 1 or image[1] % group:
        raise ValueError(
            f"Node {node.name!r}: {group} groups of kernels {list(kernel)} do not fit an image of "
            f"shape {list(image)}"
        )
    stride = tuple(node.attributes.get("strides", (1,) * axes))
    dilation = tuple(node.attributes.get("dilations", (1,) * axes))
    lost = _lost(node, image, kernel, result)
    if min((*stride, *dilation)) < 1 or min(lost) < 0:
        raise UncoveredError("its strides, dilations or padding are out of range")
    none, one = (0,) * (2 - axes), (1,) * (2 - axes)
    graph.emit(
        "transposed_conv",
        node.inputs,
        node.outputs,
        stride=(*one, *stride),
        padding=(*none, *lost),
        same=False,
        dilation=(*one, *dilation),
        group=group,
        activation="none",
    )


def _lost(
    node: OnnxNode, image: tuple[int, ...], kernel: tuple[int, ...], result: tuple[int, ...]
) -> tuple[int, ...]:
    """Return how much of the first windows of each axis is not there."""
    axes = len(image) - 2
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID") and "output_shape" not in node.attributes:
        return tuple(node.attributes.get("pads", (0,) * 2 * axes))[:axes]
    ones, zeros = (1,) * axes, (0,) * axes
    stride, dilation = (node.attributes.get(name, ones) for name in ("strides", "dilations"))
    more = node.attributes.get("output_padding", zeros)
    lost = []
    for i, (n, k, size) in enumerate(zip(image[2:], kernel[2:], result[2:], strict=True)):
        windows = stride[i] * (n - 1) + more[i] + (k - 1) * dilation[i] + 1
        total = max(windows - size, 0)
        lost.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
    return tuple(lost)


def conv_attributes(graph: Importer, node: OnnxNode, window: SlidingWindow) -> dict:
    """Return the attributes of a convolution whose second input are its weights."""
    image, kernel = graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    group = node.attributes.get("group", 1)
    if image is None or kernel is None or group < 1 or kernel[1] * group != image[1]:
        raise ValueError(
            f"Node {node.name!r}: {group} groups of kernels {list(kernel or ())} do not fit an "
            f"image of shape {list(image or ())}"
        )
    return {
        "stride": window.stride,
        "dilation": window.dilation,
        "padding": window.padding,
        "group": group,
        "activation": "none",
    }


def _max_pool(graph: Importer, node: OnnxNode) -> None:
    image = graph.known_shape(node.inputs[0])
    if any(graph.is_read(name) for name in node.outputs[1:]):
        raise UncoveredError("its output of indices is used")
    window = window_of(node, image, tuple(node.attributes["kernel_shape"]))
    if max(window.dilation) > 1:
        if node.attributes.get("auto_pad", "").startswith("SAME"):
            raise UncoveredError("ONNX Runtime pads it as if it had no dilations")
        _dilated_max_pool(graph, node, window)
        return
    graph.emit(
        "max_pool",
        node.inputs,
        node.outputs[:1],
        window=window.kernel,
        stride=window.stride,
        padding=window.extended(window.padding),
        activation="none",
    )


def _dilated_max_pool(graph: Importer, node: OnnxNode, window: SlidingWindow) -> None:
    """Emit a maximum of dense windows, over rows and columns that are picked phase by phase."""
    x, y = node.inputs[0], node.outputs[0]
    image, result = graph.known_shape(x), graph.known_shape(y)
    padding, stride = [*window.extended(window.padding)], [*window.stride]
    sources: dict[int, list[int]] = {}
    results: dict[int, list[int]] = {}
    apart, dense = [*image], [*result]
    for i, axis in ((0, len(image) - 2), (1, len(image) - 1)):
        if window.dilation[i] > 1:
            around = padding[i], padding[i + 2]
            sources[axis], stride[i], results[axis] = _in_phases(image[axis], around, window, i)
            padding[i] = padding[i + 2] = 0
            apart[axis] = len(sources[axis])
            dense[axis] = (apart[axis] - window.kernel[i]) // stride[i] + 1
    phases, maxima = (
        graph.temporary(role, shape, graph.dtype(x))
        for role, shape in (("phases", apart), ("maxima", dense))
    )
    emit_pick(graph, x, phases, sources)
    graph.emit(
        "max_pool",
        [phases],
        [maxima],
        window=window.kernel,
        stride=tuple(stride),
        padding=tuple(padding),
        activation="none",
    )
    emit_pick(graph, maxima, y, results)


def _in_phases(
    extent: int, around: tuple[int, int], window: SlidingWindow, axis: int
) -> tuple[list[int], int, list[int]]:
    """Make a dilated axis dense: its positions by phase, the stride, and which maxima are results.

    Padding becomes the nearest position of its phase, which every window there sees anyway.
    """
    kernel, stride, dilation = window.kernel[axis], window.stride[axis], window.dilation[axis]
    before, size = around[0], around[0] + extent + around[1]
    begins = range(0, size - (kernel - 1) * dilation, stride)
    for begin in begins:
        seen = range(begin - before, begin - before + kernel * dilation, dilation)
        if not any(0 <= place < extent for place in seen):
            raise UncoveredError("a window lies in its padding")
    order: list[int] = []
    sources: list[int] = []
    for phase in sorted({begin % dilation for begin in begins}):
        places = range(phase, size, dilation)
        inside = range((phase - before) % dilation, extent, dilation)
        order += places
        sources += [min(max(place - before, inside[0]), inside[-1]) for place in places]
    step = stride // dilation if stride % dilation == 0 else 1
    return sources, step, [order.index(begin) // step for begin in begins]


def _average_pool(graph: Importer, node: OnnxNode) -> None:
    graph.check_numbers(node.inputs[0])
    image = graph.known_shape(node.inputs[0])
    if any(d != 1 for d in node.attributes.get("dilations", ())):
        raise UncoveredError(_DILATED)
    window = window_of(node, image, tuple(node.attributes["kernel_shape"]))
    x, padding = node.inputs[0], window.padding
    whole = window.kernel == (1, *image[2:])[-2:] and not any((*padding, *window.extra))
    if whole and node.source == "QLinearAveragePool":  # its global average, of integers
        axes = tuple(range(2, len(image)))
        graph.emit("mean", node.inputs[:1], node.outputs, axes=axes, keep_dims=True)
        return
    counted = bool(node.attributes.get("count_include_pad", 0)) and any(padding)
    if counted and any(window.extra):
        if len(image) != 4:
            raise UncoveredError(_DIMENSIONS)
        # Padding counts, what ceil_mode adds does not: the former becomes part of the image.
        top, left, bottom, right = padding
        height, width = image[2] + top + bottom, image[3] + left + right
        padded = graph.temporary("padded", (*image[:2], height, width), graph.dtype(x))
        around = ((0, 0), (0, 0), (top, bottom), (left, right))
        graph.emit("pad", [x], [padded], around=around, value=0.0)
        x, padding, counted = padded, (0, 0, 0, 0), False
    graph.emit(
        "average_pool",
        [x],
        node.outputs,
        window=window.kernel,
        stride=window.stride,
        padding=window.extended(padding),
        count_include_pad=counted,
        activation="none",
    )


def _global_max_pool(graph: Importer, node: OnnxNode) -> None:
    image = graph.known_shape(node.inputs[0])
    if len(image) not in (3, 4):
        raise UncoveredError(_DIMENSIONS)
    graph.emit(
        "max_pool",
        node.inputs,
        node.outputs,
        window=(1, *image[2:])[-2:],
        stride=(1, 1),
        padding=(0, 0, 0, 0),
        activation="none",
    )


def _global_average_pool(graph: Importer, node: OnnxNode) -> None:
    graph.check_numbers(node.inputs[0])
    image = graph.known_shape(node.inputs[0])
    if len(image) not in (3, 4):
        raise UncoveredError(_DIMENSIONS)
    graph.emit("mean", node.inputs, node.outputs, axes=tuple(range(2, len(image))), keep_dims=True)


def _batch_norm(graph: Importer, node: OnnxNode) -> None:
    graph.known_shape(node.inputs[0], rank=2)
    if node.attributes.get("training_mode", 0) or not node.attributes.get("spatial", 1):
        raise UncoveredError("it is in training mode, or has per-pixel parameters")
    if not all(graph.is_weight(name) for name in node.inputs[1:5]):
        raise UncoveredError("its parameters are computed at run time")
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    graph.emit("batch_norm", node.inputs, node.outputs[:1], epsilon=epsilon)


WINDOW_RULES: dict[str, Rule] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _transposed_conv,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
    "MaxPool": _max_pool,
}
