"""Float operators between one quantized tensor and a quantization: one function of one number."""

from dataclasses import dataclass, field, replace

from tpulite.frontend.onnx.draft import Draft
from tpulite.frontend.onnx.quantize.propagate import INT8
from tpulite.graph.expressions import PAIRS, Step, X
from tpulite.graph.graph import Node
from tpulite.graph.verify import FUNCTIONS

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
