"""Geometry of one accelerator: every size that hardware and software must agree on."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

from tpulite.arch.numerics import Rounding

BEAT_BYTES = 16
"""Bytes of one AXI beat. DRAM addresses of transfers are multiples of it."""

COMMAND_BYTES = 32
"""Bytes of one command: two beats."""

RECORD_BYTES = 16
"""Bytes of one channel record."""

WORD_BYTES = 4
"""Bytes of a word that NORM and SHARE look up."""

_LARGE_SIZE = 16
"""Arrays from this size on have softmax and transposed tiles, which are a larger part of others."""

_DELAY_SIZE = 16
"""Arrays from this size on have a row for each tap of a 3x5 kernel."""

_OF_DELAY_LINES = ("vector_pairs", "wide_lines")
"""What delay lines once lacked: pairs of vectors, and kernels with five taps on a line."""

_OF_THE_BUILD = ("multipliers", "memories", "clock_gates")
"""What files of 0.1.0 say of how a chip is written: see :class:`tpulite.arch.build.Build`."""

_SHOWN_HASHES = {
    0x5598C780: 0xC33B176D,  # ecp5-25
    0xBA5CD2A0: 0x59FB2961,  # ecp5-45
    0xDF1CE8C7: 0x02B73E79,  # ecp5-85
}
"""By hash, the one that chips show which were placed when memories and multipliers counted, too."""

_ARRAY_SIZES = (4, 8, 16, 32)

_BY_SIZE = ("softmax", "delay_lines", "transposed_tiles")
"""Switches whose default depends on the size of the array."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Accelerator geometry.

    Parameters
    ----------
    array_size : int
        Rows and columns N of the systolic array: 4, 8, 16 or 32. A row of the unified buffer holds
        N bytes, and a weight tile N x N.
    ub_rows : int
        Rows of the unified buffer; a power of two, at most 16,384.
    ub_banks : int
        Banks of the unified buffer, each with one read and one write port. Row r lies in bank
        r mod ``ub_banks``.
    acc_rows : int
        Rows of N x int32 in the accumulator buffer: the largest M of one command.
    queue_depth : int
        Commands that wait before each engine.
    burst_beats : int
        Longest AXI burst, in beats of 16 bytes.
    dma_bursts : int
        Bursts that LOAD, and likewise STORE, keep outstanding.
    requant_lanes : int, optional
        Channels that the drain path requantizes in a cycle; divides N, which is the default.
        With fewer, the last k-tile of a command issues one vector every N / lanes cycles.
    vector_lanes : int, optional
        Channels that the vector path computes in a cycle, of ADD and SUB in two; divides N, which
        is the default.
    roundings : tuple of str
        Roundings that the requantizer has, of :class:`tpulite.arch.numerics.Rounding`.
    axi_slices : bool
        Whether registers stand between the chip and all of its AXI channels, in both directions:
        an answer of the memory takes two cycles more.
    ram_registers : bool
        Whether a register stands behind each RAM of the unified buffer and behind that of channel
        records: a row comes a cycle later, and paths begin at registers, not at RAMs, which take
        half of a period to answer in an FPGA.
    softmax : bool, optional
        Whether the vector path has the operations NORM and SHARE; by default if N is 16 or more.
        A machine of fewer than four vector lanes, or with N = 4, never has.
    delay_lines : bool, optional
        Whether the array has delay lines, with which depthwise 3x3 and 3x5 convolutions interleave
        up to 36 positions, and 3x3 ones of stride 2 stream two vectors per cycle; by default if N
        is 16 or more. Smaller arrays lack a row for each tap.
    int16 : bool
        Whether a CONV can read and write vectors of int16, as pairs of int8. Such a machine
        requantizes all channels at once.
    transposed_tiles : bool, optional
        Whether a CONV can take weight tiles whose rows in the buffer are columns of the array; by
        default if N is 16 or more.
    int4 : bool
        Whether a CONV can take weight tiles of int4, whose N rows are N / 2 rows of the buffer: it
        takes such tiles in half the cycles if it has few vectors.
    """

    array_size: int = 16
    ub_rows: int = 16384
    ub_banks: int = 8
    acc_rows: int = 1024
    queue_depth: int = 16
    burst_beats: int = 16
    dma_bursts: int = 8
    requant_lanes: int | None = None
    vector_lanes: int | None = None
    roundings: tuple[str, ...] = tuple(rounding.name.lower() for rounding in Rounding)
    axi_slices: bool = False
    ram_registers: bool = False
    softmax: bool | None = None
    delay_lines: bool | None = None
    int16: bool = False
    transposed_tiles: bool | None = None
    int4: bool = False

    def __post_init__(self) -> None:
        if self.array_size not in _ARRAY_SIZES:
            raise ValueError(f"array_size must be one of {_ARRAY_SIZES}, not {self.array_size!r}")
        for name, low, high in (
            ("ub_rows", 64, 1 << 14),
            ("ub_banks", 4, 32),
            ("acc_rows", 16, 1 << 10),
            ("queue_depth", 1, 64),
            ("burst_beats", 2, 256),
            ("dma_bursts", 1, 32),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high or value & (value - 1):
                raise ValueError(
                    f"{name} must be a power of two from {low} to {high}, not {value!r}"
                )
        for name in ("requant_lanes", "vector_lanes"):
            lanes = getattr(self, name)
            if lanes is None:
                object.__setattr__(self, name, self.array_size)
            elif lanes not in [1 << i for i in range(self.array_size.bit_length())]:
                raise ValueError(f"{name} must divide array_size {self.array_size}, not {lanes!r}")
        known = [rounding.name.lower() for rounding in Rounding]
        if not self.roundings or set(self.roundings) - set(known):
            raise ValueError(f"roundings must be some of {known}, not {self.roundings!r}")
        # In one order, so that equal machines compare and hash alike.
        object.__setattr__(self, "roundings", tuple(r for r in known if r in self.roundings))
        for name in _switches():
            value = getattr(self, name)
            if value not in (False, True) and (value is not None or name not in _BY_SIZE):
                raise ValueError(f"{name} must be 0 or 1, not {value!r}")
            object.__setattr__(self, name, value if value is None else bool(value))
        wanted = self.array_size >= _LARGE_SIZE if self.softmax is None else bool(self.softmax)
        able = self.array_size > WORD_BYTES and self.word_lanes > 0
        object.__setattr__(self, "softmax", wanted and able)
        room = self.array_size >= _DELAY_SIZE
        if self.delay_lines and not room:
            raise ValueError(
                f"array_size must be {_DELAY_SIZE} or more with delay_lines, not {self.array_size}"
            )
        delays = room if self.delay_lines is None else bool(self.delay_lines)
        object.__setattr__(self, "delay_lines", delays)
        transposes = self.transposed_tiles
        wanted = self.array_size >= _LARGE_SIZE if transposes is None else bool(transposes)
        object.__setattr__(self, "transposed_tiles", wanted)
        if self.int16 and self.lanes < self.array_size:
            raise ValueError(
                f"requant_lanes must be {self.array_size} with int16, not {self.requant_lanes}"
            )

    @property
    def lanes(self) -> int:
        """Channels that the drain path requantizes in a cycle."""
        assert self.requant_lanes is not None
        return self.requant_lanes

    @property
    def vector_cycles(self) -> int:
        """Cycles in which the vector path computes a vector."""
        assert self.vector_lanes is not None
        return self.array_size // self.vector_lanes

    @property
    def has_softmax(self) -> bool:
        """Whether the vector path has NORM and SHARE."""
        return bool(self.softmax)

    @property
    def has_delay_lines(self) -> bool:
        """Whether the array has delay lines, which also take vectors in pairs."""
        return bool(self.delay_lines)

    @property
    def has_transposed_tiles(self) -> bool:
        """Whether a CONV can take transposed weight tiles."""
        return bool(self.transposed_tiles)

    @property
    def word_lanes(self) -> int:
        """Words that NORM and SHARE look up in a cycle: four lanes have a byte of each."""
        assert self.vector_lanes is not None
        return self.vector_lanes // WORD_BYTES

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the unified buffer."""
        return self.array_size

    @property
    def ub_bytes(self) -> int:
        """Bytes of the unified buffer."""
        return self.ub_rows * self.row_bytes

    @property
    def record_rows(self) -> int:
        """Rows of the channel records of one n-block: N of 16 bytes are 16 rows at any N."""
        return RECORD_BYTES

    @property
    def short_record_rows(self) -> int:
        """Rows of the short form: one record, padded to whole rows, then 4 rows of biases."""
        return -(-RECORD_BYTES // self.row_bytes) + 4

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values that JSON can hold, switches only if they are on.

        No machine had switches when the first programs were compiled. Fields that machines once had
        are there, so that hashes and files stay.
        """
        values = asdict(self) | {"roundings": list(self.roundings)}
        for name in _switches():
            if not values[name]:
                del values[name]
        lines = dict.fromkeys(_OF_DELAY_LINES, True) if self.delay_lines else {}
        return values | {"multipliers": "dsp"} | lines

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Config":
        """Build a configuration from :meth:`as_dict`'s result, of 0.1.0, too.

        Raises
        ------
        ValueError
            If there is no such machine, or not any more.
        """
        lacked = dict.fromkeys((*_switches(), *_OF_DELAY_LINES), False)
        fields: dict[str, Any] = lacked | values
        fields["roundings"] = tuple(values["roundings"])
        for name in _OF_THE_BUILD:
            fields.pop(name, None)
        lines = [fields.pop(name) for name in _OF_DELAY_LINES]
        if any(line != fields["delay_lines"] for line in lines):
            lack = "kernels of 3x5" if lines[0] == fields["delay_lines"] else "pairs of vectors"
            raise ValueError(
                f"it is for delay lines without {lack}, which no machine has any more; "
                "compile the network again: tpulite compile NETWORK"
            )
        return cls(**fields)

    @property
    def hash(self) -> int:
        """Return 32 bits that tell configurations apart; the chip shows them in a register.

        Fields that programs cannot notice (how deep queues are) count too: a program is compiled
        for one machine.
        """
        text = json.dumps(self.as_dict(), sort_keys=True).encode()
        value = int.from_bytes(hashlib.sha256(text).digest()[:4], "little")
        return _SHOWN_HASHES.get(value, value)


@cache
def _switches() -> tuple[str, ...]:
    """Return the fields that are 0 or 1."""
    return tuple(each.name for each in fields(Config) if each.type in (bool, bool | None))
