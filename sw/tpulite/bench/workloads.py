"""The names of all workloads."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from tpulite.bench.files import FILES, LARGE_FILES, make_affine, make_file
from tpulite.bench.layers import make_conv, make_depthwise, make_gemm
from tpulite.bench.models import (
    ARCHITECTURES,
    MLPS,
    NETWORKS,
    make_architecture,
    make_mlp,
    make_model,
)
from tpulite.bench.workload import MakeWorkload, Outcome, Run
from tpulite.compiler.options import Options
from tpulite.memories import REFERENCE
from tpulite.near import no_such
from tpulite.runtime.device import Device

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
_LAYERS: dict[str, Callable[..., Any]] = {
    f"gemm_{_NUMBER}x{_NUMBER}x{_NUMBER}": make_gemm,
    f"conv3x3_{_NUMBER}x{_NUMBER}x{_NUMBER}_to_{_NUMBER}": make_conv,
    f"dwconv3x3_{_NUMBER}x{_NUMBER}x{_NUMBER}_x{_NUMBER}": make_depthwise,
    f"affine_{_NUMBER}x{_NUMBER}x{_NUMBER}": make_affine,
}
_NAMED: dict[str, MakeWorkload] = {
    **{name: partial(make_mlp, name=name) for name in MLPS},
    **{name: partial(make_file, name=name) for name in FILES},
    **{name: partial(make_model, name=name) for name in NETWORKS},
    **{name: partial(make_architecture, name=name) for name in ARCHITECTURES},
}

WORKLOADS = (
    *(f"gemm_{m}x{k}x{n}" for m, k, n in _GEMMS),
    *MLPS,
    "conv3x3_32x32x3_to_16",
    "conv3x3_32x32x32_to_32",
    "conv3x3_7x7x64_to_64",
    "dwconv3x3_56x56x16_x8",
    *(name for name in FILES if name not in LARGE_FILES),
    "affine_56x40x64",
    *NETWORKS,
)
"""Names of the workloads that take seconds. Other extents of products and convolutions are
workloads, too."""

LARGE = (*LARGE_FILES, *ARCHITECTURES)
"""Names of the workloads whose simulation takes minutes."""

EVERY = (*WORKLOADS, *LARGE)
"""Names of the workloads that run by default, those that take minutes included."""


def parse_workload(name: str, *, resident: bool = False, memory: str = REFERENCE) -> Run:
    """Return how a workload runs, with constants that stay on chip or as it is, for a DRAM.

    ValueError if there is no such workload.
    """
    make = find_workload(name)

    def run(device: Device) -> Outcome:
        workload = make(device.config)
        if resident:
            workload = workload.warmed()
        return workload.run(workload.compile(Options(memory=memory)), device)

    return run


def find_workload(name: str) -> MakeWorkload:
    """Return how a workload is made; ValueError if there is no such workload."""
    for pattern, make in _LAYERS.items():
        if match := re.fullmatch(pattern, name):
            extents = tuple(map(int, match.groups()))
            return lambda config: make(config, *extents)
    if name in _NAMED:
        return _NAMED[name]
    layers = ("gemm_MxKxN", "conv3x3_HxWxC_to_N", "dwconv3x3_HxWxC_xCOUNT", "affine_HxWxC")
    raise ValueError(no_such("workload", name, (*layers, *_NAMED)))
