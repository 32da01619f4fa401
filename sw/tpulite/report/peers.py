"""Figures of other machines with as many multipliers.

They lie in ``peers.csv``: published ones with their source, the others measured with the tools of
the machine itself, under the conditions that each row names.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """One figure of one machine."""

    #: What ran, and where.
    workload: str
    peer: str
    #: Multiplications that the machine can do in a cycle, and the cycles that it took.
    mac_per_cycle: int
    cycles: int
    kind: str  #: ``published``, ``estimate`` by the vendor's compiler, or ``simulated``.
    #: Under which conditions, and who says so.
    conditions: str
    source: str


@cache
def _peers() -> tuple[Peer, ...]:
    with (Path(__file__).parent / "peers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        Peer(
            workload=row["workload"],
            peer=row["peer"],
            mac_per_cycle=int(row["mac_per_cycle"]),
            cycles=int(row["cycles"]),
            kind=row["kind"],
            conditions=row["conditions"],
            source=row["source"],
        )
        for row in rows
    )


def peers_of(workload: str) -> tuple[Peer, ...]:
    """Return the figures for a workload; a variant such as ``mlp_b16_cold`` has those of its base.

    Examples
    --------
    >>> [(peer.peer, peer.cycles) for peer in peers_of("gemm_64x64x64")]
    [('Gemmini 16x16 WS (lean)', 2597)]
    >>> peers_of("mlp_b16_cold") == peers_of("mlp_b16_warm")
    True
    """
    return tuple(
        peer
        for peer in _peers()
        if workload == peer.workload or workload.startswith(f"{peer.workload}_")
    )
