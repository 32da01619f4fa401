"""Operators of ONNX that pick positions of axes, and squares of pixels."""

from collections.abc import Mapping, Sequence

import numpy as np

from tpulite.frontend.onnx.read.model import OnnxNode
from tpulite.frontend.onnx.translate.importer import Importer, Rule, UncoveredError

_COMPUTED = "its indices are computed at run time"

Positions = Sequence[int] | np.ndarray


def pick_padded(
    graph: Importer, node: OnnxNode, pads: dict[int, tuple[int, int]], mode: str
) -> None:
    """Emit padding with what the tensor has; ``pads`` are positions before and after axes."""
    shape = graph.shape(node.inputs[0]) or ()
    if mode not in ("reflect", "edge", "wrap") or min(map(min, pads.values())) < 0:
        raise UncoveredError(f"its mode is {mode}, or its padding negative")
    axes = {
        axis: np.pad(np.arange(shape[axis]), around, mode=mode)  # type: ignore[call-overload]
        for axis, around in pads.items()
    }
    emit_pick(graph, node.inputs[0], node.outputs[0], axes)


def emit_pick(graph: Importer, source: str, output: str, axes: Mapping[int, Positions]) -> None:
    """Emit a pick of positions of some axes."""
    shape = graph.shape(source) or ()
    indices = tuple(
        tuple(int(i) for i in axes.get(axis, range(extent))) for axis, extent in enumerate(shape)
    )
    graph.emit("pick", [source], [output], indices=indices)


def _integers(graph: Importer, node: OnnxNode, index: int, name: str) -> list[int] | None:
    """Return what an input or, in older versions, an attribute says; None if it is computed."""
    if len(node.inputs) > index and node.inputs[index]:
        value = graph.constant(node.inputs[index])
        return None if value is None else [int(each) for each in value.reshape(-1)]
    return list(node.attributes.get(name, []))


def _slice(graph: Importer, node: OnnxNode) -> None:
    shape = graph.known_shape(node.inputs[0], rank=1)
    names = enumerate(("starts", "ends", "axes", "steps"), 1)
    starts, ends, axes, steps = (_integers(graph, node, index, name) for index, name in names)
    if starts is None or ends is None or axes is None or steps is None:
        raise UncoveredError(_COMPUTED)
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    chosen: dict[int, Positions] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # An end before the first position is none for a step backwards.
        extent = shape[axis]
        stop = None if step < 0 and end < -extent else end
        chosen[axis % len(shape)] = range(extent)[start:stop:step]
    if not all(len(each) for each in chosen.values()):
        raise UncoveredError("its output is empty")
    emit_pick(graph, node.inputs[0], node.outputs[0], chosen)


