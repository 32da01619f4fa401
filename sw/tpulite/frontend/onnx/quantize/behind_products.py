"""What files have behind products that can be part of them: biases apart, and clips."""

from dataclasses import replace

import numpy as np

from tpulite.frontend.onnx.draft import Draft
from tpulite.frontend.onnx.weights import real_values
from tpulite.graph.graph import Node, Tensor

ACTIVATIONS = ("relu", "relu6", "relu_n1_1")
"""Clips that a product may have."""

_CHANNELS = {"conv": 1, "dense": -1}
"""Axis of the results of products that the channels are."""

_WEIGHTED = 2
"""Inputs of a product without a bias."""


def join_bias(draft: Draft, node: Node) -> bool:
    """Make a constant of channels that is added to a product the product's bias.

    A reshape that keeps the channels, such as that of the rows of a sequence, may stand between.
    """
    if node.op != "add" or node.attributes.get("activation", "none") != "none":
        return False
    for made, added in (node.inputs, node.inputs[::-1]):
        shaped = _maker(draft, made, "reshape")
        product = _maker(draft, made if shaped is None else shaped.inputs[0], *_CHANNELS)
        value = _value(draft, added)
        if product is None or value is None or len(product.inputs) != _WEIGHTED:
            continue
        y, z = (draft.tensors[name].shape for name in (product.outputs[0], node.outputs[0]))
        axis = _CHANNELS[product.op]
        if product.attributes.get("raw") or (shaped is not None and (axis != -1 or y[-1] != z[-1])):
            continue
        if draft.tensors[made].shape != z or not _is_of(value.shape, len(z), axis, y[axis]):
            continue
        if value.shape != (y[axis],):
            value = np.broadcast_to(value.reshape(-1), y[axis])
            added = draft.add_tensor(
                Tensor(f"{node.name}/bias", value.shape, "float32", data=value.astype(np.float32))
            )
        last = product if shaped is None else shaped
        draft.remove(node.name)
        draft.set(replace(product, inputs=(*product.inputs, added)))
        last = draft.writer(last.outputs[0]) or last
        draft.set(replace(last, outputs=node.outputs))
        return True
    return False


def clip_rows(draft: Draft, node: Node) -> bool:
    """Let an activation behind a product of rows stand in front of their reshape."""
    shaped = _maker(draft, node.inputs[0], "reshape") if node.op in ACTIVATIONS else None
    if shaped is None or _maker(draft, shaped.inputs[0], "dense") is None:
        return False
    rows = draft.tensors[shaped.inputs[0]]
    clipped = draft.add_tensor(Tensor(f"{node.outputs[0]}/rows", rows.shape, rows.dtype))
    draft.set(replace(node, inputs=shaped.inputs, outputs=(clipped,)))
    draft.set(replace(shaped, inputs=(clipped,), outputs=node.outputs))
    return True


def _maker(draft: Draft, name: str, *operators: str) -> Node | None:
    """Return who computes a tensor for one reader only, if it is such an operator."""
    writer = draft.writer(name)
    if writer is None or writer.op not in operators or draft.only_reader(name) is None:
        return None
    return writer


def _value(draft: Draft, name: str) -> np.ndarray | None:
    """Return a constant that is float or dequantized."""
    tensor, writer = draft.tensors[name], draft.writer(name)
    if writer is None:
        return tensor.data if tensor.dtype == "float32" else None
    source = draft.tensors[writer.inputs[0]]
    if writer.op != "dequantize" or source.data is None or source.quantization is None:
        return None
    return real_values(source)


def _is_of(shape: tuple[int, ...], rank: int, axis: int, channels: int) -> bool:
    """Tell whether a constant that is added has a number for each channel, or one for all."""
    whole = [1] * rank
    whole[axis] = channels
    return len(shape) <= rank and all(
        extent in (1, wanted) for extent, wanted in zip(shape[::-1], whole[::-1], strict=False)
    )
