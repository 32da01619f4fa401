"""TFLite files whose batch is open: shapes follow from the inputs, whatever the file stores.

The oracle is LiteRT on the untouched file, which resizes its inputs itself.
"""

import importlib.util
import math

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import tpulite as package
from tpulite.cli.bind_program import range_program
from tpulite.cli.bind_shapes import asked_shape
from tpulite.cli.reading import Reading
from tpulite.frontend.given_shapes import AS_IN_FILE
from tpulite.frontend.tflite.builder import ModelBuilder, schema
from tpulite.frontend.tflite.file import load_tflite
from tpulite.frontend.tflite.parse import parse_tflite
from tpulite.frontend.tflite.settle import settle_shapes
from tpulite.graph.passes.simplify import simplify
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session

RNG = np.random.default_rng(43)


class OpenBuilder(ModelBuilder):
    """Builds files as a converter writes them for a batch that is open."""

    def open(self, tensor: int, *signature: int) -> int:
        """Leave extents of a tensor open: -1 in its signature, 1 in its shape."""
        self.tensors[tensor].shapeSignature = list(signature)
        self.tensors[tensor].shape = [max(extent, 1) for extent in signature]
        return tensor

    def start(self, *shape: int) -> int:
        """Add an input with an open batch."""
        return self.open(self.input((1, *shape), 0.05, -3), -1, *shape)

    def known(self, values) -> int:
        """Add integers."""
        return self.constant(np.array(values, np.int32))

    def integers(self, code: str, inputs, *shape: int, **options) -> int:
        """Add an operator on integers."""
        y = self.tensor(shape, dtype="int32")
        return self.operator(code, inputs, [y], **options)

    def shape_of(self, x: int, rank: int) -> int:
        """Add the shape of a tensor in the run."""
        return self.integers("SHAPE", [x], rank, options_type="ShapeOptions", outType=2)

    def move(self, code: str, x: int, others, *signature: int, **options) -> int:
        """Add an operator that moves elements to a tensor of an open shape."""
        y = self.open(self.like(x, [1] * len(signature)), *signature)
        return self.operator(code, [x, *others], [y], **options)

    def dense(self, x: int, inputs: int, outputs: int) -> int:
        """Add a dense layer of rows whose number is open."""
        values = RNG.integers(-127, 128, (outputs, inputs)).astype(np.int8)
        y = self.open(self.tensor((1, outputs), 0.1, 4), -1, outputs)
        options = {"options_type": "FullyConnectedOptions"}
        return self.operator(
            "FULLY_CONNECTED", [x, self.constant(values, 0.01), -1], [y], **options
        )

    def over_time(self, x: int) -> int:
        """Add a dense layer of each of six steps of 16 channels."""
        shape = self.shape_of(x, 3)
        options = {"options_type": "GatherOptions"}
        batch = self.integers("GATHER", [shape, self.known([0, 1])], 2, **options)
        axes = self.integers("GATHER", [shape, self.known([2])], 1, **options)
        rows, columns = (
            self.integers("REDUCE_PROD", [y, self.known([0])], options_type="ReducerOptions")
            for y in (batch, axes)
        )
        options = {"options_type": "PackOptions", "valuesCount": 2}
        flat = self.integers("PACK", [rows, columns], 2, **options)
        y = self.dense(self.move("RESHAPE", x, [flat], -1, -1), 16, 24)
        joined = self.integers("CONCATENATION", [batch, self.known([24])], 3)
        return self.move("RESHAPE", y, [joined], -1, 6, 24)

    def conv(self, x: int, kernel: int, inputs: int, outputs: int, *signature: int) -> int:
        """Add a convolution without padding."""
        values = RNG.integers(-127, 128, (outputs, kernel, kernel, inputs)).astype(np.int8)
        weight = self.constant(values, np.full(outputs, 0.002), np.zeros(outputs, int))
        bias = np.zeros(outputs, np.int32)
        y = self.open(self.tensor((1, 1, 1, 1), 0.1, 4), *signature)
        options = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        options |= {"options_type": "Conv2DOptions", "padding": schema.Padding.VALID}
        scale = np.full(outputs, 0.05 * 0.002)
        inputs_ = [x, weight, self.constant(bias, scale, np.zeros(outputs, int))]
        return self.operator("CONV_2D", inputs_, [y], **options)


def dense_over_time() -> bytes:
    """Return a dense layer of each of six steps, as Keras writes it."""
    b = OpenBuilder()
    return b.build(b.over_time(b.start(6, 16)))


