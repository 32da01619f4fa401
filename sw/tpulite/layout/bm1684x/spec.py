"""Convolutions and machines: everything that a layout of weights follows from."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

_STORAGE = {"int8": np.int8, "bf16": np.uint16, "f16": np.float16, "f32": np.float32}
"""How numpy holds each type; it has no bfloat16, so its bits are an unsigned integer."""


def _check_extent(name: str, value: int) -> None:
    """Raise ValueError unless a size is an integer of at least 1."""
    if not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The sizes of a machine that its weight layout depends on.

    Parameters
    ----------
    lanes : int
        Lanes N; each computes output channels of its own (the vendor's ``NPU_NUM``).
    parallel : int
        Input channels P that a lane multiplies side by side in int8 (``IC_PARALLEL``); of 16-bit
        types it takes half as many.
    lane_bytes : int
        Bytes E that a lane processes at once (``EU_NUM`` of int8).
    """

    lanes: int
    parallel: int
    lane_bytes: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check_extent(name, value)


BM1684X = Geometry(lanes=64, parallel=64, lane_bytes=64)
"""The vendor's machine."""


class Fold(IntEnum):
    """Which kernel axes count as input channels (the vendor's ``3ic_optimize``).

    With few input channels most of the P multipliers of a lane would idle; kernel positions then
    take their places, the position being the fast index of a folded channel.
    """

    NONE = 0
    KH = 1  #: channel ``ic * kh + y`` at position ``x``
    KW = 2  #: channel ``ic * kw + x`` at position ``y``
    BOTH = 3  #: channel ``(ic * kh + y) * kw + x``, one position

    def factor(self, kh: int, kw: int) -> int:
        """Return how many channels one input channel becomes."""
        return (1, kh, kw, kh * kw)[self]


def choose_fold(ic: int, kh: int, kw: int, parallel: int) -> Fold:
    """Return the fold that the vendor's compiler chooses for an int8 convolution.

    Grouped convolutions are not folded, whatever their shape.

    Examples
    --------
    >>> [choose_fold(ic, 3, 3, parallel=64).name for ic in (3, 20, 64)]
    ['BOTH', 'KH', 'NONE']
    """
    if ic * kh * kw <= parallel and kh > 1 and kw > 1:
        return Fold.BOTH
    if ic * kw <= parallel and kw > 1 and (kh < kw or ic * kh > parallel):
        return Fold.KW
    if ic * kh <= parallel and kh > 1:
        return Fold.KH
    return Fold.NONE


@dataclass(frozen=True, kw_only=True)
class ConvSpec:
    """A convolution and the machine that its weights are laid out for.

    Parameters
    ----------
    oc, ic, kh, kw : int
        Shape of the filter; ``ic`` is 1 if it is depthwise.
    dtype : str
        ``int8``, ``bf16`` (its bits as uint16), ``f16`` or ``f32``.
    depthwise : bool
        Whether output channel c sees input channel c alone.
    has_bias : bool
        Whether there is a bias: int32 with int8, else float32.
    fold : Fold, optional
        By default what the vendor's compiler chooses: :func:`choose_fold` for an int8 convolution,
        and ``NONE`` for a depthwise one and for floating types. A grouped one needs ``NONE``.
    geometry : Geometry
        The machine.
    """

    oc: int
    ic: int
    kh: int
    kw: int
    dtype: str = "int8"
    depthwise: bool = False
    has_bias: bool = True
    fold: Fold | None = None
    geometry: Geometry = BM1684X

    def __post_init__(self) -> None:
        for name in ("oc", "ic", "kh", "kw"):
            _check_extent(name, getattr(self, name))
        if self.dtype not in _STORAGE:
            raise ValueError(f"dtype must be one of {list(_STORAGE)}, not {self.dtype!r}")
        if self.depthwise and self.ic != 1:
            raise ValueError(f"ic of a depthwise filter must be 1, not {self.ic!r}")
        parallel = self.geometry.parallel
        if self.dtype in ("bf16", "f16") and not self.depthwise and parallel % 2:
            raise ValueError(
                f"parallel (--ic-parallel) must be even for {self.dtype}, not {parallel!r}"
            )
        object.__setattr__(self, "fold", self._resolve_fold())

    def _resolve_fold(self) -> Fold:
        plain = self.depthwise or self.dtype == "f32"
        if self.fold is None:
            if plain or self.dtype != "int8":
                return Fold.NONE
            return choose_fold(self.ic, self.kh, self.kw, self.geometry.parallel)
        if self.fold not in list(Fold):
            raise ValueError(f"fold must be one of {[int(f) for f in Fold]}, not {self.fold!r}")
        fold = Fold(self.fold)
        if fold and plain:
            raise ValueError(f"fold of a depthwise or f32 filter must be NONE, not {fold.name}")
        channels = self.ic * fold.factor(self.kh, self.kw)
        if fold and channels > self.parallel:
            raise ValueError(
                f"Fold {fold.name} must give at most {self.parallel} channels, not {channels}"
            )
        return fold

    @property
    def folded(self) -> Fold:
        """The fold, chosen."""
        assert self.fold is not None
        return self.fold

    @property
    def storage(self) -> np.dtype:
        """How numpy holds an element of the filter."""
        return np.dtype(_STORAGE[self.dtype])

    @property
    def parallel(self) -> int:
        """Input channels that a lane multiplies side by side, in this type."""
        return self.geometry.parallel // self.storage.itemsize

    @property
    def filter_shape(self) -> tuple[int, int, int, int]:
        """Shape of the filter before it is laid out."""
        return self.oc, self.ic, self.kh, self.kw

    @property
    def w1(self) -> int:
        """Elements of one output channel, laid out: ``ceil(ic / P) * kh * kw * P``.

        Folded axes count in ``ic``. Depthwise and f32 filters are not padded.
        """
        if self.depthwise or self.dtype == "f32":
            return self.ic * self.kh * self.kw
        factor = self.folded.factor(self.kh, self.kw)
        return -(-self.ic * factor // self.parallel) * (self.kh * self.kw // factor) * self.parallel
