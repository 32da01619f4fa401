import re

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.passes import simplify
from tpulite.quant.exactness import Exactness
from tpulite.quant.place import place
from tpulite_testing.files.tflite_builder import Builder


def build():
    b = Builder()
    x = b.input((1, 8, 9, 2), 0.5, -3)
    weight = np.zeros((4, 3, 3, 2), np.int8)
    y = b.conv(x, weight, [0] * 4, weight_scale=[0.1] * 4, scale=0.5, zero_point=2)
    return b, b.tensors, y


def damage(change):
    b, tensors, y = build()
    change(b, tensors)
    return b.build(y)


def x_quantization(**fields):
    return lambda b, t: t[0].quantization.__dict__.update(fields)


def conv_options(**fields):
    return lambda b, t: b._operators[0].builtinOptions.__dict__.update(fields)


CASES = {
    "no quantization": (
        lambda b, t: setattr(t[0], "quantization", None),
        "node 'conv_2d_0' (CONV_2D): tensor 't0' is int8 and has no scale",
    ),
    "zero point out of range": (
        x_quantization(zeroPoint=[128]),
        "tensor 't0': zero points must be from -128 to 127, not 128",
    ),
    "zero points missing": (
        x_quantization(zeroPoint=None),
        "tensor 't0': it has 1 scales but 0 zero points",
    ),
    "scales of channels that are not there": (
        lambda b, t: setattr(t[1].quantization, "quantizedDimension", 1),
        "tensor 't1': it has 4 scales for 3 channels",
    ),
    "scales of an axis that is not there": (
        lambda b, t: setattr(t[1].quantization, "quantizedDimension", 4),
        "tensor 't1': its scales belong to axis 4 of shape [4, 3, 3, 2]",
    ),
    "activation with scales of channels": (
        lambda b, t: t[0].quantization.__dict__.update(
            quantizedDimension=3, scale=[0.1] * 2, zeroPoint=[0] * 2
        ),
        "node 'conv_2d_0' (CONV_2D): tensor 't0' must have one scale, not one a channel",
    ),
    "extent of nothing": (
        lambda b, t: setattr(t[0], "shape", [1, 8, 0, 2]),
        "node 'conv_2d_0' (CONV_2D): height and width of its output must be (8, 0), not (8, 9)",
    ),
    "negative extent": (
        lambda b, t: setattr(t[0], "shape", [1, 8, -2, 2]),
        "input 't0' has the shape 1x8x?x2; give it with --shape t0=1x8x64x2",
    ),
    "dynamic extent": (
        lambda b, t: setattr(t[0], "shapeSignature", [-1, -1, 9, 2]),
        "input 't0' has the shape ?x?x9x2; give it with --shape t0=1x64x9x2",
    ),
    "signature of another rank": (
        lambda b, t: setattr(t[0], "shapeSignature", [-1, 8]),
        "tensor 't0': shape [1, 8, 9, 2] and signature [-1, 8] have different ranks",
    ),
    "absurd shape": (
        lambda b, t: setattr(t[0], "shape", [1, 1 << 16, 1 << 16, 2]),
        "tensor 't0': shape [1, 65536, 65536, 2] has more than 2,147,483,647 elements",
    ),
    "absurd rank": (
        lambda b, t: setattr(t[0], "shape", [1] * 9),
        "the file is corrupt: tensor 0 cannot be read: Shape has 9 entries, more than 8",
    ),
    "constant of another size": (
        lambda b, t: setattr(t[2], "shape", [5]),
        "tensor 't2': shape [5] of int32 needs 20 bytes, not 16",
    ),
    "bias of another size": (
        lambda b, t: t[2].__dict__.update(shape=[2], type=4, quantization=None),
        "node 'conv_2d_0' (CONV_2D): its bias must be (4,), not (2,)",
    ),
    "buffer that is not there": (
        lambda b, t: setattr(t[1], "buffer", 9),
        "the file is corrupt: tensor 1 cannot be read: no buffer 9: the file has 3",
    ),
    "tensor that is not there": (
        lambda b, t: b._operators[0].inputs.__setitem__(1, 44),
        "the inputs of node 'conv_2d_0' name tensor 44 of 4",
    ),
    "negative tensor": (
        lambda b, t: b._operators[0].outputs.__setitem__(0, -1),
        "the outputs of node 'conv_2d_0' name tensor -1 of 4",
    ),
    "input of the graph that is not there": (
        lambda b, t: b.inputs.__setitem__(0, 7),
        "the inputs name tensor 7 of 4",
    ),
    "operator code that is not there": (
        lambda b, t: setattr(b._operators[0], "opcodeIndex", 3),
        "the file is corrupt: operator 0 cannot be read: no operator code 3: the file has 1",
    ),
    "no weights": (
        lambda b, t: b._operators[0].__dict__.update(inputs=[0]),
        "node 'conv_2d_0': input 1 is missing",
    ),
    "no output": (
        lambda b, t: b._operators[0].__dict__.update(outputs=[]),
        "node 'conv_2d_0': it has no output",
    ),
    "nothing computes an input": (
        lambda b, t: b.inputs.clear(),
        "Node 'conv_2d_0' needs 't0', which nothing computes",
    ),
    "zero stride": (
        conv_options(strideW=0),
        "node 'conv_2d_0': strides must be positive, not (1, 0)",
    ),
    "zero dilation": (
        conv_options(dilationHFactor=0),
        "node 'conv_2d_0': dilations must be positive, not (0, 1)",
    ),
    "unknown padding": (
        conv_options(padding=2),
        "node 'conv_2d_0': padding must be 0 (SAME) or 1 (VALID), not 2",
    ),
    "no options": (
        lambda b, t: b._operators[0].__dict__.update(builtinOptionsType=0, builtinOptions=None),
        "node 'conv_2d_0': strides must be positive, not (0, 0)",
    ),
    "weights of other channels": (
        lambda b, t: t[0].__dict__.update(shape=[1, 8, 9, 3]),
        "node 'conv_2d_0': channels of its weights must divide 3, not 2",
    ),
    "output of another size": (
        lambda b, t: setattr(t[3], "shape", [1, 8, 8, 4]),
        "node 'conv_2d_0' (CONV_2D): height and width of its output must be (8, 9), not (8, 8)",
    ),
    "input that is no image": (
        lambda b, t: setattr(t[0], "shape", [8, 9, 2]),
        "node 'conv_2d_0': its input must have 4 axes, not shape [8, 9, 2]",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_says_what_is_wrong_and_where(case):
    change, message = CASES[case]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        load_tflite(damage(change))


@pytest.mark.parametrize("tensor", [0, 1, 3])
@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan"), float("inf")])
def test_scales_that_mean_nothing_are_the_librarys(tensor, scale):
    def change(b, tensors):
        tensors[tensor].quantization.scale[0] = scale

    graph = simplify(load_tflite(damage(change)))
    placed = place(graph, Exactness.LITERT_REF)
    (placement,) = placed.placements.values()
    assert placement.engine == "host"
    assert "scale" in placement.reason
    assert placed.libraries == {0}


def test_weights_with_scales_of_another_axis_are_the_librarys():
    def change(b, tensors):
        axis = {"quantizedDimension": 1, "scale": [0.1] * 3, "zeroPoint": [0] * 3}
        tensors[1].quantization.__dict__.update(axis)

    (placement,) = place(load_tflite(damage(change)), Exactness.LITERT_REF).placements.values()
    assert (placement.engine, placement.reason) == ("host", "weights 't1' have 3 scales")


def test_refuses_what_is_no_tflite_file():
    with pytest.raises(
        ValueError, match=r"^this is not a TFLite file: bytes 4 to 7 are b'efgh', not"
    ):
        load_tflite(b"abcdefghijkl")


def test_a_bias_needs_no_sound_scale():
    b, tensors, y = build()
    tensors[2].quantization.scale = [0.0] * 4
    assert load_tflite(b.build(y)).tensors["t2"].quantization is None


def test_undamaged_file_loads():
    assert len(load_tflite(damage(lambda b, t: None)).nodes) == 1
