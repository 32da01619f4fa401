"""The account of a run, layer by layer: every cycle is in it once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from rich import box
from rich.table import Table

from tpulite.arch.isa import Engine
from tpulite.arch.registers import EngineState
from tpulite.program import LayerInfo, Program
from tpulite.runtime.results import EngineTrace, Results

__all__ = ["LayerAccount", "account_layers", "layer_table"]


@dataclass(frozen=True)
class LayerAccount:
    """Where the cycles of a layer went, seen from the MXU.

    A layer of the MXU lasts from the end of the one before to the end of its own last command.
    Layers of the vector path run beside them: their work is named, but no cycle is theirs, and
    where the MXU waits for them it is in TOKEN. Cycles before the first command and after the
    last one are accounts of their own, without a shape.

    Parameters
    ----------
    name : str
        The layer; ``start`` and ``end`` are the cycles before the first and after the last one.
    m, k, n : int
        Its extents; 0 if it is none.
    cycles : int
        Its cycles, the sum of the five that follow.
    busy, token, buffer, axi, idle : int
        Cycles in which the MXU worked, waited for tokens, was refused by the unified buffer, waited
        for AXI, or had no command.
    vector : int
        Cycles in which the vector path worked for the layer.
    utilization : float
        Multiplications done, as a part of those possible in ``cycles``.
    """

    name: str
    m: int
    k: int
    n: int
    cycles: int
    busy: int
    token: int
    buffer: int
    axi: int
    idle: int
    vector: int
    utilization: float

    @property
    def macs(self) -> int:
        """Multiplications, padding not counted."""
        return self.m * self.k * self.n

    def as_dict(self) -> dict[str, object]:
        """Return plain values that JSON can hold."""
        return {**asdict(self), "macs": self.macs}


def account_layers(program: Program, results: Results) -> tuple[LayerAccount, ...]:
    """Account for every cycle of a run.

    Parameters
    ----------
    program : Program
        The program.
    results : Results
        What its run gave, with counters and traces.

    Returns
    -------
    tuple of LayerAccount
        The start, all layers in order, the end; their cycles sum to those of the run.

    Raises
    ------
    ValueError
        If the device has no clock or kept no trace.
    """
    if results.cycles is None or Engine.MXU not in results.traces:
        raise ValueError("The account of layers needs a device with a clock that records traces")
    trace = results.traces[Engine.MXU]
    accounts = []
    before = int(trace.start.min()) if len(trace.start) else results.cycles
    accounts.append(_without_shape("start", before))
    macs_per_cycle = program.config.array_size**2
    vectors = results.traces.get(Engine.VPU)
    for layer in program.layers:
        account = _account(layer, trace, vectors, before, macs_per_cycle)
        accounts.append(account)
        before += account.cycles
    accounts.append(_without_shape("end", results.cycles - before))
    return tuple(accounts)


def _account(
    layer: LayerInfo,
    trace: EngineTrace,
    vectors: EngineTrace | None,
    before: int,
    macs_per_cycle: int,
) -> LayerAccount:
    vector = 0
    if vectors is not None:
        worked = np.isin(vectors.index, layer.commands)
        vector = int(vectors.cycles[worked, EngineState.BUSY].sum())
    ours = np.isin(trace.index, layer.commands)
    cycles = int(trace.stop[ours].max()) - before if ours.any() else 0
    busy, token, buffer, axi = (
        int(trace.cycles[ours, state].sum())
        for state in (EngineState.BUSY, EngineState.TOKEN, EngineState.BUFFER, EngineState.AXI)
    )
    return LayerAccount(
        name=layer.name,
        m=layer.m,
        k=layer.k,
        n=layer.n,
        cycles=cycles,
        busy=busy,
        token=token,
        buffer=buffer,
        axi=axi,
        idle=cycles - busy - token - buffer - axi,
        vector=vector,
        utilization=layer.macs / (cycles * macs_per_cycle) if cycles else 0.0,
    )


def _without_shape(name: str, cycles: int) -> LayerAccount:
    return LayerAccount(name, 0, 0, 0, cycles, 0, 0, 0, 0, cycles, 0, 0.0)


def layer_table(accounts: Sequence[LayerAccount], *, title: str | None = None) -> Table:
    """Return the accounts as a table, with their sum.

    Parameters
    ----------
    accounts : sequence of LayerAccount
        Accounts of one run.
    title : str, optional
        Title of the table.
    """
    table = Table(title=title, show_footer=True, box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    cycles = sum(account.cycles for account in accounts)
    done = sum(account.utilization * account.cycles for account in accounts)
    totals = {name: sum(getattr(account, name) for account in accounts) for name in _PARTS}
    # What is zero everywhere takes no place.
    parts = {name: header for name, header in _PARTS.items() if totals[name]}
    table.add_column("layer", footer="total", overflow="ellipsis", no_wrap=True)
    for header, footer in (
        ("MxKxN", ""),
        ("cycles", f"{cycles:,}"),
        ("util", f"{done / cycles:.1%}" if cycles else ""),
        *((header, f"{totals[name]:,}") for name, header in parts.items()),
    ):
        table.add_column(header, footer=footer, justify="right", no_wrap=True)
    for account in accounts:
        layer = account.macs > 0
        table.add_row(
            account.name if len(account.name) <= _NAME else f"{account.name[: _NAME - 1]}…",
            f"{account.m}x{account.k}x{account.n}" if layer else "",
            f"{account.cycles:,}" if account.cycles else "",
            f"{account.utilization:.1%}" if layer else "",
            *(f"{value:,}" if (value := getattr(account, name)) else "" for name in parts),
        )
    return table


_NAME = 20
"""Characters of a layer's name, so that a table fits 80."""

_PARTS = {
    "busy": "busy",
    "token": "token",
    "buffer": "buffer",
    "axi": "AXI",
    "idle": "idle",
    "vector": "vector",
}
"""What the cycles of an account are made of, then the work beside; the headings of its columns."""
