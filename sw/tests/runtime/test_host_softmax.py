import warnings

import numpy as np
import pytest

from tpulite.runtime.host.tables import softmax_fixed_point, softmax_table

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

KERNELS = {
    "reference": (OpResolverType.BUILTIN_REF, softmax_fixed_point),
    "optimized": (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, softmax_table),
    "xnnpack": (OpResolverType.AUTO, softmax_table),
}
ROWS = 512


def model(shape, dtype, scale, beta) -> bytes:
    """Return a TFLite file of one SOFTMAX."""
    kind = getattr(schema.TensorType, dtype.upper())
    tensors = []
    for name, values in (("x", (scale, 0)), ("y", (1 / 256, np.iinfo(dtype).min))):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), kind, 0
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = [float(values[0])]
        tensor.quantization.zeroPoint = [int(values[1])]
        tensors.append(tensor)
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0], [1]
    operator.builtinOptionsType = schema.BuiltinOptions.SoftmaxOptions
    operator.builtinOptions = schema.SoftmaxOptionsT()
    operator.builtinOptions.beta = beta
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.SOFTMAX
    code.version = 2
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = tensors, [operator]
    graph.inputs, graph.outputs = [0], [1]
    whole = schema.ModelT()
    whole.version, whole.subgraphs, whole.operatorCodes = 3, [graph], [code]
    whole.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def litert(kernels, content, x):
    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=kernels, num_threads=1
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    return interpreter.get_tensor(1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kernels", KERNELS)
def test_softmax_equals_litert(kernels, dtype):
    resolver, softmax = KERNELS[kernels]
    rng = np.random.default_rng(2024)
    bits = range(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    different = 0
    for case in range(60):
        n = int(rng.integers(1, 12 if case % 2 else 60))
        scale = float(np.float32(2.0 ** rng.uniform(-12, 1.5)))
        beta = 1.0 if case % 3 else float(np.float32(rng.uniform(0.3, 2)))
        x = rng.integers(bits[0], bits[-1] + 1, (ROWS, n))
        if case % 4 == 0:  # nearly equal inputs: shares that are far from 0 and 1
            x = np.clip(rng.normal(bits[128], 5, (ROWS, n)), bits[0], bits[-1])
        x = x.astype(dtype)
        y = litert(resolver, model(x.shape, dtype, scale, beta), x)
        ours = softmax(x, scale, beta, bits)
        different += np.count_nonzero(ours != y)
    assert different == 0


def test_the_kernels_differ():
    x = np.random.default_rng(5).integers(-128, 128, (40_000, 6)).astype(np.int8)
    bits = range(-128, 128)
    first, second = softmax_fixed_point(x, 2**-8, 1.0, bits), softmax_table(x, 2**-8, 1.0, bits)
    assert 0 < np.count_nonzero(first != second) < 1000
    assert np.abs(first - second).max() == 1
