"""Random machines and options, and what every compilation of a graph must hold to."""

import re
from dataclasses import dataclass, replace

import numpy as np

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import LUT_BYTES, RAW_ROWS, WORDS_BYTES
from tpulite.compiler.options import Options
from tpulite.golden.check import check
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import (
    Concat,
    Conv,
    Depthwise,
    Layer,
    LayerGraph,
    Lut,
    MatMul,
    Pick,
    Pool,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
)
from tpulite.program import Program
from tpulite.runtime.device import Device
from tpulite.runtime.session import Session
from tpulite_testing.drawn.choices import Choices
from tpulite_testing.drawn.layer_graphs import EVERY, random_layer_graph
from tpulite_testing.kept import kept_program
from tpulite_testing.quick_options import quick_options

__all__ = ["Compilation", "least_rows", "random_compilation", "random_options"]

_AMPLE = 8
"""A machine must do with so many times the rows that a single layer needs for one row."""

_REFUSALS = re.compile(r"does not fit|must stay in the unified buffer")
"""What a refusal for lack of room says; any other ValueError is a bug."""


@dataclass(frozen=True, eq=False)
class Compilation:
    """A graph, and what it is compiled for and how."""

    graph: LayerGraph
    config: Config
    options: Options

    def __repr__(self) -> str:
        graph, lines = self.graph, []
        for layer in graph.layers:
            fields = {
                name: list(value.shape) if isinstance(value, np.ndarray) else value
                for name, value in vars(layer).items()
                if name not in ("name", "inputs", "output", "requantization")
            }
            sources = ", ".join(f"{name}{graph.activations[name].shape}" for name in layer.inputs)
            target = f"{layer.output}{graph.activations[layer.output].shape}"
            lines.append(f"  {type(layer).__name__} {sources} -> {target} {fields}")
        return "\n".join(
            (
                f"{self.config}",
                f"{self.options}",
                f"inputs {graph.inputs}, outputs {graph.outputs}, constants {[*graph.constants]}, "
                f"unsigned {sorted(graph.unsigned)}",
                *lines,
            )
        )

    def quick(self) -> "Compilation":
        """Return the same with the effort of tests that compare bits."""
        options = replace(self.options, effort=quick_options().effort)
        return replace(self, options=options)

    def compile(self) -> Program:
        """Return the program, which must be legal and of the batch that was asked for."""
        program = kept_program(self.graph, self.config, self.options)
        assert check(program) == []
        assert program.batch == self.options.batch
        return program

    def compile_if_it_fits(self) -> Program | None:
        """Return the program, or None if it was refused for a buffer that is really too small."""
        try:
            return self.compile()
        except ValueError as error:
            rows = least_rows(self.graph, self.config.array_size)
            assert _REFUSALS.search(str(error)), error
            assert self.config.ub_rows < _AMPLE * rows, f"{error} Some layer needs {rows} a row."
            return None

    def run(self, program: Program, device: Device | str, seed: int = 0) -> None:
        """Run random inputs; every output must be what the layers compute, image by image."""
        rng = np.random.default_rng(seed)
        graph, batch = self.graph, self.options.batch
        shapes = {name: graph.activations[name].shape for name in graph.inputs}
        images = [
            {name: rng.integers(-128, 128, shape).astype(np.int8) for name, shape in shapes.items()}
            for _ in range(batch)
        ]
        given = {spec.name: np.stack([one[spec.name] for one in images]) for spec in program.inputs}
        results = Session(program, device).run(
            {
                spec.name: self._seen(spec.name, given[spec.name]).reshape(spec.shape)
                for spec in program.inputs
            }
        )
        assert results.fault is None, results.fault
        assert results.outputs.keys() == set(graph.outputs)
        for n, one in enumerate(images):
            expected = run_layers(graph, one)
            for name in graph.outputs:
                got = results.outputs[name].reshape(batch, *expected[name].shape)[n]
                np.testing.assert_array_equal(
                    got, self._seen(name, expected[name]), err_msg=f"image {n} of {name!r}"
                )

    def _seen(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return values as the host sees them."""
        return values.view(np.uint8) ^ 0x80 if name in self.graph.unsigned else values


def random_options(choices: Choices) -> Options:
    """Draw options; the simplest ones are those that switch nothing off."""
    grouping = not choices.chance(20)
    return Options(
        optimize=choices.pick(("latency", "latency", "memory")),
        batch=choices.pick((1, 1, 1, 2, 3)),
        grouping=grouping,
        rolling=not choices.chance(30),
        halo_guard=grouping and choices.chance(15),
        prefetch=not choices.chance(20),
        block_start=not choices.chance(20),
        interleaved=not choices.chance(20),
        dense_mode=not choices.chance(20),
        allocator=choices.pick(("online", "longest")),
        moves=choices.pick((0, 4, 32)),
        seed=choices.integer(0, 3),
    )


def random_compilation(
    choices: Choices,
    *,
    most: int = 12,
    largest: int = 12_000,
    more: tuple[str, ...] = EVERY,
    config: Config | None = None,
) -> Compilation:
    """Draw everything; a machine's buffer is from much too small to ample for the graph."""
    graph = random_layer_graph(choices, most=most, largest=largest, more=more)
    if config is None:
        softmax = any(isinstance(layer, Softmax) for layer in graph.layers)
        size = choices.pick((8, 16) if softmax else (4, 8, 16))
        least, times = least_rows(graph, size), choices.pick((4, 3, 2, 2, 1, 1, 1, 0, -1))
        config = Config(
            array_size=size,
            ub_rows=min(1 << 14, max(64, 1 << (least - 1).bit_length() + times)),
            ub_banks=choices.pick((8, 4, 16)),
            acc_rows=choices.pick((1024, 256, 64, 16)),
            requant_lanes=choices.pick((size, size, size, 2)),
            vector_lanes=choices.pick((size, size, 4 if softmax else 1)),
            softmax=softmax or None,
        )
    return Compilation(graph, config, random_options(choices))


def least_rows(graph: LayerGraph, size: int) -> int:
    """Return the rows of the buffer that some layer needs to compute a row of its image.

    That is a window of whole rows of its inputs, a row of its output and the weights of one
    n-block, on a machine of ``size``; or all rows, if the layer moves pixels anywhere. A compiler
    cannot do with much less.
    """
    return max(_least(layer, graph, size) for layer in graph.layers)


def _least(layer: Layer, graph: LayerGraph, size: int) -> int:
    """Return the rows of the buffer for a row of the image, or for images that must stay whole."""
    whole = isinstance(layer, Reshape) or (isinstance(layer, Pick) and layer.transposed)
    whole |= isinstance(layer, Concat) and layer.axis == 0
    window, rows = 1, RECORD_BYTES
    if isinstance(layer, Conv | Depthwise):
        window = (layer.weight.shape[0] - 1) * layer.dilation[0] + 1
        taps = layer.weight.shape[0] * layer.weight.shape[1]
        blocks = -(-layer.weight.shape[2] // size) if isinstance(layer, Conv) else 1
        rows += taps * blocks * size
    elif isinstance(layer, TransposedConv):
        # Of the convolution that it becomes, and then rows of all phases of an image row.
        window, height = layer.weight.shape[0], layer.stride[0]
        taps = layer.weight.shape[0] * layer.weight.shape[1]
        blocks = [-(-channels // size) for channels in layer.weight.shape[2:]]
        rows += taps * blocks[0] * size + 2 * height * layer.size[1] * blocks[1]
    elif isinstance(layer, Pool):
        window = layer.window[0]
    elif isinstance(layer, MatMul):
        columns = -(-graph.activations[layer.output].shape[2] // size)
        rows += columns * (size + RECORD_BYTES + RAW_ROWS)
    elif isinstance(layer, Transpose):
        rows += size * size
    elif isinstance(layer, Lut):
        rows = LUT_BYTES // size
    elif isinstance(layer, Softmax):
        rows += 2 * WORDS_BYTES // size + graph.activations[layer.output].shape[1]
    for name in {*layer.inputs, layer.output}:
        height, width, channels = graph.activations[name].shape
        lines = 1 if name == layer.output else min(window, height)
        vector = RAW_ROWS if graph.activations[name].dtype == "int32" else 1
        rows += (height if whole else lines) * width * -(-channels // size) * vector
    return rows
