"""The folder of a network that C binds to shapes."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from tpulite.arch.memory import Window
from tpulite.compiler.bind import RangeProgram
from tpulite.export.c_text import Code, define, quoted
from tpulite.export.files import write_files
from tpulite.export.ranges.most import image_bytes, most_commands, most_memory, up
from tpulite.export.ranges.operators import OperatorText, operator_text
from tpulite.export.ranges.selector import EXTENTS, selector_text
from tpulite.export.ranges.tensors import tensors_text
from tpulite.firmware import BIND, FOLDER, RUN

_COMMON = ("tpulite_bind.c", "tpulite_bind_axis.c", "tpulite_bind_link.c", "tpulite_bind_words.c")
"""Sources that all layers need; each has another one that says its commands."""

_ITEM_BYTES = 24
"""Bytes of a ``tpulite_bind_item``: a command whose place is not known yet."""

_MOST_BYTES = 1 << 32

_ROWS = {
    "image": "constants and commands, which the chip reads",
    "memory": "inputs and outputs, which chip and host write",
    "work": "for the host alone, while it binds",
}


@dataclass(frozen=True)
class ExportedRange:
    """A network in C that binds it to shapes."""

    program: RangeProgram  #: The network, compiled for its range.
    operator: OperatorText  #: Its layer in C.
    commands: int  #: Most commands of a program, END among them.
    #: Most bytes of the image, and of the memory with inputs and outputs.
    image_bytes: int
    memory_bytes: int

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by the names of their macros."""
        return {
            "COMMANDS": self.commands,
            "IMAGE_BYTES": self.image_bytes,
            "MEMORY_BYTES": self.memory_bytes,
        }

    def as_dict(self) -> dict[str, object]:
        """Return plain values that JSON can hold."""
        shapes = {name: list(limits) for name, limits in asdict(self.program.shapes).items()}
        work = _ITEM_BYTES * self.commands
        return {
            "shapes": shapes,
            "commands": self.commands,
            "image": self.image_bytes,
            "memory": self.memory_bytes,
            "work": work,
        }

    def table(self, title: str) -> Table:
        """Return the sizes of the buffers that the caller gives."""
        table = Table(title=escape(title), box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("what", no_wrap=True)
        table.add_column("bytes", justify="right", no_wrap=True)
        table.add_column("where")
        for name, where in _ROWS.items():
            table.add_row(name, f"{self.as_dict()[name]:,}", where)
        return table

    def files(self, name: str, folder: Path) -> tuple[Path, ...]:
        """Write all sources, and return the paths of those written.

        A ``main.c`` that was edited is kept.

        Parameters
        ----------
        folder : Path
            Where to; it is made if it is not there.
        """
        texts: dict[str, str | bytes] = {
            f"{name}.h": self._header(name),
            f"{name}.c": self._source(name),
        }
        texts |= {file: (FOLDER / file).read_text() for file in RUN}
        headers = (path.name for path in sorted(BIND.glob("*.h")))
        for file in (*headers, *_COMMON, f"{self.operator.function}.c"):
            texts[file] = (BIND / file).read_text()
        words = {"NAME": name, "UPPER": name.upper()}
        return write_files(folder, texts, BIND / "bind_main.c.in", words)

    def _header(self, name: str) -> str:
        upper, shapes = name.upper(), asdict(self.program.shapes)
        config = self.program.config
        ranges = ", ".join(f"{x} {shapes[x][0]}..{shapes[x][1]}" for x in EXTENTS)
        lines = [
            f"/* {name} for {config.array_size}x{config.array_size} multipliers, exported.",
            f" * {ranges} */",
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "",
            '#include "tpulite_bind.h"',
            "",
            f"#define {upper}_CONFIG_HASH {config.hash:#x}u",
            f"#define {upper}_CHANNELS {shapes['channels'][1]} /* at most, and as a rule */",
            "/* What the caller gives, enough for every shape: items of work, and an image for the",
            " * chip; and the memory of tpulite_placement. */",
            *(f"#define {upper}_{what} {size}u" for what, size in self.sizes.items()),
            "",
            f"/* Bind {name} to a shape. Image and work of `bound` are given. */",
            f"tpulite_bind_status {name}_bind(const tpulite_shape *shape, tpulite_bound *bound);",
            "",
            "#endif",
        ]
        return "\n".join(lines) + "\n"

    def _source(self, name: str) -> str:
        network, operator = self.program.network, self.operator
        config, shapes = network.config, asdict(self.program.shapes)
        least, most = ({x: shapes[x][i] for x in EXTENTS} for i in (0, 1))
        range_fields = {
            "name": quoted(network.layers.name),
            "config_hash": Code(f"{name.upper()}_CONFIG_HASH"),
            "array_size": config.array_size,
            "row_bytes": config.row_bytes,
            "queue_depth": config.queue_depth,
            "least": least,
            "most": most,
            "constants_most": operator.constants_most,
            "input_count": len(network.layers.inputs),
            "facts": Code("&facts"),
            "choose": Code("choose"),
            "lay_out": Code("lay_out"),
            "commands": Code(operator.function),
        }
        parts = [
            f'#include "{name}.h"\n#include "tpulite_bind_operators.h"\n\n'
            "#ifndef NULL\n#define NULL ((void *)0)\n#endif\n",
            operator.facts,
            "/* All strategies, in closed form; of those that fit, the cheapest is taken. */\n"
            + selector_text(network, operator),
            tensors_text(network),
            define("static const tpulite_range", "range", range_fields),
            f"tpulite_bind_status {name}_bind(const tpulite_shape *shape, tpulite_bound *bound)\n"
            "{\n    return tpulite_bind(&range, shape, bound);\n}\n",
        ]
        return "\n".join(parts)


def export_range(program: RangeProgram) -> ExportedRange:
    """Lay out a network that C binds to shapes.

    ValueError if C cannot bind a layer of it: which one; or if shapes are too large, or all are
    empty.
    """
    network, shapes = program.network, program.shapes.filled
    if shapes is None:
        raise ValueError("every shape of the range is empty: there is nothing to bind")
    operator = operator_text(network, shapes)
    windows = most_memory(network, shapes)
    memory = up(windows[Window.INPUT]) + up(windows[Window.OUTPUT])
    if memory >= _MOST_BYTES:
        raise ValueError(
            f"inputs and outputs take up to {memory} bytes, and C counts less than {_MOST_BYTES}: "
            "the range must be smaller"
        )
    commands = most_commands(network, operator, shapes)
    image = image_bytes(operator.constants_most, commands)
    return ExportedRange(program, operator, commands, image, memory)
