"""docs/zoo.md: the networks of the zoo, and what came out when each was compared."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.frontend.files import load_graph
from tpulite.runtime.comparison import compare_tensors
from tpulite.runtime.device import open_device
from tpulite.runtime.inputs import check_inputs, random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite.zoo_table import ENTRIES, Entry

ORACLE = "litert-ref"
SEED = 2024
_DRAM_BYTES = 1 << 26


@dataclass(frozen=True)
class ZooCheck:
    """What came out when a network was compared."""

    entry: Entry  #: The network.
    #: Multiplications of an input, and those of them that the host computes.
    macs: int
    host_macs: int
    host: tuple[str, ...]  #: Operators of the host.
    #: Elements of all tensors that were compared with the oracle's, and those that differ.
    elements: int
    different: int
    #: Elements of the outputs that the device computed otherwise than the golden model.
    outputs_different: int
    cycles: int | None  #: Cycles of an input, if the device has a clock.


def check_network(
    entry: Entry, path: Path, device: str, count: int, *, tell: Callable[[], object] = lambda: None
) -> ZooCheck:
    """Compare a network with the oracle tensor by tensor, and run it on a device.

    Parameters
    ----------
    device : str
        Where it runs; the outputs are compared with those of the golden model.
    tell : callable
        Called after each input.

    Raises
    ------
    ValueError
        If the network cannot be compiled, or the oracle is not there.
    """
    model = Model.load(path, exact=ORACLE)
    oracle = open_oracle(ORACLE, path, load_graph(path))
    machine = open_device(device, Config(), dram_bytes=_DRAM_BYTES)
    runner = Runner(model, machine)
    inputs, _ = check_inputs(model.graph, random_inputs(model.graph, count, SEED))
    pairs, wrong, cycles = [], 0, None
    for number in range(count):
        values = {name: array[number] for name, array in inputs.items()}
        reference, results = model.reference(values), runner.run(values)
        pairs.append((reference, oracle(values)))
        wrong += sum(
            int(np.count_nonzero(output != reference[name]))
            for name, output in results.outputs.items()
        )
        cycles = results.cycles
        tell()
    names = {name: node.name for node in model.graph.nodes for name in node.outputs}
    differences = compare_tensors(names, pairs)
    host = [operator.operator for operator in model.summary() if operator.where == "host"]
    return ZooCheck(
        entry,
        model.macs,
        model.host_macs,
        tuple(dict.fromkeys(host)),
        sum(difference.elements for difference in differences),
        sum(difference.different for difference in differences),
        wrong,
        None if cycles is None else cycles[0],
    )


def zoo_page(
    checks: Iterable[ZooCheck], refused: Mapping[str, str], device: str, count: int
) -> str:
    """Return docs/zoo.md."""
    lines = [
        "# The zoo",
        "",
        "The zoo contains networks trained by others. `tpulite zoo fetch NAME` downloads them",
        "from PyPI into the cache (`$TPULITE_CACHE`, or `~/.cache/tpulite`); this repository",
        "contains none of them. Their wheels have no samples, so the inputs below are random. This",
        f"page is written by `tpulite zoo page --device {device} --inputs {count} -o docs/zoo.md`.",
        "",
        f"Every tensor of {count} inputs (seed {SEED}) was compared with {ORACLE}, and the outputs",
        f"of the device `{device}` with those of the golden model:",
        "",
        "| name | MACs | on the CPU | elements compared | differ | device differs | cycles |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for check in checks:
        share = check.host_macs / check.macs if check.macs else 0.0
        host = ", ".join(check.host) or "nothing"
        cycles = "" if check.cycles is None else f"{check.cycles:,}"
        lines.append(
            f"| `{check.entry.name}` | {check.macs:,} | {share:.1%} ({host}) | "
            f"{check.elements:,} | {check.different:,} | {check.outputs_different:,} | {cycles} |"
        )
    if refused:
        lines += ["", "These do not run yet:", ""]
        lines += [f"- `{name}`: {reason}" for name, reason in refused.items()]
    for wheel in dict.fromkeys(entry.wheel for entry in ENTRIES):
        lines += [
            "",
            f"From the wheel `{wheel.requirement}` ({wheel.origin}), licence {wheel.licence},",
            f"SHA-256 `{wheel.sha256}`:",
            "",
            "| name | network | input | file in the wheel | SHA-256 |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| `{e.name}` | {e.title} | {e.input} | `{e.member}` | `{e.sha256[:16]}…` |"
            for e in ENTRIES
            if e.wheel == wheel
        ]
    return "\n".join(lines) + "\n"
