"""The last step of compilation: everything that a device needs, in one program."""

from collections import defaultdict
from collections.abc import Mapping

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Engine
from tpulite.arch.memory import Window
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.placement import Placement
from tpulite.graph.layers import DepthToSpace, LayerGraph
from tpulite.program import LayerInfo, Program


def assemble(  # noqa: PLR0913 - parts of a program
    layers: LayerGraph,
    macs: Mapping[str, int],
    placement: Placement,
    pool: ConstantPool,
    commands: tuple[Command, ...],
    owners: tuple[int, ...],
    config: Config,
    batch: int,
    resident: tuple[tuple[int, int], ...] = (),
) -> Program:
    """Join commands, constants and tensors.

    Parameters
    ----------
    macs : mapping of str to int
        Multiplications of each layer that has some, those by zeros that were added not counted.
    placement : Placement
        Where its images are in DRAM.
    commands : tuple of Command
        The program, END last.
    owners : tuple of int
        Layer of each command but END.
    batch : int
        Images of a run.
    resident : tuple of (int, int)
        Rows that an earlier program has left in the unified buffer.
    """
    constants = pool.image()
    sizes = {
        Window.CONSTANTS: len(constants),
        Window.INPUT: sum(spec.nbytes(config) for spec in placement.inputs),
        Window.OUTPUT: sum(spec.nbytes(config) for spec in placement.outputs),
        Window.SCRATCH: placement.scratch_bytes,
    }
    return Program(
        config=config,
        commands=commands,
        constants=constants,
        window_bytes=tuple(sizes[window] for window in Window),
        inputs=placement.inputs,
        outputs=placement.outputs,
        layers=_infos(layers, macs, commands, owners, batch),
        resident=resident,
    )


def _infos(
    layers: LayerGraph,
    macs: Mapping[str, int],
    commands: tuple[Command, ...],
    owners: tuple[int, ...],
    batch: int,
) -> tuple[LayerInfo, ...]:
    numbers: dict[tuple[int, Engine | None], list[int]] = defaultdict(list)
    for number, (command, owner) in enumerate(zip(commands, owners, strict=False)):
        numbers[owner, command.engine].append(number)
    infos = []
    for index, layer in enumerate(layers.layers):
        height, width, channels = layers.activations[layer.output].shape
        count = macs.get(layer.name, 0)
        if count % (height * width * channels):  # some pixels of its vectors do not exist
            height, width, channels = _existing(layers, layer.output)
        depth = count // (height * width * channels)
        conv, vector, load, store = (numbers[index, engine] for engine in _ENGINES)
        mine, others = (conv, vector) if depth else (conv + vector, [])
        parts = tuple(sorted(mine)), tuple(sorted(others + load + store))
        infos.append(LayerInfo(layer.name, batch * height * width, depth, channels, *parts))
    return tuple(infos)


def _existing(layers: LayerGraph, name: str) -> tuple[int, int, int]:
    """Return the extents of an activation whose vectors are several pixels, each counted once."""
    while (spec := layers.packed.get(name)) is None or spec.image is None:
        readers = layers.readers[name]
        if len(readers) != 1:
            return layers.activations[name].shape
        name = readers[0].output
        if isinstance(readers[0], DepthToSpace):
            return layers.activations[name].shape
    height, width = spec.image[-2:]
    return height, width, spec.channels


_ENGINES = (Engine.MXU, Engine.VPU, Engine.LOAD, Engine.STORE)
