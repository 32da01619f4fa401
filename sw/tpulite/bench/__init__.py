"""Benchmarks: known workloads on a device, each result compared with the exact one."""

from tpulite.bench.ablation import ABLATED, MECHANISMS, Ablation, run_ablation
from tpulite.bench.compile_time import COMPILED, Compilation, run_compilations
from tpulite.bench.measured import (
    NetworkRecord,
    OperatorRecord,
    find_networks,
    find_operators,
    measure_network,
    measure_operator,
)
from tpulite.bench.model_device import ModelDevice
from tpulite.bench.run import Record, run_workloads
from tpulite.bench.workloads import EVERY, LARGE, WORKLOADS, find_workload, parse_workload

__all__ = [
    "ABLATED",
    "COMPILED",
    "EVERY",
    "LARGE",
    "MECHANISMS",
    "WORKLOADS",
    "Ablation",
    "Compilation",
    "ModelDevice",
    "NetworkRecord",
    "OperatorRecord",
    "Record",
    "find_networks",
    "find_operators",
    "find_workload",
    "measure_network",
    "measure_operator",
    "parse_workload",
    "run_ablation",
    "run_compilations",
    "run_workloads",
]
