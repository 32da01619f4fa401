"""Whether a program computes its network, whatever the inputs are: translation validation."""

from tpulite.compiler.options import Options
from tpulite.compiler.passes import split_layers
from tpulite.compiler.rewrite.addends import scale_addends
from tpulite.compiler.rewrite.channel_maxima import turn_maxima
from tpulite.compiler.rewrite.channel_moves import fold_channel_moves
from tpulite.compiler.rewrite.late_pixels import move_pixels_last
from tpulite.compiler.rewrite.pixel_moves import fold_pixel_moves
from tpulite.compiler.rewrite.simplify.network import simplify_layers
from tpulite.compiler.rewrite.tables import tabulate_chains
from tpulite.compiler.rewrite.terms import compare_terms
from tpulite.golden.validation import compare_layers, validate
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program

_FOLDS = {
    "fold-channel-moves": fold_channel_moves,
    "fold-pixel-moves": fold_pixel_moves,
    "move-pixels-last": move_pixels_last,
}
"""Passes that make moves parts of convolutions."""


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
    short = tabulate_chains(layers) if options.simplify else layers
    if "turn-maxima" not in options.without:
        short = turn_maxima(short, program.config)
    moved = short
    for name, fold in _FOLDS.items():
        if name not in options.without:
            moved = fold(moved, program.config)
    split = split_layers(moved, program.config)
    narrow = simplify_layers(split, program.config, options).layers
    if "scale-addends" not in options.without:
        narrow = scale_addends(narrow, program.config)
    if "compare-terms" not in options.without:
        narrow = compare_terms(narrow, program.config)
    return [*compare_layers(short, split, seed=seed), *validate(narrow, program, seed=seed)]
