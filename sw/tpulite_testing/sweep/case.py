"""A case of the sweep: a TFLite file of one operator, or of a few, at one shape."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tpulite_testing.files.tflite_builder import Builder

__all__ = ["SCALE", "ZERO_POINT", "Case", "Net", "alone", "between", "case", "join"]

SCALE, ZERO_POINT = 0.05, 3
"""Of activations, unless an operator has its own."""

_SEED = 3
_ENDS = 16
"""Channels of the output of a case between convolutions."""

Shape = tuple[int, ...]
Make = Callable[["Net", int], "int | Sequence[int]"]


@dataclass(frozen=True)
class Case:
    """An operator at a shape."""

    operator: str  #: What TFLite calls it, or the name of a block of several.
    mode: str  #: ``alone``, or ``between`` a 1x1 convolution before it and one behind it.
    extents: Shape  #: A case contains another one of its form if none of its extents is smaller.
    form: str  #: Kernel, stride and all else that a larger case shares with a smaller one.
    build: Callable[[], bytes]  #: Returns the file.

    @property
    def shape(self) -> str:
        """Extents and form in a word or two."""
        return f"{join(self.extents)} {self.form}".strip()

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells cases apart."""
        return self.operator, self.mode, self.shape


class Net(Builder):
    """A file with drawn weights."""

    def __init__(self) -> None:
        super().__init__()
        self._rng = np.random.default_rng(_SEED)

    def weights(self, *shape: int) -> np.ndarray:
        """Draw weights."""
        return self._rng.integers(-127, 128, shape, dtype=np.int8)

    def integers(self, *values: int) -> int:
        """Add a constant of int32."""
        return self.constant(np.array(values, np.int32))

    def image(self, shape: Sequence[int]) -> int:
        """Add an input."""
        return self.input(shape, SCALE, ZERO_POINT)

    def like_input(self, shape: Sequence[int]) -> int:
        """Add a tensor that is quantized as inputs are."""
        return self.tensor(shape, SCALE, ZERO_POINT)

    def convolve(self, x: int, o: int, k: tuple[int, int] = (1, 1), **options: object) -> int:
        """Add CONV_2D with drawn weights."""
        c = self.shape(x)[3]
        scale = 0.4 / 30 / (c * k[0] * k[1]) ** 0.5
        return self.conv(
            x,
            self.weights(o, *k, c),
            [7] * o,
            weight_scale=scale,
            scale=SCALE,
            zero_point=ZERO_POINT,
            **options,  # type: ignore[arg-type]
        )

    def depthwise_of(self, x: int, k: tuple[int, int], m: int = 1, **options: object) -> int:
        """Add DEPTHWISE_CONV_2D with drawn weights."""
        o = self.shape(x)[3] * m
        return self.depthwise(
            x,
            self.weights(1, *k, o),
            [7] * o,
            weight_scale=0.01,
            scale=SCALE,
            zero_point=ZERO_POINT,
            **options,
        )


def join(extents: Iterable[int]) -> str:
    """Write extents as ``14x14x96``."""
    return "x".join(map(str, extents))


def case(
    operator: str,
    shape: Sequence[int],
    make: Make,
    form: str = "",
    *,
    more: Shape = (),
    mode: str = "alone",
) -> Case:
    """Return an operator on an input; ``more`` are extents beside those of the input."""

    def build() -> bytes:
        net = Net()
        return net.build(*_several(make(net, net.image(shape))))

    return Case(operator, mode, (*shape[1:], *more), form, build)


alone = case


def between(
    operator: str,
    shape: Sequence[int],
    make: Make,
    form: str = "",
    *,
    more: Shape = (),
    channels: int | None = None,
) -> Case:
    """Return an operator between 1x1 convolutions, the first one of so many input channels.

    Outputs that are no feature maps of batch 1 stay without a convolution.
    """

    def whole(net: Net, x: int) -> list[int]:
        ends = _several(make(net, net.convolve(x, shape[-1])))
        maps = [len(net.shape(y)) == 4 and net.shape(y)[0] == 1 for y in ends]
        return [net.convolve(y, _ENDS) if m else y for y, m in zip(ends, maps, strict=True)]

    source = (*shape[:-1], channels or shape[-1])
    made = case(operator, source, whole, form, more=more, mode="between")
    return Case(operator, "between", (*shape[1:], *more), form, made.build)


def _several(ends: "int | Sequence[int]") -> list[int]:
    return [ends] if isinstance(ends, int) else list(ends)
