"""Integer layers that take each row of an activation for a matrix [width, channels]."""

from dataclasses import dataclass

from tpulite.graph.layer_base import Activation, Layer
from tpulite.graph.layer_checks import check_int8
from tpulite.graph.requantization import Requantization


@dataclass(frozen=True, kw_only=True, eq=False)
class MatMul(Layer):
    """For each row the product of two matrices: [H, M, K] times [H, K, N] is [H, M, N].

    The second one is [H, N, K] if it is ``transposed``. Sums are those of (a - zero_points[0]) *
    (b - zero_points[1]), requantized for all channels alike, without a bias.
    """

    requantization: Requantization
    zero_points: tuple[int, int] = (0, 0)
    transposed: bool = False

    operands = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int8(self.title, a_zero_point=self.zero_points[0], b_zero_point=self.zero_points[1])
        if self.requantization.channels != 1 or self.requantization.bias.any():
            raise ValueError(f"{self.title} must requantize all channels alike, without a bias")

    def _infer(self, *activations: Activation) -> Activation:
        a, b = (activation.shape for activation in activations)
        height, inner, columns = (b[0], b[2], b[1]) if self.transposed else b
        if (height, inner) != (a[0], a[2]):
            raise ValueError(f"{self.title} cannot multiply {a} by {b}")
        return Activation((a[0], a[1], columns))


@dataclass(frozen=True, kw_only=True)
class Transpose(Layer):
    """Columns and channels change places: [H, W, C] becomes [H, C, W]."""

    def _infer(self, *activations: Activation) -> Activation:
        height, width, channels = activations[0].shape
        return Activation((height, channels, width))
