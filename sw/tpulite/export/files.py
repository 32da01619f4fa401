"""The folder of an exported network: sources, data, README, builds, and a self-test on a PC."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tpulite.arch.memory import Window
from tpulite.atomic import write_whole
from tpulite.export.c_text import Code, array, table
from tpulite.export.network import ExportedNetwork, HostStep, HostTensor
from tpulite.export.references import References, selftest_text
from tpulite.export.sizes import Sizes
from tpulite.export.sources import header_text, image_text, network_text
from tpulite.firmware import FOLDER

_SELFTEST = "pc/selftest.c"
"""The file that only networks have of which the programs of the chip are recorded."""

_FILES = {
    "README.md": "README.md.in",
    "Makefile": "Makefile.in",
    "CMakeLists.txt": "CMakeLists.txt.in",
    _SELFTEST: "selftest.c.in",
}
"""Files of the folder, and the templates that they come from."""

_RESET = """if (status == TPULITE_OK) /* before the first run, and for each new sequence */
    tpulite_network_reset(&@NAME@_network, &placement);
"""

_FLOAT = "tpulite_host_float.c"
"""The source of networks that compute with floats on the CPU."""


def folder_texts(
    network: ExportedNetwork, references: References, name: str, runtime: Sequence[str]
) -> dict[str, str]:
    """Return the texts of the files, by their paths in the folder."""
    recorded = references.has_run([each.program for each in network.programs])
    sizes = Sizes.of(network)
    words = {
        "CONFIG": f"{network.config.array_size}x{network.config.array_size}",
        "IMAGE": f"{sizes.image:,}",
        "MEMORY": f"{sizes.memory:,}",
        "TABLES": f"{sizes.tables:,}",
        "TENSORS": "\n".join(_tensor_rows(network)),
        "FLOATS": " and for floats" if _FLOAT in runtime else "",
        "RUNTIME": " ".join(runtime),
        "CALL": _call(network),
        "RESET": _RESET if network.states else "",
        "LIBRARY": "ONNX Runtime" if network.graph.format == "onnx" else "LiteRT",
        "RECORDED": _recorded(network, references) if recorded else "",
        "NAME": name,
    }
    texts = {}
    for path, template in _FILES.items():
        if recorded or path != _SELFTEST:
            text = _chosen((FOLDER / "folder" / template).read_text(), recorded=recorded)
            for word, value in words.items():
                text = text.replace(f"@{word}@", value)
            texts[path] = text
    return texts


def _chosen(text: str, *, recorded: bool) -> str:
    """Return a template with the parts for networks that are recorded, or those for others."""
    group = r"\1" if recorded else r"\2"
    return re.sub(r"@if recorded@\n(.*?)@else@\n(.*?)@end@\n", group, text, flags=re.DOTALL)


def _call(network: ExportedNetwork) -> str:
    """Return C that declares inputs and outputs, and lists them as a run takes them."""
    lines, lists = [], []
    for place in ("INPUT", "OUTPUT"):
        what = place.lower()
        placed = sorted(
            (each for each in network.tensors if each.place == place), key=lambda each: each.index
        )
        for each in placed:
            ctype = "float" if each.tensor.dtype == "float32" else f"{each.tensor.dtype}_t"
            count = network.batch * math.prod(each.tensor.shape)
            lines.append(f"static {ctype} {what}_{each.index}[{count}];")
        names = ", ".join(f"{what}_{each.index}" for each in placed)
        const = "const " if place == "INPUT" else ""
        lists.append(f"static {const}void *const {what}s[] = {{{names}}};")
    return "\n".join((*lines, *lists))


def _tensor_rows(network: ExportedNetwork) -> list[str]:
    """Return a table of inputs and outputs in Markdown."""
    rows = [
        "| | tensor | type | shape | scale | zero point |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for place in ("INPUT", "OUTPUT"):
        placed = (each for each in network.tensors if each.place == place)
        rows += [_tensor_row(each) for each in sorted(placed, key=lambda each: each.index)]
    return rows


def _tensor_row(each: HostTensor) -> str:
    tensor, q = each.tensor, each.tensor.quantization
    one = q is not None and q.axis is None
    scale, zero = (f"{q.scale[0]:.9g}", f"{q.zero_point[0]}") if q is not None and one else ("", "")
    name = tensor.name.replace("|", "/")
    shape = "x".join(map(str, tensor.shape))
    cells = (f"{each.place.lower()} {each.index}", name, tensor.dtype, shape, scale, zero)
    return f"| {' | '.join(cells)} |"


def _recorded(network: ExportedNetwork, references: References) -> str:
    """Return tables of the bytes that programs read and write, at their places in the memory."""
    text, rows = "", []
    for number, (program, run) in enumerate(zip(network.programs, references.runs, strict=True)):
        row: dict[str, object] = {"commands": program.commands}
        for what, window, data, layouts in (
            ("read", Window.INPUT, run.read, program.inputs),
            ("write", Window.OUTPUT, run.written, program.outputs),
        ):
            parts = []
            for index, layout in enumerate(layouts):
                begin, size = _place(layout)
                at = begin - program.windows[window]
                name = f"{what}_{number}_{index}"
                values = np.frombuffer(data[at : at + size], np.uint8)
                text += f"static {array('uint8_t', name, values)}"
                parts.append({"offset": begin, "bytes": size, "data": Code(name)})
            text += table("recorded_bytes", f"{what}s_{number}", parts)
            row[f"{what}s"] = Code(f"{what}s_{number}")
            row[f"{what}_count"] = len(parts)
        rows.append(row)
    return text + table("recorded_program", "programs", rows)


def _place(layout: Mapping[str, object]) -> tuple[int, int]:
    """Return the first byte of a tensor in the memory, and its bytes."""
    offset, images, size = (layout[name] for name in ("offset", "images", "image_bytes"))
    assert isinstance(offset, int) and isinstance(images, int) and isinstance(size, int)
    return offset, images * size


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


MAIN = "main.c"
"""The example, which users edit."""


def write_files(
    folder: Path, files: Mapping[str, str | bytes], main: Path, words: Mapping[str, str]
) -> tuple[Path, ...]:
    """Write files and the example ``main.c``, and return the paths of those written.

    A ``main.c`` that differs from what this version writes for a network of any name is kept.

    Parameters
    ----------
    folder : Path
        Where to; it is made if it is not there.
    files : mapping of str to str or bytes
        Contents, by paths in the folder.
    words : mapping of str to str
        What replaces each ``@WORD@`` of the template.
    """
    template = main.read_text()
    if not _is_edited(folder / MAIN, template):
        example = template
        for word, value in words.items():
            example = example.replace(f"@{word}@", value)
        files = {**files, MAIN: example}
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        write_whole(folder / file, partial(Path.write_bytes, data=data))
    return tuple(folder / file for file in files)


def _is_edited(path: Path, template: str) -> bool:
    if not path.exists():
        return False
    written = re.sub(r"@[A-Z]+@", r"\\w+", re.escape(template))
    return re.fullmatch(written, path.read_text(errors="replace")) is None
