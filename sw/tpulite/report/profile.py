"""Profiles: what each layer of a network costs, and what holds it up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from rich import box
from rich.bar import Bar
from rich.console import Console
from rich.jupyter import JupyterMixin
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tpulite.arch.config import Config
from tpulite.arch.memory import REFERENCE_MEMORY, Window
from tpulite.memories import memory_name
from tpulite.program import Program
from tpulite.quant.partition import HostSegment
from tpulite.report.name_cell import NameCell
from tpulite.report.spending import Activity, Cause, engine_activity, spend_cycles
from tpulite.report.steps import join_steps
from tpulite.report.traced_run import CYCLE_MODEL, TracedRun, trace_runs
from tpulite.report.traffic import Traffic, dram_traffic, memory_uses
from tpulite.runtime.host.libraries import library_name
from tpulite.runtime.model import Model

_BAR = 8
"""Characters of the longest bar."""

_COLORS = {
    Cause.MULTIPLIERS: "green",
    Cause.WEIGHTS: "cyan",
    Cause.DEPTHWISE: "cyan",
    Cause.VECTOR: "magenta",
}
"""Work is green if it fills the array; waiting is yellow."""

_NOTHING = Traffic(dict.fromkeys(Window, 0), dict.fromkeys(Window, 0), 0)


@dataclass(frozen=True)
class LayerProfile:
    """A layer of the machine, or a part of the network that the host computes."""

    #: The layer; ``start`` and ``end`` are the cycles before and after all of them. Of a part of
    #: the host: its operators.
    name: str
    where: str  #: ``machine``, or what computes it on the host.
    #: Its cycles by cause, most first; none if it works only while others do.
    spent: Mapping[Cause, int]
    #: Output vectors, multiplications of an output, channels; 0 if there are none.
    m: int
    k: int
    n: int
    utilization: float  #: Multiplications done, as a part of those possible in its cycles.
    traffic: Traffic  #: What its commands move to and from DRAM.
    nodes: tuple[str, ...] = ()  #: The operators of a part that runs on the CPU.

    @property
    def cycles(self) -> int:
        """Its cycles."""
        return sum(self.spent.values())

    @property
    def macs(self) -> int:
        """Multiplications, padding not counted."""
        return self.m * self.k * self.n

    @property
    def bound(self) -> Cause | None:
        """What takes most of its cycles, if it has any."""
        return next(iter(self.spent), None)

    def spending(self) -> str:
        """Return in words what its cycles are spent on, but for what rounds to nothing."""
        return ", ".join(
            f"{cause} {cycles / self.cycles:.0%}"
            for cause, cycles in self.spent.items()
            if cycles >= 0.005 * self.cycles
        )

    def as_dict(self) -> dict[str, object]:
        """Return plain values that JSON and CSV can hold; a part of the host has no cycles."""
        machine = self.where == "machine"
        return {
            "name": self.name,
            "where": self.where,
            "cycles": self.cycles if machine else None,
            "bound": str(self.bound or ""),
            "macs": self.macs if machine else None,
            "utilization": self.utilization if machine else None,
            "dram_read_bytes": self.traffic.read_bytes,
            "dram_written_bytes": self.traffic.written_bytes,
            **{f"cycles_{cause.name.lower()}": self.spent.get(cause, 0) for cause in Cause},
        }


@dataclass(frozen=True, repr=False)
class Profile(JupyterMixin):
    """What a run of a network costs, layer by layer; printed, or shown in a notebook, a table."""

    network: str  #: Its name.
    device: str  #: Whose cycles they are: the cycle model's, or a device's own.
    config: Config  #: The machine.
    batch: int  #: Inputs of a run.
    layers: tuple[LayerProfile, ...]  #: Layers in order; all cycles of a run are in one of them.
    runs: tuple[TracedRun, ...]  #: What each engine does when, a run for each program.

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of the runs."""
        return tuple(run.program for run in self.runs)

    @property
    def counted_by(self) -> str:
        """Whose cycles they are, and beside which memory, if it is not the reference memory."""
        memories = {run.program.memory for run in self.runs} - {REFERENCE_MEMORY}
        return ", ".join([self.device, *map(memory_name, memories)])

    @property
    def cycles(self) -> int:
        """Cycles of a run."""
        return sum(layer.cycles for layer in self.layers)

    @property
    def macs(self) -> int:
        """Multiplications of a run."""
        return sum(layer.macs for layer in self.layers)

    @property
    def utilization(self) -> float:
        """Multiplications done, as a part of those possible."""
        return _utilization(self.macs, self.cycles, self.config)

    @property
    def activity(self) -> Activity:
        """What part of all cycles each engine spends in each state."""
        return engine_activity(self.runs)

    @property
    def lines(self) -> tuple[LayerProfile, ...]:
        """The layers; all time steps of one are one line."""
        joined = join_steps(self.layers, lambda x: x.name, lambda x: (x.where, x.k, x.n))
        return tuple(_joined(name, steps, self.config) for name, steps in joined)

    @property
    def slowest(self) -> tuple[LayerProfile, ...]:
        """Up to three lines with the most cycles, each a hundredth of all or more."""
        layers = sorted(self.lines, key=lambda layer: -layer.cycles)
        return tuple(layer for layer in layers[:3] if layer.cycles * 100 >= max(self.cycles, 1))

    def __rich__(self) -> Table:
        return _table(self)

    def __repr__(self) -> str:
        return f"<Profile of {self.network}: {self.cycles:,} cycles, {self.device}>"

    def __str__(self) -> str:
        console = Console(width=80, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    def as_dict(self) -> dict[str, object]:
        """Return plain values that JSON can hold."""
        return {
            "network": self.network,
            "device": self.device,
            "memory": [memory_name(each.memory) for each in self.programs],
            "memories": [use.as_dict() for use in memory_uses(self.programs)],
            "config": asdict(self.config),
            "batch": self.batch,
            "cycles": self.cycles,
            "macs": self.macs,
            "utilization": self.utilization,
            "activity": {
                engine.name.lower(): {state.name.lower(): part for state, part in parts.items()}
                for engine, parts in self.activity.items()
            },
            "layers": [layer.as_dict() for layer in self.layers],
        }


def profile_model(model: Model, device: str = CYCLE_MODEL, *, seed: int = 2024) -> Profile:
    """Find out what each layer of a network costs; parameters are those of :func:`trace_runs`."""
    return profile_runs(model, trace_runs(model, device, seed=seed), device)


def profile_runs(model: Model, runs: Sequence[TracedRun], device: str) -> Profile:
    """Account for runs of a network's programs, one each; see :func:`profile_model`."""
    parts = iter(runs)
    layers: list[LayerProfile] = []
    for segment in model.segments:
        if isinstance(segment, HostSegment):
            names = dict.fromkeys(node.source or node.op.upper() for node in segment.nodes)
            library = segment.library
            where = library_name(library, model.exactness) if library else "numpy"
            nodes = tuple(node.name for node in segment.nodes)
            part = ", ".join(names), where, {}, 0, 0, 0, 0.0, _NOTHING, nodes
            layers.append(LayerProfile(*part))
        else:
            layers += profile_program(next(parts))
    batch = max((program.batch for program in model.programs), default=1)
    return Profile(model.graph.name, device, model.config, batch, tuple(layers), tuple(runs))


def profile_run(name: str, run: TracedRun, device: str) -> Profile:
    """Account for a run of a program that is no network's, but has a name."""
    program, layers = run.program, tuple(profile_program(run))
    return Profile(name, device, program.config, program.images, layers, (run,))


def profile_program(run: TracedRun) -> list[LayerProfile]:
    """Return the start, all layers and the end of a program; their cycles are those of the run."""
    program, config = run.program, run.program.config
    start, *spent, end = spend_cycles(program, run.traces, run.cycles)
    layers = [LayerProfile("start", "machine", start, 0, 0, 0, 0.0, _traffic(program, [-1]))]
    for layer, each in zip(program.layers, spent, strict=True):
        traffic = _traffic(program, [*layer.commands, *layer.others])
        rate = _utilization(layer.macs, sum(each.values()), config)
        mkn = layer.m, layer.k, layer.n
        layers.append(LayerProfile(layer.name, "machine", each, *mkn, rate, traffic))
    return [*layers, LayerProfile("end", "machine", end, 0, 0, 0, 0.0, _NOTHING)]


def _traffic(program: Program, commands: list[int]) -> Traffic:
    return dram_traffic(Program(program.config, tuple(program.commands[i] for i in commands)))


def _utilization(macs: int, cycles: int, config: Config) -> float:
    """Return the used part of the multipliers; of a layer that starts in another's cycles, 1."""
    return min(macs / (cycles * config.array_size**2), 1.0) if cycles else 0.0


def _table(profile: Profile) -> Table:
    """Return a row for each layer, or for all of its time steps, and the sum."""
    machine = [layer for layer in profile.layers if layer.where == "machine"]
    hides = any(not layer.cycles and layer.n for layer in machine)
    table = Table(
        title=escape(f"{profile.network}: cycles ({profile.counted_by})"),
        caption="hidden: runs in parallel with other layers; DRAM: bytes moved" if hides else None,
        show_footer=True,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,
    )
    table.add_column("layer", "total")  # names give way, numbers do not
    table.add_column("cycles", f"{profile.cycles:,}", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", width=_BAR, no_wrap=True)
    table.add_column("util", f"{profile.utilization:.1%}", justify="right", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    moved = sum(map(_moved, machine))
    table.add_column("DRAM", f"{moved:,}", justify="right", no_wrap=True)
    longest = max((layer.cycles for layer in profile.lines if layer.where == "machine"), default=0)
    for layer in profile.lines:
        table.add_row(*_cells(layer, profile.cycles, longest))
    return table


def _joined(name: str, steps: Sequence[LayerProfile], config: Config) -> LayerProfile:
    """Return the time steps of a layer as one."""
    first, spent = steps[0], Counter[Cause]()
    if len(steps) == 1:
        return first
    for step in steps:
        spent.update(step.spent)
    m, macs = sum(step.m for step in steps), sum(step.macs for step in steps)
    rate = _utilization(macs, spent.total(), config)
    traffic = first.traffic
    for step in steps[1:]:
        traffic += step.traffic
    return replace(
        first, name=name, spent=dict(spent.most_common()), m=m, utilization=rate, traffic=traffic
    )


def _cells(
    layer: LayerProfile, cycles: int, longest: int
) -> tuple[str | Bar | Text | NameCell, ...]:
    name = NameCell(layer.name)
    if layer.where != "machine":
        return name, "", "", "", "", "CPU", ""
    has = layer.cycles > 0
    color = _COLORS.get(layer.bound or Cause.WAITING, "yellow")
    ends = layer.name.partition(" (")[0] in ("start", "end") and not layer.n
    return (
        name,
        f"{layer.cycles:,}" if has else "",
        f"{layer.cycles / cycles:.1%}" if has else "",
        Bar(longest, 0, layer.cycles, width=_BAR, color=color) if has else "",
        f"{layer.utilization:.1%}" if has and layer.macs else "",
        Text(str(layer.bound), color) if layer.bound else "" if ends else "hidden",
        f"{_moved(layer):,}" if _moved(layer) else "",
    )


def _moved(layer: LayerProfile) -> int:
    return layer.traffic.read_bytes + layer.traffic.written_bytes
