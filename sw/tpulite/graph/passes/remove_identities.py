"""Removal of nodes whose result is their input."""

from dataclasses import replace

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import rebuild, same_meaning


def remove_identities(graph: Graph) -> Graph:
    """Let users of a copy use the original, and reshape once instead of twice.

    Copies are reshapes to the same shape, concatenations of one tensor, pads of nothing,
    permutations that change no order, requantizations to the same scale, ``identity``, ``dropout``
    (it does nothing after training), and a quantization that undoes a dequantization. Permutations
    that move no axis but those of one element become reshapes.

    A tensor between an input and an output of the graph has to be copied, so that node stays.
    """
    makers: dict[str, Node] = {}
    copies: dict[str, str] = {}  # a tensor that is no longer there, and what took its place
    kept = []

    def resolve(name: str) -> str:
        while name in copies:
            name = copies[name]
        return name

    for old in graph.nodes:
        node = replace(old, inputs=tuple(resolve(name) for name in old.inputs))
        node = _reshape_once(_as_reshape(node, graph), makers, graph)
        original = _original(node, makers, graph)
        if original is not None:
            original, copy = resolve(original), node.outputs[0]
            if copy not in graph.wanted:
                copies[copy] = original
                continue
            if original in makers and original not in graph.wanted:
                copies[original] = copy  # the node before computes the output itself
                makers[copy] = makers[original]
                continue
        kept.append(node)
        makers.update(dict.fromkeys(node.outputs, node))
    return rebuild(
        graph,
        (
            replace(
                node,
                inputs=tuple(resolve(name) for name in node.inputs),
                outputs=tuple(resolve(name) for name in node.outputs),
            )
            for node in kept
        ),
    )


def _original(node: Node, makers: dict[str, Node], graph: Graph) -> str | None:
    """Return the name of the tensor that the node copies, or None if it does not."""
    if not node.inputs or not node.inputs[0] or len(node.outputs) != 1:
        return None
    name = node.inputs[0]
    x, y = graph.tensors[name], graph.tensors[node.outputs[0]]
    if node.op == "quantize":
        maker = makers.get(name)
        if maker is None or maker.op != "dequantize":
            return None
        name = maker.inputs[0]
        x = graph.tensors[name]
    elif not _copies(node, x):
        return None
    return name if x.shape == y.shape and same_meaning(x, y) else None


def _copies(node: Node, x: Tensor) -> bool:
    if node.op == "concat":
        return len(node.inputs) == 1 and node["activation"] == "none"
    if node.op == "pad":
        return not any(node["padding"])
    if node.op == "transpose":
        return tuple(node.attributes.get("perm", ())) == tuple(range(len(x.shape)))
    return node.op in ("reshape", "requantize", "identity", "dropout")


def _as_reshape(node: Node, graph: Graph) -> Node:
    """Let a permutation be a reshape if the axes of more than one element keep their order."""
    if node.op != "transpose" or len(node.inputs) != 1:
        return node
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    perm = tuple(node.attributes.get("perm", ()))
    order = [axis for axis in perm if axis < len(x.shape) and x.shape[axis] != 1]
    if not order or order != sorted(order) or sorted(perm) != list(range(len(x.shape))):
        return node
    return replace(node, op="reshape", attributes={"shape": y.shape})


def _reshape_once(node: Node, makers: dict[str, Node], graph: Graph) -> Node:
    """Let a reshape of a reshape start from what the first one starts from."""
    maker = makers.get(node.inputs[0]) if node.op == "reshape" else None
    if maker is None or maker.op != "reshape":
        return node
    source = maker.inputs[0]
    if not same_meaning(graph.tensors[source], graph.tensors[node.inputs[0]]):
        return node
    return replace(node, inputs=(source, *node.inputs[1:]))
