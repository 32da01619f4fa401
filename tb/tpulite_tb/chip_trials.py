"""Runs of benches of the whole chip that its mutants meet."""

import importlib
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tpulite.arch.memory import ADDRESS_BITS, WindowBinding
from tpulite.arch.registers import Fault
from tpulite.runtime.device import Job
from tpulite_tb.fault_cases import CASES, END, load, store
from tpulite_tb.machines import SMALL
from tpulite_tb.placed import DRAM_BYTES, NETWORKS, placed
from tpulite_tb.random_check import check, check_traces, memory_options
from tpulite_tb.random_program import RandomProgram
from tpulite_tb.resets import cut_off
from tpulite_verilated.rtl_device import RtlDevice

__all__ = ["Trial", "trials"]

_SYSTEM = Path(__file__).resolve().parents[1] / "system"
"""Folder of the benches of the whole chip."""

_CUT_OFF = (0, 2, 5, 6, 7, 9, 10, 11)
"""Runs that are cut off, but for the digits' CNN, which takes ten times as long."""

Trial = Callable[[], object]
"""Raises what a bench raises that fails, or returns what must be the same in each run."""


def trials(programs: int) -> Mapping[str, Trial]:
    """Return what each mutant must pass, by name: what finds most comes first."""
    sys.path.append(str(_SYSTEM))
    faults, turns = (importlib.import_module(name) for name in ("test_faults", "test_turns"))
    small = [name for name, case in CASES.items() if case.config == SMALL]
    networks = [name for name in NETWORKS if name != "cnn"]
    return (
        {f"program {seed}": partial(_program, seed) for seed in range(programs)}
        | {f"network {name}": partial(_network, name) for name in networks}
        | {f"cut off {seed}": partial(cut_off, seed) for seed in _CUT_OFF}
        | {f"fault {name}": partial(faults.test_faults_on_the_device, name, 0.0) for name in small}
        | {
            f"stopped after {cycles}": partial(faults.test_host_stops_the_chip, cycles)
            for cycles in (1, 60, 180)
        }
        | {
            f"mute, {waiting}": partial(
                faults.test_memory_that_never_answers_is_reported, waiting, 2
            )
            for waiting in faults.WAITING
        }
        | {f"address {seed}": partial(_far_address, seed) for seed in range(24)}
        | {"first row": faults.test_an_output_that_begins_at_the_first_row_is_no_fault}
        | {"turns": turns.test_a_store_has_its_turns_beside_a_stream}
    )


def _program(seed: int) -> None:
    program = RandomProgram(seed, SMALL)
    device = RtlDevice(SMALL, seed=seed, trace=True, **memory_options(program))
    check(program, device, device.set_errors)
    check_traces(program, device.traces)


def _network(name: str) -> object:
    """Run a network and return its traces."""
    network, device = placed(name), RtlDevice(SMALL, dram_bytes=DRAM_BYTES, trace=True)
    network.place(device)
    assert device.run(network.job).fault is None
    assert network.is_right(device) and not network.strayed(device)
    return [
        (x.index.tobytes(), x.start.tobytes(), x.stop.tobytes(), x.cycles.tobytes())
        for x in device.traces.values()
    ]


def _far_address(seed: int) -> None:
    """Fetch, load or store where there is no memory: the report has every bit of the address."""
    rng = random.Random(seed)
    code = (Fault.FETCH, Fault.READ, Fault.WRITE)[seed % 3]
    far = rng.getrandbits(ADDRESS_BITS - 12) << 12 | 1 << (ADDRESS_BITS - 1 - seed)
    far &= -4096
    device = RtlDevice(SMALL, dram_bytes=DRAM_BYTES)
    windows = (WindowBinding(far, 1 << 12, read=True, write=True),) + (WindowBinding(),) * 3
    words = [(store if code == Fault.WRITE else load)(window=0), END]
    device.write(0, b"".join(word.encode() for word in words))
    start = far if code == Fault.FETCH else 0
    report = device.run(Job(start, len(words), windows, watchdog=2_000)).fault
    assert report is not None and (report.code, report.address) == (code, far)
