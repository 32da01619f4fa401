"""What makes an exported folder stand alone: README, builds, and the self-test on a PC."""

from collections.abc import Mapping

import numpy as np

from tpulite.arch.memory import Window
from tpulite.export.c_text import Code, array, table
from tpulite.export.network import ExportedNetwork, HostTensor
from tpulite.export.references import References
from tpulite.export.sizes import Sizes
from tpulite.firmware import FOLDER

__all__ = ["folder_texts"]

_FILES = {
    "README.md": "README.md.in",
    "Makefile": "Makefile.in",
    "CMakeLists.txt": "CMakeLists.txt.in",
    "pc/selftest.c": "selftest.c.in",
}
"""Files of the folder, and the templates that they come from."""

_NOT_RECORDED = """/* {name} has no self-test on a PC; run {name}_selftest() on the chip. */
#error {name}: its library computes parts of it as one, so there is no record of the chip
"""


def folder_texts(
    network: ExportedNetwork, references: References, name: str, *, floats: bool
) -> dict[str, str]:
    """Return the texts of the files, by their paths in the folder.

    Parameters
    ----------
    network : ExportedNetwork
        The network.
    references : References
        What the self-test compares with.
    name : str
        What C calls the network.
    floats : bool
        Whether steps on the CPU add floats.
    """
    sizes = Sizes.of(network)
    words = {
        "NAME": name,
        "CONFIG": f"{network.config.array_size}x{network.config.array_size}",
        "IMAGE": f"{sizes.image:,}",
        "MEMORY": f"{sizes.memory:,}",
        "TABLES": f"{sizes.tables:,}",
        "TENSORS": "\n".join(_tensor_rows(network)),
        "FLOATS": " and for floats" if floats else "",
        "RECORDED": _recorded(network, references) if is_recorded(network, references) else "",
    }
    texts = {}
    for path, template in _FILES.items():
        text = (FOLDER / "folder" / template).read_text()
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        texts[path] = text
    if not is_recorded(network, references):
        texts["pc/selftest.c"] = _NOT_RECORDED.format(name=name)
    return texts


def is_recorded(network: ExportedNetwork, references: References) -> bool:
    """Return whether the reference run has run the very programs of the image.

    It has not if the library computes more of the network in one part than C does.
    """
    return [program.program.encode() for program in network.programs] == [
        run.commands for run in references.runs
    ]


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
