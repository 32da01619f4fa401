"""Files with pooling windows of more than 255 positions, on a small machine: LiteRT's bits."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tpulite.arch.config import Config
from tpulite.frontend.tflite.writer import write_tflite
from tpulite.runtime.model import Model
from tpulite_testing.graphs.small_graphs import activation, graph_of, node

CONFIG = Config(ub_rows=1024)
WINDOW = {"window": (280, 20), "stride": (9, 11), "padding": (0, 0, 0, 0), "activation": "none"}
POOLS = {
    "mean": ({"axes": (1, 2), "keep_dims": True}, (1, 1, 1, 20)),
    "max_pool": (WINDOW, (1, 3, 2, 20)),
    "average_pool": (WINDOW | {"count_include_pad": False}, (1, 3, 2, 20)),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", POOLS)
def test_large_windows_of_files_are_exact(op: str, dtype: str, tmp_path) -> None:
    attributes, shape = POOLS[op]
    zero = 7 if dtype == "int8" else 130
    scale = 0.04 if op == "mean" else 0.05
    tensors = [
        activation("x", (1, 300, 31, 20), 0.05, zero, dtype),
        activation("y", shape, scale, zero, dtype),
    ]
    path = tmp_path / "pool.tflite"
    path.write_bytes(write_tflite(graph_of([node(op, "x", "y", **attributes)], tensors, "x", "y")))
    kernels = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(str(path), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    (given,), (computed,) = interpreter.get_input_details(), interpreter.get_output_details()
    info = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    most = rng.integers(info.min + 60, info.max + 1, 20)  # of each channel
    x = rng.integers(info.min, most, (1, 300, 31, 20)).astype(dtype)
    interpreter.set_tensor(given["index"], x)
    interpreter.invoke()
    expected = interpreter.get_tensor(computed["index"])
    assert len(np.unique(expected)) > 9
    model = Model.load(path, config=CONFIG, exact="litert-ref")
    results = model.run({given["name"]: x})
    np.testing.assert_array_equal(results.outputs[computed["name"]], expected)
