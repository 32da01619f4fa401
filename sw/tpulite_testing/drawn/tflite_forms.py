"""TFLite operators at the ends of networks, and changes of shape, drawn by a seed."""

from collections.abc import Callable

import numpy as np

from tpulite.frontend.tflite.builder import ModelBuilder

__all__ = ["FORMS", "form_case"]


def form_case(op: str, seed: int) -> bytes:
    """Draw a file of an operator of :data:`FORMS`."""
    draw = _Draw(op, seed)
    y = FORMS[op](draw)
    return draw.model.build(y, name=f"{op}-{seed}")


class _Draw:
    """A file that grows; ``x`` is [1, height, width, channels]."""

    def __init__(self, op: str, seed: int) -> None:
        rng = np.random.default_rng([len(op), *op.encode(), seed])
        self.op, self.model = op, ModelBuilder()
        self.height, self.width = (int(n) for n in rng.integers(2, 9, 2))
        self.channels = int(rng.choice([3, 8, 16, 32, 64]))
        self.shape = (1, self.height, self.width, self.channels)

    def input(self, *shape: int) -> int:
        return self.model.input(shape or self.shape, 0.05, -3)

    def known(self, values: object) -> int:
        return self.model.constant(np.asarray(values, np.int32))

    def same(self, shape: tuple[int, ...], *inputs: int, **options: object) -> int:
        """Add the operator; its result has the quantization of its first input."""
        y = self.model.like(inputs[0], shape)
        return self.model.operator(self.op, inputs, [y], **options)


def _reshape(d: _Draw) -> int:
    shape = (1, d.height * d.width, d.channels)
    return d.same(shape, d.input(), d.known(shape), options_type="ReshapeOptions")


def _squeeze(d: _Draw) -> int:
    return d.same(d.shape[1:], d.input(), options_type="SqueezeOptions")


def _expand_dims(d: _Draw) -> int:
    x = d.input(*d.shape[1:])
    return d.same(d.shape, x, d.known(0), options_type="ExpandDimsOptions")


def _pad(d: _Draw) -> int:
    shape = (1, d.height + 1, d.width + 2, d.channels)
    amounts = d.known([[0, 0], [1, 0], [1, 1], [0, 0]])
    return d.same(shape, d.input(), amounts, options_type="PadOptions")


def _gather(d: _Draw) -> int:
    shape = (1, d.height, 2, d.channels)
    return d.same(shape, d.input(), d.known([0, 1]), options_type="GatherOptions", axis=2)


def _softmax(d: _Draw) -> int:
    x = d.input(1, 10)
    y = d.model.tensor((1, 10), 1 / 256, -128)
    y = d.model.operator("SOFTMAX", [x], [y], options_type="SoftmaxOptions", beta=1.0)
    if d.height % 2:
        return y
    # In the middle of a network: attention, more or less.
    weight = d.model.constant(np.arange(-20, 20, dtype=np.int8).reshape(4, 10), 0.1)
    mixed = d.model.tensor((1, 4), 0.05)
    options = {"options_type": "FullyConnectedOptions"}
    return d.model.operator("FULLY_CONNECTED", [y, weight], [mixed], **options)


def _argmax(d: _Draw) -> int:
    y = d.model.tensor((1,), dtype="int32")
    x, axis = d.input(1, 10), d.known(1)
    return d.model.operator("ARG_MAX", [x, axis], [y], options_type="ArgMaxOptions", outputType=2)


def _dequantize(d: _Draw) -> int:
    y = d.model.tensor(d.shape, dtype="float32")
    return d.model.operator("DEQUANTIZE", [d.input()], [y], options_type="DequantizeOptions")


FORMS: dict[str, Callable[[_Draw], int]] = {
    "ARG_MAX": _argmax,
    "DEQUANTIZE": _dequantize,
    "EXPAND_DIMS": _expand_dims,
    "GATHER": _gather,
    "PAD": _pad,
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "SQUEEZE": _squeeze,
}
"""How each is drawn."""
