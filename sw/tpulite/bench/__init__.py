"""Benchmarks: known workloads on a device, each result compared with the exact one."""

from tpulite.bench.record import Record
from tpulite.bench.run import run_workloads
from tpulite.bench.workloads import WORKLOADS, parse_workload

__all__ = ["WORKLOADS", "Record", "parse_workload", "run_workloads"]
