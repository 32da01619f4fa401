"""The names of all workloads."""

import re
from functools import partial

from tpulite.bench.dense import run_gemm, run_mlp
from tpulite.bench.layers import run_conv, run_depthwise
from tpulite.bench.models import NETWORKS, run_architecture, run_model
from tpulite.bench.workload import Run
from tpulite.models.architectures import ARCHITECTURES

__all__ = ["WORKLOADS", "parse_workload"]

_GEMMS = (
    (1, 16, 16),
    (1, 256, 256),
    (16, 16, 16),
    (16, 256, 256),
    (32, 32, 32),
    (64, 64, 64),
    (100, 100, 100),
    (128, 128, 128),
    (128, 256, 256),
    (256, 256, 256),
    (512, 512, 512),
)

_NUMBER = r"([1-9]\d*)"
_PATTERNS: dict[str, partial] = {
    f"gemm_{_NUMBER}x{_NUMBER}x{_NUMBER}": partial(run_gemm),
    f"conv3x3_{_NUMBER}x{_NUMBER}x{_NUMBER}_to_{_NUMBER}": partial(run_conv),
    f"dwconv3x3_{_NUMBER}x{_NUMBER}x{_NUMBER}_x{_NUMBER}": partial(run_depthwise),
}

WORKLOADS = (
    *(f"gemm_{m}x{k}x{n}" for m, k, n in _GEMMS),
    *(f"mlp_b16_{variant}" for variant in ("cold", "warm", "stream")),
    "conv3x3_32x32x3_to_16",
    "conv3x3_32x32x32_to_32",
    "conv3x3_7x7x64_to_64",
    "dwconv3x3_56x56x16_x8",
    *NETWORKS,
)
"""Names of the workloads that run by default. Other extents of products and convolutions are
workloads, too, and so are the large networks of :mod:`tpulite.models.architectures`, which take
minutes."""


def parse_workload(name: str) -> Run:
    """Return how a workload runs.

    Raises
    ------
    ValueError
        If there is no such workload.
    """
    for pattern, run in _PATTERNS.items():
        if match := re.fullmatch(pattern, name):
            extents = tuple(map(int, match.groups()))
            return lambda device: run(device, *extents)
    if name in ARCHITECTURES:
        return lambda device: run_architecture(device, name)
    if name not in WORKLOADS:
        names = (*WORKLOADS, *ARCHITECTURES)
        known = ", ".join(name for name in names if not re.search(r"\dx\d", name))
        raise ValueError(
            f"Workload must be gemm_MxKxN, conv3x3_HxWxC_to_N, dwconv3x3_HxWxC_xCOUNT or one of "
            f"{known}, not {name!r}"
        )
    if name in NETWORKS:
        return lambda device: run_model(device, name)
    return lambda device: run_mlp(device, name.removeprefix("mlp_b16_"))
