"""Constants of a network: what LOAD finds in the CONSTANTS window."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import Opcode, RecordForm
from tpulite.arch.memory import Window
from tpulite.arch.numerics import Rounding
from tpulite.compiler.ops import Buffer, Op, Region, Side
from tpulite.configs import machines_with
from tpulite.graph.layers import Elementwise, Requantization
from tpulite.layout import pack_record_columns

T = TypeVar("T")


class Pins:
    """Rows of the unified buffer at which constants stay, for programs that run in turn.

    Parameters
    ----------
    banks : int
        Banks of the unified buffer.
    loaded : bool
        Whether an earlier program has left them there.

    Attributes
    ----------
    end : int
        First row behind them.
    data : dict of int to bytes
        By row, what is there.
    """

    def __init__(self, banks: int, *, loaded: bool) -> None:
        self.loaded, self.end = loaded, 0
        self.data: dict[int, bytes] = {}
        self._banks = banks
        self._buffers: dict[tuple[bytes, int | None], Buffer] = {}

    def place(self, name: str, data: bytes, rows: int, bank: int | None) -> Buffer:
        """Return the place of a constant; a new one comes behind all others."""
        if (data, bank) not in self._buffers:
            row = self.end
            if bank is not None:
                row += (bank - row) % self._banks
            self._buffers[data, bank] = Buffer(name, rows, row)
            self.data[row], self.end = data, row + rows
        return self._buffers[data, bank]

    def empty(self) -> "Pins":
        """Return the same without constants."""
        return Pins(self._banks, loaded=self.loaded)


class ConstantPool:
    """The image of the window, made piece by piece; equal pieces are stored once.

    Parameters
    ----------
    pins : Pins, optional
        Where constants stay, if they do.
    """

    def __init__(self, pins: Pins | None = None) -> None:
        self.pins = pins
        self._parts: list[bytes] = []
        self._offsets: dict[bytes, int] = {}
        self._size = 0
        self._packed: dict[Hashable, Any] = {}

    def packed(self, key: Hashable, pack: Callable[[], T]) -> T:
        """Return what ``pack`` returns; it is called once for each key, also by copies."""
        if key not in self._packed:
            self._packed[key] = pack()
        return self._packed[key]

    def empty(self) -> "ConstantPool":
        """Return a pool without pieces that knows what has been packed."""
        pool = ConstantPool(self.pins and self.pins.empty())
        pool._packed = self._packed
        return pool

    def add(self, data: bytes) -> int:
        """Return the offset of ``data`` in the window."""
        if data not in self._offsets:
            self._offsets[data] = self._size
            self._parts.append(data.ljust(-(-len(data) // BEAT_BYTES) * BEAT_BYTES, b"\0"))
            self._size += len(self._parts[-1])
        return self._offsets[data]

    def image(self) -> bytes:
        """Return the bytes of the window."""
        return b"".join(self._parts)


class Constant:
    """A constant that is loaded into a buffer of its own before its first use.

    Parameters
    ----------
    name : str
        For error messages.
    data : ndarray of uint8, [rows, N]
        Rows of the unified buffer.
    pool : ConstantPool
        Where to keep them.
    layer : int
        Index of the layer that uses them.
    bank : int, optional
        Bank of the first row.
    side : Side
        Where its place is searched.
    stays : bool
        Whether it is loaded once, and not for each use.
    """

    def __init__(
        self,
        name: str,
        data: np.ndarray,
        pool: ConstantPool,
        layer: int,
        bank: int | None = None,
        side: Side = Side.TOP,
        *,
        stays: bool = True,
    ) -> None:
        self.rows = data.shape[0]
        self._name, self._layer, self._bank, self._side = name, layer, bank, side
        self._stays = stays
        content = data.tobytes()
        self.offset = pool.add(content)
        self._buffer: Buffer | None = None
        self._pinned = pool.pins is not None
        self._here = False
        if pool.pins is not None:
            self._buffer = pool.pins.place(name, content, self.rows, bank)
            self._here = pool.pins.loaded

    def use(self, *, again: bool = False) -> tuple[Region, list[Op]]:
        """Return where the constant is, and the LOAD before it; ``again`` for another copy."""
        if self._buffer is not None and (self._pinned or (self._stays and not again)):
            if self._here:
                return Region(self._buffer), []
        else:
            self._buffer = Buffer(self._name, self.rows, bank=self._bank, side=self._side)
        self._here = True
        fields = {"window": Window.CONSTANTS, "offset": self.offset, "lines": 1, "rows": self.rows}
        region = Region(self._buffer)
        return region, [Op(Opcode.LOAD, self._layer, fields, {"row": region})]


def channel_records(
    requantization: Requantization,
    bias: np.ndarray,
    config: Config,
    *,
    gain: np.ndarray | None = None,
) -> tuple[RecordForm, list[np.ndarray]]:
    """Return the channel records of all n-blocks.

    Parameters
    ----------
    requantization : Requantization
        How sums are requantized; its bias is not used.
    bias : ndarray of int64, [C]
        Biases, wrapped to int32.
    gain : ndarray of int16, [C], optional
        Factors of AFFINE, which always has the full form.

    Raises
    ------
    ValueError
        If the machine lacks the rounding.
    """
    _check_roundings(requantization, config)
    per_channel = {
        "multiplier": requantization.multiplier,
        "shift": requantization.shift,
        "rounding": np.atleast_1d(requantization.rounding),
    }
    short = requantization.uniform and gain is None
    form = RecordForm.SHORT if short else RecordForm.FULL
    common = {name: getattr(requantization, name) for name in ("zero_point", "low", "high")}
    if requantization.bits == 16:  # the record has the upper bytes of the clamp elsewhere
        (low, common["low"]), (high, common["high"]) = (
            (common[name] >> 8 & 255, (common[name] & 255 ^ 128) - 128) for name in ("low", "high")
        )
        gain = np.asarray((low | high << 8 ^ 1 << 15) - (1 << 15))
    fields = {**per_channel, **common, "bias": bias, "gain": 0 if gain is None else gain}
    channels, unused = len(bias), -len(bias) % config.array_size
    columns = {}
    for name, values in fields.items():
        column = np.zeros(channels + unused, np.int64)
        column[:channels] = values
        # A short form must fit all channels; a full one needs no more than a legal rounding.
        if name == "rounding" or (form == RecordForm.SHORT and name != "bias"):
            column[channels:] = column[0]
        columns[name] = column
    return form, list(pack_record_columns(columns, config, form))


def common_record(requantization: Requantization, config: Config) -> np.ndarray:
    """Return the rows of the one record of a VECTOR."""
    _check_roundings(requantization, config)
    rounding = np.atleast_1d(requantization.rounding)
    values = (requantization.bias, requantization.multiplier, requantization.shift, rounding)
    names = ("bias", "multiplier", "shift", "rounding")
    record = {name: int(value[0]) for name, value in zip(names, values, strict=True)}
    record |= {name: getattr(requantization, name) for name in ("zero_point", "low", "high")}
    word = isa.RECORD.pack(**record, gain=0)
    return pad_to_rows(word.to_bytes(RECORD_BYTES, "little"), config)


def operand_records(layer: Elementwise, config: Config) -> np.ndarray:
    """Return the rows of how operands are scaled, and of the record behind them."""
    (a_zero, b_zero), (a_multiplier, b_multiplier) = layer.zero_points, layer.multipliers
    operands = isa.OPERANDS.pack(
        a_zero_point=a_zero,
        b_zero_point=b_zero,
        a_multiplier=a_multiplier,
        a_shift=layer.shifts[0],
        b_multiplier=b_multiplier,
        b_shift=layer.shifts[1],
        scaling=layer.scaling,
    )
    rows = pad_to_rows(operands.to_bytes(RECORD_BYTES, "little"), config)
    return np.concatenate([rows, common_record(layer.requantization, config)])


def pad_to_rows(data: bytes, config: Config) -> np.ndarray:
    """Return bytes as whole rows of the unified buffer."""
    rows = -(-len(data) // config.row_bytes)
    padded = data.ljust(rows * config.row_bytes, b"\0")
    return np.frombuffer(padded, np.uint8).reshape(rows, config.row_bytes)


def _check_roundings(requantization: Requantization, config: Config) -> None:
    for rounding in sorted(requantization.roundings):
        name = Rounding(rounding).name.lower()
        if name not in config.roundings:
            others = machines_with(name, config)
            raise ValueError(
                f"Rounding must be one of {list(config.roundings)}, which this machine has, "
                f"not {name!r}; {' and '.join(others)} {'have' if others[1:] else 'has'} it"
            )
