"""What the machine of 16 x 16 multipliers must reach, and what it is compared with."""

from dataclasses import dataclass

from tpulite.bench.record import Record

__all__ = ["COMPILE_BYTES", "COMPILE_SECONDS", "GOALS", "Standing", "standing"]

GOALS = {
    "gemm_64x64x64": 1_450,
    "mlp_b16_cold": 1_900,
    "mlp_b16_warm": 1_480,
    "mlp_b16_stream": 1_240,
    "resnet8": 55_000,
    "kws": 18_000,
    "vww": 58_000,
    "ad": 19_200,
    "mobilenet_v2_1.0_224": 1_800_000,
    "resnet50_224": 16_900_000,
}
"""Cycles, at most, by workload; of a batch where there are several."""

COMPILE_SECONDS = {"resnet8": 1.0, "mobilenet_v2_1.0_224": 3.0, "resnet50_224": 5.0}
"""Seconds that compiling may take, by workload."""

COMPILE_BYTES = 10**9
"""Memory that compiling may take."""

_ARRAY_SIZE = 16


@dataclass(frozen=True)
class Standing:
    """A workload beside its target and the best other machine.

    Parameters
    ----------
    cycles : float
        Cycles, of a batch if there are several.
    limit : int
        Cycles that the multipliers need, of a batch if there are several.
    goal : int
        Cycles that it may take.
    peer : str
        The machine that takes the fewest cycles of those with as many multipliers.
    peer_conditions : str
        Under which conditions.
    peer_cycles : int
        Its cycles.
    """

    cycles: float
    limit: int
    goal: int
    peer: str
    peer_conditions: str
    peer_cycles: int

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.cycles <= self.goal


def standing(record: Record) -> Standing | None:
    """Compare a record with its target; None if it has none, or was made without a clock.

    Targets and the other machines' figures are for machines with 256 multipliers.
    """
    goal = GOALS.get(record.workload)
    if goal is None or record.cycles is None or record.array_size != _ARRAY_SIZE:
        return None
    cycles = record.cycles_per_batch or record.cycles
    batches = round(record.cycles / cycles)
    peers = [peer for peer in record.peers if peer["mac_per_cycle"] == _ARRAY_SIZE**2]
    best = min(peers, key=lambda peer: peer["cycles"])
    limit = record.limit_cycles // batches
    return Standing(cycles, limit, goal, best["peer"], best["conditions"], best["cycles"])
