"""Whether a program computes its network, whatever the inputs are: translation validation."""

from tpulite.compiler.options import Options
from tpulite.compiler.passes import run_rewrites
from tpulite.compiler.state import State
from tpulite.golden.validation import compare_layers, validate
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program


def validate_translation(
    layers: LayerGraph, program: Program, options: Options, *, seed: int = 0
) -> list[str]:
    """Find what a program does not compute as its network says, for all inputs.

    First the layers that others were split or folded into are compared with these, then the program
    with what is left of all layers without the channels that are constant: which ones are is
    tested, not validated, and depends on the layers, so both steps have the same. Chains of layers
    are tables before that: the definition has made them of all 256 bytes, so nothing is left to
    validate. Nor is it of sums that became maxima, for the same reason.

    Parameters
    ----------
    program : Program
        What :func:`tpulite.compiler.pipeline.compile_layers` has made of it.
    options : Options
        How.
    seed : int
        See :func:`tpulite.golden.validation.validate`, as for the list that is returned and errors.
    """
    trace: dict[str, State] = {}
    run_rewrites(State.of(layers, program.config, options), trace)
    behind = ("turn-maxima", "split-transposed", "compare-terms")
    short, split, narrow = (trace[name].layers for name in behind)
    return [*compare_layers(short, split, seed=seed), *validate(narrow, program, seed=seed)]
