"""ONNX operators as exporters write them, between quantized tensors, drawn by a seed.

Operators that :mod:`tpulite_testing.drawn.onnx_cases` has are not here, unless their form is
another. What one node is elsewhere may be several in a file: GELU is five.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tpulite_testing.files.onnx_builder import OnnxBuilder

__all__ = ["NODES", "node_case"]

_SCALE, _ZERO = 0.0517, -7


def node_case(op: str, seed: int) -> bytes:
    """Draw a file of an operator of :data:`NODES`, whose inputs are floats that it quantizes."""
    draw = _Draw(op, seed)
    results = NODES[op](draw)
    results = [results] if isinstance(results, str) else results
    return draw.b.build(*(draw.quantized(y) for y in results))


class _Draw:
    """A file that grows; ``x`` is [1, channels, height, width]."""

    def __init__(self, op: str, seed: int) -> None:
        self.rng = np.random.default_rng([len(op), *op.encode(), seed])
        self.b = OnnxBuilder(opset=18)
        self.channels = int(self.rng.choice([4, 8, 16, 32, 36]))
        self.height, self.width = (int(n) for n in self.rng.integers(3, 9, 2))

    @property
    def x(self) -> str:
        """An activation."""
        return self.input(1, self.channels, self.height, self.width)

    @property
    def rows(self) -> str:
        """Several vectors, as transformers have them: [1, height, channels]."""
        return self.input(1, self.height, self.channels)

    def input(self, *shape: int) -> str:
        name = f"x{len(self.b.inputs)}"
        return self.quantized(self.b.input(name, shape), _SCALE)

    def quantized(self, x: str, scale: float = 0) -> str:
        if x.startswith("dequantizelinear"):
            return x  # the library would join both scales to a third
        scale = scale or _SCALE * float(self.rng.uniform(0.5, 2))
        return self.b.quantize(x, scale, _ZERO)

    def weight(self, *shape: int) -> str:
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        return self.b.weight(values, 0.0071 / math.sqrt(math.prod(shape[1:])))

    def real(self, *shape: int) -> np.ndarray:
        return self.rng.uniform(0.5, 1.5, shape).astype(np.float32)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def node(self, op: str, *inputs: Any, **attributes: Any) -> str:
        arrays = (np.array(x, np.int64) if isinstance(x, list) else x for x in inputs)
        return self.b.node(op, *arrays, **attributes)


def _two(op: str) -> Callable[[_Draw], str]:
    return lambda d: d.node(op, d.x, d.x)


def _one(op: str, **attributes: Any) -> Callable[[_Draw], str]:
    return lambda d: d.node(op, d.x, **attributes)


def _reduced(op: str) -> Callable[[_Draw], str]:
    return lambda d: d.node(op, d.x, [2, 3], keepdims=d.integer(0, 1))


def _integers(op: str, *shape: int) -> Callable[[_Draw], str]:
    """Make a product of int8 with int8 whose sums are scaled in floats."""

    def draw(d: _Draw) -> str:
        x = d.b.input("x", (1, d.channels, *shape[1:]), "int8")
        sizes = (d.channels, 5) if op == "MatMulInteger" else (5, d.channels, 1, 1)
        weight = d.rng.integers(-127, 128, sizes).astype(np.int8)
        sums = d.node(op, x, weight, np.array(3, np.int8))
        return d.node("Mul", d.node("Cast", sums, to=1), np.float32(0.0001))

    return draw


def _flat(op: str, *shape: list[int]) -> Callable[[_Draw], str]:
    """Make a change of shape before a dense layer, which reads it as it is."""

    def draw(d: _Draw) -> str:
        flat = d.quantized(d.node(op, d.x, *shape), _SCALE)
        weight = d.weight(d.channels * d.height * d.width, d.integer(1, 9))
        return d.node("MatMul", flat, weight)

    return draw


def _by_channel(op: str) -> Callable[[_Draw], str]:
    """Make an operator of uint8 and an int8 constant, which the library leaves in floats."""

    def draw(d: _Draw) -> str:
        x = d.b.quantize(d.b.input("x", (1, d.height, d.channels)), _SCALE, 121, "uint8")
        return d.node(op, x, d.weight(d.channels))

    return draw


def _split(d: _Draw) -> list[str]:
    first = d.integer(1, d.channels - 1)
    part = d.node("Split", d.x, [first, d.channels - first], axis=1)
    d.b.nodes[-1].output.append(f"{part}/second")
    return [part, f"{part}/second"]


def _gemm(d: _Draw) -> str:
    bias = d.b.weight(d.rng.integers(-999, 999, 5).astype(np.int32), _SCALE * 0.0071 / 4)
    return d.node("Gemm", d.input(1, 16), d.weight(5, 16), bias, transB=1)


def _conv(d: _Draw) -> str:
    kernel = d.integer(1, 3)
    pads = [kernel // 2] * 4
    return d.node("Conv", d.x, d.weight(d.integer(1, 20), d.channels, kernel, kernel), pads=pads)


def _conv_transpose(d: _Draw) -> str:
    stride, kernel = d.integer(1, 2), d.integer(2, 4)
    weight = d.weight(d.channels, d.integer(1, 20), kernel, kernel)
    return d.node("ConvTranspose", d.x, weight, strides=[stride] * 2)


def _conv_transpose_in_groups(d: _Draw) -> str:
    """Draw what ONNX Runtime computes exactly: all scales are powers of two."""
    group, each, axes = d.integer(1, 4), d.integer(1, 9), d.integer(1, 2)
    inputs = group * d.integer(1, 9)
    kernel, stride, dilation = ([d.integer(1, most) for _ in range(axes)] for most in (4, 3, 2))
    x = d.b.quantize(d.b.input("x", (1, inputs, *(d.integer(3, 7) for _ in kernel))), 2.0**-4, 5)
    values = d.rng.integers(-127, 128, (inputs, each, *kernel)).astype(np.int8)
    weight = d.b.weight(values, 2.0 ** d.rng.integers(-8, -5, each), axis=1)
    steps = d.rng.integers(-900, 900, group * each).astype(np.float32)
    bias = [steps * np.float32(2.0**-9)] * d.integer(0, 1)  # multiples of all steps of the sums
    forms: dict[str, Any] = {
        "SAME_UPPER": {"auto_pad": "SAME_UPPER"},
        "SAME_LOWER": {"auto_pad": "SAME_LOWER"},
        "pads": {
            "pads": [d.integer(0, k - 1) for k in kernel] * 2,
            "output_padding": [d.integer(0, step - 1) for step in stride],
        },
    }
    form = forms[str(d.rng.choice([*forms]))]
    window = {"strides": stride, "dilations": dilation, "group": group, **form}
    return d.b.quantize(d.node("ConvTranspose", x, weight, *bias, **window), 2.0**-3, 3)


def _resize(d: _Draw) -> str:
    mode = d.rng.choice(["nearest", "linear"])
    return d.node("Resize", d.x, "", np.array([1, 1, 2, 2], np.float32), mode=str(mode))


def _resize_to_pixels(d: _Draw) -> str:
    """Draw linear interpolation whose results are all at pixels."""
    places, n, m = d.rng.choice(
        np.array(
            [
                ("half_pixel", 3, 1),
                ("asymmetric", 2, 1),
                ("align_corners", 5, 3),
                ("half_pixel", 1, 4),
            ],
            dtype=object,
        )
    )
    x, sizes = d.input(1, d.channels, n, n), [1, d.channels, m, m]
    return d.node("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode=places)


def _dilated_max_pool(d: _Draw) -> str:
    """Draw windows with gaps; their padding is smaller than the kernel, as the library demands.

    Where ``ceil_mode`` leaves out a window, ONNX infers another shape than the library computes.
    """
    kernel, dilation = ([d.integer(low, 3) for _ in range(2)] for low in (2, 1))
    dilation[d.integer(0, 1)] = d.integer(2, 3)
    ceil = d.integer(0, 1)
    window: dict[str, Any] = {"kernel_shape": kernel, "dilations": dilation, "ceil_mode": ceil}
    window["strides"] = [d.integer(1, 2 if ceil else 4) for _ in range(2)]
    if not ceil:
        window["pads"] = [d.integer(0, k - 1) for k in (*kernel, *kernel)]
    return d.node("MaxPool", d.input(1, d.channels, d.height + 4, d.width + 4), **window)


def _pad(d: _Draw) -> str:
    return d.node("Pad", d.x, [0, 0, *(d.integer(0, 2) for _ in range(2)), 0, 0, 1, 1])


def _layer_normalization(d: _Draw) -> str:
    scale, bias = d.real(d.channels), d.real(d.channels)
    return d.node("LayerNormalization", d.rows, scale, bias, axis=-1)


def _instance_normalization(d: _Draw) -> str:
    return d.node("InstanceNormalization", d.x, d.real(d.channels), d.real(d.channels))


def _batch_normalization(d: _Draw) -> str:
    return d.node("BatchNormalization", d.x, *(d.real(d.channels) for _ in range(4)))


def _gelu(d: _Draw) -> str:
    """Draw what exporters write up to version 19 of the operators."""
    x = d.rows
    erf = d.node("Erf", d.node("Div", x, np.float32(math.sqrt(2))))
    product = d.node("Mul", x, d.node("Add", erf, np.float32(1)))
    return d.node("Mul", product, np.float32(0.5))


def _gelu_tanh(d: _Draw) -> str:
    """Draw what GPT-2 has: an approximation of GELU."""
    x = d.rows
    cube = d.node("Mul", d.node("Pow", x, np.float32(3)), np.float32(0.044715))
    inner = d.node("Mul", d.node("Add", x, cube), np.float32(math.sqrt(2 / math.pi)))
    product = d.node("Mul", x, d.node("Add", d.node("Tanh", inner), np.float32(1)))
    return d.node("Mul", product, np.float32(0.5))


def _hard_swish(d: _Draw) -> str:
    """Draw what exporters write up to version 13 of the operators."""
    x = d.rows
    clipped = d.node("Clip", d.node("Add", x, np.float32(3)), np.float32(0), np.float32(6))
    return d.node("Mul", x, d.node("Div", clipped, np.float32(6)))


def _silu(d: _Draw) -> str:
    x = d.x
    return d.node("Mul", x, d.node("Sigmoid", x))


def _transpose(d: _Draw) -> str:
    """Draw height and width that are swapped between convolutions."""
    x = d.quantized(d.node("Conv", d.x, d.weight(16, d.channels, 3, 1)), _SCALE)
    y = d.quantized(d.node("Transpose", x, perm=[0, 1, 3, 2]), _SCALE)
    return d.node("Conv", y, d.weight(5, 16, 2, 1))


def _windows(d: _Draw) -> str:
    """Draw pixels of windows, each by itself, as attention within windows reads them."""
    (rows, height), (columns, width) = ((d.integer(1, 3), d.integer(2, 4)) for _ in range(2))
    x = d.input(1, 4, rows * height, columns * width)
    x = d.quantized(d.node("Conv", x, d.weight(d.channels, 4, 1, 1)), _SCALE)
    y = d.quantized(d.node("Transpose", x, perm=[0, 2, 3, 1]), _SCALE)
    y = d.quantized(d.node("Reshape", y, [1, rows, height, columns, width, d.channels]), _SCALE)
    y = d.quantized(d.node("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), _SCALE)
    y = d.quantized(d.node("Reshape", y, [rows * columns, height * width, d.channels]), _SCALE)
    return d.node("MatMul", y, d.weight(d.channels, 5))


def _attention(d: _Draw) -> str:
    keys = d.node("Transpose", d.rows, perm=[0, 2, 1])
    return d.node("MatMul", d.rows, keys)


NODES: dict[str, Callable[[_Draw], str | list[str]]] = {
    "Add": _two("Add"),
    "Add (by channel)": _by_channel("Add"),
    "ArgMax": lambda d: [d.node("Cast", d.node("ArgMax", d.x, axis=1), to=1)],
    "AveragePool": lambda d: d.node("AveragePool", d.x, kernel_shape=[2, 2]),
    "BatchNormalization": _batch_normalization,
    "Concat": lambda d: d.node("Concat", d.x, d.x, axis=1),
    "Conv": _conv,
    "ConvInteger": _integers("ConvInteger", 1, 5, 5),
    "ConvTranspose": _conv_transpose,
    "ConvTranspose (powers of two)": _conv_transpose_in_groups,
    "DepthToSpace": _one("DepthToSpace", blocksize=2),
    "Div": lambda d: d.node("Div", d.x, np.float32(d.integer(2, 5))),
    "Dropout": _one("Dropout"),
    "Flatten": _flat("Flatten"),
    "Gather": lambda d: d.node("Gather", d.x, [0, 2, 1, -1], axis=1),
    "Gelu (exported)": _gelu,
    "Gelu (tanh, exported)": _gelu_tanh,
    "HardSwish (exported)": _hard_swish,
    "Gemm": _gemm,
    "GlobalAveragePool": _one("GlobalAveragePool"),
    "GlobalMaxPool": _one("GlobalMaxPool"),
    "Identity": _one("Identity"),
    "InstanceNormalization": _instance_normalization,
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _one("LogSoftmax", axis=1),
    "MatMul": lambda d: d.node("MatMul", d.rows, d.weight(d.channels, d.integer(1, 20))),
    "MatMul (both computed)": _attention,
    "MatMulInteger": _integers("MatMulInteger", 1),
    "MaxPool (dilated)": _dilated_max_pool,
    "Mul": _two("Mul"),
    "Mul (by channel)": _by_channel("Mul"),
    "Mul (SiLU)": _silu,
    "Pad": _pad,
    "ReduceMax": _reduced("ReduceMax"),
    "ReduceMean": _reduced("ReduceMean"),
    "ReduceSum": _reduced("ReduceSum"),
    "Reshape": _flat("Reshape", [1, -1]),
    "Reshape (pixels to rows)": lambda d: d.node("Reshape", d.x, [1, d.channels, -1]),
    "Resize": _resize,
    "Resize (linear, at pixels)": _resize_to_pixels,
    "Sigmoid": _one("Sigmoid"),
    "Slice": lambda d: d.node("Slice", d.x, [0, 1], [d.channels // 2, 100], [1, 2], [1, 1]),
    "Softmax": lambda d: d.b.quantize(d.node("Softmax", d.rows, axis=-1), 1 / 256, -128),
    "SpaceToDepth": lambda d: d.node(
        "SpaceToDepth", d.input(1, d.channels, 2 * d.height, 2 * d.width), blocksize=2
    ),
    "Split": _split,
    "Squeeze": lambda d: d.node("Squeeze", d.x, [0]),
    "Sub": _two("Sub"),
    "Sum": _two("Sum"),
    "Tile": lambda d: d.node("Tile", d.x, [1, 1, d.integer(1, 2), 2]),
    "Transpose": _transpose,
    "Transpose (windows)": _windows,
    "Unsqueeze": lambda d: d.node("Unsqueeze", d.rows, [1]),
}
"""How each is drawn; an explanation in brackets tells forms of one operator apart."""
