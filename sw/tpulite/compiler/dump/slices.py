"""Readable text of how a group is cut: the rows of each slice, going backward from its output."""

from tpulite.compiler.dump.text import columns, extents, short
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps, repeated
from tpulite.compiler.schedule.live_tensors import StepNumbers
from tpulite.graph.layers import LayerGraph

_SHOWN = 3
"""Slices of which rows are listed."""

_WIDTH = 64
"""Characters of a picture of rows, at most."""

_NAME = 18
"""Characters of the name of a tensor."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHARED, _SKIPPED = "#", "."


def slices_text(layers: LayerGraph, group: Group) -> str:
    """Return a line for each tensor of a group: its rows, those computed again, and its slices.

    Tensors of which slices repeat more than half of the rows are flagged; inputs that are folded
    into patches have rows of patches.
    """
    steps = plan_steps(layers, group)
    rows, notes = [], ""
    for number, name in _backward(layers, group):
        height = layers.activations[name].shape[0]
        if (spec := layers.packed.get(name)) and spec.patches:
            size, pixels = (extents(x) for x in (spec.patches.size, spec.image or ()))
            notes += f"  {number}: rows of folded patches, {size} of {pixels} pixels each\n"
        slices = [step[name].live for step in steps]
        new = [step[name].new for step in steps]
        again = sum(map(len, new)) - height
        text = f"{again} ({again / height:.0%})" if again > 0 else "0"
        shown = " ".join(f"[{each.start},{each.stop})" for each in slices[:_SHOWN])
        rows.append(
            (
                f"  {number}",
                short(name, _NAME),
                str(height),
                f"{text}{' > h/2' * repeated(new, height)}",
                f"{shown}{' ...' * (len(slices) > _SHOWN)}",
            )
        )
    heads = ("  id", "rows of", "h", "repeated", "slice by slice")
    return columns(heads, rows, right=(2, 3)) + notes


def picture_of_rows(layers: LayerGraph, group: Group) -> str:
    """Return a line for each tensor: which slice needs which rows; ``#`` are needed by several.

    Tall tensors are drawn smaller: a character shows the rows that begin there.
    """
    steps = plan_steps(layers, group)
    rows = []
    for number, name in _backward(layers, group):
        height = layers.activations[name].shape[0]
        cells = []
        for cell in range(min(height, _WIDTH)):
            y = cell * height // min(height, _WIDTH)
            users = [n for n, step in enumerate(steps) if y in step[name].live]
            letter = _LETTERS[users[0] % len(_LETTERS)] if users else _SKIPPED
            cells.append(_SHARED if len(users) > 1 else letter)
        rows.append((f"  {number}", "".join(cells)))
    return columns(("  id", "rows of slices a, b, ...; # of several"), rows)


def _backward(layers: LayerGraph, group: Group) -> list[tuple[int, str]]:
    """Return numbers and names of the tensors of a group, from its last output to its inputs."""
    members = [layers.layers[i] for i in reversed(group.layers)]
    outputs = dict.fromkeys(layer.output for layer in members)
    inputs = dict.fromkeys(name for layer in members for name in layer.inputs)
    numbers = StepNumbers.of(layers).activations
    return [(numbers[name], name) for name in outputs | inputs]