def dilated() -> bytes:
    """Return a convolution of the phases of an image, whose number the file does not say."""
    b = OpenBuilder()
    x, block = b.start(8, 8, 4), b.known([2, 2])
    options = {"options_type": "SpaceToBatchNDOptions"}
    y = b.move("SPACE_TO_BATCH_ND", x, [block, b.known([[2, 2]] * 2)], -1, 6, 6, 4, **options)
    y = b.conv(y, 3, 4, 16, -1, 4, 4, 16)
    options = {"options_type": "BatchToSpaceNDOptions"}
    crops = b.known([[0, 0], [0, 0]])
    return b.build(b.move("BATCH_TO_SPACE_ND", y, [block, crops], -1, 8, 8, 16, **options))


def upsampled() -> bytes:
    """Return a nearest resize as Keras 3 writes it, between two convolutions."""
    b = OpenBuilder()
    y = b.conv(b.start(6, 5, 4), 3, 4, 16, -1, 4, 3, 16)
    for axis, sides in ((1, (8, 3)), (2, (8, 6))):
        before = [-1, *((4, 3) if axis == 1 else (8, 3)), 16]
        longer = [*before[: axis + 1], 1, *before[axis + 1 :]]
        tiled = [*before[: axis + 1], 2, *before[axis + 1 :]]
        shape = b.shape_of(y, 4)
        y = b.move("EXPAND_DIMS", y, [b.known(axis + 1)], *longer)
        y = b.move("TILE", y, [b.known([2 if i == axis + 1 else 1 for i in range(5)])], *tiled)
        ends = [b.known([0]), b.known([1]), b.known([1])]
        options = {"options_type": "StridedSliceOptions"}
        batch = b.integers("STRIDED_SLICE", [shape, *ends], 1, **options)
        joined = b.integers("CONCATENATION", [batch, b.known([*sides, 16])], 4)
        y = b.move("RESHAPE", y, [joined], -1, *([-1, 3] if axis == 1 else [8, 6]), 16)
    return b.build(b.conv(y, 3, 16, 8, -1, 6, 4, 8))


def started_with_zeros() -> bytes:
    """Return rows beside zeros whose number is computed: CAST, MUL, ADD, FILL, BROADCAST_TO."""
    b = OpenBuilder()
    x = b.start(4)
    shape = b.shape_of(x, 2)
    long = b.operator("CAST", [shape], [b.tensor((2,), dtype="int64")])
    back = b.integers("CAST", [long], 2)
    double = b.integers("MUL", [back, b.known([1, 2])], 2, options_type="MulOptions")
    wide = b.integers("ADD", [double, b.known([0, 4])], 2, options_type="AddOptions")
    zero = b.constant(np.array(-3, np.int8), 0.05, -3)
    filled = b.open(b.tensor((1, 1), 0.05, -3), -1, -1)
    b.operator("FILL", [wide, zero], [filled], options_type="FillOptions")
    ones = b.constant(np.full((1, 4), 9, np.int8), 0.05, -3)
    spread = b.move("BROADCAST_TO", ones, [shape], -1, 4)
    y = b.open(b.tensor((1, 20), 0.05, -3), -1, 20)
    options = {"options_type": "ConcatenationOptions", "axis": 1}
    b.operator("CONCATENATION", [x, filled, spread], [y], **options)
    return b.build(b.dense(y, 20, 8))


def placeholder() -> bytes:
    """Return a reshape to a computed shape, into a tensor that the file declares as 1 x 1."""
    b = OpenBuilder()
    x = b.input((1, 4, 16), 0.05, -3)
    two = b.integers("SHAPE", [x], 3, options_type="ShapeOptions", outType=2)
    ends = [b.known([1]), b.known([3]), b.known([1])]
    rest = b.integers("STRIDED_SLICE", [two, *ends], 2, options_type="StridedSliceOptions")
    return b.build(b.dense(b.move("RESHAPE", x, [rest], -1, -1), 16, 8))


FILES = {
    "dense over time": (dense_over_time, 6 * 16 * 24),
    "dilated": (dilated, 8 * 8 * 16 * 36),
    "upsampled": (upsampled, 4 * 3 * 16 * 36 + 6 * 4 * 8 * 9 * 16),
    "started with zeros": (started_with_zeros, 20 * 8),
    "placeholder": (placeholder, 4 * 16 * 8),
}


def by_litert(data: bytes, x: np.ndarray) -> np.ndarray:
    """Run the untouched file on an input of any batch, by the reference kernels."""
    run = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    (given,), (result,) = run.get_input_details(), run.get_output_details()
    run.resize_tensor_input(given["index"], x.shape)
    run.allocate_tensors()
    run.set_tensor(given["index"], x)
    run.invoke()
    return run.get_tensor(result["index"])


