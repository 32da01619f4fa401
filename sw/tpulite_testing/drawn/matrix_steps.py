"""Steps of random graphs that take rows of images for matrices."""

from dataclasses import replace

import numpy as np

from tpulite.graph.layers import Layer, MatMul, Softmax, Transpose
from tpulite.quant.exactness.softmax import fixed_point_exponentials
from tpulite_testing.drawn.steps import Steps
from tpulite_testing.oracles.plain_layers import random_requantization

__all__ = ["MatrixSteps"]


class MatrixSteps(Steps):
    """Adds products and transposes of images."""

    def matmul_step(self, x: str) -> str:
        """Multiply by another image, if there is one, or by the same one transposed."""
        height, width, channels = self.values[x].shape
        if height * width * max(width, channels) > self.largest:
            return self.lut_step(x)
        others = [name for name in self.readable() if self.values[name].shape[0] == height]
        others = [name for name in others if self.values[name].shape[1] == channels]
        fits = [y for y in others if height * width * self.values[y].shape[2] <= self.largest]
        return self._product(x, self.choices.pick(fits) if fits else self.transpose_step(x))

    def scores_step(self, x: str) -> str:
        """Multiply what two layers make of an image, one transposed: as scores of attention."""
        height, width, _ = self.values[x].shape
        channels = self.choices.pick((16, 32))
        if height * width * max(width, channels) > self.largest:
            return self.lut_step(x)
        query, key = (self.pointwise_step(x, channels) for _ in range(2))
        if self.values[query].shape != self.values[key].shape:
            return query
        return self._product(query, self.transpose_step(key))

    def values_step(self, x: str) -> str:
        """Multiply a row for each matrix by the matrix: as shares and values of one token."""
        height, width, channels = self.values[x].shape
        if height * width * max(width, channels) > self.largest:
            return self.lut_step(x)
        column = self.pointwise_step(x, 1)
        if self.values[column].shape != (height, width, 1):
            return column
        return self._product(self.transpose_step(column), x, -128)

    def _product(self, x: str, other: str, zero_point: int | None = None) -> str:
        channels = self.values[x].shape[2]
        if zero_point is None:
            zero_point = self.choices.pick((0, self.zero_point()))
        zeros = (zero_point, self.zero_point())
        reach = int(200 * 90 * np.sqrt(channels)) + 4

        def make(**names) -> Layer:
            record = random_requantization(self.rng, 1, reach)
            record = replace(record, bias=record.bias * 0)
            return MatMul(**names, requantization=record, zero_points=zeros)

        return self.add(make, x, other)

    def softmax_step(self, x: str) -> str:
        """Take shares of channels, if the machine may have the operations."""
        scale = float(self.rng.choice((0.002, 0.02, 0.1, 1.0)))
        words = fixed_point_exponentials(scale, 1.0).astype(np.int32)
        return self.add(lambda **names: Softmax(**names, words=words), x)

    def transpose_step(self, x: str) -> str:
        """Let columns and channels change places."""
        return self.add(lambda **names: Transpose(**names), x)
