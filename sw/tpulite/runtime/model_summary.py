"""What a network consists of, and where each part of it runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tpulite.graph.graph import Graph, Node
from tpulite.graph.macs import counted, macs_of
from tpulite.quant.exactness import Exactness
from tpulite.quant.placed import NodePlacement, Placed
from tpulite.runtime.host.libraries import library_name

_REMARKS = {
    Exactness.ORT_INT8: " (ONNX Runtime with session.qdqisint8allowed=1; its default session, "
    "--exact ort, computes int8 products in floats)"
}
"""What must be said of numerics that a library does not have with its default options."""


@dataclass(frozen=True)
class OperatorSummary:
    """An operator of a network."""

    #: The node, and what its file calls the operator.
    name: str
    operator: str
    #: Shapes of activations; constants are left out.
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtype: str  #: Of the first output.
    where: str  #: ``MXU``, ``VPU``, ``none`` if only the shape changes, or ``host``.
    macs: int  #: Multiplications, padding included.
    reason: str  #: Why it runs on the CPU.
    library: str  #: What computes it there, if it is not numpy.
    #: Whether ``macs`` are all: not of loops of unknown length and of custom operators.
    counted: bool = True

    @property
    def macs_text(self) -> str:
        """Its multiplications in words: nothing for none, a question mark if they are unknown."""
        if self.counted:
            return f"{self.macs:,}" if self.macs else ""
        return f"≥ {self.macs:,}" if self.macs else "?"


def summarize(placed: Placed) -> tuple[OperatorSummary, ...]:
    """Describe every operator of a network."""
    graph = placed.graph
    summaries = []
    for node in graph.nodes:
        placement = placed.placements[node.name]
        runner = placed.runners.get(node.name)
        library = library_name(runner, placed.exactness) if runner else ""
        summaries.append(_describe(node, graph, placement, library))
    return tuple(summaries)


def cpu_share(operators: Sequence[OperatorSummary]) -> float | None:
    """Return which part of a network's multiplications runs on the CPU; None if that is unknown.

    Without any, it is 1 if everything runs on the CPU.
    """
    if not all(operator.counted for operator in operators):
        return None
    macs = sum(operator.macs for operator in operators)
    host = [operator for operator in operators if operator.where == "host"]
    if not macs:
        return float(len(host) == len(operators))
    return sum(operator.macs for operator in host) / macs


def statement(
    operators: Sequence[OperatorSummary],
    exactness: Exactness,
    crossings: int | None = None,
    *,
    named: bool = False,
) -> str:
    """Return in words a network's numerics, what runs on the CPU, and tensors that move there.

    ``named`` says that it is the file that names these numerics.
    """
    macs = sum(operator.macs for operator in operators)
    host = [operator for operator in operators if operator.where == "host"]
    share = cpu_share(operators)
    remark = " (named in the file)" if named else _REMARKS.get(exactness, "")
    text = f"numerics: {exactness}{remark}; "
    if not host:
        return f"{text}all operators run on the machine ({macs:,} MACs)"
    names = ", ".join(dict.fromkeys(operator.operator for operator in host))
    part = f"an unknown share of at least {macs:,}" if share is None else f"{share:.1%} of {macs:,}"
    text += f"on the CPU: {names}, {part} MACs"
    if libraries := list(dict.fromkeys(x.library for x in host if x.library)):
        text += f", by {', '.join(libraries)}"
    if crossings:
        moves = "tensors move" if crossings > 1 else "tensor moves"
        text += f"; {crossings} {moves} between CPU and machine"
    return text


def host_lines(operators: Sequence[OperatorSummary]) -> list[str]:
    """Return a line for each reason why operators run on the CPU."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for operator in operators:
        if operator.where == "host":
            key = (
                operator.library or "numpy",
                operator.reason or "it is between operators on the CPU",
            )
            groups.setdefault(key, Counter())[operator.operator] += 1
    lines = []
    for (library, reason), counts in groups.items():
        names = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())
        lines.append(f"on the CPU, by {library}: {names}: {reason}")
    return lines


def _describe(node: Node, graph: Graph, placement: NodePlacement, library: str) -> OperatorSummary:
    tensors = graph.tensors
    activations = [name for name in node.inputs if name and tensors[name].data is None]
    return OperatorSummary(
        name=node.name,
        operator=node.source or node.op.upper(),
        inputs=tuple(tensors[name].shape for name in activations),
        outputs=tuple(tensors[name].shape for name in node.outputs),
        dtype=tensors[node.outputs[0]].dtype if node.outputs else "",
        where=placement.engine,
        macs=macs_of(node, graph),
        reason=placement.reason,
        library=library,
        counted=counted(node),
    )
