"""Answers say what their values are."""

import numpy as np

from tpulite.graph.graph import Quantization, Tensor
from tpulite.report.answers import answer


def test_values_that_are_not_the_integers_of_the_tensor_are_called_dequantized():
    values = np.int8([[-3, 4]])
    for scale, zero, words in (
        (0.5, 1, "y: int8 [1, 2], dequantized: -2 1.5"),
        (1.0, 0, "y: int8 [1, 2]: -3 4"),
    ):
        meaning = Quantization(np.float32([scale]), np.array([zero]))
        assert answer(Tensor("y", (1, 2), "int8", meaning), values).lines() == [words]
    assert answer(Tensor("y", (1, 2), "int8"), values).lines() == ["y: int8 [1, 2]: -3 4"]
