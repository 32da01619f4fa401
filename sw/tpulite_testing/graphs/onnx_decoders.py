"""Small float decoders in ONNX, shaped as Llama is, as exporters write them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.onnx_session import open_onnx

__all__ = ["CURVES", "NORMS", "ROTATIONS", "WHOLE", "OnnxDecoder"]

_OUTLIERS = (3, 17)
"""Channels of the residual connection that are larger than the others."""

_POSITIONS = 256
"""Rows of tables of cosines and sines."""

_EPSILON = 1e-6
_BASE = 10_000.0
_FAR = -3.4e38


@dataclass
class OnnxDecoder:
    """A decoder of one block behind a dense layer, and a dense layer behind it.

    Normalizations are those by the root mean square, positions are rotations, groups of heads share
    keys and values, and the dense layers are gated.
    """

    #: Its sizes.
    tokens: int = 32
    width: int = 64
    heads: int = 4
    shared: int = 2  #: Heads of keys and values.
    hidden: int = 128
    #: Whether the residual connection begins with the input, not with a dense layer.
    straight: bool = False
    #: How normalizations, rotations and gates are written: :data:`NORMS`, and so on.
    norm: str = "pow, reciprocal"
    rotation: str = "slices"
    curve: str = "x * sigmoid"
    opset: int = 18  #: Of the file; some forms need a newer one.
    #: Tokens whose keys and values are inputs and outputs, those of this run last; 0: none are.
    window: int = 0
    #: How angles of positions that are an input become cosines: "table", or "product".
    angles: str = "table"
    #: How much larger two channels of the residual connection are than the others.
    outlier: float = 1.0
    #: Whether residual sums and normalizations are one operator, as ONNX Runtime fuses them.
    fused: bool = False
    #: Whether queries and keys of each head are normalized, as Qwen3 does.
    head_norms: bool = False
    #: How a head of keys or values is repeated: Expand or Tile.
    repeat: str = "Expand"
    #: What writes attention as one operator: :data:`WHOLE`. With a window it returns as many keys,
    #: and all but those of this run are inputs.
    whole: str = ""
    _turns: list[str] = field(init=False, default_factory=list)
    _present: tuple[str, ...] = field(init=False, default=())
    _rng: np.random.Generator = field(init=False, default_factory=lambda: np.random.default_rng(67))

    @property
    def depth(self) -> int:
        """Channels of a head."""
        return self.width // self.heads

    @property
    def rates(self) -> np.ndarray:
        """Angles of the second token, by pairs of channels of a head."""
        return _BASE ** (-np.arange(0, self.depth, 2) / self.depth)

    def build(self) -> bytes:
        """Return the file; its input is ``x``."""
        b = OnnxBuilder(opset=self.opset)
        self._turns, self._present = [], ()
        x = b.input("x", (1, self.tokens, self.width))
        x = x if self.straight else self._dense(b, x, self.width, self.outlier)
        x, y = self._summed(b, x, self._attention(b, self._normalized(b, x)))
        x, y = self._summed(b, x, self._gated(b, y))
        return b.build(self._dense(b, y, 10), *self._present, dtype="float32")

    @property
    def states(self) -> dict[str, str]:
        """Inputs that outputs become, by the outputs; known once the file is built."""
        return dict(zip(self._present, ("past_key", "past_value"), strict=False))

    def sequence(self, data: bytes, count: int) -> list[dict[str, np.ndarray]]:
        """Return inputs of so many runs in order: states are those that ONNX Runtime computes."""
        session = open_onnx(data)
        shape = (1, self.shared, self.window, self.depth)
        held = {name: np.zeros(shape, np.float32) for name in self.states.values()}
        feeds = []
        for index in range(count):
            seen = np.arange(self.window) >= self.window - (index + 1) * self.tokens
            positions = np.arange(index * self.tokens, (index + 1) * self.tokens)
            feed = {"x": self._draw(1, self.tokens, self.width), "positions": positions[None]}
            feeds.append(feed | {"mask": seen[None].astype(np.int64)} | held)
            made = session.run([*self.states], feeds[-1])
            held = dict(zip(self.states.values(), made, strict=True))
        return feeds

    def samples(self, count: int) -> list[dict[str, np.ndarray]]:
        """Return inputs."""
        feeds = [{"x": self._draw(1, self.tokens, self.width)} for _ in range(count)]
        shape = (1, self.shared, self.window - self.tokens, self.depth)
        for feed in feeds if self.whole else ():
            feed |= {name: self._draw(*shape) for name in self.states.values()}
            if self.whole != "Attention":
                feed["attention_mask"] = np.ones((1, self.window or self.tokens), np.int64)
        for feed in feeds if self.straight else ():
            feed["x"][..., _OUTLIERS] *= self.outlier
        return feeds

    def _draw(self, *shape: int) -> np.ndarray:
        return self._rng.normal(size=shape).astype(np.float32)

    def _dense(self, b: OnnxBuilder, x: str, columns: int, outlier: float = 1.0, rows=0) -> str:
        rows = rows or self.width
        weight = self._draw(rows, columns) / np.float32(math.sqrt(rows))
        if outlier != 1:
            weight[:, list(_OUTLIERS)] *= outlier
        return b.node("MatMul", x, weight)

    def _normalized(self, b: OnnxBuilder, x: str, channels: int = 0) -> str:
        return NORMS[self.norm](b, x, 1 + self._draw(channels or self.width) / 8)

    def _summed(self, b: OnnxBuilder, x: str, y: str) -> tuple[str, str]:
        """Return a residual sum, and it normalized."""
        if not self.fused:
            total = b.node("Add", x, y)
            return total, self._normalized(b, total)
        kind, gamma = "SkipSimplifiedLayerNormalization", 1 + self._draw(self.width) / 8
        y, *_, total = b.outputs(kind, 4, x, y, gamma, contributed=True, epsilon=_EPSILON)
        return total, y

    def _gated(self, b: OnnxBuilder, x: str) -> str:
        gate = CURVES[self.curve](b, self._dense(b, x, self.hidden))
        y = b.node("Mul", gate, self._dense(b, x, self.hidden))
        return self._dense(b, y, self.width, rows=self.hidden)

    def _heads(self, b: OnnxBuilder, x: str, count: int, *, normalized: bool = False) -> str:
        y = self._dense(b, x, count * self.depth)
        y = b.node("Reshape", y, np.array([1, self.tokens, count, self.depth]))
        y = self._normalized(b, y, self.depth) if normalized else y
        return b.node("Transpose", y, perm=[0, 2, 1, 3])

    def _attention(self, b: OnnxBuilder, x: str) -> str:
        if self.whole:
            widths = [n * self.depth for n in (self.heads, self.shared, self.shared)]
            qkv = [self._dense(b, x, sum(widths))] if self.whole == "packed" else []
            qkv = qkv or [self._dense(b, x, width) for width in widths]
            shape = (1, self.shared, self.window - self.tokens, self.depth)
            names = ("past_key", "past_value") if self.window else ()
            past = [b.input(name, shape) for name in names]
            y, *present = WHOLE[self.whole](b, self, qkv, past)
            self._present = (*present,)
            return self._dense(b, y, self.width)
        q, k = (
            self._rotated(b, self._heads(b, x, n, normalized=self.head_norms), n)
            for n in (self.heads, self.shared)
        )
        k, v = k, self._heads(b, x, self.shared)
        if self.window:
            k, v = (self._kept(b, *each) for each in (("past_key", k), ("past_value", v)))
            self._present = (k, v)
        k, v = self._repeated(b, k), self._repeated(b, v)
        scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = b.node("Mul", scores, np.float32(1 / math.sqrt(self.depth)))
        y = b.node("MatMul", b.node("Softmax", b.node("Add", scores, self._mask(b)), axis=-1), v)
        y = b.node("Transpose", y, perm=[0, 2, 1, 3])
        return self._dense(
            b, b.node("Reshape", y, np.array([1, self.tokens, self.width])), self.width
        )

    def _mask(self, b: OnnxBuilder) -> str | np.ndarray:
        """Return what is added to scores: a constant, or made of an input."""
        if not self.window:
            return np.triu(np.full((self.tokens, self.tokens), _FAR, np.float32), 1)[None, None]
        mask = b.node("Cast", b.input("mask", (1, self.window), "int64"), to=1)
        mask = b.node("Sub", np.float32(1), b.node("Unsqueeze", mask, np.array([1, 2])))
        return b.node("Mul", mask, np.float32(_FAR))

    def _kept(self, b: OnnxBuilder, name: str, new: str) -> str:
        """Return a window of tokens: without its oldest, and with those of this run."""
        past = b.input(name, (1, self.shared, self.window, self.depth))
        ends = (np.array([n]) for n in (self.tokens, self.window, 2))
        return b.node("Concat", b.node("Slice", past, *ends), new, axis=2)

    def _rotated(self, b: OnnxBuilder, x: str, heads: int) -> str:
        rates = self.rates
        if not self.window:
            return ROTATIONS[self.rotation](b, x, np.arange(self.tokens)[:, None] * rates, heads)
        return _swapped_halves(b, x, self.depth // 2, *self._tables(b, rates))

    def _tables(self, b: OnnxBuilder, rates: np.ndarray) -> list[str]:
        """Return cosines and sines of positions that are an input, once for queries and keys."""
        if self._turns:
            return self._turns
        positions = b.input("positions", (1, self.tokens), "int64")
        wide = np.concatenate([rates, rates]).astype(np.float32)
        axis = np.array([1])
        if self.angles == "table":
            tables = (f(np.arange(_POSITIONS)[:, None] * wide) for f in (np.cos, np.sin))
            made = [b.node("Gather", x.astype(np.float32), positions) for x in tables]
        else:
            places = b.node("Cast", b.node("Unsqueeze", positions, np.array([2])), to=1)
            angles = b.node("MatMul", places, wide[None, None])
            made = [b.node(kind, angles) for kind in ("Cos", "Sin")]
        self._turns = [b.node("Unsqueeze", x, axis) for x in made]
        return self._turns

    def _repeated(self, b: OnnxBuilder, x: str) -> str:
        """Return keys or values with a copy for each head of a group, as transformers has it."""
        tokens = self.window or self.tokens
        shape = [1, self.shared, self.heads // self.shared, tokens, self.depth]
        times = shape if self.repeat == "Expand" else [1, 1, shape[2], 1, 1]
        y = b.node(self.repeat, b.node("Unsqueeze", x, np.array([2])), np.array(times))
        return b.node("Reshape", y, np.array([1, self.heads, tokens, self.depth]))


# Attention as an operator: queries, keys and values [1, T, C], or all in one; past keys and values.
# Results are the attention [1, T, C], and keys and values with those of this run, if kept.


def _grouped(b: OnnxBuilder, d: OnnxDecoder, qkv: list[str], past: list[str]) -> list[str]:
    """ONNX Runtime's, as the model builder of onnxruntime-genai writes it."""
    total = d.window or d.tokens
    mask, one = b.input("attention_mask", (1, total), "int64"), np.array([1])
    seen = b.node("Sub", b.node("ReduceSum", mask, one, keepdims=0), one)
    seen = b.node("Cast", seen, to=6)
    count = b.node("Cast", b.node("Gather", b.node("Shape", mask), np.array(1)), to=6)
    angles = np.arange(_POSITIONS)[:, None] * d.rates
    tables = [f(angles).astype(np.float32) for f in (np.cos, np.sin)]
    inputs = *qkv, *["", ""] * (len(qkv) == 1), *(past or ["", ""]), seen, count, *tables
    return b.outputs(
        "GroupQueryAttention", 3 if past else 1, *inputs, contributed=True, num_heads=d.heads,
        kv_num_heads=d.shared, do_rotary=1,
    )  # fmt: skip


