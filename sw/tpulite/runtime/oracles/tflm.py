"""TensorFlow Lite Micro as an oracle, by the package ``tflite-micro``."""

import math
from importlib import import_module
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph
from tpulite.runtime.oracles.litert import numbers_of
from tpulite.runtime.oracles.oracle import Oracle, Values

_SPARE = 1 << 24
"""Bytes for what it keeps of operators; too small an arena brings the process down."""


def open_tflm(data: bytes, graph: Graph) -> Oracle:
    """Open sessions of TensorFlow Lite Micro: one for outputs, one that keeps all tensors.

    Parameters
    ----------
    graph : Graph
        What was read from it.

    Raises
    ------
    RuntimeError
        If it does not have an operator.
    """
    runtime: Any = import_module("tflite_micro.python.tflite_micro.runtime")
    every = graph.tensors.values()
    tensors = sum(math.prod(x.shape) * np.dtype(x.dtype).itemsize for x in every)

    def session(config: Any) -> Any:
        arena = 2 * tensors + len(data) + _SPARE
        return runtime.Interpreter.from_bytes(data, arena_size=arena, intrepreter_config=config)

    configs = runtime.InterpreterConfig
    plain, keeping = session(configs.kAllocationRecording), session(configs.kPreserveAllTensors)
    _, outputs, computed = numbers_of(graph)
    kept = {state.output for state in graph.states}  # an SVDF may have bytes there
    computed = {name: number for name, number in computed.items() if name not in kept}

    def invoked(interpreter: Any, values: Values) -> None:
        if not graph.states:
            interpreter.reset()
        for index, name in enumerate(graph.inputs):
            interpreter.set_input(values[name], index)
        interpreter.invoke()

    def run(values: Values) -> dict[str, np.ndarray]:
        invoked(plain, values)
        return {name: plain.get_output(index).copy() for index, name in enumerate(graph.outputs)}

    def exposed(values: Values) -> dict[str, np.ndarray]:
        invoked(keeping, values)
        found = {}
        for name, number in (computed | outputs).items():
            shape = graph.tensors[name].shape
            found[name] = np.array(keeping.GetTensor(number, 0)["tensor_data"]).reshape(shape)
        return found

    return Oracle(run, exposed, resets=(plain.reset, keeping.reset))
