"""Forms of operators that the sweep does not draw, against LiteRT, element by element."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.frontend.tflite.writer import write_tflite
from tpulite_testing.drawn.operator_cases import Case
from tpulite_testing.graphs.small_graphs import activation, constant, graph_of, node
from tpulite_testing.oracles.litert import KERNELS, run_golden, run_litert

CASES = 60
REFUSALS = ("no parameters give", "vector code")


class Form:
    """Draws graphs of one form."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.low = 0 if dtype == "uint8" else -128
        self.shape = (1, *(int(n) for n in self.rng.integers(1, 9, 3)))

    def tensor(self, name, shape, scale=None):
        scale = self.rng.uniform(0.01, 0.1) if scale is None else scale
        zero_point = int(self.rng.integers(0, 256)) + self.low
        return activation(name, shape, scale, zero_point, self.dtype)

    def integers(self, shape):
        return (self.rng.integers(0, 256, shape) + self.low).astype(self.dtype)

    def known(self, name, shape):
        q = self.tensor(name, shape).quantization
        assert q is not None
        return constant(name, self.integers(shape), q.scale, q.zero_point)

    def case(self, op, tensors, **attributes) -> Case:
        *sources, _ = tensors
        inputs = [tensor for tensor in sources if tensor.data is None]
        graph = graph_of(
            [node(op, " ".join(t.name for t in sources), "y", **attributes)],
            tensors,
            " ".join(t.name for t in inputs),
            "y",
        )
        values = tuple(self.integers(tensor.shape) for tensor in inputs)
        return Case(op, graph, write_tflite(graph), values)


def concat_of_scales(form: Form) -> Case:
    scale = form.rng.uniform(0.01, 0.1)
    ties = form.rng.random() < 0.25
    scales = [scale * form.rng.uniform(0.3, 3) for _ in range(3)]
    if ties:
        scale, scales = 2.0**-4, [2.0 ** -float(form.rng.integers(3, 7)) for _ in range(3)]
    sources = [form.tensor(f"x{i}", form.shape, scales[i]) for i in range(3)]
    shape = (*form.shape[:3], 3 * form.shape[3])
    return form.case(
        "concat", [*sources, form.tensor("y", shape, scale)], axis=3, activation="none"
    )


def mean_of_an_axis(form: Form) -> Case:
    axis, keep = int(form.rng.integers(1, 3)), bool(form.rng.integers(0, 2))
    shape = [n for i, n in enumerate(form.shape) if keep or i != axis]
    if keep:
        shape[axis] = 1
    tensors = [form.tensor("x", form.shape), form.tensor("y", shape)]
    return form.case("mean", tensors, axes=(axis,), keep_dims=keep)


def mean_of_three_axes(form: Form) -> Case:
    shape, keep = (1, *form.shape[2:]), bool(form.rng.integers(0, 2))
    result = (1, 1, shape[2]) if keep else (1, shape[2])
    tensors = [form.tensor("x", shape), form.tensor("y", result)]
    return form.case("mean", tensors, axes=(1,), keep_dims=keep)


def mean_of_channels(form: Form) -> Case:
    """Over channels alone, with the width, or of everything; kept or not."""
    more = ((), (2,), (1, 2))[form.rng.integers(0, 3)]
    axes, keep = (*more, 3), bool(form.rng.integers(0, 2))
    shape = [1 if i in axes else n for i, n in enumerate(form.shape) if keep or i not in axes]
    tensors = [form.tensor("x", form.shape), form.tensor("y", shape)]
    return form.case("mean", tensors, axes=axes, keep_dims=keep)


def constant_less_tensor(form: Form) -> Case:
    known = form.known("k", (1, 1, 1, form.shape[3]))
    tensors = [known, form.tensor("b", form.shape), form.tensor("y", form.shape)]
    return form.case("sub", tensors, activation="none")


def tensor_plus_vector(form: Form) -> Case:
    known = form.known("k", (form.shape[3],))
    tensors = [form.tensor("b", form.shape), known, form.tensor("y", form.shape)]
    return form.case("add", tensors, activation="none")


def tensor_times_vector(form: Form) -> Case:
    known = form.known("k", (form.shape[3],))
    tensors = [form.tensor("b", form.shape), known, form.tensor("y", form.shape)]
    return form.case("mul", tensors, activation="none")


FORMS = {
    "concat of scales": (concat_of_scales, ("uint8",)),
    "mean of an axis": (mean_of_an_axis, ("int8", "uint8")),
    "mean of three axes": (mean_of_three_axes, ("int8", "uint8")),
    "mean of channels": (mean_of_channels, ("int8", "uint8")),
    "constant less tensor": (constant_less_tensor, ("int8", "uint8")),
    "tensor plus vector": (tensor_plus_vector, ("int8", "uint8")),
    "tensor times vector": (tensor_times_vector, ("int8", "uint8")),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("exactness", KERNELS, ids=str)
def test_form_equals_litert(name, exactness):
    draw, dtypes = FORMS[name]
    ran = 0
    for seed in range(CASES):
        case = draw(Form(seed, dtypes[seed % len(dtypes)]))
        try:
            ours = run_golden(case, exactness)
        except ValueError as error:
            assert any(reason in str(error) for reason in REFUSALS), error
            continue
        theirs = run_litert(case, exactness)
        assert np.array_equal(ours, theirs), f"seed {seed}: {np.sum(ours != theirs)} differ"
        ran += 1
    assert ran > 0.8 * CASES
