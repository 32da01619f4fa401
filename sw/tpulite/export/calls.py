"""Calls of C functions: what a step of the CPU is in an exported network."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

__all__ = ["HostCall"]


@dataclass(frozen=True)
class HostCall:
    """A call of a function of ``tpulite_host.h``.

    Parameters
    ----------
    function : str
        The function.
    arguments : str
        Type of its arguments.
    fields : mapping of str to value
        The arguments; or their only value.
    pointers : mapping of str to ndarray
        Arrays that more of its arguments point to: float32 or uint32.
    reads : tuple of str
        The tensors that it reads, if these are not the first input of its node.
    """

    function: str
    arguments: str
    fields: Mapping[str, object] | int
    pointers: Mapping[str, np.ndarray] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
