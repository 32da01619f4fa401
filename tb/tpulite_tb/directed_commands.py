"""Draws commands of wanted combinations, of :mod:`tpulite_tb.coverage.crosses`.

Some are rare in random programs: a convolution of one output vector, say, whose records have mixed
roundings. Here a random command is drawn, and altered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from tpulite.arch.effects import effects
from tpulite.arch.isa import Axis, Command, Drain, Opcode, RecordForm, VectorOp
from tpulite_tb.coverage.executed import mode_of, outputs_of
from tpulite_tb.random_conv import draw_conv
from tpulite_tb.random_records import Block, BlockKind
from tpulite_tb.random_state import Drawn, State, hazard
from tpulite_tb.random_transfers import block_load, draw_block_load, draw_load, draw_store
from tpulite_tb.random_vector import PARAMETER_BLOCKS, draw_vector

__all__ = ["direct_conv", "direct_transfer", "direct_vector"]

_TRIES = 50
"""Random commands to alter; if none of them is legal, another program is better."""

_ROWS = range(1, 9)
"""Rows of outputs of a CONV, which has up to 3 N columns."""


def direct_conv(state: State, wanted: Mapping[str, str]) -> Iterator[Drawn]:
    """Draw a CONV behind what it needs, and let all happen; without a legal try there is none.

    Parameters
    ----------
    state : State
        What has happened so far.
    wanted : mapping of str to str
        A point of the cross of CONV, or of channel records.
    """
    if wanted["mode"] == "depthwise":
        yield _happen(state, draw_block_load(state, BlockKind.TILE))
    drain = wanted.get("drain") or wanted["rounding"]
    if drain in (Drain.KEEP.name, Drain.RAW.name):
        fields = {"drain": Drain[drain]}
    else:
        forms = [wanted["form"]] if "form" in wanted else [form.name for form in RecordForm]
        load, block = _load(state, [BlockKind[form] for form in forms], drain)
        yield load
        fields = {
            "drain": Drain.REQUANTIZE,
            "record_form": RecordForm[block.kind.name],
            "record_row": load.command["row"],
        }
    for _ in range(_TRIES):
        drawn = draw_conv(state)
        conv = None if drawn is None else _resized(state, drawn.command, wanted)
        if conv is None:
            continue
        last = state.config.acc_rows - conv["rows"] * conv["columns"]
        conv = conv.replace(**fields, acc_row=state.rng.randint(0, last), accumulate=0)
        convs = [conv]
        if wanted.get("accumulate") == "yes":
            convs = [conv.replace(drain=Drain.KEEP), conv.replace(accumulate=1)]
        legal = [each for each in (_legal(state, each) for each in convs) if each]
        if len(legal) == len(convs):
            yield from (_happen(state, each) for each in legal)
            return


def direct_vector(state: State, wanted: Mapping[str, str]) -> Iterator[Drawn]:
    """Draw a VECTOR behind what it needs, and let all happen; without a legal try there is none.

    Parameters
    ----------
    state : State
        What has happened so far.
    wanted : mapping of str to str
        A point of the cross of VECTOR.
    """
    operation, fields = VectorOp[wanted["operation"]], {}
    if operation in PARAMETER_BLOCKS:
        load, _ = _load(state, PARAMETER_BLOCKS[operation], wanted["rounding"])
        yield load
        fields = {"param_row": load.command["row"]}
    for _ in range(_TRIES):
        drawn = draw_vector(state)
        if drawn is None or drawn.command["operation"] != operation:
            continue
        vector = drawn.command.replace(**fields)
        if wanted["outputs"] == "1":
            vector = vector.replace(rows=1, columns=1)
        elif vector["rows"] * vector["columns"] == 1:
            continue
        if legal := _legal(state, vector):
            yield _happen(state, legal)
            return


def direct_transfer(state: State, wanted: Mapping[str, str]) -> Iterator[Drawn]:
    """Draw a LOAD or STORE and let it happen; its tail, and pages it crosses, are left to chance.

    Parameters
    ----------
    state : State
        What has happened so far.
    wanted : mapping of str to str
        A point of the cross of transfers.
    """
    draw = draw_load if wanted["opcode"] == Opcode.LOAD.name else draw_store
    for _ in range(_TRIES):
        drawn = draw(state)
        if drawn and (drawn.command["lines"] == 1) == (wanted["lines"] == "one"):
            command = drawn.command.replace(flip=wanted["flip"] == "yes")
            yield _happen(state, replace(drawn, command=command))
            return


def _load(state: State, kinds: Sequence[BlockKind], rounding: str) -> tuple[Drawn, Block]:
    """Let a LOAD of records of a rounding, or of mixed ones, happen; return it and its block."""
    name = rounding.lower()
    block = state.rng.choice(
        [x for x in state.blocks if x.usable and x.kind in kinds and x.name == name]
    )
    return _happen(state, block_load(state, block)), block


def _resized(state: State, conv: Command, wanted: Mapping[str, str]) -> Command | None:
    """Draw another number of output vectors; None if the CONV is no good for that, or its mode."""
    config = state.config
    rows, columns = _ROWS, range(1, 3 * config.array_size + 1)
    if conv["depthwise"]:  # the tile has taps for so many
        if conv["inner"] == Axis.X:
            columns = [conv["columns"]]
        else:
            rows = [conv["rows"]]
    shapes = [(y, x) for y, x in product(rows, columns) if y * x <= config.acc_rows]
    if count := wanted.get("outputs"):
        shapes = [(y, x) for y, x in shapes if outputs_of(y * x, config) == count]
    if not shapes:
        return None
    y, x = state.rng.choice(shapes)
    conv = conv.replace(rows=y, columns=x)
    return conv if mode_of(conv) == wanted["mode"] else None


def _legal(state: State, command: Command) -> Drawn | None:
    """Describe a command; None unless it reads what is written, and stays in the buffer."""
    touched = effects(command, state.config)
    inside = max((*touched.reads, *touched.writes), default=0) < state.config.ub_rows
    written = state.is_written(touched.early) and state.is_written(touched.reads)
    if inside and written and not hazard(touched.reads, touched.writes, touched.reads_before):
        return state.drawn(command, touched=touched)
    return None


def _happen(state: State, drawn: Drawn) -> Drawn:
    state.happen(drawn)
    return drawn
