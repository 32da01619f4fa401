"""Random graphs of integer layers: branches, outputs read again, awkward shapes and windows."""

import numpy as np

from tpulite.graph.layers import Activation, Concat, Layer, LayerGraph, Pick, Pool
from tpulite_testing.drawn.builder import CHANNELS
from tpulite_testing.drawn.choices import Choices
from tpulite_testing.drawn.reduction_steps import ReductionSteps

__all__ = [
    "ELEMENTS",
    "EVERY",
    "FOCUS",
    "KINDS",
    "MATRICES",
    "MOVING",
    "PARAMETRIC",
    "REDUCED",
    "SCORES",
    "random_layer_graph",
]

_STEPS = (
    *("lut", "affine", "pad", "max", "average", "sum", "concat", "reshape", "dense", "scale"),
    *("conv", "conv", "conv", "conv", "pointwise", "pointwise"),
    *("depthwise", "depthwise", "depthwise", "add", "add", "mul"),
    *("residual", "residual", "inverted", "branches", "squeeze"),
)

_CHAIN = (
    *("lut", "affine", "pad", "max", "average", "add", "conv", "conv", "pointwise", "depthwise"),
    *("depthwise", "residual", "inverted", "branches"),
)

MOVING = ("pick", "pick", "pick", "squares")
"""More steps, which move data."""

MATRICES = ("matmul", "matmul", "transpose")
"""More steps, which take rows for matrices."""

ATTENTION = ("matmul", "transpose", "softmax", "softmax")
"""More steps, of machines with softmax."""

PARAMETRIC = ("parametric",) * 6
"""More steps, which make sums of terms of which one is zero."""

SCORES = ("scores",) * 6
"""More steps, which multiply by transposed images."""

FOCUS = ("focus",) * 6
"""More steps, which convolve squares of pixels as channels."""

REDUCED = ("halves", "clipped") * 3
"""More steps, which reduce channels and average clipped windows."""

ELEMENTS = ("lut", "affine", "scale", "add") * 20
"""So many more steps of single elements that most layers are such."""

VALUES = ("values",) * 6
"""Steps that multiply one row for each matrix, of zero point -128, by an image."""

KINDS = (PARAMETRIC, SCORES, VALUES, FOCUS, REDUCED, ELEMENTS)
"""Steps that most graphs lack, by what they are for."""

EVERY = (*MOVING, "upwards", "upwards", *MATRICES)
"""All steps that came later."""


def random_layer_graph(
    choices: Choices, *, most: int = 12, largest: int = 12_000, more: tuple[str, ...] = EVERY
) -> LayerGraph:
    """Make a graph of up to about ``most`` layers on images of up to ``largest`` elements.

    All that is not read is an output, and some of what is. ``more``: further steps.
    """
    return _Graphs(choices, largest).build(most, more)


class _Graphs(ReductionSteps):
    """Adds layers and whole structures of layers."""

    def build(self, most: int, more: tuple[str, ...]) -> LayerGraph:
        choices = self.choices
        for number in range(1 + choices.chance(15)):
            self.inputs.append(f"x{number}")
            self.values[f"x{number}"] = self.int8(self.extents())
        while len(self.layers) < most and (not self.layers or choices.chance(92)):
            step = choices.pick((*(_CHAIN if self.chain else _STEPS), *more))
            getattr(self, f"{step}_step")(self.source())
        if choices.chance(8):
            self.conv_step(self.source(), raw=True)
        read = {name for layer in self.layers for name in layer.inputs}
        computed = [layer.output for layer in self.layers]
        outputs = [name for name in computed if name not in read or choices.chance(10)]
        if choices.chance(30):
            outputs.reverse()
        small = [n for n in (*self.inputs, *outputs) if self.values[n].dtype == np.int8]
        return LayerGraph(
            "random",
            tuple(self.layers),
            {name: Activation(x.shape, str(x.dtype)) for name, x in self.values.items()},
            tuple(self.inputs),
            tuple(outputs),
            {name: self.values[name] for name in self.constants},
            frozenset(name for name in small if choices.chance(10)),
        )

    def residual_step(self, x: str) -> str:
        """Add an image to what a few layers make of it."""
        channels = self.values[x].shape[2]
        branch = x
        for _ in range(self.choices.integer(1, 3)):
            kernel = self.choices.pick((3, 1, 5))
            half = kernel // 2
            window = {"kernel": (kernel, kernel), "stride": (1, 1), "dilation": (1, 1)}
            branch = self.convolve(branch, window | {"padding": (half,) * 4}, channels)
        return self.combine("add", *self.either_way(x, branch))

    def inverted_step(self, x: str) -> str:
        """Expand, filter, project, add: the blocks of mobile networks."""
        channels = self.values[x].shape[2]
        y = self.pointwise_step(x, 2 * channels + self.choices.integer(0, 5))
        y = self.depthwise_step(y, same=True)
        y = self.pointwise_step(y, channels)
        if self.values[y].shape != self.values[x].shape:
            return y
        return self.combine("add", *self.either_way(x, y))

    def branches_step(self, x: str) -> str:
        """Join the channels of several layers of one image."""
        names = []
        for _ in range(self.choices.integer(2, 3)):
            kernel = self.choices.pick((1, 3, 5))
            window = {"kernel": (kernel, kernel), "stride": (1, 1), "dilation": (1, 1)}
            padding = {"padding": (kernel // 2,) * 4}
            names.append(self.convolve(x, window | padding, self.choices.pick(CHANNELS[:9])))
        if self.choices.chance(30):
            names.append(x)
        if sum(self.values[name].size for name in names) > self.largest:
            return names[-1]
        return self.add(lambda **kw: Concat(**kw, axis=2), *names)

    def squeeze_step(self, x: str) -> str:
        """Scale channels by what becomes of their averages."""
        height, width, channels = self.values[x].shape
        if max(height, width) > 255:  # more than a window covers
            return self.lut_step(x)

        def pool(**names) -> Layer:
            return Pool(**names, op="average", window=(height, width))

        y = self.pointwise_step(self.add(pool, x), channels)
        return self.combine("mul", x, y)

    def focus_step(self, x: str) -> str:
        """Convolve strided slices that are joined, as the focus layer of detectors."""
        height, width, channels = self.values[x].shape
        if min(height, width) < 2:
            return self.lut_step(x)
        last, every = (height // 2 * 2, width // 2 * 2), tuple(range(channels))

        def slices(row: int, column: int) -> str:
            rows, columns = (
                tuple(range(start, stop, 2))
                for start, stop in zip((row, column), last, strict=True)
            )
            axes = {"rows": rows, "columns": columns, "channels": every}
            return self.add(lambda **names: Pick(**names, **axes), x)

        names = [slices(row, column) for row in (0, 1) for column in (0, 1)]
        joined = self.add(lambda **kw: Concat(**kw, axis=2), *names)
        kernel = self.choices.pick((1, 1, 3))
        window = {"kernel": (kernel, kernel), "stride": (1, 1), "dilation": (1, 1)}
        padding = {"padding": (kernel // 2,) * 4}
        return self.convolve(joined, window | padding, self.choices.pick(CHANNELS[:9]))
