"""Random layers for an image of a growing graph, one at a time.

A step whose result would be too large adds a table instead, which fits everywhere.
"""

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    DepthToSpace,
    Depthwise,
    Elementwise,
    Layer,
    Lut,
    Pad,
    Pick,
    Pool,
    Reshape,
    TransposedConv,
)
from tpulite_testing.drawn.builder import CHANNELS, Builder, Window
from tpulite_testing.oracles.plain_layers import random_requantization

__all__ = ["Steps"]

_WAYS = (*("all",) * 6, *("part",) * 6, "steps", "back", "times", "any")
"""How rows and columns are picked."""

_CHANNEL_WAYS = (*("all",) * 4, "blocks", "blocks", "part", "any")
"""How channels are."""


class Steps(Builder):
    """A builder that knows all layers."""

    def convolve(self, x: str, window: Window, channels: int, *, raw: bool = False) -> str:
        """Add a convolution, or another layer if it would be too large."""
        image = self.values[x]
        depth = image.shape[2]
        if not self.fits(x, window, channels, depth):
            return self.lut_step(x)
        zero, weight_zero = self.zero_point(), self.zero_point()
        geometry = {k: v for k, v in window.items() if k != "kernel"}
        spread = float(np.hypot(image.std(), (image.mean() - zero) / 2)) + 1

        def make(**names) -> Layer:
            reach = int(200 * spread * np.sqrt(depth * np.prod(window["kernel"]))) + 4
            return Conv(
                **names,
                weight=self.int8((*window["kernel"], depth, channels)),
                requantization=None if raw else random_requantization(self.rng, channels, reach),
                input_zero_point=zero,
                weight_zero_point=weight_zero,
                **geometry,
            )

        return self.add(make, x)

    def conv_step(self, x: str, *, raw: bool = False) -> str:
        """Convolve with any window."""
        window = self.window(x, kernels=(1, 3, 3, 2, 5, 4, 7), strides=(1, 1, 2, 3), dilated=True)
        return self.convolve(x, window, self.choices.pick(CHANNELS), raw=raw)

    def pointwise_step(self, x: str, channels: int | None = None) -> str:
        """Convolve pixel by pixel."""
        window = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
        return self.convolve(x, window, channels or self.choices.pick(CHANNELS))

    def dense_step(self, x: str) -> str:
        """Multiply the whole image by a matrix."""
        kernel = self.values[x].shape[:2]
        if max(kernel) > 15:
            return self.average_step(x)
        window = {"kernel": kernel, "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
        return self.convolve(x, window, self.choices.pick(CHANNELS))

    def depthwise_step(self, x: str, *, same: bool = False) -> str:
        """Filter each channel; ``same`` keeps the shape."""
        image = self.values[x]
        strides = (1,) if same else (1, 1, 1, 2, 3)
        window = self.window(x, kernels=(3, 3, 3, 1, 2, 5, 7), strides=strides, dilated=not same)
        if same:
            window["kernel"], window["padding"] = (3, 3), (1, 1, 1, 1)
        channels = image.shape[2]
        if not self.fits(x, window, channels, 1):
            return self.lut_step(x)
        zero, weight_zero = self.zero_point(), self.zero_point()
        spread = float(np.hypot(image.std(), (image.mean() - zero) / 2)) + 1
        reach = int(200 * spread * np.sqrt(np.prod(window["kernel"]))) + 4

        def make(**names) -> Layer:
            return Depthwise(
                **names,
                weight=self.int8((*window["kernel"], channels)),
                requantization=random_requantization(self.rng, channels, reach),
                input_zero_point=zero,
                weight_zero_point=weight_zero,
                **{k: v for k, v in window.items() if k != "kernel"},
            )

        return self.add(make, x)

    def combine(self, op: str, a: str, b: str) -> str:
        """Add, subtract or multiply two images."""
        exact = self.choices.chance(20)
        zeros = (self.zero_point(), self.zero_point())
        multipliers = (1 << 19, 1 << 20) if exact else (1518500250, 1 << 30)
        shifts = (self.choices.integer(0, 3), self.choices.integer(0, 3))

        def make(**names) -> Layer:
            return Elementwise(
                **names,
                op=op,
                requantization=random_requantization(
                    self.rng, 1, 15000 if op == "mul" else 1 << 27
                ),
                zero_points=zeros,
                multipliers=multipliers,
                shifts=shifts,
                scaling=Scaling.EXACT if exact else Scaling.TFLITE,
            )

        return self.add(make, a, b)

    def add_step(self, x: str) -> str:
        """Add two images of one shape, perhaps the same image twice, perhaps a known one."""
        shape = self.values[x].shape
        others = [name for name in self.readable() if self.values[name].shape == shape]
        other = self.choices.pick(others)
        if self.choices.chance(15):
            other = self.constant(shape)
        return self.combine(self.choices.pick(("add", "sub")), *self.either_way(x, other))

    def mul_step(self, x: str) -> str:
        """Multiply two images of one shape, perhaps the same image twice."""
        shape = self.values[x].shape
        others = [name for name in self.readable() if self.values[name].shape == shape]
        return self.combine("mul", *self.either_way(x, self.choices.pick(others)))

    def either_way(self, a: str, b: str) -> tuple[str, str]:
        """Return two images in either order."""
        return (b, a) if self.choices.chance(50) else (a, b)

    def scale_step(self, x: str) -> str:
        """Combine with one vector, known or computed."""
        shape = (1, 1, self.values[x].shape[2])
        others = [name for name in self.readable() if self.values[name].shape == shape]
        other = self.choices.pick(others) if others else self.constant(shape)
        return self.combine(self.choices.pick(("mul", "add", "sub")), x, other)

    def lut_step(self, x: str) -> str:
        """Look every byte up in a table."""
        table = self.rng.permutation(256) - 128
        return self.add(lambda **names: Lut(**names, table=table.astype(np.int8)), x)

    def affine_step(self, x: str) -> str:
        """Scale each channel."""
        channels = self.values[x].shape[2]

        def make(**names) -> Layer:
            gain = self.rng.integers(-(1 << 15), 1 << 15, channels).astype(np.int16)
            record = random_requantization(self.rng, channels, 1 << 20)
            return Affine(**names, gain=gain, requantization=record)

        return self.add(make, x)

    def pool(self, x: str, op: str) -> str:
        """Add pooling with any window, also over the whole image."""
        choices, shape = self.choices, self.values[x].shape
        window = self.window(x, kernels=(2, 3, 1, 5), strides=(2, 1, 3), dilated=False)
        kernel, stride = window["kernel"], window["stride"]
        if op != "max" and max(shape[:2]) < 256 and choices.chance(25):
            kernel, stride = shape[:2], (1, 1)
        top, left, bottom, right = window["padding"]
        limits = [(top, bottom), (left, right)]
        padding = []
        for axis, (before, after) in enumerate(limits):
            before, after = min(before, kernel[axis] - 1), min(after, kernel[axis] - 1)
            if kernel[axis] > shape[axis] + before + after:
                before = after = kernel[axis] - 1
            last = (shape[axis] + before + after - kernel[axis]) // stride[axis] * stride[axis]
            padding.append((before, after) if last - before < shape[axis] else (0, 0))
            if kernel[axis] > shape[axis] + sum(padding[-1]):
                return self.lut_step(x)
        (top, bottom), (left, right) = padding
        sized = {"kernel": kernel, "stride": stride, "dilation": (1, 1)}
        if not self.fits(x, sized | {"padding": (top, left, bottom, right)}, shape[2], 1):
            return self.lut_step(x)
        offset = 128 if op == "average" and choices.chance(20) else 0
        low, high = choices.pick((-128, -100)), choices.pick((127, 90))

        def make(**names) -> Layer:
            reach = int(150 * np.sqrt(np.prod(kernel))) + 4
            return Pool(
                **names,
                op=op,
                window=kernel,
                stride=stride,
                padding=(top, left, bottom, right),
                requantization=random_requantization(self.rng, 1, reach) if op == "sum" else None,
                offset=offset,
                low=low,
                high=high,
            )

        return self.add(make, x)

    def max_step(self, x: str) -> str:
        """Take maxima."""
        return self.pool(x, "max")

    def average_step(self, x: str) -> str:
        """Take averages."""
        return self.pool(x, "average")

    def sum_step(self, x: str) -> str:
        """Take sums, requantized."""
        return self.pool(x, "sum")

    def pad_step(self, x: str) -> str:
        """Add a frame."""
        height, width, channels = self.values[x].shape
        top, left, bottom, right = (self.choices.pick((0, 1, 2, 5)) for _ in range(4))
        if (height + top + bottom) * (width + left + right) * channels > self.largest:
            return self.lut_step(x)
        value = self.zero_point()
        return self.add(
            lambda **names: Pad(**names, padding=(top, left, bottom, right), value=value), x
        )

    def concat_step(self, x: str) -> str:
        """Join images of which all but one extent agree, perhaps the same one several times."""
        axis, shape = self.choices.pick((2, 2, 2, 1, 0)), self.values[x].shape
        rest = [extent for i, extent in enumerate(shape) if i != axis]
        suitable = [
            name
            for name in self.readable()
            if [e for i, e in enumerate(self.values[name].shape) if i != axis] == rest
        ]
        names = [x] + [self.choices.pick(suitable) for _ in range(self.choices.integer(1, 3))]
        if self.choices.chance(15):
            names.append(self.constant(shape))
        if sum(self.values[name].size for name in names) > self.largest:
            return self.lut_step(x)
        return self.add(lambda **kw: Concat(**kw, axis=axis), *names)

    def reshape_step(self, x: str) -> str:
        """Give the pixels another height and width."""
        height, width, channels = self.values[x].shape
        pixels = height * width
        heights = [h for h in range(1, pixels + 1) if pixels % h == 0 and h < 200]
        height = self.choices.pick(heights)
        output = self.add(lambda **names: Reshape(**names), x)
        self.values[output] = self.values[output].reshape(height, pixels // height, channels)
        return output

    def pick_step(self, x: str) -> str:
        """Pick rows, columns and channels: a part, every n-th, backwards, several times."""
        shape, transposed = self.values[x].shape, self.choices.chance(15)
        rows, columns = (self.picked(extent, self.choices.pick(_WAYS)) for extent in shape[:2])
        channels = self.picked(shape[2], self.choices.pick(_CHANNEL_WAYS))
        if len(rows) * len(columns) * len(channels) > self.largest:
            return self.lut_step(x)
        fields = {"rows": rows, "columns": columns, "channels": channels}
        return self.add(lambda **names: Pick(**names, **fields, transposed=transposed), x)

    def squares_step(self, x: str) -> str:
        """Make squares of pixels of the channels of each, not always of all of them."""
        depth = self.values[x].shape[2]
        blocks = [block for block in (2, 3, 4) if depth % block**2 == 0]
        if not blocks:
            return self.pick_step(x)
        block = self.choices.pick(blocks)
        channels = self.choices.pick((depth // block**2, 1))
        make = {"block": (block, block), "channels": channels}
        return self.add(lambda **names: DepthToSpace(**names, **make), x)

    def upwards_step(self, x: str) -> str:
        """Convolve backwards: onto more pixels than there are."""
        shape, pair = self.values[x].shape, (1, 2, 2, 3)
        stride, kernel = (
            (self.choices.pick(some), self.choices.pick(some)) for some in (pair, (1, 2, 3, 4))
        )
        padding = tuple(self.choices.integer(0, min(1, k - 1)) for k in kernel)
        size = tuple(
            n * s + self.choices.integer(0, 1) for n, s in zip(shape, stride, strict=False)
        )
        channels = self.choices.pick((1, 5, 16, 20))
        if size[0] * size[1] * channels > self.largest:
            return self.lut_step(x)
        weight = self.int8((*kernel, shape[2], channels))
        record = random_requantization(self.rng, channels, 128 * 128 * shape[2] * 4)
        fields = {"weight": weight, "requantization": record, "input_zero_point": self.zero_point()}
        place = {"stride": stride, "padding": padding, "size": size}
        return self.add(lambda **names: TransposedConv(**names, **fields, **place), x)

    def picked(self, extent: int, way: str) -> tuple[int, ...]:
        """Return some positions of an axis."""
        start = self.choices.integer(0, extent - 1)
        stop = self.choices.integer(start, extent - 1) + 1
        match way:
            case "part":
                return tuple(range(start, stop))
            case "blocks":
                return tuple(range(start // 16 * 16, extent))
            case "steps":
                return tuple(range(start, stop, self.choices.integer(1, 3)))
            case "back":
                return tuple(range(extent - 1, -1, -1))
            case "times":
                return tuple(i // 2 for i in range(2 * extent))
            case "any":
                return tuple(self.rng.integers(0, extent, self.choices.integer(1, 9)).tolist())
        return tuple(range(extent))
