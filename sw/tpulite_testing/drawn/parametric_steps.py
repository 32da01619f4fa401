"""Steps of random graphs that add two functions of an image, one of which is zero."""

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.graph.layers import Depthwise, Elementwise, Layer, Lut, Requantization
from tpulite_testing.drawn.matrix_steps import MatrixSteps

__all__ = ["ParametricSteps"]

_ONE = 1 << 30


class ParametricSteps(MatrixSteps):
    """Adds rectifiers with a slope for each channel."""

    def parametric_step(self, x: str) -> str:
        """Scale bytes above a zero point by a table, the others by products by channel."""
        channels = self.values[x].shape[2]
        x_zero, zero = self.zero_point(), self.zero_point()
        scale, steepest = self.choices.pick((0.3, 1.0, 1.9)), self.choices.pick((15, 60, 127))
        slopes = self.rng.integers(-steepest, steepest + 1, channels).astype(np.int8)
        steps = np.maximum(np.arange(-128, 128) - x_zero, 0)
        rising = np.minimum(np.floor(steps * scale + 0.5) + zero, 127).astype(np.int8)
        low, high = np.where(slopes < 0, zero, -128), np.where(slopes < 0, 127, zero)

        def products(**names) -> Layer:
            record = self._record(-5, zero, low=low, high=high)
            weight = slopes[None, None]
            zeros = {"input_zero_point": x_zero}
            return Depthwise(**names, weight=weight, requantization=record, **zeros)

        def total(**names) -> Layer:
            return Elementwise(
                **names,
                op="add",
                requantization=self._record(1, zero),
                zero_points=(zero, zero),
                multipliers=(1, 1),
                scaling=Scaling.EXACT,
            )

        terms = self.add(products, x), self.add(lambda **names: Lut(**names, table=rising), x)
        return self.add(total, *self.either_way(*terms))

    def _record(self, shift: int, zero: int, **bounds: np.ndarray) -> Requantization:
        arrays = {"multiplier": np.array([_ONE]), "shift": np.array([shift])}
        return Requantization(**arrays, zero_point=zero, **bounds)
