"""Quantization changes places with operators that only move numbers."""

from dataclasses import dataclass, field, replace

import numpy as np

from tpulite.frontend.onnx.draft import Draft
from tpulite.frontend.onnx.translate.importer import same_quantization
from tpulite.frontend.onnx.weights import real_values
from tpulite.graph.expressions import PAIRS, Step, X
from tpulite.graph.graph import Node, Quantization, Tensor
from tpulite.graph.verify import FUNCTIONS

INT8 = ("int8", "uint8")

_MOVING = (
    *("reshape", "transpose", "max_pool", "pad"),
    *("pick", "depth_to_space", "space_to_depth"),
)
"""Operators on one tensor that mean the same on the integers of any quantization."""


_LARGEST = ("max_pool", "reduce_max", "reduce_min")
"""Operators whose results are some of their integers, which get a meaning if they have none."""


def spread_quantization(draft: Draft) -> None:
    """Give integers that are only moved the quantization of where they come from or go to."""
    nodes = [node for node in draft.nodes if node.op in (*_MOVING, *_LARGEST)]
    for ordered, forward in ((nodes, True), (nodes[::-1], False)):
        for node in ordered:
            x, y = draft.tensors[node.inputs[0]], draft.tensors[node.outputs[0]]
            known, unknown = (x, y) if forward else (y, x)
            found = known.quantization
            if found is None or found.axis is not None or unknown.quantization is not None:
                continue
            if unknown.dtype == known.dtype:
                draft.add_tensor(replace(unknown, quantization=found))
    unit = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    for node in nodes:
        for name in (node.inputs[0], node.outputs[0]):
            tensor = draft.tensors[name]
            if node.op in _LARGEST and tensor.dtype in INT8 and tensor.quantization is None:
                draft.add_tensor(replace(tensor, quantization=unit))


def merge_equal(draft: Draft, node: Node) -> bool:
    """Quantize a tensor once if it is quantized alike several times."""
    if node.op != "quantize" or node.outputs[0] in draft.graph.outputs:
        return False
    for other in draft.readers(node.inputs[0]):
        if other.op != "quantize" or other.name == node.name:
            continue
        if _same(draft.tensors[other.outputs[0]], draft.tensors[node.outputs[0]]):
            draft.redirect(node.outputs[0], other.outputs[0])
            draft.remove(node.name)
            return True
    return False


def _same(a: Tensor, b: Tensor) -> bool:
    if a.quantization is None or b.quantization is None or a.dtype != b.dtype:
        return False
    return same_quantization(a.quantization, b.quantization)


def move(draft: Draft, node: Node) -> bool:
    """Let an operator that moves numbers work on integers: dequantize after it, quantize before."""
    if node.op == "concat":
        return _join(draft, node)
    if node.op not in (*_MOVING, "relu"):
        return False
    if not draft.tensors[node.outputs[0]].dtype.startswith("float"):
        return False
    before = draft.writer(node.inputs[0])
    if node.op == "relu" and (before is None or _is_quantized(draft, node.outputs[0])):
        return False  # a quantized operator of its own, or part of one
    if before is not None and before.op == "dequantize":
        integers = draft.tensors[before.inputs[0]]
        if integers.data is not None:
            return _move_constant(draft, node, integers)
        if integers.dtype not in INT8:
            return False
        y = node.outputs[0]
        after = draft.only_reader(y)
        if after is not None and _quantizes_like(draft, after, integers):
            moved = _moved(draft, node, integers, after.outputs[0])
            draft.remove(after.name)
            draft.set(replace(moved, inputs=(integers.name,)))
            return True
        if node.op == "pad" and not _expressible(node, integers, after):
            return False
        moved = _moved(draft, node, integers, f"{y}/integers")
        draft.set(replace(moved, inputs=(integers.name,)))
        draft.set(Node(f"{node.name}/dequantize", "dequantize", moved.outputs, (y,), {}, ""))
        return True
    after = draft.only_reader(node.outputs[0])
    if node.op in _MOVING and after is not None and after.op == "quantize":
        integers = draft.tensors[after.outputs[0]]
        x = draft.tensors[node.inputs[0]]
        if integers.dtype not in INT8:
            return False
        moved = _moved(draft, node, integers, integers.name)
        name = f"{node.outputs[0]}/quantized"
        draft.add_tensor(Tensor(name, x.shape, integers.dtype, integers.quantization))
        draft.remove(node.name)
        draft.remove(after.name)
        draft.set(replace(after, inputs=(x.name,), outputs=(name,)))
        draft.set(replace(moved, inputs=(name,)))
        return True
    return False


