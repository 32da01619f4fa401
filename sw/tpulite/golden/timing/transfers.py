"""What LOAD and STORE have in common: a command leaves its queue before its tokens are there."""

from tpulite.arch.isa import Engine
from tpulite.arch.timing import DISPATCH, DMA_COMMAND
from tpulite.golden.timing.clockwork import NEVER, Clockwork, Head
from tpulite.golden.timing.record import Record


class TransferHead(Head):
    """A queue whose first command goes to registers as soon as those are free."""

    def __init__(self, machine: Clockwork, engine: Engine) -> None:
        super().__init__(machine, engine)
        self._held = False  # the first command is in the registers
        self.stopped = 0  # end of the last command that has ended

    def earliest(self, offered: int) -> int:
        """Return when a command that is offered in a cycle starts, but for its tokens."""
        return max(offered, self.free) + DMA_COMMAND

    def schedule(self) -> None:
        """Let the first command leave the queue, and find out when it starts."""
        if self.queue and self.free != NEVER and not self._held:
            self._held = True
            offered = self.queue[0][1].dispatch + DISPATCH
            self.machine.popped(self.engine, max(offered, self.free))
        super().schedule()

    def pop(self, time: int) -> tuple[dict[str, int], Record]:
        """Start the first command, and take its tokens."""
        self._held = False
        return super().pop(time)

    def complete(self, record: Record, signal: int, last: int, token: int) -> None:
        """Take note of the last cycle of a command, and give its tokens so many cycles later."""
        stop = last + 1
        if signal:
            stop = last + token
            self.machine.give(self.engine, signal, stop)
        record.count(self.stopped, stop)
        self.stopped = stop
        self.machine.finish = max(self.machine.finish, stop)
