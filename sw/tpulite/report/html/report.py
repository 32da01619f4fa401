"""What the page of a run shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tpulite.compiler.schedule.live_tensors import Grouped
from tpulite.report.html.answers import Answered
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
