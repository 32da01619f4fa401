"""The example that travels in a compiled network runs each program alone."""

import zipfile

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.configs import named_config
from tpulite.golden.timing.predict import predict
from tpulite.runtime.example import draw_example
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_example, save_model
from tpulite.runtime.session import Session
from tpulite_testing.files.tflite_builder import Builder


def test_programs_between_parts_on_the_cpu_run_alone_with_the_example(tmp_path):
    b, rng = Builder(), np.random.default_rng(2024)
    x = b.input((1, 5, 5, 8), 0.05, -7)
    for _ in range(2):
        weights = rng.integers(-127, 128, (8, 3, 3, 8)).astype("int8")
        x = b.conv(x, weights, weight_scale=0.01, scale=0.05, zero_point=-7)
        y = b.tensor(b.shape(x), 16 / 256, 127)
        x = b.operator("LOG_SOFTMAX", [x], [y], options_type="LogSoftmaxOptions")
    (tmp_path / "net.tflite").write_bytes(b.build(x))
    model = Model.load(tmp_path / "net.tflite", config=named_config("4x4"))
    save_model(model, tmp_path / "net.tpulite", draw_example(model, predicts=True))
    with zipfile.ZipFile(tmp_path / "net.tpulite") as archive:  # which holds packed programs
        assert archive.getinfo("programs/1.tpl").compress_type == zipfile.ZIP_STORED
    example = load_example(tmp_path / "net.tpulite")
    assert example is not None
    assert len(model.programs) == 2 and len(example.borders) == 3
    values = {**example.inputs, **example.borders}
    for program, cycles in zip(model.programs, example.cycles, strict=True):
        inputs = {spec.name: values[spec.name].reshape(spec.shape) for spec in program.inputs}
        for name, output in Session(program).run(inputs).outputs.items():
            assert output.tobytes() == example.borders[name].tobytes()
        assert cycles == predict(program.commands, program.config).cycles
