"""Which tensors of a graph are tensors of its ONNX file, and in which order of axes."""

from tpulite.frontend.onnx.layout.orders import Perm, nhwc
from tpulite.frontend.onnx.read.model import OnnxModel
from tpulite.graph.graph import Graph, Origin

__all__ = ["origins"]


def origins(graph: Graph, model: OnnxModel) -> dict[str, Origin]:
    """Return the origin of each tensor that has one.

    Parameters
    ----------
    graph : Graph
        What was made of the file.
    model : OnnxModel
        The file.
    """
    found = {}
    for name, tensor in graph.tensors.items():
        base, perm = _in_file(name, model)
        if base not in model.computed:
            continue
        dtype, shape = model.types.get(base, ("object", None))
        if shape is not None and perm is not None and len(perm) == len(shape):
            shape = tuple(shape[axis] for axis in perm)
        if shape is None or (tensor.dtype, tensor.shape) == (dtype, shape):
            found[name] = Origin(base, perm)
    return found


def _in_file(name: str, model: OnnxModel) -> tuple[str, Perm | None]:
    """Return the file's name of a tensor, and how its axes are permuted."""
    if name in model.computed:
        return name, None
    base, _, suffix = name.rpartition(".")
    named = {"nhwc": nhwc(4), "nwc": nhwc(3)}
    perm = named.get(suffix) or tuple(int(digit) for digit in suffix if digit.isdigit())
    return (base, perm) if sorted(perm) == list(range(len(perm))) and perm else (name, None)
