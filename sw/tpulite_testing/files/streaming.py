"""Streaming networks: TFLite files with variables, as wake words have them."""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

__all__ = ["STREAMS", "litert_frames"]

_SEED = 2024
_FIRST = 3  # value of every element of a state before the first frame


def _stream(b: Builder, name: str, x: int, kept: int) -> int:
    """Join ``kept`` rows of the frames before to a frame, and keep the last rows of that."""
    rows, (_, _, width, channels) = b.shape(x)[1] + kept, b.shape(x)
    handle = b.variable(name)
    joined = b.concat([b.read(handle, b.like(x, (1, kept, width, channels))), x], axis=1)
    ends = [
        b.constant(np.array(n, np.int32)) for n in ([0, -kept, 0, 0], [1, rows, width, channels])
    ]
    last = b.like(x, (1, kept, width, channels))
    strides = b.constant(np.ones(4, np.int32))
    options = {"options_type": "StridedSliceOptions", "endMask": 2}
    b.operator("STRIDED_SLICE", [joined, *ends, strides], [last], **options)
    b.assign(handle, last)
    return joined


def _weights(b: Builder, x: int, channels: int, *, depthwise: bool = False) -> int:
    """Add a convolution over all rows of a tensor."""
    rng = np.random.default_rng(_SEED + len(b.tensors))
    rows, inside = b.shape(x)[1], b.shape(x)[3]
    shape = (1, rows, 1, inside) if depthwise else (channels, rows, 1, inside)
    weight = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.integers(-300, 300, shape[3] if depthwise else channels)
    fields = {"weight_scale": 0.01, "scale": 0.05, "zero_point": -3, "padding": "VALID"}
    return b.conv(x, weight, bias, depthwise=depthwise, **fields)


def _once(b: Builder, **shapes: tuple[int, ...]) -> None:
    """Let CALL_ONCE give variables their first values."""
    for name, shape in shapes.items():
        b.variable(name, b.constant(np.full(shape, _FIRST, np.int8), 0.05, -3))


def one_stream() -> bytes:
    """Keep two frames for a convolution over three."""
    b = Builder()
    _once(b, s0=(1, 2, 1, 8))
    x = b.input((1, 1, 1, 8), 0.05, -3)
    return b.build(_weights(b, _stream(b, "s0", x, 2), 4))


def wake_word() -> bytes:
    """Keep frames between convolutions in three variables; a probability of uint8 comes out."""
    b = Builder()
    _once(b, **{"s/0": (1, 2, 1, 10), "s/1": (1, 4, 1, 16), "s/2": (1, 7, 1, 16)})
    x = b.input((1, 3, 10), 0.05, -3)
    y = _weights(b, _stream(b, "s/0", b.reshape(x, (1, 3, 1, 10)), 2), 16)
    for name, kept in (("s/1", 4), ("s/2", 7)):
        y = _weights(b, _stream(b, name, y, kept), 16, depthwise=True)
    dense = np.random.default_rng(_SEED).integers(-127, 128, (1, 16)).astype(np.int8)
    y = b.dense(b.reshape(y, (1, 16)), dense, [5], weight_scale=0.01, scale=0.03, zero_point=4)
    y = b.unary("LOGISTIC", y, 1 / 256, -128)
    return b.build(
        b.unary("QUANTIZE", y, 1 / 256, 0, dtype="uint8", options_type="QuantizeOptions")
    )


def read_after_write() -> bytes:
    """Read a variable twice in a frame: the second time what was written in between."""
    b = Builder()
    _once(b, h=(1, 2, 2, 4))
    x = b.input((1, 2, 2, 4), 0.05, -3)
    handle = b.variable("h")
    total = b.add(b.read(handle, x), x, 0.05, -3)
    b.assign(handle, total)
    again = b.read(b.variable("h"), total)  # by another handle
    return b.build(b.add(again, x, 0.1, 7), total)


def host_reads_what_was_written() -> bytes:
    """Read behind a write what only a library takes: SOFTMAX of floats."""
    b = Builder()
    _once(b, h=(1, 2, 2, 4))
    x = b.input((1, 2, 2, 4), 0.05, -3)
    handle = b.variable("h")
    total = b.add(b.read(handle, x), x, 0.05, -3)
    b.assign(handle, total)
    real = b.tensor(b.shape(x), dtype="float32")
    b.operator("DEQUANTIZE", [b.read(handle, total)], [real], options_type="DequantizeOptions")
    shares = b.tensor(b.shape(x), dtype="float32")
    b.operator("SOFTMAX", [real], [shares], options_type="SoftmaxOptions", beta=1.0)
    return b.build(shares)


def delay_of_two() -> bytes:
    """Chain variables: one keeps the input itself, and what it held goes into the next."""
    b = Builder()
    _once(b, near=(1, 1, 1, 4), far=(1, 1, 1, 4))
    x = b.input((1, 1, 1, 4), 0.05, -3)
    near, far = b.variable("near"), b.variable("far")
    before, long_before = b.read(near, x), b.read(far, x)
    b.assign(far, before)
    b.assign(near, x)
    return b.build(b.add(b.add(x, long_before, 0.05, -3), before, 0.1, 7))


def never_written() -> bytes:
    """Read a variable that nobody writes, and one that is written first, so outlives no run."""
    b = Builder()
    _once(b, fixed=(1, 2, 2, 4), short=(1, 2, 2, 4))
    x = b.input((1, 2, 2, 4), 0.05, -3)
    short = b.variable("short")
    b.assign(short, x)
    return b.build(b.add(b.read(b.variable("fixed"), x), b.read(short, x), 0.1, 7))


STREAMS: Mapping[str, Callable[[], bytes]] = {
    make.__name__: make
    for make in (
        one_stream,
        wake_word,
        read_after_write,
        host_reads_what_was_written,
        delay_of_two,
        never_written,
    )
}
"""Files by name."""


def litert_frames(model: bytes, frames: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Return the outputs for each frame of a sequence that one interpreter runs."""
    interpreter = Interpreter(
        model_content=model,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    results = []
    for frame in frames:
        interpreter.set_tensor(given["index"], frame)
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        results.append([interpreter.get_tensor(each["index"]) for each in outputs])
    return results