@pytest.fixture
def written(tmp_path):
    """Write a file; return where."""

    def write(data: bytes):
        path = tmp_path / "net.tflite"
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("name", FILES)
def test_a_batch_of_one_runs_on_the_machine_with_the_bits_of_the_untouched_file(name, written):
    make, macs = FILES[name]
    data = make()
    model = Model.load(written(data))
    assert (model.macs, model.host_macs) == (macs, 0)
    assert {each.where for each in model.summary()} <= {"MXU", "VPU", "none"}
    (given,), (result,) = model.graph.inputs, model.graph.outputs
    x = RNG.integers(-128, 128, model.graph.tensors[given].shape).astype(np.int8)
    expected = by_litert(data, x)
    np.testing.assert_array_equal(model.run(x).outputs[result].reshape(expected.shape), expected)


@pytest.mark.parametrize("name", ["dense over time", "started with zeros"])
def test_a_given_batch_has_the_bits_of_a_resized_input(name, written):
    make, macs = FILES[name]
    data = make()
    path = written(data)
    (given,) = load_tflite(data).inputs
    shape = (3, *load_tflite(data).tensors[given].shape[1:])
    model = Model.load(path, shapes={given: shape})
    assert model.macs == 3 * macs
    x = RNG.integers(-128, 128, shape).astype(np.int8)
    (result,) = model.graph.outputs
    expected = by_litert(data, x)
    np.testing.assert_array_equal(model.run(x).outputs[result].reshape(expected.shape), expected)


def test_a_fixed_extent_is_resized_as_litert_does(written):
    b = OpenBuilder()
    data = b.build(b.conv(b.input((1, 6, 6, 4), 0.05, -3), 3, 4, 8, 1, 4, 4, 8))
    model = Model.load(written(data), shapes={"t0": (1, 9, 7, 4)})
    x = RNG.integers(-128, 128, (1, 9, 7, 4)).astype(np.int8)
    (result,) = model.graph.outputs
    np.testing.assert_array_equal(model.run(x).outputs[result], by_litert(data, x))


def test_repeated_rows_and_columns_are_one_strided_slice():
    ops = [node.op for node in simplify(load_tflite(upsampled())).nodes]
    assert ops == ["conv", "pick", "conv"]


def test_shapes_that_the_file_stores_rightly_leave_the_file_as_it_is():
    b = OpenBuilder()
    data = b.build(b.conv(b.start(6, 6, 4), 3, 4, 8, -1, 4, 4, 8))
    graph = load_tflite(data)
    assert graph.source is not None
    assert graph.source.data is data


def test_shapes_that_the_data_decide_stay_open():
    b = OpenBuilder()
    x = b.start(4)
    found = b.open(b.tensor((1, 2), dtype="int64"), -1, 2)
    y = b.open(b.tensor((1, 4), dtype="bool"), -1, 4)
    b.operator("GREATER", [x, b.constant(np.zeros((1, 4), np.int8), 0.05, -3)], [y])
    b.operator("WHERE", [y], [found])
    count = b.shape_of(found, 2)
    graph = load_tflite(b.build(count))
    assert [node.op for node in graph.nodes][-1] == "shape"  # it is no constant
    assert simplify(graph).tensors[graph.outputs[0]].shape == (2,)


def test_a_reshape_of_as_many_rows_as_the_data_decide_is_the_librarys(tmp_path):
    """Loops of padded non-maximum suppression end so."""
    b = OpenBuilder()
    x = b.start(4)
    positive, found = b.tensor((1, 4), dtype="bool"), b.tensor((1, 2), dtype="int64")
    b.operator("GREATER", [x, b.constant(np.zeros((1, 4), np.int8), 0.05, -3)], [positive])
    b.operator("WHERE", [positive], [b.open(found, -1, 2)])
    flat = b.open(b.tensor((1,), dtype="int64"), -1)
    b.operator("RESHAPE", [found, b.known([-1])], [flat])
    (tmp_path / "net.tflite").write_bytes(b.build(flat))
    values = np.array([[1, -9, 5, -3]], np.int8)
    result = Model.load(tmp_path / "net.tflite").run(values).output
    np.testing.assert_array_equal(result.reshape(-1), [0, 0, 0, 2])


def test_files_with_operators_that_litert_lacks_are_read_as_they_are_stored():
    b = OpenBuilder()
    x = b.start(4)
    graph = load_tflite(b.build(b.operator("CUSTOM:Odd", [x], [b.open(b.like(x, (1, 4)), -1, 4)])))
    assert graph.tensors[graph.outputs[0]].shape == (1, 4)


def test_a_shape_that_litert_refuses_is_one_line(written):
    path = written(dense_over_time())
    with pytest.raises(ValueError, match=r"LiteRT rejects the given shapes: ") as caught:
        Model.load(path, shapes={"t0": (1, 6, 5)})
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


