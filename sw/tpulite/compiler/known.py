"""What compilations of one network share, if their machines differ in nothing but speed."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

from tpulite.arch.config import Config

__all__ = ["Known", "unpaced"]

T = TypeVar("T")

_PLAIN = Config()


def unpaced(config: Config) -> Config:
    """Return the machine as all stages see it but the cycle model, which judges what they make.

    Queues, bursts, slices, and how the machine is built are those of the default machine: no layer
    is cut by them, and no buffer is placed.
    """
    return replace(
        config,
        queue_depth=_PLAIN.queue_depth,
        burst_beats=_PLAIN.burst_beats,
        dma_bursts=_PLAIN.dma_bursts,
        multipliers=_PLAIN.multipliers,
        memories=_PLAIN.memories,
        axi_slices=_PLAIN.axi_slices,
        clock_gates=_PLAIN.clock_gates,
    )


class Known:
    """Results of stages, by what they depend on beside network, options and :func:`unpaced`.

    Parameters
    ----------
    config : Config
        One of the machines; others may differ from it in what :func:`unpaced` takes away.

    Attributes
    ----------
    config : Config
        What they have in common.
    """

    def __init__(self, config: Config) -> None:
        self.config = unpaced(config)
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns; it is called once for each key. None changes it later."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
