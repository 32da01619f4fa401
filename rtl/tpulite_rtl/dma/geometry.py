"""How rows of the unified buffer and beats of DRAM fit each other."""

from amaranth.hdl import Const, Value

from tpulite.arch.config import BEAT_BYTES, Config

__all__ = ["flip_top_bits", "rows_per_beat"]


def rows_per_beat(config: Config) -> int:
    """Return the rows that a beat carries: 4, 2 or 1; also 1 where a row takes two beats."""
    return max(BEAT_BYTES // config.row_bytes, 1)


def flip_top_bits(payload: Value, flip: Value) -> Value:
    """Return bytes with their top bits inverted if ``flip`` is high."""
    top_bits = int.from_bytes(b"\x80" * (len(payload) // 8), "little")
    return payload ^ (Const(top_bits, len(payload)) & flip.replicate(len(payload)))
