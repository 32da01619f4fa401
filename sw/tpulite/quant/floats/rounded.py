"""Activations that a file rounds although its operators compute in floats.

ModelOpt, NNCF, brevitas and PyTorch's fake quantization write QuantizeLinear, perhaps Clip, and
DequantizeLinear before products whose results no QuantizeLinear reads.
"""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import onnx

from tpulite.quant.floats.axes import add_constant
from tpulite.quant.floats.graph import Links
from tpulite.quant.floats.observe import Feed, run_for

_JOINED = ("Clip", "Constant", "DequantizeLinear", "QuantizeLinear", "Relu")
"""Operators that read what an integer operator makes."""

_ENDS = "/ends"
"""How names of operators end that clip as rounding did."""

_OUTSIDE = 1e-4
"""Share of numbers outside a range that a calibration leaves out."""


def clip_for_rounding(links: Links) -> None:
    """Clip activations of floats where they were rounded, to the range that integers had.

    Files whose operators all read integers, as ONNX Runtime's quantizer writes them, stay.
    """
    if _is_whole(links):
        return
    for node in links.graph.node:
        if node.op_type == "DequantizeLinear":
            _clip(node, links)


def drop_idle_clips(model: onnx.ModelProto, feeds: Sequence[Feed]) -> None:
    """Leave out what :func:`clip_for_rounding` wrote where samples hardly reach beyond its ends."""
    links = Links(model.graph)
    clips = [x for x in model.graph.node if x.op_type == "Clip" and x.name.endswith(_ENDS)]
    computed = dict.fromkeys(x.input[0] for x in clips if x.input[0] in links.writer)
    outside, count = np.zeros(len(clips)), np.zeros(len(clips))
    runs = run_for(computed, model, feeds, "DISABLE_ALL") if computed else repeat({}, len(feeds))
    for feed, values in zip(feeds, runs, strict=False):
        for i, node in enumerate(clips):
            x = {**feed, **values}[node.input[0]]
            low, high = (links.constants[name] for name in node.input[1:])
            step = (high - low) / 255  # what is rounded to the ends is inside
            outside[i] += np.count_nonzero((x < low - step) | (x > high + step))
            count[i] += x.size
    for node, beyond, of in zip(clips, outside, count, strict=True):
        if beyond <= _OUTSIDE * of:
            node.op_type = "Identity"
            del node.input[1:]


def _is_whole(links: Links) -> bool:
    """Tell whether all operators read dequantized activations, but those that rounding joins."""
    for node in links.graph.node:
        if node.op_type in _JOINED:
            continue
        makers = (links.writer.get(name) for name in node.input if name not in links.constants)
        if any(each is not None and each.op_type != "DequantizeLinear" for each in makers):
            return False
    return True


def _clip(node: onnx.NodeProto, links: Links) -> None:
    """Make a Clip of floats of a DequantizeLinear behind QuantizeLinear, or behind Clip of that."""
    before = clip = links.writer.get(node.input[0])
    if clip is not None and clip.op_type == "Clip":
        before = links.writer.get(clip.input[0])
    if clip is None or before is None or before.op_type != "QuantizeLinear":
        return
    scale, point = meaning = _meaning(node, links)
    dtype = _integers(before, links)
    if dtype is None or scale is None or point is None or meaning != _meaning(before, links):
        return
    limits = np.iinfo(dtype)
    bounds = [float(limits.min), float(limits.max)]
    for i, name in enumerate(clip.input[1:] if clip is not before else ()):
        bounds[i] = bounds[i] if (bound := links.scalar(name)) is None else bound
    ends = [
        add_constant(links.graph, f"{node.output[0]}/{i}", (bound - point) * scale)
        for i, bound in enumerate(bounds)
    ]
    node.op_type, node.name = "Clip", f"{node.output[0]}{_ENDS}"
    del node.attribute[:]
    del node.input[:]
    node.input.extend([before.input[0], *ends])


def _integers(node: onnx.NodeProto, links: Links) -> np.dtype | None:
    """Return the type of what QuantizeLinear makes; None if it is no integer of whole bytes."""
    if any(node.input[2:]):
        point = links.constants.get(node.input[2])
        return None if point is None or point.dtype.kind not in "iu" else point.dtype
    kind = next((each.i for each in node.attribute if each.name == "output_dtype"), 0)
    made = np.dtype(np.uint8) if not kind else onnx.helper.tensor_dtype_to_np_dtype(kind)
    return made if made.kind in "iu" else None


def _meaning(node: onnx.NodeProto, links: Links) -> tuple[float | None, float | None]:
    """Return scale and zero point of a whole tensor."""
    point = links.scalar(node.input[2]) if any(node.input[2:]) else 0.0
    return links.scalar(node.input[1]), point
