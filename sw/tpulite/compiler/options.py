"""What users may ask of the compiler."""

from dataclasses import dataclass, replace

from tpulite.arch.memory import MemoryTiming
from tpulite.memories import named_memory

GOALS = ("latency", "memory")
"""``latency`` takes the fewest cycles; ``memory`` the fewest bytes of DRAM traffic, then cycles."""

ALLOCATORS = ("online", "longest")
"""How addresses are found: in program order; or long-lived buffers first, then large ones."""

GROUPINGS = ("cost", "document")
"""How groups are chosen: ``cost`` takes the cheapest by predicted cycles; ``document`` grows them
from the last layer, as TPU-MLIR once did (:mod:`tpulite.compiler.document_groups`)."""

ORDERS = ("fast", "document", "panels")
"""Orders of products: ``fast`` is chosen; ``document`` takes all n-blocks for one block of input
channels after another, each with accumulators of its own; ``panels`` completes a block of as many
output vectors and channels as the array has columns before the next one, the input channels
innermost."""

SWITCHES = (
    "simplify",
    "grouping",
    "rolling",
    "prefetch",
    "block_start",
    "interleaved",
    "dense_mode",
)
"""Options that turn off a mechanism, which may be part of a pass or of several."""

LEAST_EFFORT = 500
"""A search with less effort finds nothing."""


@dataclass(frozen=True)
class Options:
    """Choices of a compilation. The results of a program are the same bits with all of them.

    Parameters
    ----------
    optimize : str
        One of :data:`GOALS`.
    batch : int
        Images of a run.
    simplify : bool
        Whether channels and pixels that no result needs, and tables that change nothing, are
        removed first, and chains of functions of one activation become one table.
    grouping : bool
        Whether layers may run together, slice by slice, so that images between them stay on chip.
    groups : str
        One of :data:`GROUPINGS`. ``document`` goes with allocator ``longest``.
    rolling : bool
        Whether the rows that slices share may be kept instead of computed again.
    halo_guard : bool
        Whether to refuse cuts whose slices repeat more than half of an image's rows.
    prefetch : bool
        Whether loads may go ahead of the commands before their first use.
    block_start : bool
        Whether a layer may start on those parts of an image that are complete.
    interleaved : bool
        Whether depthwise convolutions stream several image rows interleaved.
    dense_mode : bool
        Whether inputs of few channels may lie in DRAM in packed rows, or as patches of pixels.
    allocator : str
        One of :data:`ALLOCATORS`.
    moves : int
        Random changes of the groups that are tried after dynamic programming.
    seed : int
        Seed of these changes: equal seeds give equal programs.
    effort : int
        Commands that a search for better plans may estimate in a network of one or two layers; of
        more layers it is less by the square of their number. Half of it is for better groups of
        programs that are an eighth of it, or smaller. Parts of a network share it.
    order : str
        One of :data:`ORDERS`: of products of layers that see pixels only.
    without : tuple of str
        Passes that are left out, by their names in :data:`tpulite.compiler.passes.WITHOUT`. The
        name of a mechanism sets its option instead: ``grouping`` here is ``grouping=False``.
    memory : str
        The DRAM that plans are for, as :func:`tpulite.memories.named_memory` reads it.
    resident : bool
        Whether weights and records stay on chip from run to run: then there are two programs, see
        :func:`tpulite.compiler.pipeline.compile_pair`.

    Raises
    ------
    ValueError
        If a choice does not exist, or contradicts another one.
    """

    optimize: str = "latency"
    batch: int = 1
    simplify: bool = True
    grouping: bool = True
    groups: str = "cost"
    rolling: bool = True
    halo_guard: bool = False
    prefetch: bool = True
    block_start: bool = True
    interleaved: bool = True
    dense_mode: bool = True
    allocator: str = "online"
    moves: int = 32
    seed: int = 0
    effort: int = 9_000
    order: str = "fast"
    without: tuple[str, ...] = ()
    resident: bool = False
    memory: str = "reference"

    @property
    def timing(self) -> MemoryTiming:
        """The DRAM that plans are for."""
        return named_memory(self.memory)

    def __post_init__(self) -> None:
        passes = []
        for name in sorted(set(self.without)):
            if (switch := name.replace("-", "_")) in SWITCHES:
                object.__setattr__(self, switch, False)
            else:
                passes.append(name)
        object.__setattr__(self, "without", tuple(passes))
        for name, value, choices in (
            ("optimize", self.optimize, GOALS),
            ("groups", self.groups, GROUPINGS),
            ("allocator", self.allocator, ALLOCATORS),
            ("order", self.order, ORDERS),
        ):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        named_memory(self.memory)
        for name, value, least in (
            ("batch", self.batch, 1),
            ("moves", self.moves, 0),
            ("effort", self.effort, 0),
        ):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if self.halo_guard and not self.grouping:
            raise ValueError("halo_guard has no meaning without grouping")
        if self.groups == "document":
            if not self.grouping:
                raise ValueError("groups='document' has no meaning without grouping")
            if self.halo_guard:
                raise ValueError("groups='document' implies halo_guard: leave halo_guard out")
            if self.allocator != "longest":
                raise ValueError(
                    f"groups='document' needs allocator='longest', not {self.allocator!r}"
                )

    @property
    def ungrouped(self) -> "Options":
        """The same choices for layers that run one after the other."""
        return replace(self, grouping=False, groups="cost", halo_guard=False)
