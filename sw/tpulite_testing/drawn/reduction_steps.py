"""Steps of random graphs that reduce channels by halves, and that average clipped windows."""

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8
from tpulite.graph.layers import Conv, Elementwise, Layer, Pool, Requantization
from tpulite_testing.drawn.parametric_steps import ParametricSteps

__all__ = ["ReductionSteps"]

_LARGEST_WINDOW = 15


class ReductionSteps(ParametricSteps):
    """Adds reductions that few random layers are."""

    def halves_step(self, x: str) -> str:
        """Leave the largest or smallest channel: of two halves, again and again."""
        zero = self.choices.pick((INT8[0], INT8[-1]))
        while (count := self.values[x].shape[2]) > 1:
            half = -(-count // 2)
            low = np.eye(count, half, dtype=np.int8)
            high = np.eye(count, half, half - count, dtype=np.int8)
            terms = self._integer_product(x, low - high, zero), self._integer_product(x, high, 0)

            def total(zero: int = zero, **names) -> Layer:
                fields = {"multipliers": (1, 1), "scaling": Scaling.EXACT}
                zeros = {"zero_points": (zero, 0), "requantization": _added(0)}
                return Elementwise(**names, op="add", **fields, **zeros)

            x = self.add(total, *terms)
        return x

    def clipped_step(self, x: str) -> str:
        """Average windows of which the border clips most."""
        height, width, _ = self.values[x].shape
        rows, columns = (min(extent, _LARGEST_WINDOW) for extent in (height, width))
        half = rows // 2, columns // 2
        fields = {"window": (rows, columns), "padding": (*half, *half)}
        return self.add(lambda **names: Pool(**names, op="average", **fields), x)

    def _integer_product(self, x: str, weight: np.ndarray, zero: int) -> str:
        """Add a product of the channels of each pixel."""

        def product(**names) -> Layer:
            return Conv(**names, weight=weight[None, None], requantization=_added(zero))

        return self.add(product, x)


def _added(zero: int) -> Requantization:
    """Return a requantization that only adds a number."""
    one = {"multiplier": np.array([1 << 30]), "shift": np.array([1])}
    return Requantization(**one, zero_point=zero)
