"""Channel shuffles: reshape, transpose, reshape becomes one convolution with a permutation."""

from dataclasses import replace

import numpy as np

from tpulite.frontend.onnx.draft import Draft
from tpulite.graph.graph import Graph, Node, Quantization, Tensor

_SWAP = (0, 2, 1, 3, 4)


def join_shuffles(graph: Graph) -> Graph:
    """Replace shuffles of the channels of images.

    In the file's order of axes a shuffle splits the channels into groups, swaps these with what is
    in them, and joins them. With channels last that would be two transposes of the image; a
    convolution of one pixel whose weights are a permutation gives the same numbers.

    Parameters
    ----------
    graph : Graph
        Axes in the file's order.
    """
    draft = Draft(graph)
    for node in graph.nodes:
        if node.op == "transpose" and node["perm"] == _SWAP:
            _join(draft, node)
    return draft.freeze()


def _join(draft: Draft, swap: Node) -> None:
    split = draft.writer(swap.inputs[0])
    join = draft.only_reader(swap.outputs[0])
    if split is None or split.op != "reshape" or join is None or join.op != "reshape":
        return
    x, y = draft.tensors[split.inputs[0]], draft.tensors[join.outputs[0]]
    batch, groups, each, height, width = draft.tensors[swap.inputs[0]].shape
    if x.shape != (batch, groups * each, height, width) or x.shape != y.shape:
        return
    if x.dtype not in ("float32", "int8", "uint8") or x.dtype != y.dtype:
        return
    if x.dtype != "float32" and x.quantization is None:
        return
    weight = draft.add_tensor(_permutation(f"{y.name}/permutation", groups, each, x))
    attributes = {
        "stride": (1, 1),
        "dilation": (1, 1),
        "padding": (0, 0, 0, 0),
        "group": 1,
        "activation": "none",
    }
    draft.remove(join.name)
    draft.set(
        replace(swap, op="conv", inputs=(x.name, weight), outputs=(y.name,), attributes=attributes)
    )


def _permutation(name: str, groups: int, each: int, x: Tensor) -> Tensor:
    """Return weights [O, I, 1, 1] that take output channel ``i * groups + g`` from ``g, i``."""
    channels = groups * each
    sources = np.arange(channels).reshape(groups, each).T.reshape(-1)
    data = np.zeros((channels, channels, 1, 1), x.dtype if x.dtype == "float32" else "int8")
    data[np.arange(channels), sources] = 1
    quantization = None
    if x.dtype != "float32":
        quantization = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    return Tensor(name, data.shape, data.dtype.name, quantization, data)
