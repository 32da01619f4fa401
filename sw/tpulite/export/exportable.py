"""Which networks can be exported, and where to end those that cannot."""

import shlex
from collections.abc import Collection

from tpulite.export.library_steps import planned_calls
from tpulite.graph.layers import has_int16
from tpulite.quant.partition import HostSegment, MachineSegment
from tpulite.runtime.model import Model


def check_exportable(model: Model) -> None:
    """Check what can be checked of a network before it is compiled.

    ValueError if an operator on the CPU has no function in C, all of which are named, nothing is
    left for the machine, or an option asks for programs that differ from run to run.
    """
    graph = model.graph
    refused = {}
    for segment in model.segments:
        if isinstance(segment, HostSegment):
            reasons = dict(zip((node.name for node in segment.nodes), segment.reasons, strict=True))
            for node, call in planned_calls(segment, graph, model.exactness):
                if call is None:
                    named = f"{node.source or node.op} {node.name!r}"
                    refused[node.name] = f"{named} ({reasons[node.name]})"
    if refused:
        ends = ",".join(_ends_before(model, refused))
        way = "--inputs and --outputs leave out what lies at the ends"
        if ends:
            way = f"with --outputs {shlex.quote(ends)} the network ends before that"
        raise ValueError(
            f"{graph.name} cannot be exported: firmware has no function for "
            f"{'; '.join(refused.values())}; {way}"
        )
    if not model.layers:
        raise ValueError(f"{graph.name} cannot be exported: nothing of it runs on the machine")
    ends = {x for layers in model.layers for x in (*layers.inputs, *layers.outputs)}
    wide = {x for x in ends if x in graph.tensors and graph.tensors[x].dtype == "int16"}
    if wide or any(map(has_int16, model.layers)):
        raise ValueError(
            f"{graph.name} cannot be exported: firmware has no layout of int16 activations"
        )
    if model.options.resident:
        raise ValueError("--resident cannot be exported: it makes another program for later runs")


def _ends_before(model: Model, refused: Collection[str]) -> tuple[str, ...]:
    """Return the tensors that end a network before some nodes, by their names in its file.

    They are the last ones that need none of these nodes. Empty if the machine would compute
    nothing, or the file has no such tensor.
    """
    graph = model.graph
    machine = {
        node.name
        for segment in model.segments
        if isinstance(segment, MachineSegment)
        for node in segment.nodes
    }
    origins = {} if graph.source is None else graph.source.origins
    made: dict[str, None] = {}
    lost: set[str] = set()
    read: set[str] = set()
    for node in graph.nodes:
        if node.name in refused or not lost.isdisjoint(node.inputs):
            lost.update(node.outputs)
            read.update(node.inputs)
        else:
            made.update(dict.fromkeys(node.outputs))
    ends = [name for name in made if name in read or name in graph.outputs]
    on_machine = any(node.name in machine and made.keys() & node.outputs for node in graph.nodes)
    if not on_machine or not all(name in origins for name in ends):
        return ()
    keys = {name: origins[name].key for name in ends}
    return tuple(dict.fromkeys(k if isinstance(k, str) else name for name, k in keys.items()))