def _opset_23(b: OnnxBuilder, d: OnnxDecoder, qkv: list[str], past: list[str]) -> list[str]:
    """ONNX's; heads that are rotated are apart."""
    heads = []
    for x, count in zip(qkv, (d.heads, d.shared, d.shared), strict=True):
        x = b.node("Reshape", x, np.array([1, d.tokens, count, d.depth]))
        heads.append(b.node("Transpose", x, perm=[0, 2, 1, 3]))
    first = d.window - d.tokens if past else 0
    angles = (first + np.arange(d.tokens))[:, None] * d.rates
    q, k = (_standard(b, x, angles, 0) for x in heads[:2])
    given = "", *past
    y, *present = b.outputs(
        "Attention", 3 if past else 1, q, k, heads[2], *given[: 1 + len(past)], is_causal=1
    )
    y = b.node("Transpose", y, perm=[0, 2, 1, 3])
    return [b.node("Reshape", y, np.array([1, d.tokens, d.width])), *present]


WHOLE: dict[str, Callable[[OnnxBuilder, OnnxDecoder, list[str], list[str]], list[str]]] = {
    "GroupQueryAttention": _grouped,
    "packed": _grouped,
    "Attention": _opset_23,
}
"""Forms of attention as one operator."""


# Normalizations by the root mean square: float32 [1, T, C], factors [C].


