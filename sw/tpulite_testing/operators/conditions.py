"""Under which conditions the machine refuses an operator: all messages that the code has."""

from functools import partial

from tpulite.frontend.onnx.file import RULES
from tpulite.frontend.onnx.layout.channels_last import LAYOUTS
from tpulite.frontend.onnx.translate.importer import Importer
from tpulite.frontend.tflite.operators import OPERATIONS
from tpulite.quant import tensors
from tpulite.quant.exactness.scaling import activation_bounds, make_requantization
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.floats import require_integers
from tpulite.quant.lower.network import LOWERED, lower_node
from tpulite_testing.operators.messages import Reader, matches

__all__ = ["Conditions"]

_MACHINE = Reader("tpulite.quant", "UnsupportedError", methods={"context": GraphContext})
_TFLITE = Reader("tpulite.frontend.tflite", "UnsupportedFormError")
_ONNX = Reader("tpulite.frontend.onnx", "UncoveredError", methods={"graph": Importer})
_OF_ANY = (
    lower_node,
    *(tensors.quantized, tensors.centered, tensors.image_shape, tensors.image_axis),
    *(GraphContext.read, GraphContext.emit, GraphContext.declare),
    *(activation_bounds, make_requantization),
)
"""What every operator passes through."""

_OF_ANY_NODE = (Importer.known_shape, Importer.check_numbers, Importer.quantize_tensor)
"""What any node of ONNX may be refused by."""

_OBVIOUS = ("unsupported operator …", "… numerics do not define …")
"""What the tables say."""


class Conditions:
    """Messages, for any operator and for each; those of any are not repeated."""

    def __init__(self) -> None:
        texts = (text for function in _OF_ANY for text in _MACHINE.messages(function, "…"))
        self.common = tuple(dict.fromkeys(texts))

    def lowered(self, op: str) -> bool:
        """Tell whether the machine has an operator of graphs."""
        return op in LOWERED

    def of(self, op: str) -> list[str]:
        """Return what the machine says of an operator of graphs."""
        texts = self._lowering(op)
        known = (*self.common, *_OBVIOUS)
        return [text for text in texts if not any(matches(text, each) for each in known)]

    def _lowering(self, op: str) -> tuple[str, ...]:
        """Return what lowering says of an operator, before it begins and then."""
        return (*_MACHINE.messages(require_integers, op), *_MACHINE.messages(LOWERED[op], op))

    def of_file(self, file_format: str, name: str, op: str) -> list[str]:
        """Return what the reader of a format says of an operator that becomes ``op``."""
        if file_format == "tflite":
            return list(_TFLITE.messages(OPERATIONS[name][0], op))
        layout = _ONNX.messages(LAYOUTS.get(op, partial(int)), op)
        texts = dict.fromkeys((*_ONNX.messages(RULES[name], op), *layout))
        of_any = [text for method in _OF_ANY_NODE for text in _ONNX.messages(method, op)]
        return [text for text in texts if text not in of_any]

    def explains(self, reason: str, op: str) -> bool:
        """Tell whether a reason is one of the conditions of an operator of graphs."""
        known = self._lowering(op) if op in LOWERED else ()
        return any(matches(reason, text) for text in (*self.common, *_OBVIOUS, *known))
