"""What a network consists of, and where each part of it runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tpulite.graph.graph import Graph, Node
from tpulite.quant.exactness import Exactness
from tpulite.quant.place import Placed, macs_of
from tpulite.runtime.host.ops import APPROXIMATE, can_run, host_reason

__all__ = ["OperatorSummary", "statement", "summarize"]


@dataclass(frozen=True)
class OperatorSummary:
    """An operator of a network.

    Parameters
    ----------
    name, operator : str
        The node, and what its file calls the operator.
    inputs, outputs : tuple of tuple of int
        Shapes of activations; constants are left out.
    dtype : str
        Of the first output.
    where : str
        ``MXU``, ``VPU``, ``none`` if only the shape changes, ``host``, or ``nobody``.
    macs : int
        Multiplications, padding included.
    reason : str
        Why it is the host's, or what is not exact about it.
    """

    name: str
    operator: str
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtype: str
    where: str
    macs: int
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)


def summarize(placed: Placed) -> tuple[OperatorSummary, ...]:
    """Describe every operator of a network, whether or not it can be computed."""
    graph, exactness = placed.graph, placed.exactness
    summaries = []
    for node in graph.nodes:
        placement = placed.placements[node.name]
        engine, reason = placement.engine, placement.reason
        if engine == "host":
            engine = "host" if can_run(node, graph, exactness) else "nobody"
            note = host_reason(node, graph, exactness)
            reason = "; ".join(dict.fromkeys(text for text in (reason, note) if text))
        summaries.append(_describe(node, graph, engine, reason))
    return tuple(summaries)


def statement(operators: Sequence[OperatorSummary], exactness: Exactness) -> str:
    """Return in words whose bits a network has, and the host's share of its MACs."""
    macs = sum(operator.macs for operator in operators)
    host = [operator for operator in operators if operator.where == "host"]
    host_macs = sum(operator.macs for operator in host)
    share = host_macs / macs if macs else 0.0
    names = ", ".join(dict.fromkeys(operator.operator for operator in host)) or "nothing"
    text = f"bits of {exactness}; host: {names}, {share:.1%} of {macs:,} MACs"
    if approximate := [operator.name for operator in host if APPROXIMATE in operator.reason]:
        text += f"; approximate: {', '.join(approximate)}"
    if lost := [operator.name for operator in operators if operator.where == "nobody"]:
        text += f"; nobody computes {', '.join(lost)}"
    return text


def _describe(node: Node, graph: Graph, place: str, reason: str) -> OperatorSummary:
    tensors = graph.tensors
    activations = [name for name in node.inputs if name and tensors[name].data is None]
    return OperatorSummary(
        name=node.name,
        operator=node.source or node.op.upper(),
        inputs=tuple(tensors[name].shape for name in activations),
        outputs=tuple(tensors[name].shape for name in node.outputs),
        dtype=tensors[node.outputs[0]].dtype if node.outputs else "",
        where=place,
        macs=macs_of(node, graph),
        reason=reason,
    )
