"""What a user does with a file: load, compile, run; every output is the library's, to the bit."""

import warnings
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.quick_options import quick_options

__all__ = ["run_untouched", "runs_as_the_library"]

_COUNT = 2
"""Random inputs of a check."""


def runs_as_the_library(
    path: Path,
    config: Config | None = None,
    device: str = "golden",
    seed: int = 0,
    batch: int = 1,
) -> tuple[Model, dict[str, int]]:
    """Run a file as users do, and compare its outputs with the library's on the untouched file.

    Parameters
    ----------
    path : Path
        A TFLite or ONNX file.
    config : Config, optional
        The machine.
    device : str
        Where the machine's part runs.
    seed : int
        Of the inputs.
    batch : int
        Inputs that the machine takes at once.

    Returns
    -------
    Model
        What ran.
    dict of str to int
        Elements compared, and MACs on machine and CPU.

    Raises
    ------
    AssertionError
        If an output differs in type, shape or value.
    """
    model = Model.load(path, config=config, options=quick_options(batch=batch))
    inputs = random_inputs(model.graph, _COUNT, seed)
    outputs = model.run(inputs, device).outputs
    each = [
        run_untouched(path, {name: np.split(x, _COUNT)[i] for name, x in inputs.items()})
        for i in range(_COUNT)
    ]
    elements = 0
    for position, (name, ours) in enumerate(outputs.items()):
        theirs = np.concatenate([one[position] for one in each])
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
        differ = int((ours != theirs).sum())
        assert not differ, f"{differ} of {ours.size} elements of {name!r} differ"
        elements += ours.size
    macs = {"MACs on the machine": model.macs - model.host_macs, "MACs on the CPU": model.host_macs}
    return model, {"elements": elements, **macs}


def run_untouched(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a file by its own library: default ONNX Runtime, reference LiteRT."""
    if path.suffix == ".onnx":
        from tpulite_testing.oracles.onnx_session import open_onnx

        session = open_onnx(path)
        return [np.asarray(value) for value in session.run(None, inputs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    interpreter = Interpreter(
        str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
