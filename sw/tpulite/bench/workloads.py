"""The names of all workloads."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from tpulite.bench.dense import make_gemm, make_mlp
from tpulite.bench.files import FILES, LARGE_FILES, make_affine, make_file
from tpulite.bench.layers import make_conv, make_depthwise
from tpulite.bench.models import ARCHITECTURES, NETWORKS, make_architecture, make_model
from tpulite.bench.workload import MakeNetwork, MakeWorkload, Outcome, Run
from tpulite.runtime.device import Device

__all__ = ["EVERY", "LARGE", "WORKLOADS", "find_workload", "parse_network", "parse_workload"]

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
_GEMM = f"gemm_{_NUMBER}x{_NUMBER}x{_NUMBER}"
_MLPS = tuple(f"mlp_b16_{variant}" for variant in ("cold", "warm", "stream"))
_LAYERS: dict[str, Callable[..., Any]] = {
    f"conv3x3_{_NUMBER}x{_NUMBER}x{_NUMBER}_to_{_NUMBER}": make_conv,
    f"dwconv3x3_{_NUMBER}x{_NUMBER}x{_NUMBER}_x{_NUMBER}": make_depthwise,
    f"affine_{_NUMBER}x{_NUMBER}x{_NUMBER}": make_affine,
}

WORKLOADS = (
    *(f"gemm_{m}x{k}x{n}" for m, k, n in _GEMMS),
    *_MLPS,
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


def parse_workload(name: str) -> Run:
    """Return how a workload runs.

    Raises
    ------
    ValueError
        If there is no such workload.
    """
    make = find_workload(name)

    def run(device: Device) -> Outcome:
        workload = make(device.config)
        return workload.run(workload.compile(), device)

    return run


def parse_network(name: str) -> MakeNetwork:
    """Return how a workload is made whose compiler has choices.

    Raises
    ------
    ValueError
        If there is no such workload, or it is a chain of dense layers.
    """
    network = _find_network(name)
    if network is None:
        raise ValueError(f"Network must be one of {_network_names()}, not {name!r}")
    return network


def find_workload(name: str) -> MakeWorkload:
    """Return how a workload is made.

    Raises
    ------
    ValueError
        If there is no such workload.
    """
    if match := re.fullmatch(_GEMM, name):
        m, k, n = map(int, match.groups())
        return partial(make_gemm, m=m, k=k, n=n)
    if name in _MLPS:
        return partial(make_mlp, variant=name.removeprefix("mlp_b16_"))
    network = _find_network(name)
    if network is None:
        named = ", ".join(_MLPS)
        raise ValueError(
            f"Workload must be gemm_MxKxN, {named} or a network: {_network_names()}, not {name!r}"
        )
    return network


def _find_network(name: str) -> MakeNetwork | None:
    for pattern, make in _LAYERS.items():
        if match := re.fullmatch(pattern, name):
            extents = tuple(map(int, match.groups()))
            return lambda config: make(config, *extents)
    if name in NETWORKS:
        return partial(make_model, name=name)
    if name in FILES:
        return partial(make_file, name=name)
    if name in ARCHITECTURES:
        return partial(make_architecture, name=name)
    return None


def _network_names() -> str:
    layers = ("conv3x3_HxWxC_to_N", "dwconv3x3_HxWxC_xCOUNT", "affine_HxWxC")
    return ", ".join((*layers, *FILES, *NETWORKS, *ARCHITECTURES))