def _mean(b: OnnxBuilder, x: str) -> str:
    return (
        b.node("ReduceMean", x, np.array([-1]))
        if b.opset > 17
        else b.node("ReduceMean", x, axes=[-1])
    )


def _statistic(b: OnnxBuilder, square: str) -> str:
    return b.node("Add", _mean(b, square), np.float32(_EPSILON))


def _pow(b: OnnxBuilder, x: str) -> str:
    return b.node("Pow", x, np.float32(2))


def _pow_reciprocal(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """PyTorch's dynamo."""
    root = b.node("Reciprocal", b.node("Sqrt", _statistic(b, _pow(b, x))))
    return b.node("Mul", gamma, b.node("Mul", x, root))


def _pow_one_over(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """PyTorch's older exporter."""
    root = b.node("Div", np.float32(1), b.node("Sqrt", _statistic(b, _pow(b, x))))
    return b.node("Mul", b.node("Mul", x, root), gamma)


def _mul_div(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    root = b.node("Sqrt", _statistic(b, b.node("Mul", x, x)))
    return b.node("Mul", b.node("Div", x, root), gamma)


def _power(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """Keras, and JAX: a power of -1/2."""
    root = b.node("Pow", _statistic(b, b.node("Mul", x, x)), np.float32(-0.5))
    return b.node("Mul", gamma, b.node("Mul", root, x))


def _cast(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """Files whose normalizations are cast to float32, which they are already."""
    wide = b.node("Cast", x, to=1)
    root = b.node("Reciprocal", b.node("Sqrt", _statistic(b, _pow(b, wide))))
    return b.node("Mul", gamma, b.node("Cast", b.node("Mul", wide, root), to=1))


def _scaled_div(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """Multiply with the factors first, and divide by the root last."""
    root = b.node("Sqrt", _statistic(b, b.node("Mul", x, x)))
    return b.node("Div", b.node("Mul", x, gamma), root)


def _gain_first(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """Multiply the root with the factors first."""
    root = b.node("Reciprocal", b.node("Sqrt", _statistic(b, b.node("Mul", x, x))))
    return b.node("Mul", x, b.node("Mul", root, gamma))


def _sum_squares(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    total = b.node("ReduceSumSquare", x, np.array([-1]))
    mean = b.node("Add", b.node("Div", total, np.float32(gamma.size)), np.float32(_EPSILON))
    return b.node("Mul", b.node("Div", x, b.node("Sqrt", mean)), gamma)


def _no_gain(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """OLMo: no factors."""
    root = b.node("Reciprocal", b.node("Sqrt", _statistic(b, _pow(b, x))))
    return b.node("Mul", x, root)


def _whole(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    return b.node("RMSNormalization", x, gamma, axis=-1, epsilon=_EPSILON)


def _simplified(b: OnnxBuilder, x: str, gamma: np.ndarray) -> str:
    """ONNX Runtime's, which it counts among the standard operators."""
    return b.node("SimplifiedLayerNormalization", x, gamma, axis=-1, epsilon=_EPSILON, stash_type=1)


Norm = Callable[[OnnxBuilder, str, np.ndarray], str]
NORMS: dict[str, Norm] = {
    "pow, reciprocal": _pow_reciprocal,
    "pow, one over": _pow_one_over,
    "mul, div": _mul_div,
    "power": _power,
    "cast": _cast,
    "gain first": _gain_first,
    "sum of squares": _sum_squares,
    "no gain": _no_gain,
    "RMSNormalization": _whole,
    "SimplifiedLayerNormalization": _simplified,
    "scaled, div": _scaled_div,
}
"""Forms of a normalization by the root mean square."""


# Rotations by position: float32 [1, H, T, D], angles [T, D / 2].


def _tables(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = np.concatenate([angles, angles], axis=1)[None, None].astype(np.float32)
    return np.cos(wide), np.sin(wide)


def _slices(b: OnnxBuilder, x: str, angles: np.ndarray, heads: int) -> str:
    """Change the places of both halves, and the sign of one, as transformers does."""
    return _swapped_halves(b, x, angles.shape[1], *_tables(angles))


def _swapped_halves(
    b: OnnxBuilder, x: str, middle: int, cos: str | np.ndarray, sin: str | np.ndarray
) -> str:
    half, end, axis = (np.array([n]) for n in (middle, 2**63 - 1, 3))
    low = b.node("Slice", x, np.array([0]), half, axis)
    high = b.node("Neg", b.node("Slice", x, half, end, axis))
    turned = b.node("Concat", high, low, axis=-1)
    return b.node("Add", b.node("Mul", x, cos), b.node("Mul", turned, sin))


def _split(b: OnnxBuilder, x: str, angles: np.ndarray, heads: int) -> str:
    cos, sin = _tables(angles)
    half = angles.shape[1]
    low, high = b.outputs("Split", 2, x, np.array([half, half]), axis=-1)
    turned = b.node("Concat", b.node("Neg", high), low, axis=-1)
    return b.node("Add", b.node("Mul", x, cos), b.node("Mul", turned, sin))


def _halves(b: OnnxBuilder, x: str, angles: np.ndarray, heads: int) -> str:
    """Compute each half of the result on its own."""
    cos, sin = (f(angles)[None, None].astype(np.float32) for f in (np.cos, np.sin))
    half = angles.shape[1]
    low, high = b.outputs("Split", 2, x, np.array([half, half]), axis=-1)
    one = b.node("Sub", b.node("Mul", low, cos), b.node("Mul", high, sin))
    two = b.node("Add", b.node("Mul", high, cos), b.node("Mul", low, sin))
    return b.node("Concat", one, two, axis=-1)


def _pairs(b: OnnxBuilder, x: str, angles: np.ndarray, heads: int) -> str:
    """GPT-J, and Meta's Llama: neighbors are a pair."""
    cos, sin = (
        np.repeat(f(angles), 2, axis=1)[None, None].astype(np.float32) for f in (np.cos, np.sin)
    )
    end, axis, step = (np.array([n]) for n in (2**63 - 1, 3, 2))
    even = b.node("Slice", x, np.array([0]), end, axis, step)
    odd = b.node("Neg", b.node("Slice", x, np.array([1]), end, axis, step))
    last = np.array([-1])
    turned = b.node(
        "Concat", b.node("Unsqueeze", odd, last), b.node("Unsqueeze", even, last), axis=-1
    )
    turned = b.node("Reshape", turned, np.array([1, heads, angles.shape[0], 2 * angles.shape[1]]))
    return b.node("Add", b.node("Mul", x, cos), b.node("Mul", turned, sin))


def _partial(b: OnnxBuilder, x: str, angles: np.ndarray, heads: int) -> str:
    """GPT-NeoX, and Phi: some channels of a head are not rotated."""
    half = angles.shape[1] // 2
    low, rest = b.outputs("Split", 2, x, np.array([2 * half, 2 * half]), axis=-1)
    return b.node("Concat", _slices(b, low, angles[:, :half], heads), rest, axis=-1)


def _contributed(b: OnnxBuilder, x: str, angles: np.ndarray, heads: int) -> str:
    """ONNX Runtime's."""
    cos, sin = (f(angles).astype(np.float32) for f in (np.cos, np.sin))
    positions = np.arange(len(angles))[None]
    (y,) = b.outputs("RotaryEmbedding", 1, x, positions, cos, sin, contributed=True)
    return y


def _standard(b: OnnxBuilder, x: str, angles: np.ndarray, heads: int) -> str:
    cos, sin = (f(angles).astype(np.float32) for f in (np.cos, np.sin))
    return b.node("RotaryEmbedding", x, cos, sin, np.arange(len(angles))[None])


Rotation = Callable[[OnnxBuilder, str, np.ndarray, int], str]
ROTATIONS: dict[str, Rotation] = {
    "slices": _slices,
    "split": _split,
    "halves": _halves,
    "pairs": _pairs,
    "partial": _partial,
    "contributed": _contributed,
    "RotaryEmbedding": _standard,
}
"""Forms of a rotation by position."""


def _silu(b: OnnxBuilder, x: str) -> str:
    return b.node("Mul", x, b.node("Sigmoid", x))


def _sigmoid_first(b: OnnxBuilder, x: str) -> str:
    return b.node("Mul", b.node("Sigmoid", x), x)


def _exponential(b: OnnxBuilder, x: str) -> str:
    return b.node("Div", x, b.node("Add", b.node("Exp", b.node("Neg", x)), np.float32(1)))


def _one_over(b: OnnxBuilder, x: str) -> str:
    power = b.node("Exp", b.node("Neg", x))
    return b.node("Mul", x, b.node("Div", np.float32(1), b.node("Add", np.float32(1), power)))


def _swish(b: OnnxBuilder, x: str) -> str:
    return b.node("Swish", x)


def _quick(b: OnnxBuilder, x: str) -> str:
    """ONNX Runtime's; of alpha 1 it is SiLU."""
    (y,) = b.outputs("QuickGelu", 1, x, contributed=True, alpha=1.0)
    return y


Curve = Callable[[OnnxBuilder, str], str]
CURVES: dict[str, Curve] = {
    "x * sigmoid": _silu,
    "sigmoid * x": _sigmoid_first,
    "x / (1 + exp)": _exponential,
    "x * 1 / (1 + exp)": _one_over,
    "Swish": _swish,
    "QuickGelu": _quick,
}
"""Forms of SiLU."""