def test_extents_of_tflite_have_no_names(written):
    with pytest.raises(ValueError, match=r"--dim batch: no such open dimension$"):
        Model.load(written(dense_over_time()), dims={"batch": 2})


def test_without_litert_stored_shapes_must_do_and_none_can_be_given(monkeypatch, written):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if "litert" in name else find(name)
    )
    b = OpenBuilder()
    path = written(b.build(b.conv(b.start(6, 6, 4), 3, 4, 8, -1, 4, 4, 8)))
    assert Model.load(path).macs == 4 * 4 * 8 * math.prod((3, 3, 4))
    with pytest.raises(ValueError, match=r"--shape of a TFLite file needs: pip install"):
        Model.load(path, shapes={"t0": (2, 6, 6, 4)})


@pytest.mark.parametrize("name", ["dense over time", "dilated"])
def test_damaged_files_are_refused_or_read(name):
    data = FILES[name][0]()
    for position in range(0, len(data), 17):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        try:
            load_tflite(bytes(damaged))
        except ValueError as error:
            assert str(error)


def test_comparisons_run_the_untouched_file(monkeypatch, written):
    data = dense_over_time()
    path = written(data)
    assert package.compare(path, count=2).same
    shapes = {"t0": (2, 6, 16)}
    assert package.compare(path, count=2, shapes=shapes).same
    file = dense_over_time()
    other = settle_shapes(
        file, parse_tflite(file), AS_IN_FILE
    )  # the same network with other weights
    monkeypatch.setattr("tpulite.frontend.tflite.file.settle_shapes", lambda *_: other)
    found = package.compare(path, count=2)
    assert {each.name for each in found.different} >= set(load_tflite(data).outputs)


def test_an_oracle_that_lacks_an_operator_names_one_that_has_it(written):
    b = ModelBuilder("float32")
    x = b.input((1, 4))
    path = written(b.build(b.operator("ELU", [x], [b.like(x, (1, 4))])))
    with pytest.raises(
        ValueError, match=r"it does not have ELU \(version 1\); --oracle litert-opt runs it"
    ):
        package.compare(path, "litert-ref", count=1)
    assert package.compare(path, "litert-opt", count=2).same


def test_a_file_with_open_extents_is_bound_as_a_range(tmp_path):
    b = OpenBuilder()
    x = b.open(b.input((1, 1, 1, 3), 0.05, -3), -1, -1, -1, 3)
    data = b.build(b.conv(x, 3, 3, 5, -1, -1, -1, 5))
    (tmp_path / "net.tflite").write_bytes(data)
    shapes = [asked_shape("2x7x6"), asked_shape("1x5x9")]
    program = range_program(tmp_path / "net.tflite", Reading(), None, shapes)
    for shape in shapes:
        bound = program.bind(shape.height, shape.width, batch=shape.batch)
        given = RNG.integers(-128, 128, (shape.batch, shape.height, shape.width, 3)).astype(np.int8)
        np.testing.assert_array_equal(Session(bound).run(given).output, by_litert(data, given))


def test_a_file_that_litert_does_not_run_is_refused_with_its_reason(written):
    b = OpenBuilder()
    x = b.start(6, 16)
    wide = b.open(b.tensor((1, 6, 16), 0.1, dtype="int16"), -1, 6, 16)
    b.operator("QUANTIZE", [x], [wide])
    square = b.open(b.tensor((1, 6, 16), 0.1, dtype="int16"), -1, 6, 16)
    b.operator("SQUARED_DIFFERENCE", [wide, wide], [square])
    y = b.open(b.tensor((1, 6, 16), 0.1), -1, 6, 16)
    b.operator("QUANTIZE", [square], [y])
    with pytest.raises(ValueError, match=r"LiteRT does not run this file: SquaredDifference only"):
        Model.load(written(b.build(b.over_time(y))))


def test_shapes_that_broadcast_are_constants():
    """Keras writes ``x ** 2`` as POW of an exponent that is repeated to the shape of x."""
    b = OpenBuilder()
    x = b.start(6, 16)
    nothing = b.constant(np.zeros(0, np.int32))
    shape = b.integers("BROADCAST_ARGS", [b.shape_of(x, 3), nothing], 3)
    two = b.constant(np.array(20, np.int8), 0.1)
    repeated = b.open(b.tensor((1, 1, 1), 0.1), -1, -1, -1)
    b.operator("BROADCAST_TO", [two, shape], [repeated])
    y = b.open(b.tensor((1, 6, 16), 0.1), -1, 6, 16)
    graph = load_tflite(b.build(b.operator("MUL", [x, repeated], [y], options_type="MulOptions")))
    assert [node.op for node in graph.nodes] == ["mul"]
    assert graph.tensors[graph.nodes[0].inputs[1]].shape == (1, 6, 16)
