"""Scheduling: loads ahead of their use, when buffers live, and addresses for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode, VectorOp
from tpulite.compiler.ops import Buffer, Op, Side, Tiling
from tpulite.compiler.schedule.allocate import place_in_turn, place_longest
from tpulite.compiler.schedule.list_scheduler import ListScheduler
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule, find_lifetimes
from tpulite.compiler.schedule.uses import Uses

LEAD = 4
"""How many LOADs go ahead of a command, beyond those that it needs, if they are small. More of them
wait for rows that are still in use, take the space of others, and fill the queue before the
products behind them. In ResNet-50 4 saves 4 to 6 % of the cycles; in all networks tried no other
number saves 0.6 % more, nor do estimates of when a load is needed."""

_REGION = 256
"""Where a command finds no place, nothing goes ahead of so many commands before it."""

_WIDER = 4
"""If that does not help, of so many times as many."""

_RETRIES = 24
"""After so many commands without a place nothing goes ahead any more."""

_LARGE = 8
"""A buffer of this part of the unified buffer is large: others must not split the space for it."""


def schedule(tiling: Tiling, config: Config, *, lead: int = LEAD) -> Schedule | Shortage:
    """Order the commands of a network.

    All commands but loads keep their order, and so do loads. But loads may go ahead of other
    commands, if their buffers have a place at once and what they load has been stored. They write
    rows that nothing before them in the tiling's order touches. Dispatch is in order, so the
    queue of loads must be able to take them; and commands are fetched while data are loaded, so
    the first products should come early in the program.

    Places of images that commands make are found first. If something finds no place, loads that
    went ahead are withdrawn; then none go ahead in the commands before it; then none at all, and
    places of everything large are found first.

    Parameters
    ----------
    tiling : Tiling
        Commands in an order in which they could run one after the other.
    lead : int
        Loads that go ahead of a command, beyond those that it needs; 0 to load only what the next
        command needs.

    Returns
    -------
    Schedule or Shortage
        Commands, lifetimes, and a row for each buffer; or what finds no place, because the unified
        buffer is too small for this tiling.
    """
    uses = Uses(tiling, config)
    ordered = order_commands(tiling, config, uses, lead)
    if isinstance(ordered, Shortage):
        large = [each for each in uses.lifetimes if each.buffer.rows >= config.ub_rows // _LARGE]
        rows = range(tiling.first_row, config.ub_rows)
        fixed, missing = place_longest(large, rows, config.ub_banks)
        if missing is not None or uses.bound > len(rows):
            return ordered
        again = ListScheduler(tiling, config, uses, [0] * len(tiling.ops), fixed).run()
        if isinstance(again, Shortage):
            return ordered
        ordered = *again, 0
    order, places, lead = ordered
    ops = tuple(tiling.ops[i] for i in order)
    lifetimes = find_lifetimes(ops)
    joined = uses.joined
    rows = {each.buffer: places[joined.get(each.buffer, each.buffer)] for each in lifetimes}
    return Schedule(ops, lifetimes, joined, rows, tiling.first_row, lead)


def schedule_commands(
    tiling: Tiling, config: Config, *, lead: int
) -> tuple[tuple[Command, ...], tuple[int, ...]] | Shortage:
    """Order the commands of a network and give them the rows found while scheduling.

    For searches that try many tilings: :func:`schedule` and
    :func:`tpulite.compiler.schedule.schedule.encode` in one, without lifetimes. Parameters are
    those of :func:`schedule`.

    Returns
    -------
    tuple of Command, and tuple of int; or Shortage
        The program without tokens, END last; the layer of each command but END.
    """
    uses = Uses(tiling, config)
    ordered = order_commands(tiling, config, uses, lead)
    if isinstance(ordered, Shortage):
        return ordered
    order, rows, _ = ordered
    for buffer, root in uses.joined.items():
        rows[buffer] = rows[root]
    return encode_ops([tiling.ops[i] for i in order], rows)


def order_commands(
    tiling: Tiling, config: Config, uses: Uses, lead: int
) -> tuple[list[int], dict[Buffer, int], int] | Shortage:
    """Return indices of commands in their final order, rows of all places, and the lead reached.

    Or what finds no place, even if nothing goes ahead.
    """
    if lead < 0:
        raise ValueError(f"lead must be at least 0, not {lead}")
    images = _place_images(tiling, config, uses)
    if uses.bound > config.ub_rows - tiling.first_row:
        lead = 0  # it ends at once, and says what finds no place
    leads, region, last = [lead] * len(tiling.ops), _REGION, -1
    for retries in range(_RETRIES, -1, -1):
        scheduler = ListScheduler(tiling, config, uses, leads, images)
        found = scheduler.run()
        if not isinstance(found, Shortage):
            return *found, max(leads, default=0)
        stop = scheduler.now + 1
        region = region * _WIDER if stop <= last else _REGION
        start, last = max(0, stop - region), stop
        if not any(leads[:stop]):  # nothing has gone ahead
            return found
        if retries == 1:
            start, stop = 0, len(leads)
        leads[start:stop] = [0] * (stop - start)
    raise AssertionError("The last attempt returns")


def _place_images(tiling: Tiling, config: Config, uses: Uses) -> Mapping[Buffer, int]:
    """Return places of images that commands make: nothing moves these to an earlier time."""
    made = [
        each
        for each in uses.lifetimes
        if each.buffer.side is Side.BOTTOM and tiling.ops[each.first].opcode is not Opcode.LOAD
    ]
    if not made:
        return {}
    rows = range(tiling.first_row, config.ub_rows)
    apart = [_apart(each, tiling, uses) for each in made]
    for place, lifetimes in product((place_in_turn, place_longest), (apart, made)):
        found, missing = place(lifetimes, rows, config.ub_banks)
        if missing is None:
            return found
    return {}


def _apart(made: Lifetime, tiling: Tiling, uses: Uses) -> Lifetime:
    """Return the lifetime of an image as if it began with that of what it is made from.

    What the vector path makes must not lie where the matrix unit still reads for the layer before,
    or it would wait for its last command.
    """
    op = tiling.ops[made.first]
    if op.opcode is not Opcode.VECTOR:
        return made
    read = (uses.joined.get(each.buffer, each.buffer) for each in op.rows.values())
    starts = [uses.spans[each][0] for each in read if each in uses.spans]
    starts = [start for start in starts if tiling.ops[start].opcode is Opcode.CONV]
    return replace(made, first=min([made.first, *starts]))


_ZEROS = {opcode: Command.make(opcode).fields for opcode in Opcode}


def encode(
    schedule: Schedule, rows: Mapping[Buffer, int]
) -> tuple[tuple[Command, ...], tuple[int, ...]]:
    """Return the commands of a schedule.

    Parameters
    ----------
    schedule : Schedule
        Commands in their final order.
    rows : mapping of Buffer to int
        First row of every buffer that is not resident.

    Returns
    -------
    commands : tuple of Command
        The program without tokens, END last.
    layers : tuple of int
        Layer of each command but END.
    """
    return encode_ops(schedule.ops, rows)


def encode_ops(
    ops: Sequence[Op], rows: Mapping[Buffer, int]
) -> tuple[tuple[Command, ...], tuple[int, ...]]:
    """Return the commands of ``ops``, which are in their final order; else as :func:`encode`."""
    commands = []
    for op in ops:
        places = {
            name: (rows[region.buffer] if region.buffer.row is None else region.buffer.row)
            + region.row
            for name, region in op.rows.items()
        }
        commands.append(Command(op.opcode, _ZEROS[op.opcode] | addressed(op, places)))
    commands.append(Command.make(Opcode.END))
    return tuple(commands), tuple(op.layer for op in ops)


def addressed(op: Op, places: Mapping[str, int]) -> dict[str, int]:
    """Return the fields of a command whose regions are in these rows.

    The larger one of two activations is a window of two rows, from the first one to the other.
    """
    if op.fields.get("operation") != VectorOp.MAX or "b_row" not in places:
        return {**op.fields, **places}
    first, last = sorted((places["a_row"], places["b_row"]))
    window = {"window_rows": 2, "window_pitch": last - first, "a_row": first}
    window |= dict.fromkeys(("b_row", "b_pitch", "b_step"), 0)
    return {**op.fields, **places, **window}
