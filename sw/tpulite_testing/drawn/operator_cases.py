"""Networks of one operator, drawn by a seed: for LiteRT, for the golden model and for the chip.

>>> case = draw_case("conv", seed=1)
>>> case.name, len(case.inputs), case.model[4:8]
('conv-1', 1, b'TFL3')
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.frontend.tflite.writer import write_tflite
from tpulite.graph.graph import Graph, Node, Quantization, Tensor

__all__ = ["FUNCTIONS", "OPERATORS", "WINDOWS", "Case", "cases", "draw_case"]

FUNCTIONS = (
    *("relu", "relu6", "relu_n1_1", "leaky_relu", "elu", "gelu"),
    *("sigmoid", "tanh", "hard_swish", "requantize"),
)
SIGNED_FUNCTIONS = ("abs", "exp", "log", "neg", "sqrt", "rsqrt")
OPERATORS = (
    *("conv", "depthwise", "dense", "add", "sub", "mul"),
    *("max_pool", "average_pool", "mean", "pad", "concat"),
    *FUNCTIONS,
    *SIGNED_FUNCTIONS,
    "relu_0_1",
    *("maximum", "minimum", "squared_difference", "prelu"),
    *("reduce_max", "reduce_min", "sum"),
    "transposed_conv",
    "matmul",
)
WINDOWS = ("conv", "depthwise", "max_pool", "average_pool", "transposed_conv")
_ROOTS = {"sqrt": lambda x: math.sqrt(x) / 10, "rsqrt": lambda x: 1 / math.sqrt(x) / 100}
"""Functions of numbers from 0 on, and scales of their results."""
_SIGNED = (*SIGNED_FUNCTIONS, "squared_difference", "matmul")
_ACTIVATIONS = ("none", "none", "relu", "relu6", "relu_n1_1")


@dataclass(frozen=True, eq=False)
class Case:
    """A network of one operator."""

    name: str  #: Operator and seed.
    graph: Graph  #: The network.
    model: bytes  #: The same as a TFLite file.
    inputs: tuple[np.ndarray, ...]  #: One value for each input.


def cases(
    count: int,
    *,
    seed: int = 0,
    operators: tuple[str, ...] = OPERATORS,
    large: bool = False,
) -> Iterator[Case]:
    """Yield cases of operators in turn, with the seeds from ``seed`` on."""
    for index in range(count):
        yield draw_case(operators[index % len(operators)], seed + index, large=large)


def draw_case(op: str, seed: int, *, large: bool = False) -> Case:
    """Draw a case of an operator; ``large`` for windows that no single command can express."""
    draw = _Draw(op, seed, _LARGE if large else _SMALL)
    node, outputs = _DRAWS.get(op, _Draw.function)(draw)
    tensors = {tensor.name: tensor for tensor in (*draw.tensors, outputs)}
    inputs = tuple(t.name for t in draw.tensors if t.data is None)
    graph = Graph(f"{op}-{seed}", (node,), tensors, inputs, (outputs.name,), "tflite")
    return Case(graph.name, graph, write_tflite(graph), tuple(map(draw.values, inputs)))


@dataclass(frozen=True)
class _Most:
    """Largest extents of what is drawn."""

    image: int
    kernel: int
    stride: int
    dilation: int


_SMALL, _LARGE = _Most(12, 7, 3, 3), _Most(40, 20, 20, 20)


class _Draw:
    """Draws tensors; extremes of zero points and scales are as frequent as ordinary ones."""

    def __init__(self, op: str, seed: int, most: _Most) -> None:
        self.most = most
        self.rng = np.random.default_rng([OPERATORS.index(op), seed])
        self.op = op
        unsigned = self.rng.random() < 0.25 and op not in _SIGNED
        self.dtype = "uint8" if unsigned else "int8"
        self.extreme = self.rng.random() < 0.2
        # Powers of two make many results fall exactly between two integers.
        self.ties = self.rng.random() < 0.25
        self.tensors: list[Tensor] = []

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def choice(self, *values: Any) -> Any:
        return values[self.integer(0, len(values) - 1)]

    def scale(self, low: float, high: float) -> np.float32:
        value = np.exp(self.rng.uniform(np.log(low), np.log(high)))
        return np.float32(2.0 ** round(math.log2(value)) if self.ties else value)

    def zero_point(self) -> int:
        low = 0 if self.dtype == "uint8" else -128
        return low + (self.choice(0, 255) if self.extreme else self.integer(0, 255))

    def activation(self) -> str:
        return self.choice(*_ACTIVATIONS)

    def image(self, largest: int = 0) -> tuple[int, int, int, int]:
        largest = largest or self.most.image
        channels = self.choice(1, 2, 3, self.integer(1, 20), self.integer(1, 70))
        return (1, self.integer(1, largest), self.integer(1, largest), channels)

    def tensor(
        self, name: str, shape: tuple[int, ...], scale: Any = None, zero_point: Any = None
    ) -> Tensor:
        scale = self.scale(0.005, 0.1) if scale is None else scale
        zero_point = self.zero_point() if zero_point is None else zero_point
        quantization = _quantization(scale, zero_point)
        return Tensor(name, tuple(int(n) for n in shape), self.dtype, quantization)

    def input(self, name: str, shape: tuple[int, ...], *like: Any) -> Tensor:
        self.tensors.append(self.tensor(name, shape, *like))
        return self.tensors[-1]

    def constant(self, tensor: Tensor, data: np.ndarray, axis: int | None = None) -> Tensor:
        q = tensor.quantization
        assert q is not None
        quantization = Quantization(q.scale, q.zero_point, axis if len(q.scale) > 1 else None)
        self.tensors.append(Tensor(tensor.name, data.shape, str(data.dtype), quantization, data))
        return self.tensors[-1]

    def numbers(self, shape: tuple[int, ...], spread: int = 128) -> np.ndarray:
        """Draw integers of the tensors' type around the middle."""
        middle = 128 if self.dtype == "uint8" else 0
        low, high = max(-128, -spread), min(127, spread)
        return (self.rng.integers(low, high + 1, shape) + middle).astype(self.dtype)

    def values(self, name: str) -> np.ndarray:
        tensor = next(t for t in self.tensors if t.name == name)
        if self.op in (*FUNCTIONS, *SIGNED_FUNCTIONS, "relu_0_1"):
            values = np.arange(tensor.shape[-1]) % 256 + np.iinfo(tensor.dtype).min
            if self.op in _ROOTS:  # LiteRT stops at negative numbers
                values = np.maximum(values, tensor.quantization.zero_point)  # type: ignore[union-attr]
            return values.astype(tensor.dtype).reshape(tensor.shape)
        offsets = self.rng.integers(-100, 101, tensor.shape[-1])
        values = self.numbers(tensor.shape).astype(np.int64) + offsets * self.choice(0, 1)
        limits = np.iinfo(tensor.dtype)
        return np.clip(values, limits.min, limits.max).astype(tensor.dtype)

    def product(
        self, x: Tensor, kernel: tuple[int, ...], terms: int, axis: int, activation: str
    ) -> Tensor:
        """Draw weights and bias of a product, and return an output without its shape."""
        channels = kernel[axis]
        # Weights of uint8 have one scale and a zero point; TFLite's int8 weights are symmetric.
        each = self.dtype == "int8" and self.rng.random() < (0.3 if self.op == "dense" else 0.8)
        count = channels if each else 1
        scales = np.array([self.scale(0.004, 0.04) for _ in range(count)], np.float32)
        zeros = np.array([self.zero_point() if self.dtype == "uint8" else 0] * count)
        weight = self.tensor("w", kernel, scales, zeros)
        data = self.numbers(kernel)
        if self.dtype == "int8":
            data = np.maximum(data, -127)
        self.constant(weight, data, axis)
        assert x.quantization is not None
        x_scale = np.float32(x.quantization.scale[0])
        # LiteRT refuses convolutions without a bias; its optimized depthwise kernel crashes.
        if self.op != "dense" or self.rng.random() < 0.8:
            size = int(70 * 70 * math.sqrt(terms))
            bias = self.rng.integers(-size, size + 1, channels).astype(np.int32)
            b = Tensor("b", bias.shape, "int32", _quantization(x_scale * scales, zeros * 0))
            self.constant(b, bias, 0)
        spread = float(x_scale) * float(scales.mean()) * math.sqrt(terms) * 74 * 74
        fill = self.scale(4, 4000) if self.extreme else self.scale(30, 200)
        y_scale = np.float32(max(spread / float(fill), float(x_scale * scales.max()) / 200))
        if self.ties:
            y_scale = np.float32(2.0 ** round(math.log2(y_scale)))
        elif activation == "relu6" and self.choice(0, 1):
            # The bound lies exactly between two integers.
            y_scale = np.float32(12 / (2 * max(1, round(6 / float(y_scale))) + 1))
        return self.tensor("y", (), y_scale)

    def window(self, image: tuple[int, ...], kernel: tuple[int, int], dilation: tuple[int, int]):
        """Draw strides and padding of a window; return them with the size of the output."""
        stride = self.integer(1, self.most.stride), self.integer(1, self.most.stride)
        if max(dilation) > 1 and self.choice(0, 1):
            stride = 1, 1
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        same = self.choice(0, 1) or any(r > n for r, n in zip(reach, image[1:3], strict=True))
        if not same:
            sizes = [(image[1 + i] - reach[i]) // stride[i] + 1 for i in (0, 1)]
            return stride, (0, 0, 0, 0), sizes
        sizes = [-(-image[1 + i] // stride[i]) for i in (0, 1)]
        total = [max((sizes[i] - 1) * stride[i] + reach[i] - image[1 + i], 0) for i in (0, 1)]
        before = [n // 2 for n in total]
        return stride, (*before, *(t - b for t, b in zip(total, before, strict=True))), sizes

    def dilation(self) -> tuple[int, int]:
        some = self.integer(1, self.most.dilation), self.integer(1, self.most.dilation)
        return self.choice((1, 1), (1, 1), some)

    def conv(self):
        x = self.input("x", self.image())
        kernel = self.integer(1, self.most.kernel), self.integer(1, self.most.kernel)
        dilation = self.dilation()
        stride, padding, sizes = self.window(x.shape, kernel, dilation)
        activation, channels = self.activation(), self.integer(1, 40)
        shape = (channels, *kernel, x.shape[3])
        y = self.product(x, shape, math.prod(shape[1:]), 0, activation)
        attributes = {"stride": stride, "dilation": dilation, "padding": padding}
        return self.node(attributes | {"activation": activation}, y, (1, *sizes, channels))

    def depthwise(self):
        x = self.input("x", self.image())
        kernel = self.integer(1, self.most.kernel), self.integer(1, self.most.kernel)
        dilation = self.dilation()
        stride, padding, sizes = self.window(x.shape, kernel, dilation)
        activation, multiplier = self.activation(), self.choice(1, 1, 1, 2, 3)
        channels = x.shape[3] * multiplier
        y = self.product(x, (*kernel, channels), math.prod(kernel), 2, activation)
        attributes = {"stride": stride, "dilation": dilation, "padding": padding}
        attributes |= {"multiplier": multiplier, "activation": activation}
        return self.node(attributes, y, (1, *sizes, channels))

    def transposed_conv(self):
        x = self.input("x", self.image())
        kernel = self.integer(1, self.most.kernel), self.integer(1, self.most.kernel)
        stride = self.integer(1, self.most.stride), self.integer(1, self.most.stride)
        same, sizes, padding = self.choice(0, 1), [], []
        for n, k, s in zip(x.shape[1:3], kernel, stride, strict=True):
            # Some outputs behind the last window, or some that are not there.
            sizes.append(n * s - self.integer(0, s - 1) + (0 if same else k - 1))
            padding.append(max((n - 1) * s + k - sizes[-1], 0) // 2 if same else 0)
        activation, channels = self.activation(), self.integer(1, 40)
        shape = (channels, *kernel, x.shape[3])
        y = self.product(x, shape, math.prod(shape[1:]), 0, activation)
        attributes = {"stride": stride, "padding": tuple(padding), "same": bool(same)}
        attributes |= {"activation": activation}
        return self.node(attributes, y, (1, *sizes, channels))

    def dense(self):
        shape = self.choice((1, self.integer(1, 200)), (self.integer(2, 9), self.integer(1, 90)))
        if shape[0] == 1 and self.choice(0, 1):
            shape = self.image(6)
        k, channels = math.prod(shape[1:]), self.integer(1, 70)
        x, activation = self.input("x", shape), self.activation()
        y = self.product(x, (channels, k), k, 0, activation)
        return self.node({"activation": activation}, y, (shape[0], channels))

    def pair(self):
        shape = self.image()
        other = self.choice(shape, shape, (1, 1, 1, shape[3]))
        a, b = self.input("a", shape), self.tensor("b", other)
        if self.choice(0, 0, 1):
            self.constant(b, self.numbers(b.shape))
        else:
            self.tensors.append(b)
        scales = [float(t.quantization.scale[0]) for t in (a, b)]  # type: ignore[union-attr]
        real = scales[0] * scales[1] * 60 if self.op == "mul" else sum(scales) * 0.7
        y = self.tensor("y", shape, np.float32(real * float(self.scale(0.4, 2.5))))
        if self.ties:
            y = self.tensor("y", shape, np.float32(2.0 ** round(math.log2(real))))
        return self.node({"activation": self.activation()}, y, shape)

    def extreme(self):
        shape = self.image()
        other = self.choice(shape, (1, 1, 1, shape[3]), (1,))
        a = self.input("a", shape)
        b = self.renamed(self.like(a), "b", other)
        if other == (1,) or self.choice(0, 1):
            self.constant(b, self.numbers(other))
        else:
            self.tensors.append(b)
        return self.node({}, self.like(a), shape)

    def squared_difference(self):
        shape = self.image()
        other = self.choice(shape, (1, 1, 1, shape[3]), (*shape[:3], 1), (1,))
        a = self.input("a", shape)
        quantization = self.choice("the same", "the same", "zero point", "scale")
        b = self.renamed(self.like(a), "b", other)
        if quantization == "zero point":
            b = self.tensor("b", other, a.quantization.scale)  # type: ignore[union-attr]
        if quantization == "scale":
            b = self.tensor("b", other)
        if other == (1,):
            self.constant(self.tensor("b", other), self.numbers(other))
        else:
            self.tensors.append(b)
        scales = [float(t.quantization.scale[0]) for t in self.tensors]  # type: ignore[union-attr]
        # The largest square and less: LiteRT refuses scales that are much smaller.
        largest = (255 * max(scales)) ** 2
        y = self.tensor("y", shape, largest / self.scale(256, 8000))
        if quantization != "the same":
            y = self.tensor("y", shape, largest / self.scale(256, 8000), -128)
        return self.node({}, y, shape)

    def prelu(self):
        shape = self.image()
        x = self.input("x", shape)
        shapes = (1, 1, shape[3]), shape[1:], (1, 1, 1)
        slope = self.tensor("slope", self.choice(*shapes), self.scale(0.002, 0.02))
        if self.choice(0, 1):  # slopes of one sign
            zero = self.choice(0, 255) + np.iinfo(self.dtype).min
            slope = self.tensor("slope", slope.shape, slope.quantization.scale, zero)  # type: ignore[union-attr]
        if slope.shape != (1, 1, 1) and self.choice(0, 0, 0, 1):
            self.tensors.append(slope)
        else:
            self.constant(slope, self.numbers(slope.shape))
        assert x.quantization is not None
        ratio = float(self.scale(0.3, 3))
        return self.node({}, self.tensor("y", shape, x.quantization.scale[0] * ratio), shape)

    def pool(self):
        x = self.input("x", self.image())
        window = self.integer(1, self.most.kernel), self.integer(1, self.most.kernel)
        stride, padding, sizes = self.window(x.shape, window, (1, 1))
        attributes = {"window": window, "stride": stride, "padding": padding}
        attributes |= {"activation": self.activation()}
        if self.op == "average_pool":
            attributes["count_include_pad"] = False
        return self.node(attributes, self.like(x), (1, *sizes, x.shape[3]))

    def mean(self):
        x, keep = self.input("x", self.image(14)), bool(self.choice(0, 1))
        q = x.quantization
        assert q is not None
        ratio = 1.0 if self.choice(0, 0, 1) else float(self.scale(0.1, 1.1))
        y = self.tensor("y", (), np.float32(float(q.scale[0]) * ratio))
        shape = (1, 1, 1, x.shape[3]) if keep else (1, x.shape[3])
        return self.node({"axes": (1, 2), "keep_dims": keep}, y, shape)

    def reduction(self):
        x, keep = self.input("x", self.image(9)), bool(self.choice(0, 1))
        axes = self.choice((1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3))
        y = self.like(x)
        if self.op == "sum":
            assert x.quantization is not None
            count = math.prod(x.shape[axis] for axis in axes)
            ratio = math.sqrt(count) * float(self.scale(0.3, 3))
            y = self.tensor("y", (), np.float32(x.quantization.scale[0] * ratio))
        shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
        return self.node({"axes": axes, "keep_dims": keep}, y, tuple(shape))

    def pad(self):
        x = self.input("x", self.image())
        top, left, bottom, right = padding = tuple(self.integer(0, 3) for _ in range(4))
        _, height, width, channels = x.shape
        shape = (1, top + height + bottom, left + width + right, channels)
        value = int(self.numbers((1,))[0])
        return self.node({"padding": padding, "value": value}, self.like(x), shape)

    def concat(self):
        first = self.input("x0", self.image())
        axis, shape = self.integer(1, 3), list(first.shape)
        for index in range(1, self.integer(2, 4)):
            extents = list(first.shape)
            extents[axis] = self.integer(1, 20)
            shape[axis] += extents[axis]
            self.tensors.append(self.renamed(self.like(first), f"x{index}", tuple(extents)))
        return self.node({"axis": axis, "activation": "none"}, self.like(first), tuple(shape))

    def function(self):
        shape = (1, 1, 1, self.choice(256, 256, 272, 250, 7))
        x, y = self.input("x", shape, self.scale(0.001, 0.3)), self.tensor("y", shape)
        assert x.quantization is not None
        x_scale = float(x.quantization.scale[0])
        y_scale = np.float32(x_scale * float(self.scale(0.1, 10)))
        zero = 0 if self.dtype == "int8" else 128
        fixed = {"sigmoid": (1 / 256, zero - 128), "tanh": (1 / 128, zero)}
        if self.op in _ROOTS:
            y_scale = np.float32(y_scale / x_scale * _ROOTS[self.op](x_scale))
        y = self.tensor("y", shape, *fixed.get(self.op, (y_scale,)))
        if self.choice(0, 0, 1) and self.op in ("relu", "relu6", "relu_n1_1"):
            y = self.like(x)
        attributes: dict[str, Any] = {
            "leaky_relu": {"alpha": float(np.float32(self.rng.uniform(-0.3, 1.3)))},
            "elu": {"alpha": 1.0},
            "gelu": {"approximate": bool(self.choice(0, 1))},
        }.get(self.op, {})
        return self.node(attributes, y, shape)

    def matmul(self):
        heights = self.choice((), (1,), (self.integer(2, 4),), (1, self.integer(1, 4)))
        others = self.choice(heights, (1,) * len(heights))
        rows, inner, columns = self.integer(1, 40), self.integer(1, 70), self.integer(1, 40)
        adjoint = {"adj_x": self.choice(0, 1), "adj_y": self.choice(0, 1)}
        shapes = (*heights, rows, inner), (*others, inner, columns)
        a, b = (
            (*shape[:-2], shape[-1], shape[-2]) if adjoint[name] else shape
            for name, shape in zip(adjoint, shapes, strict=True)
        )
        self.input("a", a)
        # XNNPACK takes only those whose second operand has the zero point 0.
        self.input("b", b, None, self.choice(0, None, None))
        scales = [float(t.quantization.scale[0]) for t in self.tensors]  # type: ignore[union-attr]
        real = scales[0] * scales[1] * math.sqrt(inner) * 74 * 74
        y = self.tensor("y", (), np.float32(real / float(self.scale(8, 400))))
        return self.node(adjoint, y, (*heights, rows, columns))

    def like(self, x: Tensor) -> Tensor:
        return Tensor("y", x.shape, x.dtype, x.quantization)

    def renamed(self, tensor: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
        return Tensor(name, shape, tensor.dtype, tensor.quantization, tensor.data)

    def node(self, attributes: dict[str, Any], y: Tensor, shape: tuple[int, ...]):
        output = self.renamed(y, "y", shape)
        node = Node("node", self.op, tuple(t.name for t in self.tensors), ("y",), attributes)
        return node, output


_DRAWS = {
    "conv": _Draw.conv,
    "depthwise": _Draw.depthwise,
    "dense": _Draw.dense,
    "transposed_conv": _Draw.transposed_conv,
    "add": _Draw.pair,
    "sub": _Draw.pair,
    "mul": _Draw.pair,
    "maximum": _Draw.extreme,
    "minimum": _Draw.extreme,
    "squared_difference": _Draw.squared_difference,
    "prelu": _Draw.prelu,
    "max_pool": _Draw.pool,
    "average_pool": _Draw.pool,
    "mean": _Draw.mean,
    "sum": _Draw.reduction,
    "reduce_max": _Draw.reduction,
    "reduce_min": _Draw.reduction,
    "pad": _Draw.pad,
    "concat": _Draw.concat,
    "matmul": _Draw.matmul,
}


def _quantization(scale: Any, zero_point: Any) -> Quantization:
    return Quantization(
        np.atleast_1d(np.asarray(scale, np.float32)),
        np.atleast_1d(np.asarray(zero_point, np.int64)),
    )
