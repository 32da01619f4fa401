"""Results made in the place of what they are made from."""

from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Buffer, Op


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
