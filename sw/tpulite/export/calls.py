"""Calls of C functions: what a step of the CPU is in an exported network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class HostCall:
    """A call of a function of ``tpulite_host.h``."""

    function: str  #: The function.
    arguments: str  #: Type of its arguments.
    fields: Mapping[str, object] | int  #: The arguments; or their only value.
    #: Arrays that more of its arguments point to: float32, int32 or uint32.
    pointers: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCall:
    """A call whose arguments are computed when they are needed, for which a library may run."""

    reads: tuple[str, ...]  #: The tensors that it reads, one or two.
    #: Returns the call; ValueError if its tables would not have the bits of the library.
    make: Callable[[], HostCall]