def _split(graph: Importer, node: OnnxNode) -> None:
    shape = graph.known_shape(node.inputs[0], rank=1)
    axis = node.attributes.get("axis", 0) % len(shape)
    sizes = _integers(graph, node, 1, "split")
    if sizes is None:
        raise UncoveredError(_COMPUTED)
    count = len(node.outputs)
    each = -(-shape[axis] // count)
    sizes = sizes or [min(each, shape[axis] - i * each) for i in range(count)]
    if len(sizes) != count or min(sizes) < 1 or sum(sizes) != shape[axis]:
        raise UncoveredError(f"it splits {shape[axis]} into {sizes}")
    start = 0
    for output, size in zip(node.outputs, sizes, strict=True):
        if output:
            emit_pick(graph, node.inputs[0], output, {axis: range(start, start + size)})
        start += size


def _tile(graph: Importer, node: OnnxNode) -> None:
    shape, counts = graph.known_shape(node.inputs[0], rank=1), _integers(graph, node, 1, "")
    graph.known_shape(node.outputs[0])
    if not counts or min(counts) < 1:
        raise UncoveredError(_COMPUTED)
    pairs = enumerate(zip(shape, counts, strict=True))
    emit_pick(
        graph, node.inputs[0], node.outputs[0], {i: [*range(n)] * count for i, (n, count) in pairs}
    )


def _gather(graph: Importer, node: OnnxNode) -> None:
    """Emit a pick, if positions are a constant of one axis; otherwise it stays what it is."""
    shape, result = graph.known_shape(node.inputs[0], rank=1), graph.known_shape(node.outputs[0])
    axis, chosen = node.attributes.get("axis", 0) % len(shape), graph.constant(node.inputs[1])
    extent = shape[axis]
    if (
        chosen is None
        or chosen.ndim > 1
        or not chosen.size
        or not -extent <= chosen.min() <= chosen.max() < extent
        or graph.is_weight(node.inputs[0])
    ):
        graph.emit("gather", node.inputs, node.outputs, axis=axis)
        return
    positions = chosen.reshape(-1) % extent
    if chosen.ndim:
        emit_pick(graph, node.inputs[0], node.outputs[0], {axis: positions})
        return
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    part = graph.temporary("part", one, graph.dtype(node.inputs[0]))
    emit_pick(graph, node.inputs[0], part, {axis: positions})
    graph.emit("reshape", [part], node.outputs, shape=result)


def _resize(graph: Importer, node: OnnxNode) -> None:
    """Emit a pick of the nearest positions, computed in float32 as ONNX Runtime does.

    Linear interpolation is one as well if all results are at pixels.
    """
    shape, result = graph.known_shape(node.inputs[0], rank=1), graph.known_shape(node.outputs[0])
    mode = node.attributes.get("mode", "nearest")
    stretched = node.attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if mode not in ("nearest", "linear") or not stretched or node.attributes.get("antialias", 0):
        raise UncoveredError(f"unsupported mode {mode}")
    old = graph.model.opset < 11 or node.op == "Upsample"
    places = (
        "asymmetric" if old else node.attributes.get("coordinate_transformation_mode", "half_pixel")
    )
    nearest = "floor" if old else node.attributes.get("nearest_mode", "round_prefer_floor")
    if places not in _PLACES or nearest not in _NEAREST:
        raise UncoveredError(f"unsupported coordinates {places}, {nearest}")
    scales = _scales(graph, node, shape, result, old=old)
    if scales is None:
        raise UncoveredError(_COMPUTED)
    positions: dict[int, np.ndarray] = {}
    for axis, scale in scales.items():
        inputs, outputs = shape[axis], result[axis]
        if inputs == outputs and scale == 1:
            continue
        x = _PLACES[places](np.arange(outputs, dtype=np.float32), scale, inputs, outputs)
        positions[axis] = np.clip(x, 0, inputs - 1) if mode == "linear" else x
    if mode == "linear" and any(np.any(x % 1) for x in positions.values()):
        reason = "it interpolates linearly between pixels"
        between = tuple((axis, tuple(positions[axis].tolist())) for axis in sorted(positions))
        graph.emit("unsupported", node.inputs, node.outputs, reason=reason, places=between)
        return
    axes: dict[int, Positions] = {
        axis: np.clip(_NEAREST[nearest](x).astype(np.int64), 0, shape[axis] - 1)
        for axis, x in positions.items()
    }
    emit_pick(graph, node.inputs[0], node.outputs[0], axes)


def _scales(
    graph: Importer, node: OnnxNode, shape: Sequence[int], result: Sequence[int], *, old: bool
) -> dict[int, np.float32] | None:
    """Return the scale of each axis; None if it is computed."""
    axes = [axis % len(shape) for axis in node.attributes.get("axes", range(len(shape)))]
    index = 1 if old else 2
    if len(node.inputs) > index and node.inputs[index]:
        given = graph.constant(node.inputs[index])
        if given is None:
            return None
        if given.size:
            return dict(zip(axes, given.astype(np.float32), strict=True))
    if "scales" in node.attributes:
        return dict(zip(axes, np.asarray(node.attributes["scales"], np.float32), strict=True))
    return {axis: np.float32(result[axis]) / np.float32(shape[axis]) for axis in axes}


def _squares(op: str):
    """Make a rule for squares of pixels that channels become, or the other way round."""

    def rule(graph: Importer, node: OnnxNode) -> None:
        shape = graph.known_shape(node.inputs[0])
        if len(shape) != 4:
            raise UncoveredError("its tensors do not have four axes")
        block, mode = node.attributes["blocksize"], node.attributes.get("mode", "DCR")
        source = node.inputs[0]
        if mode == "CRD" and op == "depth_to_space":
            depth, squares = shape[1] // block**2, block**2
            source = graph.temporary("turned", shape, graph.dtype(source))
            turned = np.arange(shape[1]).reshape(depth, squares).T.reshape(-1)
            emit_pick(graph, node.inputs[0], source, {1: turned})
        graph.emit(op, [source], node.outputs, block=block)

    return rule


_HALF = np.float32(0.5)
_PLACES = {
    "asymmetric": lambda x, scale, n, m: x / scale,
    "half_pixel": lambda x, scale, n, m: (x + _HALF) / scale - _HALF,
    "pytorch_half_pixel": lambda x, scale, n, m: (
        (x + _HALF) / scale - _HALF if m > 1 else np.zeros_like(x)
    ),
    "align_corners": lambda x, scale, n, m: (
        x * np.float32(n - 1) / np.float32(m - 1) if m > 1 else np.zeros_like(x)
    ),
}
_NEAREST = {
    "round_prefer_floor": lambda x: np.ceil(x - _HALF),
    "round_prefer_ceil": lambda x: np.floor(x + _HALF),
    "floor": np.floor,
    "ceil": np.ceil,
}

MOVEMENT_RULES: dict[str, Rule] = {
    "DepthToSpace": _squares("depth_to_space"),
    "Gather": _gather,
    "Resize": _resize,
    "Slice": _slice,
    "SpaceToDepth": _squares("space_to_depth"),
    "Split": _split,
    "Tile": _tile,
    "Upsample": _resize,
}
