"""A network as boxes and arrows: its operators, where each runs, and what flows between them."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

from tpulite.graph.graph import Graph, Tensor
from tpulite.quant.placed import Placed
from tpulite.runtime.model_summary import OperatorSummary, summarize


@dataclass(frozen=True)
class Box:
    """An operator, an input or an output."""

    name: str  #: The node; of an input or output: the tensor.
    operator: str  #: What its file calls it, or ``input``, ``output``.
    shape: str  #: What comes out of it: ``1x32x32x16 int8``.
    takes: str = ""  #: Shapes of what goes in; empty for an input.
    where: str = "none"  #: ``MXU``, ``VPU``, ``host``, or ``none`` if nobody computes anything.
    #: What computes it, of the CPU with its library; None for inputs and outputs.
    by: str | None = None
    why: str = ""  #: Why it runs on the CPU, if it does.
    macs: int = 0  #: Multiplications, padding included.


@dataclass(frozen=True)
class NetworkGraph:
    """Boxes, and arrows between them."""

    boxes: tuple[Box, ...]  #: Inputs, operators in order, outputs.
    arrows: tuple[tuple[int, int], ...]  #: From which box to which, by their numbers; none twice.

    @property
    def operators(self) -> tuple[Box, ...]:
        """The boxes that are operators, in order."""
        return tuple(box for box in self.boxes if box.by is not None)

    def on_the_cpu(self) -> str:
        """Return which operators run on the CPU, and why; empty if none does."""
        groups: dict[str, Counter[str]] = {}
        for box in self.operators:
            if box.where == "host":
                groups.setdefault(box.why, Counter())[box.operator] += 1
        return "; ".join(
            f"{', '.join(f'{n} {name}' if n > 1 else name for name, n in counts.items())}: {why}"
            for why, counts in groups.items()
        )

    @classmethod
    def of(cls, placed: Placed) -> Self:
        """Return the graph of a network of which it is known where its operators run."""
        graph = placed.graph
        inputs = [Box(x, "input", _tensor(graph.tensors[x])) for x in graph.given]
        outputs = [Box(x, "output", _tensor(graph.tensors[x])) for x in graph.wanted]
        boxes = (*inputs, *map(_box, summarize(placed)), *outputs)
        return cls(boxes, tuple(_arrows(graph)))


def _arrows(graph: Graph) -> dict[tuple[int, int], None]:
    """Return the arrows in order; boxes are numbered as :class:`NetworkGraph` has them."""
    makers = {name: number for number, name in enumerate(graph.given)}
    found: dict[tuple[int, int], None] = {}
    for number, node in enumerate(graph.nodes, start=len(graph.given)):
        found |= dict.fromkeys((makers[x], number) for x in node.inputs if x in makers)
        makers |= dict.fromkeys(node.outputs, number)
    after = len(graph.given) + len(graph.nodes)
    ends = enumerate(graph.wanted, start=after)
    return found | {(makers[name], number): None for number, name in ends if name in makers}


def _box(operator: OperatorSummary) -> Box:
    host = operator.where == "host"
    by = f"CPU, by {operator.library or 'numpy'}" if host else operator.where
    return Box(
        name=operator.name,
        operator=operator.operator,
        shape=f"{_shapes(operator.outputs)} {operator.dtype}",
        takes=_shapes(operator.inputs),
        where=operator.where,
        by=by,
        why=(operator.reason or "it is between operators on the CPU") if host else "",
        macs=operator.macs,
    )


def _tensor(tensor: Tensor) -> str:
    return f"{_shapes((tensor.shape,))} {tensor.dtype}"


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
