"""Whole float networks that ``quantize`` reads, small ones: recurrent nodes, branches, and both."""

import io

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tpulite_testing.files.recurrent_onnx import Recurrent, recurrent_file, recurrent_samples
from tpulite_testing.hostile.corpus import Whole

__all__ = ["float_networks"]

_SAMPLES = 4
_RATE = 16_000
_FORMS = (
    Recurrent("LSTM", cells=4, steps=2, features=4, initial=True),
    Recurrent("GRU", cells=4, steps=2, features=4, both=True),
    Recurrent("RNN", cells=4, steps=2, features=4),
)
_QUANTIZE = ("quantize", "@", "--calibrate", "x.npz", "-o", "out.onnx", "--min-cosine", "0")
_OTHERS = (("inspect", "@", "--config", "4x4"), ("run", "@", "--config", "4x4", "--no-cache"))


def float_networks() -> tuple[Whole, ...]:
    """Return networks of one recurrent node each, and one that an input chooses a branch of."""
    recurrent = ((form.kind.lower(), recurrent_file(form)) for form in _FORMS)
    return (
        *(_whole(name, data, recurrent_samples(data, _SAMPLES)) for name, data in recurrent),
        _branches(),
    )


def _whole(
    name: str, data: bytes, samples: list[dict[str, np.ndarray]], *options: str, most: int = 4
) -> Whole:
    buffer = io.BytesIO()
    np.savez(buffer, **{key: np.stack([each[key] for each in samples]) for key in samples[0]})
    commands = ((*_QUANTIZE, *options),) * most + _OTHERS
    return Whole(f"{name}.onnx", "onnx", data, commands, {"x.npz": buffer.getvalue()})


def _branches() -> Whole:
    """Return a network whose weights depend on an input that ``--set`` gives."""
    rng = np.random.default_rng(7)
    shape = (1, 4)

    def branch(name: str, activation: str) -> onnx.GraphProto:
        weight = rng.normal(size=(4, 4)).astype(np.float32)
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
            helper.make_node(activation, ["product"], ["made"], name="activation"),
        ]
        made = helper.make_tensor_value_info("made", TensorProto.FLOAT, shape)
        return helper.make_graph(nodes, name, [], [made], [numpy_helper.from_array(weight, "w")])

    nodes = [
        helper.make_node("Equal", ["rate", "high"], ["is_high"], name="compare"),
        helper.make_node(
            *("If", ["is_high"], ["y"]),
            name="if",
            then_branch=branch("high", "Relu"),
            else_branch=branch("low", "Tanh"),
        ),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    rate = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    high = numpy_helper.from_array(np.array(_RATE), "high")
    graph = helper.make_graph(nodes, "branches", [x, rate], [y], [high])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    samples = [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(_SAMPLES)]
    return _whole("branches", model.SerializeToString(), samples, "--set", f"rate={_RATE}", most=8)
