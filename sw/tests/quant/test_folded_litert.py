"""Batches, long rows and tensors of many axes on the machine, against LiteRT on the file itself."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.arch.config import Config
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.layers import Conv
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.quick_options import quick_options

CONFIGS = (Config(), Config(array_size=4))


class Network(Builder):
    """A network whose weights are drawn."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def drawn(self, x: int, channels: int, kernel: tuple[int, int], **fields) -> int:
        """Add a convolution, depthwise if it has no channels."""
        depth = self.shape(x)[3]
        shape = (channels, *kernel, depth) if channels else (1, *kernel, depth)
        weight = self.rng.integers(-127, 128, shape).astype(np.int8)
        count = channels or depth
        scale = self.rng.uniform(0.5, 1.5, count) / 60 / (weight.size / count) ** 0.5
        bias = self.rng.integers(-500, 500, count)
        fields = {"scale": 0.05, "zero_point": 3, "depthwise": not channels, **fields}
        return self.conv(x, weight, bias, weight_scale=scale, **fields)

    def rows(self, x: int, outputs: int, inputs: int) -> int:
        """Add a dense layer."""
        weight = self.rng.integers(-127, 128, (outputs, inputs)).astype(np.int8)
        return self.dense(x, weight, weight_scale=0.5 / 60 / inputs**0.5, scale=0.05)

    def known(self, values) -> int:
        return self.constant(np.asarray(values, np.int32))

    def moved(self, code: str, x: int, shape, *constants, **options) -> int:
        """Add an operator that moves elements."""
        inputs = [x, *(self.known(each) for each in constants)]
        return self.operator(code, inputs, [self.like(x, shape)], **options)


def check(data: bytes, *, runs: int = 2) -> None:
    """Compare a file with LiteRT's reference kernels, none of whose nodes run on the CPU."""
    library = open_library(data, "tflite", Exactness.LITERT_REF)
    for config in CONFIGS:
        model = Model.load(load_tflite(data), config=config, options=quick_options())
        assert not [each.name for each in model.summary() if each.where == "host"]
        rng = np.random.default_rng(len(data))
        names = model.graph.inputs
        for _ in range(runs):
            values = {
                name: rng.integers(-128, 128, model.graph.tensors[name].shape).astype(np.int8)
                for name in names
            }
            found = model.run(values).outputs
            wanted = library([values[name] for name in names])
            for name, each in zip(model.graph.outputs, wanted, strict=True):
                np.testing.assert_array_equal(found[name].reshape(each.shape), each)


def batch_of_a_cnn(b: Network) -> int:
    x = b.input((3, 11, 10, 3), 0.05, 3)
    y = b.drawn(x, 8, (3, 3), stride=(2, 2), activation="RELU")
    y = b.pool("MAX_POOL_2D", y, (2, 2), stride=(2, 2))
    y = b.drawn(y, 0, (3, 3))
    y = b.add(y, b.drawn(y, 8, (1, 1)), 0.06, -4)
    return b.rows(b.reshape(y, (3, -1)), 5, 48)


def batch_of_windows(b: Network) -> int:
    x = b.input((2, 9, 8, 16), 0.05, 3)
    y = b.pool("AVERAGE_POOL_2D", x, (3, 3), stride=(2, 2), padding="SAME")
    y = b.pad(y, ((0, 0), (1, 0), (0, 2), (0, 0)))
    return b.mean(b.drawn(y, 4, (2, 3), padding="VALID"), (1, 2), 0.05, 1)


def batch_that_is_joined_along_rows(b: Network) -> int:
    x = b.input((2, 4, 5, 6), 0.05, 3)
    return b.drawn(b.concat([x, b.drawn(x, 6, (3, 3))], 1), 3, (3, 3))


def halves_of_a_batch(b: Network) -> int:
    x = b.input((2, 8, 8, 3), 0.05, 3)
    y = b.rows(b.reshape(b.drawn(x, 8, (3, 3), stride=(2, 2)), (2, -1)), 6, 128)
    halves = [b.moved("SLICE", y, (1, 6), (i, 0), (1, 6), options_type="SliceOptions")
              for i in (0, 1)]  # fmt: skip
    return b.elementwise("SUB", halves[0], halves[1], 0.1, 2)


def dense_over_time(b: Network) -> int:
    x = b.input((2, 5, 12), 0.05, 3)
    return b.rows(b.rows(x, 7, 12), 3, 7)


def long_row(b: Network) -> int:
    x = b.input((1, 1, 2500, 1), 0.05, 3)
    y = b.drawn(x, 4, (1, 9), stride=(1, 2), activation="RELU")
    y = b.drawn(y, 8, (1, 3), stride=(1, 4))
    return b.mean(y, (1, 2), 0.02, 1)


def many_boxes(b: Network) -> int:
    x = b.input((1, 2295, 4), 0.05, 3)
    y = b.unary("LOGISTIC", x, 1 / 256, -128)
    scores = b.rows(y, 6, 4)
    return b.concat([b.reshape(scores, (1, 2295, 6)), b.reshape(scores, (1, 2295, 6))], 2)


