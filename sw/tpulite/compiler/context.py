"""What the lowering of a layer needs to know."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.constants import Constant, ConstantPool
from tpulite.compiler.images import Store

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """Surroundings of one layer.

    Parameters
    ----------
    index : int
        Index of the layer.
    name : str
        Its name.
    config : Config
        The machine.
    pool : ConstantPool
        Where constants are kept.
    stores : mapping of str to Store
        Images that the layer reads and writes, by name.
    channels : mapping of str to int
        Their channels, padding not counted.
    strip_rows : int
        Rows of the unified buffer that a strip of an image may take.
    free_rows : int
        Rows that no resident image takes while the layer runs.
    """

    index: int
    name: str
    config: Config
    pool: ConstantPool
    stores: Mapping[str, Store]
    channels: Mapping[str, int]
    strip_rows: int
    free_rows: int

    def constant(self, what: str, data: np.ndarray, *, bank: int | None = None) -> Constant:
        """Keep rows of constants of the layer."""
        rows = np.ascontiguousarray(data).view(np.uint8).reshape(-1, self.config.row_bytes)
        return Constant(f"{what} of {self.name}", rows, self.pool, self.index, bank)
