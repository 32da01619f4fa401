"""What models do at each rising edge of a clock, and quick looks at ports.

A task that waits for each edge costs ten times what a call does, and a value of cocotb five times
what its bits do: a bench has a dozen models and reads twice as many ports in each cycle.
"""

from collections.abc import Callable

import cocotb
from cocotb.task import Task
from cocotb.triggers import RisingEdge

__all__ = ["at_each_edge", "reader"]

Step = Callable[[], None]

_running: dict[object, tuple[Task, list[Step]]] = {}
"""The task of each clock, and what it calls."""


def at_each_edge(clock, step: Step) -> None:
    """Call a function at each rising edge of a clock from the next one until the test ends.

    Functions of one clock are called one after the other, in the order of these calls; an exception
    of one of them fails the test.
    """
    task, steps = _running.get(clock, (None, []))
    if task is None or task.done():
        steps = []
        _running[clock] = cocotb.start_soon(_call(clock, steps)), steps
    steps.append(step)


def reader(port) -> Callable[[], int]:
    """Return a function that reads a port: its bits as an unsigned integer.

    Like ``int(port.value)`` it raises ValueError while a bit is neither 0 nor 1.
    """
    read = port._handle.get_signal_val_binstr
    return lambda: int(read(), 2)


async def _call(clock, steps: list[Step]) -> None:
    edge = RisingEdge(clock)
    while True:
        await edge
        for step in steps:
            step()
