"""Order of transfers through DRAM: which STORE a LOAD must stay behind."""

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Op


def stores_before(ops: tuple[Op, ...], config: Config) -> dict[int, int]:
    """Return, for each LOAD with a barrier, the index of the last STORE before it to its bytes.

    Parameters
    ----------
    ops : tuple of Op
        Commands in a legal order.
    config : Config
        The machine.

    Returns
    -------
    dict of int to int
        Indices in ``ops``. A LOAD of bytes that nothing before it stores is left out.
    """
    windows = {op.fields["window"] for op in ops if op.barrier}
    if not windows:
        return {}
    transfers = [
        (i, op)
        for i, op in enumerate(ops)
        if op.barrier or (op.opcode is Opcode.STORE and op.fields["window"] in windows)
    ]
    # For each beat, one more than the index of its last STORE.
    last = {
        window: np.zeros(
            max(_span(op, config)[1] for _, op in transfers if op.fields["window"] == window),
            np.int32,
        )
        for window in windows
    }
    result: dict[int, int] = {}
    for i, op in transfers:
        beats = last[op.fields["window"]]
        for piece in _pieces(op, config, beats):
            if op.opcode is Opcode.STORE:
                piece[...] = i + 1
            elif latest := int(piece.max()):
                result[i] = max(result.get(i, -1), latest - 1)
    return result


def _span(op: Op, config: Config) -> tuple[int, int]:
    """Return the first beat and the end of a transfer, its last line as long as the stride."""
    fields = op.fields
    first = fields.get("offset", 0) // BEAT_BYTES
    beats = -(-fields["rows"] * config.row_bytes // BEAT_BYTES)
    stride = fields.get("stride", 0) // BEAT_BYTES
    lines = fields.get("lines", 1)
    return first, first + max((lines - 1) * stride + beats, lines * stride)


def _pieces(op: Op, config: Config, beats: np.ndarray) -> list[np.ndarray]:
    """Return what a transfer touches, as views of the beats of its window."""
    first, end = _span(op, config)
    lines, stride = op.fields.get("lines", 1), op.fields.get("stride", 0) // BEAT_BYTES
    length = -(-op.fields["rows"] * config.row_bytes // BEAT_BYTES)
    if lines > 1 and stride >= length:
        return [beats[first:end].reshape(lines, stride)[:, :length]]
    return [beats[first + i * stride :][:length] for i in range(lines)]
