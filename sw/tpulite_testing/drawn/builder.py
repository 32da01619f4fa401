"""A graph of integer layers that grows layer by layer."""

from collections.abc import Callable

import numpy as np

from tpulite.golden.layers import run_layer
from tpulite.graph.layers import Layer
from tpulite_testing.drawn.choices import Choices

__all__ = ["CHANNELS", "Builder", "Window"]

_MOST_MACS = 4_000_000
"""Multiplications of a layer."""

CHANNELS = (4, 3, 1, 2, 5, 7, 8, 12, 16, 17, 20, 24, 32, 33, 40)
_DISTINCT = 24
"""Values that an image should take, or else an error may not show; this is tried a few times."""

Window = dict[str, tuple[int, ...]]
"""Kernel, stride, dilation and padding."""


class Builder:
    """What steps have in common.

    It computes its images, so that layers can be scaled to their values.

    Parameters
    ----------
    choices : Choices
        Who decides.
    largest : int
        Elements of an image, at most.

    Attributes
    ----------
    chain : bool
        Whether layers mostly follow one another, as those of long groups do.
    """

    def __init__(self, choices: Choices, largest: int) -> None:
        self.choices, self.largest = choices, largest
        self.chain = choices.chance(40)
        self.rng = np.random.default_rng(choices.integer(0, 1 << 31))
        self.layers: list[Layer] = []
        self.values: dict[str, np.ndarray] = {}
        self.inputs: list[str] = []
        self.constants: list[str] = []

    def int8(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return random bytes."""
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def extents(self) -> tuple[int, int, int]:
        """Return the shape of an input: small, of some size, or long in one direction."""
        choices = self.choices
        kinds = ("plain", "plain", "large", "large", "wide", "tall")
        height, width = {
            "small": lambda: (choices.integer(1, 7), choices.integer(1, 7)),
            "plain": lambda: (choices.integer(6, 30), choices.integer(6, 30)),
            "large": lambda: (choices.integer(20, 48), choices.integer(12, 40)),
            "tall": lambda: (choices.integer(20, 200), choices.integer(1, 5)),
            "wide": lambda: (choices.integer(1, 9), choices.integer(20, 200)),
        }[choices.pick(kinds if self.chain else ("small", "plain", *kinds))]()
        channels = choices.pick(CHANNELS)
        return height, width, max(1, min(channels, self.largest // (height * width)))

    def readable(self) -> list[str]:
        """Return the images that a layer may read."""
        return [n for n, x in self.values.items() if x.dtype == np.int8 and n not in self.constants]

    def source(self) -> str:
        """Return an image: mostly a recent one."""
        names = self.readable()
        reach = self.choices.pick((*[1] * (14 if self.chain else 4), 3, len(names)))
        return names[-1 - self.choices.integer(0, min(reach, len(names)) - 1)]

    def zero_point(self) -> int:
        """Return an extreme, or anything."""
        return self.choices.pick((0, -128, 127, int(self.rng.integers(-128, 128))))

    def constant(self, shape: tuple[int, ...]) -> str:
        """Add an image that is known; return its name."""
        name = f"k{len(self.constants)}"
        self.constants.append(name)
        self.values[name] = self.int8(shape)
        return name

    def add(self, make: Callable[..., Layer], *inputs: str) -> str:
        """Add a layer; ``make`` may draw numbers, and does so until the image has many values."""
        name = f"{len(self.layers)}"
        output = f"y{name}"
        images = [self.values[x] for x in inputs]
        best: tuple[int, Layer, np.ndarray] | None = None
        for _ in range(4):
            layer = make(name=name, inputs=inputs, output=output)
            result = run_layer(layer, *images)
            values = len(np.unique(result))
            if best is None or values > best[0]:
                best = values, layer, result
            if values >= min(_DISTINCT, result.size // 2):
                break
        assert best is not None
        self.layers.append(best[1])
        self.values[output] = best[2]
        return output

    def window(
        self, x: str, *, kernels: tuple[int, ...], strides: tuple[int, ...], dilated: bool
    ) -> Window:
        """Return kernel, stride, dilation and padding that suit an image."""
        choices = self.choices
        alike, style = choices.chance(70), choices.pick(("same", "valid", "any"))
        drawn: list[tuple[int, ...]] = []
        for size in self.values[x].shape[:2]:
            if drawn and alike:
                kernel, stride, dilation = drawn[0][:3]
            else:
                kernel, stride = choices.pick(kernels), choices.pick(strides)
                dilation = choices.pick((1, 1, 1, 2, 3)) if dilated else 1
            before = after = 0
            extent = (kernel - 1) * dilation + 1
            if style == "same":
                total = max(0, (-(-size // stride) - 1) * stride + extent - size)
                before, after = total // 2, total - total // 2
            elif style == "any":
                before, after = choices.integer(0, 4), choices.integer(0, 4)
            if extent > size + before + after:
                kernel = dilation = 1
            drawn.append((kernel, stride, dilation, before, after))
        (top, bottom), (left, right) = (axis[3:] for axis in drawn)
        kernel, stride, dilation = ((drawn[0][i], drawn[1][i]) for i in range(3))
        return {
            "kernel": kernel,
            "stride": stride,
            "dilation": dilation,
            "padding": (top, left, bottom, right),
        }

    def fits(self, x: str, window: Window, channels: int, depth: int) -> bool:
        """Tell whether a sliding window's result is not too large, or too much work."""
        pixels = 1
        for axis, size in enumerate(self.values[x].shape[:2]):
            padded = size + window["padding"][axis] + window["padding"][axis + 2]
            extent = (window["kernel"][axis] - 1) * window["dilation"][axis] + 1
            pixels *= (padded - extent) // window["stride"][axis] + 1
        taps = window["kernel"][0] * window["kernel"][1]
        return pixels * channels <= self.largest and pixels * channels * taps * depth <= _MOST_MACS
