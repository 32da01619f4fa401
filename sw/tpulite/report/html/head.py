"""The head of a run's page: what was run on what, and how fast it was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tpulite.arch.config import Config
from tpulite.compiler.schedule.live_tensors import Grouped
from tpulite.report.advice import advise_slowest
from tpulite.report.html.answers import Answered
from tpulite.report.html.shell import Head, machine_line
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import OperatorDetails
from tpulite.report.profile import Profile
from tpulite.report.speed import Speed


@dataclass(frozen=True)
class Report:
    """What the page of a run shows."""

    command: str  #: The command that writes it.
    profile: Profile  #: What the run costs, layer by layer, and what each engine does when.
    speed: Speed  #: Its cycles, in milliseconds if there is a clock frequency.
    network: NetworkGraph | None = None  #: Its operators; a program without a network has none.
    #: What their file says of them.
    details: Mapping[str, OperatorDetails] = field(default_factory=dict)
    numerics: str = ""  #: Whose arithmetic it has; empty for a program without a network.
    #: What else stands in its head: how it was compiled.
    facts: Mapping[str, str] = field(default_factory=dict)
    grouped: Sequence[Grouped] = ()  #: Live ranges of each part, if it has just been compiled.
    answers: Sequence[Answered] = ()  #: What came out of the first inputs, if it ran.


def make_head(report: Report) -> Head:
    """Return network, machine, numerics, speed and options, and what would help the slowest."""
    profile = report.profile
    lines = [machine_line(profile.config)]
    if report.numerics:
        lines.append(f"numerics: {report.numerics}")
    if profile.runs:
        lines.append(f"cycles: {profile.device}")
    facts = {"speed": report.speed.line()} if profile.runs else {}
    facts |= {"configuration": _options(profile.config), **report.facts}
    network = report.network
    if network is not None:
        macs = profile.batch * sum(box.macs for box in network.operators if box.where != "host")
        if macs != profile.macs:
            facts["MACs on the accelerator"] = (
                f"{macs:,} by the network's operators, {profile.macs:,} as compiled: rewriting "
                "removes channels without effect, or changes products"
            )
    for number, sentence in enumerate(advise_slowest(profile), start=1):
        facts[f"advice {number}"] = sentence
    return Head(profile.network, report.command, lines, dict(_tiles(report)), facts)


def _tiles(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the figures that matter, each behind what it is."""
    profile, speed = report.profile, report.speed
    if profile.runs:
        each = "inference" if profile.batch == 1 else f"batch of {profile.batch}"
        yield f"cycles per {each}", f"{speed.cycles:,}"
        if speed.milliseconds is not None:
            yield f"ms on the accelerator at {speed.mhz:g} MHz", f"{speed.milliseconds:,.3g}"
        if speed.cpu_ms is not None:
            yield "ms on the CPU, as given by --host-ms", f"{speed.cpu_ms:,.3g}"
        if speed.inputs_per_second is not None:
            yield "inferences/s", f"{speed.inputs_per_second:,.0f}"
        yield "utilization of the multipliers", f"{profile.utilization:.1%}"
        yield "MACs on the accelerator, as compiled", f"{profile.macs:,}"
        traffic = [layer.traffic for layer in profile.layers]
        moved = sum(x.read_bytes + x.written_bytes for x in traffic)
        small = moved < 1 << 20
        yield "DRAM traffic", f"{moved / (1 << 10 if small else 1 << 20):.1f} {'KM'[not small]}iB"
    if report.network is not None:
        cpu = [box for box in report.network.operators if box.where == "host"]
        yield "operators on the CPU", f"{len(cpu)} of {len(report.network.operators)}"
        if cpu:
            share = speed.cpu_share
            yield "of the MACs on the CPU", "?" if share is None else f"{share:.1%}"


def _options(config: Config) -> str:
    """Return the fields of a configuration that are not as they are by default."""
    default = asdict(Config(array_size=config.array_size, ub_rows=config.ub_rows))
    others = [f"{k}={v}" for k, v in asdict(config).items() if v != default[k]]
    size = config.array_size
    return ", ".join([f"{size}x{size}", f"ub_rows={config.ub_rows}", *others])
