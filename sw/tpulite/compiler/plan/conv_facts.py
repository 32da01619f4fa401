"""What plans of convolutions are made from."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.compiler.geometry.axis import Axis1D

__all__ = ["Around", "ConvFacts", "Lying"]


@dataclass(frozen=True, kw_only=True)
class ConvFacts:
    """What is known of a convolution before it is known how its activations lie.

    Parameters
    ----------
    config : Config
        The machine.
    y, x : Axis1D
        Its geometry.
    rows, columns : int
        Of the output, as they are computed.
    runs : tuple of tuple of range
        By n-block, the channel blocks of the input that have weights.
    packed : bool
        Whether the input lies in packed rows, whose columns are bytes.
    vector_rows : int
        Rows of the buffer that an output vector takes.
    """

    config: Config
    y: Axis1D
    x: Axis1D
    rows: int
    columns: int
    runs: tuple[tuple[range, ...], ...]
    packed: bool
    vector_rows: int

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of the kernel."""
        return self.y.kernel, self.x.kernel

    @property
    def weight_rows(self) -> int:
        """Rows of the buffer that all weights take."""
        blocks = sum(len(run) for runs in self.runs for run in runs)
        return blocks * self.y.kernel * self.x.kernel * self.config.array_size

    def read(self, outputs: int, taps: int | None = None) -> int:
        """Return the input rows that output rows read with ``taps`` rows of the kernel, or all."""
        taps = self.y.kernel if taps is None else taps
        reach = (taps - 1) * self.y.dilation + 1
        return min((outputs - 1) * self.y.stride + reach, self.y.extent)


@dataclass(frozen=True)
class Lying:
    """How an activation that a layer reads or computes lies.

    Parameters
    ----------
    in_dram : bool
        Whether only some of its rows are in the buffer at a time.
    blocks : int
        Channel blocks.
    row : int
        Rows of the buffer that a row of one of them takes.
    grain : int
        Rows begin at beats in DRAM at multiples of it; 1 if it never goes there.
    """

    in_dram: bool
    blocks: int
    row: int
    grain: int


@dataclass(frozen=True, kw_only=True)
class Around:
    """What a layer finds around it.

    Parameters
    ----------
    source, target : Lying
        Its input and its output.
    strip_rows : int
        Rows of the buffer that a strip may take.
    free_rows : int
        Rows that nothing resident takes; less while smaller parts are tried.
    most_rows : int
        The same while nothing smaller is tried.
    keep : bool, optional
        In a group, whether weights stay from slice to slice. Alone, the plan decides.
    block_start : bool
        Whether the next layer may start on complete parts of the output.
    """

    source: Lying
    target: Lying
    strip_rows: int
    free_rows: int
    most_rows: int
    keep: bool | None = None
    block_start: bool = True
