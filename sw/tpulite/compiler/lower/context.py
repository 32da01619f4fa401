"""What the lowering of a layer needs to know."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.ops import Side
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import Constant, ConstantPool
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.space import Space


@dataclass(frozen=True)
class LayerContext:
    """Surroundings of one layer."""

    index: int  #: Index of the layer.
    name: str  #: Its name.
    config: Config  #: The machine.
    pool: ConstantPool  #: Where constants are kept.
    stores: Mapping[str, Store]  #: Images that the layer reads and writes, by name.
    channels: Mapping[str, int]  #: Their channels, padding not counted.
    strip_rows: int  #: Rows of the unified buffer that a strip of an image may take.
    free_rows: int  #: Rows that no resident image takes while the layer runs.
    options: Options  #: Choices of the compilation.
    #: Part of their usual size that strips may have; ``strip_rows`` and ``free_rows`` are so much
    #: smaller than they would be.
    share: float = 1.0
    #: Whether constants stay from slice to slice; without a group, the layer decides.
    keep: bool | None = None
    fleeting: bool = False  #: Whether constants do not stay at all: each command loads its own.
    #: Constants of the group by what they are: images of a batch, and columns of an image, share
    #: them.
    constants: dict[tuple[object, ...], Constant] = field(default_factory=dict)

    @property
    def space(self) -> Space:
        """What plans know of the room that the layer has."""
        return Space(
            self.config,
            self.strip_rows,
            self.free_rows,
            self.share,
            self.keep,
            self.fleeting,
            self.options.block_start,
            self.options.interleaved,
            self.options.prefetch,
        )

    def constant(self, what: str, data: np.ndarray, *, bank: int | None = None) -> Constant:
        """Keep rows of constants of the layer."""
        rows = np.ascontiguousarray(data).view(np.uint8).reshape(-1, self.config.row_bytes)
        # What stays for many slices lies with what lives long.
        side = Side.BOTTOM if self.keep else Side.TOP
        name, stays = f"{what} of {self.name}", not self.fleeting
        made = Constant(name, rows, self.pool, self.index, bank, side, stays=stays)
        return self.constants.setdefault((self.index, bank, made.rows, made.offset), made)