def shuffle_of_channels(b: Network) -> int:
    x = b.drawn(b.input((1, 5, 4, 3), 0.05, 3), 12, (1, 1))
    y = b.moved("TRANSPOSE", b.reshape(x, (1, 5, 4, 3, 4)), (1, 5, 4, 4, 3), (0, 1, 2, 4, 3))
    return b.drawn(b.reshape(y, (1, 5, 4, 12)), 4, (3, 3))


def nearest_pixels_by_tiles(b: Network) -> int:
    x = b.drawn(b.input((1, 3, 4, 3), 0.05, 3), 8, (1, 1))
    y = b.moved("TRANSPOSE", b.reshape(x, (1, 3, 4, 1, 8)), (1, 3, 1, 4, 8), (0, 1, 3, 2, 4))
    return b.drawn(b.reshape(y, (1, 3, 4, 8)), 4, (3, 3))


def gathered_positions(b: Network) -> int:
    x = b.drawn(b.input((1, 5, 4, 3), 0.05, 3), 9, (1, 1))
    y = b.moved("GATHER", x, (1, 5, 4, 4), (8, 0, 3, 3), options_type="GatherOptions", axis=3)
    y = b.moved("GATHER", y, (1, 2, 4, 4), (4, 1), options_type="GatherOptions", axis=1)
    return b.drawn(y, 4, (1, 1))


def groups_of_channels(b: Network) -> int:
    x = b.drawn(b.input((1, 4, 3, 5), 0.05, 3), 12, (3, 3))
    y = b.reshape(x, (1, 4, 3, 3, 4))
    mean = b.mean(y, (1, 2, 4), 0.02, 5, keep_dims=True)
    y = b.elementwise("SUB", y, mean, 0.05, -3)
    gain = b.like(y, (1, 1, 1, 3, 4), b.rng.integers(-100, 100, (1, 1, 1, 3, 4)).astype(np.int8))
    y = b.elementwise("MUL", y, gain, 0.1, 7)
    return b.drawn(b.reshape(y, (1, 4, 3, 12)), 4, (3, 3))


def rows_with_columns(b: Network) -> int:
    x = b.drawn(b.input((1, 4, 6, 3), 0.05, 3), 8, (1, 1))
    rows = b.pool("MAX_POOL_2D", x, (1, 6), stride=(1, 6))
    columns = b.pool("AVERAGE_POOL_2D", x, (4, 1), stride=(4, 1))
    return b.drawn(b.elementwise("SUB", rows, columns, 0.06, -4), 4, (3, 3))


def heads_of_eight(b: Network) -> int:
    x = b.drawn(b.input((1, 1, 6, 3), 0.05, 3), 24, (1, 1))
    y = b.moved("TRANSPOSE", b.reshape(x, (1, 6, 3, 8)), (1, 3, 6, 8), (0, 2, 1, 3))
    y = b.moved("TRANSPOSE", b.unary("LOGISTIC", y, 1 / 256, -128), (1, 6, 3, 8), (0, 2, 1, 3))
    return b.drawn(b.reshape(y, (1, 1, 6, 24)), 4, (1, 3))


NETWORKS: tuple[Callable[[Network], int], ...] = (
    batch_of_a_cnn,
    batch_of_windows,
    batch_that_is_joined_along_rows,
    halves_of_a_batch,
    dense_over_time,
    long_row,
    many_boxes,
    shuffle_of_channels,
    nearest_pixels_by_tiles,
    gathered_positions,
    groups_of_channels,
    rows_with_columns,
    heads_of_eight,
)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_networks_are_the_machines_alone(network):
    b = Network()
    check(b.build(network(b)))


def test_a_compiled_file_has_the_segments_that_it_was_compiled_with(tmp_path):
    b = Network()
    x = b.drawn(b.input((1, 4, 4, 3), 0.05, 3), 16, (3, 3))
    y = b.unary("LOGISTIC", b.reshape(x, (1, 2, 4, 32)), 1 / 256, -128)
    model = Model.load(load_tflite(b.build(y)), options=quick_options()).compile()
    save_model(model, tmp_path / "net.tpulite")
    again = load_model_file(tmp_path / "net.tpulite")
    value = b.rng.integers(-128, 128, (1, 4, 4, 3)).astype(np.int8)
    for name, output in model.run(value).outputs.items():
        np.testing.assert_array_equal(again.run(value).outputs[name], output)
    parts = [[type(each) for each in one.layers[0].layers] for one in (model, again)]
    assert parts[0] == parts[1]


def test_reshapes_between_floats_and_the_machine_are_no_products():
    b = Network()
    x = b.input((1, 5, 8, 1))
    b.tensors[x].type = 0  # float32
    y = b.unary("QUANTIZE", x, 0.05, 3)
    y = b.reshape(b.rows(b.reshape(y, (1, 40)), 40, 40), (1, 5, 8, 1))
    model = Model.load(load_tflite(b.build(b.unary("DEQUANTIZE", y, dtype="float32"))))
    assert [[type(each) for each in part.layers] for part in model.layers] == [[Conv]]
