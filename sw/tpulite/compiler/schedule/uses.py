"""What every buffer is needed for, known before anything is put in order."""

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Buffer, Op, Tiling
from tpulite.compiler.schedule.scheduled import Lifetime, lower_bound


class Uses:
    """Uses of buffers by the commands of a tiling; times are indices of its commands.

    Buffers that are made in place count as one with the buffer that had the place first.

    Parameters
    ----------
    tiling : Tiling
        Commands in an order in which they could run one after the other.

    Attributes
    ----------
    loads : list of int
        Times of LOADs.
    wanted : list of tuple of Buffer
        For each command, what must have a place when it comes, without resident buffers.
    spans : dict of Buffer to list of int
        First and last use.
    ending : dict of int to list of Buffer
        At each time, what nothing needs later.
    after : dict of int to int
        For LOADs that stay behind a command, the time of the last one: it stores what they load,
        or frees its place.
    joined : dict of Buffer to Buffer
        What is made in place.
    """

    def __init__(self, tiling: Tiling, config: Config) -> None:
        ops = tiling.ops
        self.joined = joined = join_in_place(ops)
        self.after = stores_before(ops, config)
        self.after |= {i: i - 1 for i, op in enumerate(ops) if op.stays}
        self.loads = [i for i, op in enumerate(ops) if op.opcode is Opcode.LOAD]
        self.wanted: list[tuple[Buffer, ...]] = []
        self.spans: dict[Buffer, list[int]] = {}
        spans = self.spans
        for i, op in enumerate(ops):
            mine: dict[Buffer, None] = {}
            for buffer in op.reserve:
                if buffer.row is None:
                    mine[joined.get(buffer, buffer)] = None
            for region in op.rows.values():
                if region.buffer.row is None:
                    mine[joined.get(region.buffer, region.buffer)] = None
            for buffer in mine:
                if buffer in spans:
                    spans[buffer][1] = i
                else:
                    spans[buffer] = [i, i]
            self.wanted.append(tuple(mine))
        self.ending: dict[int, list[Buffer]] = {}
        for buffer, (_, last) in spans.items():
            self.ending.setdefault(last, []).append(buffer)

    @property
    def lifetimes(self) -> tuple[Lifetime, ...]:
        """The spans as lifetimes."""
        return tuple(Lifetime(buffer, *span) for buffer, span in self.spans.items())

    def fullest(self) -> list[Buffer]:
        """Return what takes the most rows at one time, in the order of first use."""
        taken, most, time = 0, 0, 0
        for i, buffers in enumerate(self.wanted):
            taken += sum(buffer.rows for buffer in buffers if self.spans[buffer][0] == i)
            if taken > most:
                most, time = taken, i
            taken -= sum(buffer.rows for buffer in self.ending.get(i, ()))
        return [buffer for buffer, (first, last) in self.spans.items() if first <= time <= last]

    @property
    def bound(self) -> int:
        """Rows that are live at the peak, even if nothing goes ahead."""
        return lower_bound(self.lifetimes)


def stores_before(ops: tuple[Op, ...], config: Config) -> dict[int, int]:
    """Return, for each LOAD with a barrier, the index of the last STORE before it to its bytes.

    Parameters
    ----------
    ops : tuple of Op
        Commands in a legal order.

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


def join_in_place(ops: tuple[Op, ...]) -> dict[Buffer, Buffer]:
    """Decide which buffers take the place of the buffer that they are ``over``.

    That is allowed if from the first command that touches the new buffer to the last one that
    touches the other, only VECTORs of one layer touch either, and all that touch the other touch
    both. So neither a layer that needs the old image later, nor a transfer, nor the matrix unit,
    which reads vectors many times, comes in between. The sizes must be equal, and the bank of the
    other one must do for the new one.

    Parameters
    ----------
    ops : tuple of Op
        Commands in a legal order. Those of one engine keep their order later.

    Returns
    -------
    dict of Buffer to Buffer
        For each buffer that is made in place, the first buffer that had the place.
    """
    hinted = {
        region.buffer: None
        for op in ops
        if op.opcode is Opcode.VECTOR
        for region in op.rows.values()
        if region.buffer.over is not None
    }
    if not hinted:
        return {}
    involved = {*hinted, *(buffer.over for buffer in hinted)}
    touches: dict[Buffer, list[int]] = {}
    for i, op in enumerate(ops):
        for buffer in {region.buffer for region in op.rows.values()} & involved:
            touches.setdefault(buffer, []).append(i)
    joined: dict[Buffer, Buffer] = {}
    taken: set[Buffer] = set()
    for buffer in hinted:
        over = buffer.over
        assert over is not None
        if over not in touches or over in taken or not _fits(buffer, over):
            continue
        first, last = touches[buffer][0], touches[over][-1]
        before = [i for i in touches[buffer] if i <= last]
        after = [i for i in touches[over] if i >= first]
        layer = ops[first].layer
        if touches[over][0] < first and set(after) <= set(before):
            window = (ops[i] for i in before)
            if all(op.opcode is Opcode.VECTOR and op.layer == layer for op in window):
                joined[buffer] = joined.get(over, over)
                taken.add(over)
    return joined


def _fits(buffer: Buffer, over: Buffer) -> bool:
    movable = buffer.row is None and over.row is None
    return movable and buffer.rows == over.rows and buffer.bank in (None, over.bank)
