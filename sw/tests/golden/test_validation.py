"""Validation accepts what the compiler makes, and no program that computes something else."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.simplify.ranges import value_ranges
from tpulite.compiler.rewrite.transposed import split_transposed
from tpulite.compiler.translation import validate_translation
from tpulite.golden.validation import compare_layers
from tpulite.golden.validation.terms import Terms
from tpulite.graph.layers import Activation, Conv, LayerGraph, Requantization, TransposedConv
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.kept import kept_program
from tpulite_testing.mutants.judges import Verdict, verdicts
from tpulite_testing.mutants.programs import KINDS
from tpulite_testing.regress import thinned


@pytest.mark.parametrize(
    "seed",
    thinned(range(400), 1, 3, 4, 5, 7, 12, reason="all layers and forms are in the first few"),
)
def test_programs_compute_their_layers(seed):
    case = random_compilation(Seeded(seed), most=8)
    program = case.compile_if_it_fits()
    assert program is None or validate_translation(case.graph, program, case.options) == []


def transposed():
    """Return layers of which the second channel is always clamped, which their phases show."""
    how = {"rounding": Rounding.SINGLE, "zero_point": 0, "low": -128}
    up = TransposedConv(
        name="up",
        inputs=("x",),
        output="a",
        weight=np.ones((2, 2, 1, 2), np.int8),
        requantization=Requantization(
            multiplier=np.array([1 << 30] * 2),
            shift=np.array([-1, -1]),
            bias=np.array([0, 10_000], np.int32),
            high=127,
            **how,
        ),
        stride=(2, 2),
        padding=(0, 0),
        size=(4, 6),
    )
    how["high"] = 60
    conv = Conv(
        name="conv",
        inputs=("a",),
        output="b",
        weight=np.eye(2, dtype=np.int8).reshape(1, 1, 2, 2),
        requantization=Requantization(
            multiplier=np.array([1 << 30] * 2), shift=np.array([1, 1]), **how
        ),
    )
    both = replace(
        conv,
        name="both",
        inputs=("b",),
        output="y",
        weight=np.ones((1, 1, 2, 1), np.int8),
        requantization=Requantization(multiplier=np.array([1 << 30]), shift=np.array([0]), **how),
    )
    shapes = {"x": (2, 3, 1), "a": (4, 6, 2), "b": (4, 6, 2), "y": (4, 6, 1)}
    images = {name: Activation(shape) for name, shape in shapes.items()}
    return LayerGraph("net", (up, conv, both), images, ("x",), ("y",))


def test_channels_that_are_constant_once_layers_are_split_are_no_difference():
    layers, config, options = transposed(), Config(array_size=4), Options()
    split = split_transposed(layers, config)
    whole, phases = (value_ranges(each)["b"].constant for each in (layers, split))
    assert whole.tolist() == [False, False] and phases.tolist() == [False, True]
    program = kept_program(layers, config, options)
    assert validate_translation(layers, program, options) == []


def test_layers_that_are_split_wrongly_are_found():
    layers = transposed()
    split = split_transposed(layers, Config(array_size=4))
    assert compare_layers(layers, split) == []
    place, conv = next((i, x) for i, x in enumerate(split.layers) if isinstance(x, Conv))
    assert conv.name != "conv"
    wrong = replace(conv, weight=2 * conv.weight)
    other = replace(split, layers=(*split.layers[:place], wrong, *split.layers[place + 1 :]))
    (found,) = compare_layers(layers, other)
    assert found.startswith("Layers of 'y' as rewritten: ")


def test_other_constants_are_found_if_they_change_a_result():
    case = random_compilation(Seeded(5), most=8)
    program = case.compile()
    rng, found = np.random.default_rng(0), 0
    for place in rng.choice(len(program.constants), 20, replace=False):
        data = bytearray(program.constants)
        data[place] ^= 1
        other = replace(program, constants=bytes(data))
        if validate_translation(case.graph, other, case.options):
            found += 1
        else:
            case.run(other, "golden")  # padding of blocks, records and lines
    assert found >= 5


@pytest.mark.parametrize(
    "seed", thinned(range(60), 12, reason="a mutant of each kind; the others are more of them")
)
def test_no_mutant_that_changes_a_result_is_missed(seed):
    found = [(kind, verdict) for kind, _, verdict in verdicts(seed, 1)]
    assert Verdict.MISSED not in [verdict for _, verdict in found]
    if seed == 12:
        assert {kind for kind, _ in found} == set(KINDS)
        assert {verdict for _, verdict in found} >= {Verdict.STATIC, Verdict.VALIDATION}


class TestTerms:
    terms = Terms(0)
    x = terms.unknown(50, 4)

    def test_maxima_are_sets(self):
        maximum, x = self.terms.maximum, self.x
        left, right = maximum(x[:, :2]), maximum(x[:, 2:])
        whole = maximum(x[:, ::-1])
        np.testing.assert_array_equal(maximum(np.stack([right, left], -1)), whole)
        np.testing.assert_array_equal(maximum(np.stack([whole, left, x[:, 1]], -1)), whole)
        assert (maximum(x[:, :3]) != whole).all()
        assert (maximum(x[:, :1]) == x[:, 0]).all()
        low = np.full((50, 1), -128)
        np.testing.assert_array_equal(maximum(np.hstack([x, low])), whole)
        assert (maximum(np.hstack([x, low + 1])) != whole).all()

    def test_clamps_are_clamped_again(self):
        clip, x = self.terms.clip, self.x
        np.testing.assert_array_equal(clip(clip(x, -100, 90), -50, 127), clip(x, -50, 90))
        np.testing.assert_array_equal(clip(clip(x, -100, 90), -128, 127), clip(x, -100, 90))
        assert (clip(clip(x, 10, 20), 30, 40) == 30).all()
        assert (clip(x, -50, 90) != x).all()

    def test_constants_are_computed(self):
        record = {"bias": 28, "multiplier": 1 << 30, "shift": -3, "rounding": 1}
        record |= {"zero_point": 0, "low": -128, "high": 127}
        assert self.terms.requantize(np.array([100, -9]), record).tolist() == [8, 1]
        assert (self.terms.flip(self.terms.flip(self.x)) == self.x).all()
        assert self.terms.flip(np.array([-128, 5])).tolist() == [0, -123]

    def test_int32_are_four_bytes(self):
        sums = np.concatenate([self.x[:, 0] * 3, [70_000, -2]])
        data = self.terms.words(sums)
        np.testing.assert_array_equal(self.terms.numbers(data), sums)
        with pytest.raises(ValueError, match="different numbers"):
            self.terms.numbers(data[:, ::-1])
