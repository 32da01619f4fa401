import pytest

from tpulite.arch.config import Config
from tpulite.arch.opcodes import Engine
from tpulite.arch.registers import EngineState
from tpulite.compiler.geometry.extents import activation_rows, constant_rows, input_rows
from tpulite.compiler.options import Options
from tpulite.compiler.plan.layer_cost import compute_cycles, transfer_cycles
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.golden.timing import predict
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.kept import kept_program

SAME = {"padding": (1, 1, 1, 1)}
ALONE = Options(grouping=False, effort=1)
"""One program, which goes through delay lines where these let it stream less."""


def conv(shape, channels, kernel, **geometry):
    builder = GraphBuilder(shape)
    builder.conv("x", channels, kernel, **geometry)
    return builder.graph()


def depthwise(shape, kernel, **geometry):
    builder = GraphBuilder(shape)
    builder.depthwise("x", kernel, **geometry)
    return builder.graph()


def lut(shape):
    builder = GraphBuilder(shape)
    builder.lut("x")
    return builder.graph()


def pool(shape, window, **geometry):
    builder = GraphBuilder(shape)
    builder.pool("x", window, **geometry)
    return builder.graph()


LAYERS = {
    "pointwise": conv((14, 28, 64), 64, 1),
    "pointwise of few rows": conv((3, 56, 64), 256, 1),
    "pointwise of few pixels": conv((2, 3, 64), 64, 1),
    "3x3": conv((14, 20, 32), 48, 3, **SAME),
    "3x3 with stride": conv((15, 28, 32), 32, 3, stride=(2, 2), **SAME),
    "packed rows": conv((30, 30, 3), 32, 3, stride=(2, 1), **SAME),
    "depthwise": depthwise((28, 28, 64), 3, **SAME),
    "depthwise with stride": depthwise((9, 56, 96), 3, stride=(2, 2), **SAME),
    "depthwise 5x5": depthwise((14, 14, 32), 5, padding=(2, 2, 2, 2)),
    "depthwise with dilation": depthwise((28, 28, 32), 3, dilation=(2, 2), padding=(2,) * 4),
    "pooling": pool((28, 28, 32), (2, 2), stride=(2, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_cycles_in_closed_form_are_those_of_the_cycle_model(name):
    config = Config()
    layers = pack_patches(LAYERS[name], config)
    (layer,) = layers.layers
    images = tuple(layers.activations[each] for each in (*layer.inputs, layer.output))
    packed_rows = input_rows(layers, layer, config) is not None
    assert packed_rows == (name == "packed rows")
    found = compute_cycles(layer, images, images[-1].shape[:2], config, packed_rows=packed_rows)
    timeline = predict(kept_program(layers, config, ALONE).commands, config)
    for engine, cycles in ((Engine.MXU, found.mxu), (Engine.VPU, found.vpu)):
        assert cycles == pytest.approx(timeline.engine(engine)[EngineState.BUSY], rel=0.06, abs=80)


def test_narrow_lanes_and_small_arrays_cost_more():
    layers = LAYERS["3x3"]
    (layer,) = layers.layers
    images = (layers.activations["x"], layers.activations[layer.output])
    plain, slow, small = (
        compute_cycles(layer, images, (14, 20), config).mxu
        for config in (Config(), Config(requant_lanes=4), Config(array_size=8))
    )
    assert slow - plain == 3 * 3 * 14 * 20  # blocks times vectors, each 4 cycles instead of one
    assert small == pytest.approx(4 * plain, rel=0.02)


def test_rows_and_their_transfer():
    layers = conv((10, 7, 40), 20, 3)
    (layer,) = layers.layers
    for size, blocks, cycles in ((8, 5, 350), (16, 3, 210), (32, 2, 280)):
        config = Config(array_size=size)
        assert activation_rows(layers.activations["x"], config) == 70 * blocks
        assert transfer_cycles(70 * blocks, config) == cycles
        out_blocks = -(-20 // size)
        records = config.short_record_rows
        assert constant_rows(layer, config) == out_blocks * (9 * blocks * size + records)