def _join(draft: Draft, node: Node) -> bool:
    """Concatenate integers of one meaning, and dequantize the result, unless it is quantized."""
    makers = [draft.writer(name) for name in node.inputs]
    if any(each is None or each.op != "dequantize" for each in makers):
        return False
    parts = [draft.tensors[each.inputs[0]] for each in makers if each is not None]
    if any(x.data is not None or x.dtype not in INT8 or not _same(x, parts[0]) for x in parts):
        return False
    y = node.outputs[0]
    if _is_quantized(draft, y):
        return False
    moved = _moved(draft, node, parts[0], f"{y}/integers")
    draft.set(replace(moved, inputs=tuple(x.name for x in parts)))
    draft.set(Node(f"{node.name}/dequantize", "dequantize", moved.outputs, (y,), {}, ""))
    return True


def _expressible(node: Node, integers: Tensor, after: Node | None) -> bool:
    """Tell whether integers of a tensor can mean what a pad adds, for the node behind it."""
    meaning = integers.quantization
    if meaning is None:
        return False
    value = np.float32(node["value"])
    real = meaning.real(_quantized(value, meaning, integers.dtype).reshape(1))
    lowest = after is not None and after.op == "max_pool" and value == -np.inf
    return lowest or bool(real.astype(np.float32)[0] == value)


def _move_constant(draft: Draft, node: Node, integers: Tensor) -> bool:
    """Move the integers of a constant now."""
    quantization = integers.quantization
    if node.op not in ("reshape", "transpose") or quantization is None or integers.data is None:
        return False
    if quantization.axis is not None:
        if node.op == "reshape":
            return False
        quantization = replace(quantization, axis=node["perm"].index(quantization.axis))
    y = draft.tensors[node.outputs[0]]
    turned = integers.data.transpose(node["perm"]) if node.op == "transpose" else integers.data
    name = draft.add_tensor(
        Tensor(f"{y.name}/integers", y.shape, integers.dtype, quantization, turned.reshape(y.shape))
    )
    draft.remove(node.name)
    draft.set(Node(f"{node.name}/dequantize", "dequantize", (name,), (y.name,), {}, ""))
    return True


def _quantized(real: np.ndarray | np.float32, quantization: Quantization, dtype: str) -> np.ndarray:
    """Return numbers as integers with one scale, as QuantizeLinear does."""
    limits = np.iinfo(dtype)
    value = (
        np.rint(np.asarray(real, np.float32) / quantization.scale[0]) + quantization.zero_point[0]
    )
    return np.clip(value, limits.min, limits.max).astype(dtype)


def _is_quantized(draft: Draft, name: str) -> bool:
    return any(reader.op == "quantize" for reader in draft.readers(name))


def _quantizes_like(draft: Draft, node: Node, integers: Tensor) -> bool:
    return node.op == "quantize" and _same(draft.tensors[node.outputs[0]], integers)


def _moved(draft: Draft, node: Node, like: Tensor, output: str) -> Node:
    """Return the node with a result of integers; a float value of padding becomes an integer."""
    shape = draft.tensors[node.outputs[0]].shape
    draft.add_tensor(Tensor(output, shape, like.dtype, like.quantization))
    attributes = dict(node.attributes)
    if node.op == "pad" and like.quantization is not None:
        value = _quantized(np.float32(attributes["value"]), like.quantization, like.dtype)
        attributes["value"] = int(value)
    return replace(node, outputs=(output,), attributes=attributes)


