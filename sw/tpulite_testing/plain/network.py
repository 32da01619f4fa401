"""A neutral description of a float network, and a sketch of one under construction."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.plain import floats

__all__ = ["Network", "Sketch", "Step"]

_SAMPLES = 3
"""Inputs of the calibration."""


@dataclass(frozen=True, eq=False)
class Step:
    """An operator of a network."""

    kind: str  #: What it computes: a method of :class:`Sketch` adds each.
    #: Tensors.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Geometry and weights. Equal arrays that are one object are shared weights.
    attributes: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


@dataclass(frozen=True, eq=False)
class Network:
    """A float network."""

    name: str  #: Its family.
    steps: tuple[Step, ...]  #: In the order in which they run.
    #: Mapping of str to ndarray, [samples * batch, ...]. Every tensor in a run of some inputs,
    #: channels last: what files are calibrated with.
    values: Mapping[str, np.ndarray]
    batches: Mapping[str, int]  #: Extent of the first axis of each tensor in a file.
    #: Ends.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor in a file, channels last."""
        return (self.batches[tensor], *self.values[tensor].shape[1:])

    def readers(self, tensor: str) -> list[Step]:
        """Return the steps that read a tensor."""
        return [step for step in self.steps if tensor in step.inputs]


class Sketch:
    """A network under construction: methods add steps and return their outputs.

    Parameters
    ----------
    seed : int
        Of weights and calibration, and of :attr:`choices`.

    Attributes
    ----------
    choices : Seeded
        For whoever draws the architecture.
    padding : str
        How convolutions and pools are padded that say nothing: ``same`` as TensorFlow does, which
        is uneven where strides do not fit, or ``even`` as PyTorch does.
    """

    def __init__(self, seed: int) -> None:
        self.choices = Seeded(seed)
        self.padding = self.choices.pick(("same", "same", "even"))
        self._rng = np.random.default_rng((seed, 1))
        self._steps: list[Step] = []
        self._values: dict[str, np.ndarray] = {}
        self._batches: dict[str, int] = {}
        self._inputs: list[str] = []

    def shape(self, x: str) -> tuple[int, ...]:
        """Return the shape of a tensor without the batch, channels last."""
        return self._values[x].shape[1:]

    def network(self, name: str, *outputs: str) -> Network:
        """Return the network."""
        return Network(
            name, tuple(self._steps), self._values, self._batches, tuple(self._inputs), outputs
        )

    def input(self, *shape: int) -> str:
        """Add an input: [H, W, C], [L, C] or [K]."""
        name = f"input{len(self._inputs)}" if self._inputs else "input"
        self._inputs.append(name)
        values = self._rng.normal(0, 1, (_SAMPLES, *shape)).clip(-2.5, 2.5)
        return self._keep(name, values, 1)

    def weights(self, outputs: int, *rest: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw weights [outputs, *rest] and biases, to be shared by several steps."""
        gain = self._rng.uniform(0.7, 1.4, (outputs, *(1,) * len(rest)))
        weight = self._rng.normal(0, math.sqrt(2 / math.prod(rest)), (outputs, *rest)) * gain
        return weight.astype(np.float32), self._rng.normal(0, 0.2, outputs).astype(np.float32)

    def conv(  # noqa: PLR0913 - fields of an operator
        self,
        x: str,
        outputs: int,
        kernel: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        activation: str = "",
        *,
        dilation: int = 1,
        groups: int = 1,
        padding: str | tuple[int, int, int, int] = "",
        weights: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> str:
        """Add a convolution, of a row if ``x`` is [L, C].

        Padding ``valid`` is none, ``causal`` is all before a row, ``both`` as much on either side.
        """
        (kernel, stride, dilations), image = self._window(x, kernel, stride, dilation)
        shape = image.shape
        weight, bias = weights or self.weights(outputs, *kernel, shape[-1] // groups)
        if isinstance(padding, str):
            padding = self._pads(padding, shape[1:3], kernel, stride, dilations)
        geometry = {"stride": stride, "dilation": dilations, "padding": padding, "groups": groups}
        y = floats.conv(image, weight, bias, **geometry)
        y = self._add("conv", (x,), self._like(x, y), weight=weight, bias=bias, **geometry)
        return self.activation(y, activation)

    def depthwise(self, x: str, kernel: int, stride: int = 1, activation: str = "", **rest) -> str:
        """Add a depthwise convolution."""
        channels = self.shape(x)[-1]
        outputs = channels * rest.pop("multiplier", 1)
        return self.conv(x, outputs, kernel, stride, activation, groups=channels, **rest)

    def transposed_conv(self, x: str, outputs: int, kernel: int, activation: str = "") -> str:
        """Add a transposed convolution, which doubles height and width."""
        weight, bias = self.weights(outputs, kernel, kernel, self.shape(x)[-1])
        y = floats.transposed_conv(self._values[x], weight, bias, 2)
        y = self._add("transposed_conv", (x,), y, weight=weight, bias=bias, stride=2)
        return self.activation(y, activation)

    def dense(
        self,
        x: str,
        outputs: int,
        activation: str = "",
        weights: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> str:
        """Add a dense layer of the last axis."""
        weight, bias = weights or self.weights(outputs, self.shape(x)[-1])
        y = self._add("dense", (x,), self._values[x] @ weight.T + bias, weight=weight, bias=bias)
        return self.activation(y, activation)

    def pool(self, kind: str, x: str, window: int, stride: int = 0, padding: str = "valid") -> str:
        """Add a ``max`` or ``average`` pool."""
        (size, steps, ones), image = self._window(x, window, stride or window, 1)
        pads = self._pads(padding, image.shape[1:3], size, steps, ones)
        kind = f"{kind}_pool"
        y = floats.pool(kind, image, size, steps, pads)
        attributes = {"window": size, "stride": steps, "padding": pads}
        return self._add(kind, (x,), self._like(x, y), **attributes)

    def global_average(self, x: str, *, keep: bool = False) -> str:
        """Add a mean over all pixels, [C], or [1, 1, C] to be kept."""
        axes = tuple(range(1, self._values[x].ndim - 1))
        y = self._values[x].mean(axes, keepdims=keep)
        return self._add("global_average", (x,), y, keep=keep)

    def batch_norm(self, x: str, activation: str = "") -> str:
        """Add a batch norm that no convolution in front can take."""
        channels = self.shape(x)[-1]
        scale = self._rng.uniform(0.5, 1.5, channels).astype(np.float32)
        shift = self._rng.normal(0, 0.3, channels).astype(np.float32)
        y = self._add("batch_norm", (x,), self._values[x] * scale + shift, scale=scale, shift=shift)
        return self.activation(y, activation)

    def activation(self, x: str, kind: str) -> str:
        """Add an activation, one of :data:`floats.FUNCTIONS`, or none."""
        if not kind:
            return x
        return self._add("activation", (x,), floats.FUNCTIONS[kind](self._values[x]), function=kind)

    def softmax(self, x: str) -> str:
        """Add a softmax over the last axis."""
        return self._add("softmax", (x,), floats.softmax(self._values[x]))

    def add(self, a: str, b: str, activation: str = "") -> str:
        """Add a sum."""
        y = self._add("add", (a, b), self._values[a] + self._values[b])
        return self.activation(y, activation)

    def mul(self, a: str, b: str) -> str:
        """Add a product; ``b`` may be [1, 1, C]."""
        return self._add("mul", (a, b), self._values[a] * self._values[b])

    def sub(self, a: str, b: str) -> str:
        """Add a difference."""
        return self._add("sub", (a, b), self._values[a] - self._values[b])

    def concat(self, *xs: str) -> str:
        """Add a concatenation of channels."""
        return self._add("concat", xs, np.concatenate([self._values[x] for x in xs], -1))

    def rows(self, *xs: str) -> str:
        """Add a concatenation of rows [L, C]."""
        return self._add("rows", xs, np.concatenate([self._values[x] for x in xs], 1))

    def halves(self, x: str) -> tuple[str, str]:
        """Add a split of the channels."""
        parts = np.split(self._values[x], 2, -1)
        name = f"{len(self._steps)}"
        names = tuple(
            self._keep(f"{part}{name}", y, self._batches[x])
            for part, y in zip(("first", "second"), parts, strict=True)
        )
        self._steps.append(Step("halves", (x,), names, {}))
        return names[0], names[1]

    def widen(self, x: str, channels: int) -> str:
        """Add channels of zeros to a map [H, W, C]."""
        y = np.pad(self._values[x], ((0, 0), (0, 0), (0, 0), (0, channels)))
        return self._add("widen", (x,), y, channels=channels)

    def cut_off(self, x: str, count: int) -> str:
        """Add what leaves out the last positions of a row [L, C]."""
        length = self.shape(x)[0] - count
        return self._add("cut_off", (x,), self._values[x][:, :length], length=length)

    def shuffle(self, x: str, groups: int) -> str:
        """Add a shuffle of channels between groups."""
        values = self._values[x]
        y = values.reshape(*values.shape[:-1], groups, -1).swapaxes(-1, -2).reshape(values.shape)
        return self._add("shuffle", (x,), y, groups=groups)

    def resize(self, x: str, *, linear: bool = False) -> str:
        """Add what doubles height and width."""
        return self._add("resize", (x,), floats.resize(self._values[x], 2, linear), linear=linear)

    def flatten(self, x: str) -> str:
        """Add a reshape to [K]."""
        values = self._values[x]
        return self._add("flatten", (x,), values.reshape(len(values), -1))

    def positions(self, x: str, size: int) -> str:
        """Add a reshape of a map [H, W, C] to rows [L, size], ``size`` channels a row."""
        values = self._values[x]
        return self._add("positions", (x,), values.reshape(len(values), -1, size), size=size)

    def as_map(self, x: str, *shape: int) -> str:
        """Add a reshape of [K] to a map [H, W, C]."""
        values = self._values[x]
        return self._add("as_map", (x,), values.reshape(len(values), *shape))

    def frames(self, x: str, count: int) -> str:
        """Add a reshape of [count * H, W, C] to ``count`` maps in the batch."""
        values = self._values[x]
        y = values.reshape(len(values) * count, -1, *values.shape[2:])
        return self._add("frames", (x,), y, batch=count)

    def sequence(self, x: str, count: int) -> str:
        """Add a reshape of [K] with a batch of ``count`` to rows [count, K]."""
        y = self._values[x].reshape(-1, count, self.shape(x)[0])
        return self._add("sequence", (x,), y, batch=1)

    def _add(self, kind: str, inputs: Sequence[str], value: np.ndarray, **attributes: Any) -> str:
        name = f"{kind}{len(self._steps)}"
        batch = attributes.get("batch", self._batches[inputs[0]])
        self._steps.append(Step(kind, tuple(inputs), (name,), attributes))
        return self._keep(name, value, batch)

    def _keep(self, name: str, value: np.ndarray, batch: int) -> str:
        self._values[name], self._batches[name] = value.astype(np.float32), batch
        return name

    def _window(self, x: str, *sizes: Any) -> tuple[list[tuple[int, int]], np.ndarray]:
        """Return sizes for both axes, and a map, of height 1 if ``x`` is a row."""
        values = self._values[x]
        if values.ndim == 3:
            return [(1, size) for size in sizes], values[:, None]
        return [size if isinstance(size, tuple) else (size, size) for size in sizes], values

    def _like(self, x: str, y: np.ndarray) -> np.ndarray:
        """Return a map as a row if ``x`` is one."""
        return y[:, 0] if self._values[x].ndim == 3 else y

    def _pads(self, padding: str, extents, kernel, stride, dilation) -> tuple[int, int, int, int]:
        """Return top, left, bottom and right."""
        pairs = []
        for n, k, s, d in zip(extents, kernel, stride, dilation, strict=True):
            reach = (k - 1) * d
            if padding == "valid" or k == 1:
                pair = (0, 0)
            elif padding == "causal":
                pair = (reach, 0)
            elif padding == "both":
                pair = (reach, reach)
            elif self.padding == "even":
                pair = (reach // 2, reach // 2)
            else:
                total = max((-(-n // s) - 1) * s + reach + 1 - n, 0)
                pair = (total // 2, total - total // 2)
            pairs.append(pair)
        (top, bottom), (left, right) = pairs
        return top, left, bottom, right
