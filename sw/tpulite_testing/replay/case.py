"""A case of the corpus: a name, and how its programs are made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.configs import named_config
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program
from tpulite_testing.kept import kept_program

__all__ = ["VARIANTS", "Case", "Variant", "from_layers"]


@dataclass(frozen=True)
class Case:
    """Something that is compiled."""

    #: Its name, ``FAMILY/WHAT`` or ``FAMILY/WHAT VARIANT``; it never gets another meaning.
    name: str
    #: Compiles it by the road that users take; tests keep what this very compiler made.
    compile: Callable[[], tuple[Program, ...]]
    quick: bool = False  #: Whether it belongs to the part that is compared all the time.

    @property
    def family(self) -> str:
        """The first part of its name."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Variant:
    """A machine and options."""

    config: Config
    options: Options


def _variant(config: str = "16x16", **options: str | int | bool) -> Variant:
    return Variant(named_config(config), Options(**options))  # type: ignore[arg-type]


VARIANTS = {
    "": _variant(),
    "4x4": _variant("4x4"),
    "8x8": _variant("8x8"),
    "32x32": _variant("32x32"),
    "lanes=2": _variant("16x16,requant_lanes=2,vector_lanes=1"),
    "ub_rows=4096": _variant("16x16,ub_rows=4096"),
    "ub_rows=1024": _variant("16x16,ub_rows=1024"),
    "ub_rows=256": _variant("16x16,ub_rows=256"),
    "acc_rows=64": _variant("16x16,acc_rows=64"),
    "memory": _variant(optimize="memory"),
    "batch=3": _variant(batch=3),
    "batch=16": _variant(batch=16),
    "no-grouping": _variant(grouping=False),
    "no-rolling": _variant(rolling=False),
    "halo-guard": _variant(halo_guard=True),
    "no-prefetch": _variant(prefetch=False),
    "no-block-start": _variant(block_start=False),
    "no-interleaved": _variant(interleaved=False),
    "no-dense-mode": _variant(dense_mode=False),
    "longest": _variant(allocator="longest"),
    "moves=0": _variant(moves=0),
}
"""Machines and options by name; the first is what users get who ask for nothing."""


def from_layers(
    make: Callable[[], LayerGraph], config: Config, options: Options
) -> Callable[[], tuple[Program, ...]]:
    """Return how integer layers are compiled."""
    return partial(_compile, make, config, options)


def _compile(
    make: Callable[[], LayerGraph], config: Config, options: Options
) -> tuple[Program, ...]:
    return (kept_program(make(), config, options),)
