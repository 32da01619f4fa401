"""The folder of an exported network."""

import json
from pathlib import Path

from tpulite.export.folder import folder_texts
from tpulite.export.network import ExportedNetwork, HostStep
from tpulite.export.references import References, selftest_text
from tpulite.export.sizes import Sizes
from tpulite.export.sources import header_text, image_text, network_text
from tpulite.export.written import write_files
from tpulite.firmware import FOLDER

_SUFFIXES = (".c", ".h")

_OPTIONAL = "tpulite_host_float", "tpulite_host_lstm"
"""Sources of functions that few networks call."""


def export_files(
    network: ExportedNetwork, references: References, name: str, folder: Path
) -> tuple[Path, ...]:
    """Write sources and binary files, and return the paths of those written.

    A ``main.c`` that was edited is kept.

    Parameters
    ----------
    folder : Path
        Where to; it is made if it is not there.
    """
    texts = {
        f"{name}.h": header_text(network, name),
        f"{name}.c": network_text(network, name),
        f"{name}_image.c": image_text(network, name),
        f"{name}_selftest.c": selftest_text(network, references, name),
        f"{name}.json": json.dumps(describe(network), indent=1) + "\n",
    }
    calls = {step.call.function for step in network.steps if isinstance(step, HostStep)}
    runtime = {}
    for source in sorted(path for path in FOLDER.iterdir() if path.suffix in _SUFFIXES):
        text = source.read_text()
        if source.stem not in _OPTIONAL or any(f"void {call}(" in text for call in calls):
            runtime[source.name] = text
    sources = [file for file in runtime if file.endswith(".c")]
    texts |= folder_texts(network, references, name, sources) | runtime
    blobs = {f"{name}_image.bin": network.image}
    for what, tensors in (("input", references.inputs), ("output", references.outputs)):
        for index, values in enumerate(tensors.values()):
            blobs[f"{name}_{what}_{index}.bin"] = values.tobytes()
    return write_files(folder, texts | blobs, FOLDER / "main.c.in", {"NAME": name})


def describe(network: ExportedNetwork) -> dict[str, object]:
    """Return everything but the data, as plain values that JSON can hold."""
    tensors = []
    for each in network.tensors:
        q = each.tensor.quantization
        tensors.append(
            {
                "name": each.tensor.name,
                "dtype": each.tensor.dtype,
                "shape": list(each.tensor.shape),
                "scale": None if q is None else q.scale.tolist(),
                "zero_point": None if q is None else q.zero_point.tolist(),
                "place": each.place.lower(),
                "index": each.index,
            }
        )
    return {
        "network": network.graph.name,
        "config_hash": network.config.hash,
        "batch": network.batch,
        "classes": network.classes,
        "sizes": Sizes.of(network).as_dict(),
        "tensors": tensors,
        "states": [
            {"name": each.state.name, "from": each.source, "to": each.target}
            for each in network.states
        ],
        "programs": [
            {
                "commands": each.commands,
                "command_count": len(each.program.commands),
                "constants": each.constants,
                "windows": {
                    window.name.lower(): {"offset": start, "bytes": size}
                    for window, start in each.windows.items()
                    if (size := each.program.window_bytes[window])
                },
                "inputs": list(map(dict, each.inputs)),
                "outputs": list(map(dict, each.outputs)),
            }
            for each in network.programs
        ],
    }
