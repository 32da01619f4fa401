"""The combinations of functional coverage that are expected."""

from tpulite.arch.effects import ELEMENTWISE
from tpulite.arch.isa import VectorOp
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite_tb.coverage.cross import Cross

__all__ = ["FAULTS", "SCALED", "new_crosses"]

_COUNTS = ("1", "<N", "N", ">N")
_MODES = ("product", "image", "bytes", "depthwise")
_ROUNDINGS = tuple(rounding.name for rounding in Rounding)
SCALED = ("SUM", "AFFINE", "SHARE", *(VectorOp(x).name for x in ELEMENTWISE))
_CHANNELS = ("ar", "r", "aw", "w", "b")
_WAITS = ("0", "1", "2-7", ">7")
_COMPUTE = ("LOAD", "STORE", "CONV", "VECTOR")
FAULTS = {
    Fault.BUFFER: _COMPUTE,
    Fault.WINDOW: ("LOAD", "STORE"),
    Fault.READ: ("LOAD",),
    Fault.WRITE: ("STORE",),
    Fault.RECORD: ("CONV", "VECTOR"),
    Fault.OPCODE: ("any",),
    Fault.FIELD: ("any",),
    Fault.FETCH: ("any",),
    Fault.OVERRUN: ("any",),
}


def new_crosses() -> dict[str, Cross]:
    """Return all combinations that are expected, none of them seen."""
    conv = Cross(
        mode=_MODES,
        drain=("KEEP", "RAW", *_ROUNDINGS, "mixed"),
        accumulate=("no", "yes"),
        outputs=_COUNTS,
    )
    conv.exclude(mode="depthwise", drain="RAW")  # the ISA has none
    records = Cross(form=("FULL", "SHORT"), mode=_MODES, rounding=_ROUNDINGS)
    vector = Cross(
        operation=tuple(op.name for op in VectorOp),
        outputs=("1", "more"),
        rounding=("-", *_ROUNDINGS, "mixed"),
    )
    for op in VectorOp:
        if op.name in SCALED:
            vector.exclude(operation=op.name, rounding="-")
        else:  # nothing is requantized
            for rounding in (*_ROUNDINGS, "mixed"):
                vector.exclude(operation=op.name, rounding=rounding)
        if op != VectorOp.AFFINE and op.name in SCALED:  # one record for all channels
            vector.exclude(operation=op.name, rounding="mixed")
    transfers = Cross(
        opcode=("LOAD", "STORE"),
        flip=("no", "yes"),
        tail=("whole beats", "partial beat"),
        lines=("one", "more"),
        page=("within", "crossed"),
    )
    pairs = Cross(first=_COMPUTE, second=(*_COMPUTE, "END"), token=("no", "yes"))
    for opcode in _COMPUTE:  # END waits for all, without tokens
        pairs.exclude(first=opcode, second="END", token="yes")
    faults = Cross(code=[code.name for code in FAULTS], opcode=(*_COMPUTE, "any"))
    for code, opcodes in FAULTS.items():
        for opcode in {*_COMPUTE, "any"} - set(opcodes):
            faults.exclude(code=code.name, opcode=opcode)
    channels = Cross(channel=_CHANNELS, edges=_WAITS)
    return {
        "CONV": conv,
        "channel records": records,
        "VECTOR": vector,
        "transfers": transfers,
        "commands back to back": pairs,
        "faults": faults,
        "cycles that a transfer waits on AXI": channels,
    }
