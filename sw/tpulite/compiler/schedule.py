"""Scheduling: put loads ahead of their use, and give every buffer a place."""

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.compiler.allocate import Allocator, DoesNotFitError
from tpulite.compiler.ops import Buffer, Op, Tiling

__all__ = ["schedule_commands"]

_ZEROS = {opcode: Command.make(opcode).fields for opcode in Opcode}


def schedule_commands(
    tiling: Tiling, config: Config, *, lead: int
) -> tuple[tuple[Command, ...], tuple[int, ...]]:
    """Order the commands of a network and place their buffers.

    Products and stores keep their order, and so do loads. But loads may go ahead of products, if
    their buffers have a place at once. Dispatch is in order, so the queue of loads must be able to
    take them; and commands are fetched while data are loaded, so the first products should come
    early in the program.

    Parameters
    ----------
    tiling : Tiling
        Commands in an order in which they could run one after the other.
    config : Config
        The machine.
    lead : int
        Loads that go ahead of a product, beyond those that it needs.

    Returns
    -------
    commands : tuple of Command
        The program without tokens, END last.
    layers : tuple of int
        Layer of each command but END.

    Raises
    ------
    DoesNotFitError
        If the unified buffer is too small for this tiling.
    """
    try:
        scheduler = _Scheduler(tiling, config, lead)
        scheduler.run()
    except DoesNotFitError:
        # Loads that went ahead may have taken places in which nothing else fits.
        scheduler = _Scheduler(tiling, config, 0)
        scheduler.run()
    return (*scheduler.commands, Command.make(Opcode.END)), tuple(scheduler.layers)


class _Scheduler:
    def __init__(self, tiling: Tiling, config: Config, lead: int) -> None:
        self._ops = ops = tiling.ops
        self._lead = lead
        self._allocator = Allocator(tiling.first_row, config.ub_rows, config.ub_banks)
        self._loads = [i for i, op in enumerate(ops) if op.opcode == Opcode.LOAD]
        self._emitted_loads = 0
        self._last_use = {
            region.buffer: i
            for i, op in enumerate(ops)
            for region in op.rows.values()
            if region.buffer.row is None
        }
        self.commands: list[Command] = []
        self.layers: list[int] = []

    def run(self) -> None:
        needed = 0
        for i, op in enumerate(self._ops):
            if op.opcode == Opcode.LOAD:
                needed += 1
                continue
            while self._emitted_loads < needed:
                self._emit_load(must=True)
            while self._emitted_loads < min(needed + self._lead, len(self._loads)):
                if self._blocked(i) or not self._emit_load(must=False):
                    break
            self._place(op, must=True)
            self._emit(op)
            for buffer in {region.buffer: None for region in op.rows.values()}:
                if self._last_use.get(buffer) == i:
                    self._allocator.free(buffer)

    def _blocked(self, position: int) -> bool:
        """Whether the next load depends on stores that come at ``position`` or later."""
        index = self._loads[self._emitted_loads]
        return self._ops[index].barrier and index > position

    def _emit_load(self, *, must: bool) -> bool:
        op = self._ops[self._loads[self._emitted_loads]]
        if not self._place(op, must=must):
            return False
        self._emit(op)
        self._emitted_loads += 1
        return True

    def _place(self, op: Op, *, must: bool) -> bool:
        """Give every buffer of a command a place; return whether that was possible."""
        for buffer in (*op.reserve, *(region.buffer for region in op.rows.values())):
            if buffer.row is not None or buffer in self._allocator:
                continue
            if not self._allocator.allocate(buffer):
                if must:
                    raise DoesNotFitError(buffer)
                return False
        return True

    def _emit(self, op: Op) -> None:
        rows = {name: self._row(region.buffer) + region.row for name, region in op.rows.items()}
        self.commands.append(Command(op.opcode, {**_ZEROS[op.opcode], **op.fields, **rows}))
        self.layers.append(op.layer)

    def _row(self, buffer: Buffer) -> int:
        return self._allocator.row(buffer) if buffer.row is None else buffer.row
