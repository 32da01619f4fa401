"""SQUARED_DIFFERENCE of two scales, and layer normalization as Keras writes it, against LiteRT."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.arch.config import Config
from tpulite.frontend.tflite.writer import write_tflite
from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.quant.partition import MachineSegment
from tpulite_testing.drawn.operator_cases import Case
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.litert import KERNELS, run_golden, run_litert
from tpulite_testing.oracles.model_tensors import proven_equal

BYTES = np.arange(-128, 128, dtype=np.int8)


def every_pair(first: tuple[float, int], second: tuple[float, int], y: tuple[float, int]) -> Case:
    """Return the operator of all pairs of bytes, by scales and zero points of its tensors."""
    shape, tensors = (1, len(BYTES), len(BYTES), 1), {}
    for name, (scale, zero_point) in {"a": first, "b": second, "y": y}.items():
        quantization = Quantization(np.array([scale], np.float32), np.array([zero_point]))
        tensors[name] = Tensor(name, shape, "int8", quantization)
    node = Node("square", "squared_difference", ("a", "b"), ("y",))
    graph = Graph("square", (node,), tensors, ("a", "b"), ("y",), "tflite")
    pairs = np.meshgrid(BYTES, BYTES, indexing="ij")
    inputs = tuple(np.ascontiguousarray(values.reshape(shape)) for values in pairs)
    return Case(graph.name, graph, write_tflite(graph), inputs)


@pytest.mark.parametrize("seed", range(9))
def test_every_pair_of_bytes_has_the_librarys_square(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scales = [float(scale) for scale in 2.0 ** rng.uniform(-8, -2, 2)]
    zeros = [int(zero) for zero in rng.integers(-128, 128, 2)]
    largest = 255 * max(scales) * float(rng.choice([0.1, 0.5, 0.7, 1, 2]))
    y = largest**2 / 255, int(rng.choice([-128, 9]))
    case = every_pair((scales[0], zeros[0]), (scales[1], zeros[1]), y)
    exactness = list(KERNELS)[seed % 3]
    np.testing.assert_array_equal(run_golden(case, exactness), run_litert(case, exactness))


@pytest.mark.parametrize(
    ("first", "second", "y"),
    [
        ((0.05, -128), (0.05, 127), (3.0, -128)),  # as far apart as zero points can be
        ((0.05, 127), (0.02, 127), (0.7, 127)),  # every square is clamped
        ((0.05, 3), (0.02, -7), (1e-3, -128)),  # all but the least are clamped
        ((0.05, 3), (0.02, -7), (900.0, 0)),  # all are zero
        ((2.0**-5, 0), (2.0**-7, 0), (2.0**-3, -128)),  # ties
        ((0.0001, 0), (0.2, 0), (8.0, -128)),
    ],
)
def test_ends_of_scales_have_the_librarys_squares(first, second, y) -> None:
    case = every_pair(first, second, y)
    for exactness in KERNELS:
        np.testing.assert_array_equal(run_golden(case, exactness), run_litert(case, exactness))


def reduced(b: Builder, x: int, scale: float, zero_point: int) -> int:
    """Add the mean over the last axis."""
    shape = b.shape(x)
    axis = b.constant(np.array([len(shape) - 1], np.int32))
    y = b.tensor((*shape[:-1], 1), scale, zero_point)
    return b.operator("MEAN", [x, axis], [y], options_type="ReducerOptions", keepDims=True)


def normalized(b: Builder, x: int, rng: np.random.Generator) -> int:
    """Add what the converter makes of a LayerNormalization of Keras."""
    shape, channels = b.shape(x), b.shape(x)[-1]
    gains = b.constant(rng.integers(60, 127, channels).astype(np.int8), 0.01, 0)
    biases = b.constant(rng.integers(-127, 127, channels).astype(np.int8), 0.01, 0)
    mean = reduced(b, x, 0.004, 9)
    squared = b.operator("SQUARED_DIFFERENCE", [x, mean], [b.tensor(shape, 0.06, -128)])
    variance = reduced(b, squared, 0.03, -128)
    epsilon = b.constant(np.ones((1, 1, 1), np.int8), 0.001, 0)
    deviation = b.unary("RSQRT", b.add(variance, epsilon, 0.03, -128), 0.02, -128)
    gain = b.elementwise("MUL", deviation, gains, 0.02, -128)
    bias = b.elementwise("SUB", biases, b.elementwise("MUL", mean, gain, 0.01, -3), 0.02, 5)
    return b.add(b.elementwise("MUL", x, gain, 0.03, 4), bias, 0.04, 2)


@pytest.mark.parametrize("shape", [(1, 20, 40), (1, 5, 3, 32)])
def test_a_layer_normalization_of_keras_has_no_part_on_the_cpu(shape, tmp_path: Path) -> None:
    b, path = Builder(), tmp_path / "normalized.tflite"
    path.write_bytes(b.build(normalized(b, b.input(shape, 0.03, 7), np.random.default_rng(4))))
    model = proven_equal(path, Config(array_size=4), "litert-ref", seed=5)
    assert [type(segment) for segment in model.segments] == [MachineSegment]