def meet(draft: Draft, node: Node) -> bool:
    """Dequantize and quantize again: nothing, or from one quantization to another."""
    if node.op != "quantize":
        return False
    before = draft.writer(node.inputs[0])
    if before is None or before.op != "dequantize":
        return False
    x, y = draft.tensors[before.inputs[0]], draft.tensors[node.outputs[0]]
    if x.dtype not in INT8 or y.dtype not in INT8:
        return False
    if x.data is not None and y.name not in draft.graph.outputs and y.quantization is not None:
        draft.add_tensor(replace(y, data=_quantized(real_values(x), y.quantization, y.dtype)))
        draft.remove(node.name)
    elif _same(x, y) and y.name not in draft.graph.outputs:
        draft.redirect(y.name, x.name)
        draft.remove(node.name)
    else:
        draft.set(replace(node, op="requantize", inputs=(x.name,)))
    return True


_FUNCTIONS = FUNCTIONS - {"expression", "gelu"}
"""What may be a step; GELU may be one by tanh, which is none of the library's that we know."""

_MOST = 24
"""Operators of an expression; exporters write GELU with five."""


def express(draft: Draft, node: Node) -> bool:
    """Make the operators before a quantization one, if all depend on one quantized tensor.

    Exporters write GELU, SiLU and hard swish with several operators and constants of one number.
    """
    if node.op != "quantize" or draft.tensors[node.outputs[0]].dtype not in INT8:
        return False
    found = _Expression(draft)
    last = draft.writer(node.inputs[0])
    if last is None or last.op in ("dequantize", "expression"):
        return False
    if found.place(node.inputs[0]) is None or found.source is None:
        return False
    x, y = draft.tensors[found.source], draft.tensors[node.outputs[0]]
    if x.shape != y.shape or len(found.steps) < 2:
        return False
    attributes = {"steps": tuple(found.steps)}
    draft.set(
        replace(node, op="expression", inputs=(x.name,), attributes=attributes, source=last.source)
    )
    return True


@dataclass
class _Expression:
    """What has been found of an expression; steps stand behind those that they take."""

    draft: Draft
    source: str | None = None
    steps: list[Step] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def place(self, name: str) -> int | None:
        """Return the number of the step that computes a tensor; None if none can."""
        if name in self.places:
            return self.places[name]
        tensor, node = self.draft.tensors[name], self.draft.writer(name)
        if tensor.data is not None:
            if tensor.data.size != 1 or tensor.dtype != "float32":
                return None
            return self._add(name, ("constant", (), {"value": float(tensor.data.item())}))
        if node is None or tensor.dtype != "float32" or len(self.steps) > _MOST:
            return None
        if node.op == "dequantize":
            return self._input(node)
        known = node.op in (PAIRS if len(node.inputs) == 2 else _FUNCTIONS)
        if not known or node.attributes.get("activation", "none") != "none":
            return None
        arguments = [self.place(each) for each in node.inputs]
        if any(argument is None for argument in arguments):
            return None
        plain = {k: v for k, v in node.attributes.items() if k != "activation"}
        return self._add(name, (node.op, tuple(a for a in arguments if a is not None), plain))

    def _input(self, node: Node) -> int | None:
        integers = self.draft.tensors[node.inputs[0]]
        one = integers.quantization is not None and integers.quantization.axis is None
        if integers.data is not None or integers.dtype not in INT8 or not one:
            return None
        if self.source not in (None, integers.name):
            return None
        self.source = integers.name
        return X

    def _add(self, name: str, step: Step) -> int:
        self.steps.append(step)
        self.places[name] = len(self.steps) - 1
        return self.places[name]
