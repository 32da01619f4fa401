"""Every tensor of a network against those of the library of its format."""

from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.frontend.files import load_graph
from tpulite.golden.check import check
from tpulite.golden.validation import validate
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.quick_options import quick_options

__all__ = ["equals_library", "proven_equal"]


def equals_library(
    directory: Path,
    data: bytes,
    exact: str = "litert-ref",
    count: int = 3,
    config: Config | None = None,
) -> Model:
    """Compare all tensors of model and reference with a library; return the model of the file.

    Of the model's own, channels that no result needs are not compared: it does not compute them.

    Parameters
    ----------
    directory : Path
        Where to put the file.
    data : bytes
        A network of ONNX if ``exact`` is one of ONNX Runtime, else of TFLite.
    exact : str
        The numerics.
    count : int
        Random inputs.
    config : Config, optional
        The machine.
    """
    path = directory / ("net.onnx" if exact.startswith("ort") else "net.tflite")
    path.write_bytes(data)
    oracle = open_oracle(exact, path, load_graph(path))
    model = Model.load(path, exact=exact, config=config, options=quick_options())
    inputs = random_inputs(model.graph, count, 2024)
    run, reference = model.run(inputs, tensors=True), model.reference(inputs)
    each = [
        oracle({name: np.split(inputs[name], count)[i] for name in model.graph.inputs})
        for i in range(count)
    ]
    assert set(model.graph.outputs) <= each[0].keys()
    known = model.known_channels()
    for name in each[0]:
        expected = np.concatenate([values[name] for values in each])
        for ours in (run.outputs, reference):
            if name in ours:
                np.testing.assert_array_equal(ours[name], expected, err_msg=name)
        if name in run.tensors:
            channels = known.get(name, slice(None))
            computed, wanted = run.tensors[name][..., channels], expected[..., channels]
            np.testing.assert_array_equal(computed, wanted, err_msg=name)
    return model


def proven_equal(path: Path, config: Config, exact: str, seed: int) -> Model:
    """Compile a file; check and prove its programs, and compare all tensors with the library.

    Parameters
    ----------
    path : Path
        A network.
    config : Config
        The machine.
    exact : str
        The numerics.
    seed : int
        Of the first of two random inputs.
    """
    graph = load_graph(path)
    model = Model.load(path, config=config, exact=exact).compile()
    for program, layers in zip(model.programs, model.layers, strict=True):
        assert not check(program)
        assert not validate(layers, program)
    inputs = [random_inputs(graph, 1, seed + i) for i in range(2)]
    compared = compare_model(model, open_oracle(exact, path, graph), inputs)
    assert compared.same and compared.elements, str(compared)
    return model
