"""What the machine of 16 x 16 multipliers must reach, and what it is compared with."""

from dataclasses import dataclass

from tpulite.bench.run import Record
from tpulite.memories import REFERENCE

GOALS = {
    "gemm_1x16x16": 212,
    "gemm_1x256x256": 4_642,
    "gemm_16x16x16": 247,
    "gemm_16x256x256": 4_854,
    "gemm_32x32x32": 396,
    "gemm_64x64x64": 1_300,
    "gemm_100x100x100": 5_175,
    "gemm_128x128x128": 8_442,
    "gemm_128x256x256": 33_018,
    "gemm_256x256x256": 65_886,
    "gemm_512x512x512": 524_566,
    "mlp_b16_cold": 1_811,
    "mlp_b16_warm": 1_445,
    "mlp_b16_stream": 1_202,  # plans are judged by the timeline, of which fewer are seen: 19,222
    "conv3x3_32x32x3_to_16": 3_733,
    "conv3x3_32x32x32_to_32": 38_298,
    "conv3x3_7x7x64_to_64": 7_784,
    "dwconv3x3_56x56x16_x8": 31_800,
    "dense_b64_64_to_64": 1_290,
    "dense_b256_256_to_256": 66_200,
    "mlp_b16_file": 1_815,
    "mlp_b1_file_x16": 1_830,
    "sigmoid_56x56x48": 11_100,
    "add_56x56x48": 19_900,
    "batch_norm_56x40x64": 10_800,
    "affine_56x40x64": 10_800,
    "cnn": 2_966,
    "resnet8": 51_492,
    "kws": 13_800,
    "vww": 34_500,
    "ad": 18_171,
    "fingerprint": 59_400,
    "patches16_224x224x3_to_192": 130_000,
    "mobilenet_v2_uint8": 1_640_000,
    "mobilenet_v2_1.0_224": 1_625_487,
    "resnet50_224": 15_500_000,
}
"""Cycles, at most, by workload; of a batch where there are several."""

COMPILE_SECONDS = {"resnet8": 0.05, "mobilenet_v2_1.0_224": 0.85, "resnet50_224": 2.5}
"""Seconds that compiling may take, by workload, on a machine that does nothing else."""

COMPILE_BYTES = 300_000_000
"""Memory that compiling may take."""

_ARRAY_SIZE = 16


@dataclass(frozen=True)
class Standing:
    """A workload beside its target and the best other machine."""

    cycles: float  #: Cycles, of a batch if there are several.
    limit: int  #: Cycles that the multipliers need, of a batch if there are several.
    goal: int  #: Cycles that it may take.
    #: The machine that takes the fewest cycles of those with as many multipliers; empty if no
    #: figure of any is known.
    peer: str = ""
    peer_conditions: str = ""  #: Under which conditions.
    peer_cycles: int | None = None  #: Its cycles.

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.cycles <= self.goal


def standing(record: Record) -> Standing | None:
    """Compare a record with its target; None if it has none, or was made without a clock.

    Targets are for machines with 256 multipliers and the reference memory.
    """
    goal = GOALS.get(record.workload)
    alike = record.array_size == _ARRAY_SIZE and record.memory == REFERENCE
    if goal is None or record.cycles is None or not alike:
        return None
    cycles = record.cycles_per_batch or record.cycles
    batches = round(record.cycles / cycles)
    peers = [peer for peer in record.peers if peer["mac_per_cycle"] == _ARRAY_SIZE**2]
    limit = record.limit_cycles // batches
    if not peers:
        return Standing(cycles, limit, goal)
    best = min(peers, key=lambda peer: peer["cycles"])
    return Standing(cycles, limit, goal, best["peer"], best["conditions"], best["cycles"])
