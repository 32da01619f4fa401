"""What the panel of a page says of an operator or layer when somebody clicks on it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tpulite.report.advice import advise
from tpulite.report.network_graph import Box, NetworkGraph
from tpulite.report.operator_details import OperatorDetails
from tpulite.report.profile import LayerProfile, Profile

_RUNS = {
    "MXU": "on the accelerator, in its matrix unit (MXU)",
    "VPU": "on the accelerator, in its vector unit (VPU)",
    "none": "nowhere: only the shape changes",
}

_REASONS = {
    "MXU": "the systolic array computes sums of products",
    "VPU": "it has no sums of products: the vector unit computes it in the unified buffer",
}

_FUSED = "The compiler fused it into another layer: it has no cycles of its own."


def owners(network: NetworkGraph | None, layers: Iterable[LayerProfile]) -> dict[str, str]:
    """Return the operator that each layer computes, by the layer's name; without those of none.

    A layer has the name of its operator, or that and ``/`` and what it computes of it.
    """
    names = {box.name for box in network.operators} if network is not None else set()
    found = {}
    for layer in layers:
        name = layer.name
        while name and name not in names:
            name = name.rpartition("/")[0]
        if name:
            found[layer.name] = name
    return found


def make_items(
    network: NetworkGraph | None,
    details: Mapping[str, OperatorDetails],
    profile: Profile | None = None,
    notes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the data of the panel.

    Parameters
    ----------
    network : NetworkGraph, optional
        The operators.
    profile : Profile, optional
        What their layers cost; a layer that belongs to no operator is an item of its own.
    notes : mapping of str to str, optional
        More sentences, by the name of an operator.
    """
    boxes = network.operators if network is not None else ()
    items = {box.name: _operator(box, details.get(box.name)) for box in boxes}
    for name, note in (notes or {}).items():
        items[name]["notes"].append(note)
    if profile is not None:
        _add_layers(items, network, profile)
    for box in boxes:
        if box.macs and not items[box.name]["layers"]:
            items[box.name]["facts"].append(("MACs", f"{box.macs:,}"))
    return items


def _add_layers(items: dict[str, Any], network: NetworkGraph | None, profile: Profile) -> None:
    """Add the layers of operators, and those of none as items of their own."""
    layers = [layer for layer in profile.layers if layer.where == "machine" and layer.n]
    owner = owners(network, layers)
    for layer in layers:
        name = owner.get(layer.name, layer.name)
        where = "MXU" if layer.macs else "VPU"
        item = items.setdefault(name, _item(name, "layer", where))
        item["layers"].append(_layer(layer, profile))
    for item in items.values():
        if item["where"] in ("MXU", "VPU") and not item["layers"]:
            item["notes"].append(_FUSED)


def _operator(box: Box, details: OperatorDetails | None) -> dict[str, Any]:
    where = "CPU" if box.where == "host" else box.where
    item = _item(box.name, box.operator, where)
    rows = [("runs", _RUNS.get(box.where, f"on the {box.by}"))]
    if because := box.why or _REASONS.get(box.where, ""):
        rows.append(("because", because))
    if where == "CPU":
        rows.append(("time", "not simulated: the cycles are those of the accelerator alone"))
    item["facts"] = rows
    if details is not None:
        item["attributes"] = list(details.attributes.items())
        item["tensors"] = [asdict(tensor) for tensor in details.tensors]
    return item


def _item(name: str, operator: str, where: str) -> dict[str, Any]:
    lists: dict[str, Any] = {x: [] for x in ("facts", "attributes", "tensors", "layers", "notes")}
    return {"name": name, "operator": operator, "where": where, **lists}


def _layer(layer: LayerProfile, profile: Profile) -> dict[str, Any]:
    return {
        "name": layer.name,
        "cycles": layer.cycles,
        "share": layer.cycles / max(1, profile.cycles),
        "spent": [[str(cause), cycles] for cause, cycles in layer.spent.items()],
        "advice": advise(layer, profile),
        "utilization": layer.utilization if layer.macs else None,
        "product": [layer.m, layer.k, layer.n] if layer.macs else None,
        "macs": layer.macs or None,
        "read": layer.traffic.read_bytes,
        "written": layer.traffic.written_bytes,
    }
