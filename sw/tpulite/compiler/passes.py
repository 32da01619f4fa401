"""The road of a network from integer layers to a program: :data:`PASSES`, from top to bottom.

A pass is a function from one :class:`~tpulite.compiler.state.State` to the next. To add one, add a
line to the list. ``tpulite compile --dump NAME`` shows the state behind a pass, ``--without NAME``
leaves one out.

- *Rewrites* make other layers of layers. What one returns is verified before the next one runs.
- *Stages* (:mod:`~tpulite.compiler.stages`) each make the next field of the state. They are
  memoized: a stage runs once for equal limits, groups and plans, whatever searches ask.
- *Searches* (:mod:`~tpulite.compiler.searches`, :mod:`~tpulite.compiler.tile_choice`) run the
  stages for several limits, groups or plans, and return the state with those they chose. The last
  one (:mod:`~tpulite.compiler.bound_choice`) asks the other road, that of ranges of shapes.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tpulite.arch.config import Config
from tpulite.compiler.bound_choice import choose_bound
from tpulite.compiler.early_choice import put_early
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.addends import scale_addends
from tpulite.compiler.rewrite.averages import multiply_averages
from tpulite.compiler.rewrite.channel_maxima import turn_maxima
from tpulite.compiler.rewrite.channel_moves import fold_channel_moves
from tpulite.compiler.rewrite.early_picks import pick_pixels_first
from tpulite.compiler.rewrite.inverted_products import invert_operands
from tpulite.compiler.rewrite.joins import align_joins
from tpulite.compiler.rewrite.late_pixels import fill_vectors, move_pixels_last
from tpulite.compiler.rewrite.maxima import separate_maxima
from tpulite.compiler.rewrite.neighbors import join_neighbors
from tpulite.compiler.rewrite.order import order_layers
from tpulite.compiler.rewrite.outputs import join_outputs
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.compiler.rewrite.picks import fill_blocks, mark_views, split_picks
from tpulite.compiler.rewrite.pixel_moves import fold_pixel_moves
from tpulite.compiler.rewrite.results import leave_patches
from tpulite.compiler.rewrite.simplify.network import simplify_layers
from tpulite.compiler.rewrite.stack import stack_images
from tpulite.compiler.rewrite.substitute import substitute_layers
from tpulite.compiler.rewrite.tables import tabulate_chains
from tpulite.compiler.rewrite.terms import compare_terms
from tpulite.compiler.rewrite.transposed import split_transposed
from tpulite.compiler.rewrite.transposed_products import join_transposes
from tpulite.compiler.rewrite.unread_pixels import remove_unread_pixels
from tpulite.compiler.searches import choose_groups, choose_plans, fit_buffer
from tpulite.compiler.spread_choice import spread
from tpulite.compiler.stages import allocate, assemble, encode, group, place, schedule, tile
from tpulite.compiler.state import State, stage
from tpulite.compiler.tile_choice import choose_tiles
from tpulite.graph.layers import LayerGraph, has_int16
from tpulite.near import no_such


class PassLeftOut(UserWarning):
    """A rewrite has made a network that does not verify; the one before it is compiled instead."""


@dataclass(frozen=True)
class Pass:
    """A step of the road."""

    name: str  #: What it does, for users.
    run: Callable[[State], State]  #: Returns the next state.
    makes: str = "layers"  #: Field of the state that it makes, or changes: what ``--dump`` shows.
    needed: bool = False  #: Whether no program can be made without it.
    #: Options that turn off parts of it; or all of it, if it is not needed.
    switches: tuple[str, ...] = ()
    #: Whether layers multiply by more zeros afterwards, which do not count as MACs.
    adds_zeros: bool = False

    def runs(self, options: Options) -> bool:
        """Return whether no option leaves it out."""
        off = self.name in options.without or not all(getattr(options, x) for x in self.switches)
        return self.needed or not off


def _layers(rewrite: Callable[[LayerGraph], LayerGraph]) -> Callable[[State], State]:
    """Return what rewrites nothing but layers, for any machine."""
    return lambda state: replace(state, layers=rewrite(state.layers))


def _for_machine(rewrite: Callable[[LayerGraph, Config], LayerGraph]) -> Callable[[State], State]:
    """Return what rewrites nothing but layers, for a machine."""
    return lambda state: replace(state, layers=rewrite(state.layers, state.config))


def _of_images(rewrite: Callable[[LayerGraph, Config], LayerGraph]) -> Callable[[State], State]:
    """Return what rewrites layers whose vectors may be several pixels; stacked images stay."""
    return lambda state: state if state.stacked else _for_machine(rewrite)(state)


def _simplify(state: State) -> State:
    simplified = simplify_layers(state.layers, state.config, state.options)
    return replace(state, simplified=simplified, layers=simplified.layers)


def _fold_moves(state: State) -> State:
    layers = fold_channel_moves(state.layers, state.config)
    left = {layer.name for layer in layers.layers}
    macs = {name: count for name, count in state.macs.items() if name in left}
    return replace(state, layers=layers, macs=macs)


def _stack(state: State) -> State:
    tall = stack_images(state.layers, state.options.batch)
    return state if tall is None else replace(state, layers=tall, stacked=True)


def _split_transposed(state: State) -> State:
    """Split transposed convolutions; few outputs are joined at once, as by ``join-outputs``."""
    joined = "join-outputs" not in state.options.without
    return replace(state, layers=split_transposed(state.layers, state.config, joined=joined))


REWRITES = (
    Pass("tabulate-chains", _layers(tabulate_chains), switches=("simplify",)),
    Pass("turn-maxima", _for_machine(turn_maxima)),
    Pass("fold-channel-moves", _fold_moves, adds_zeros=True),
    Pass("fold-pixel-moves", _for_machine(fold_pixel_moves), adds_zeros=True),
    Pass("move-pixels-last", _for_machine(move_pixels_last), adds_zeros=True),
    Pass("pick-pixels-first", _layers(pick_pixels_first)),
    Pass("split-slices", _for_machine(split_picks), needed=True),
    Pass("split-transposed", _split_transposed, needed=True),
    Pass("simplify-layers", _simplify, "simplified", switches=("simplify",)),
    Pass("scale-addends", _for_machine(scale_addends)),
    Pass("compare-terms", _for_machine(compare_terms)),
    Pass("remove-unread-pixels", _layers(remove_unread_pixels), switches=("simplify",)),
    Pass("stack-images", _stack),
    Pass("order-layers", _layers(order_layers)),
    Pass("join-transposes", _for_machine(join_transposes)),
    Pass("invert-operands", _for_machine(invert_operands)),
    Pass("substitute-layers", _for_machine(substitute_layers), needed=True, adds_zeros=True),
    Pass("multiply-averages", _for_machine(multiply_averages), adds_zeros=True),
    Pass("separate-maxima", _for_machine(separate_maxima)),
    Pass("align-joins", _for_machine(align_joins), adds_zeros=True),
    Pass("join-neighbors", _of_images(join_neighbors), switches=("dense_mode",), adds_zeros=True),
    Pass("join-outputs", _of_images(join_outputs), adds_zeros=True),
    Pass("leave-patches", _layers(leave_patches)),
    Pass("fill-vectors", _of_images(fill_vectors), adds_zeros=True),
    Pass("fill-blocks", _for_machine(fill_blocks), needed=True, adds_zeros=True),
    Pass("pack-patches", _of_images(pack_patches), switches=("dense_mode",), adds_zeros=True),
    Pass("mark-views", _for_machine(mark_views), adds_zeros=True),
)

PASSES = (
    *REWRITES,
    Pass("group", group, "groups", needed=True, switches=("grouping", "rolling")),
    Pass("place", place, "placement", needed=True, switches=("dense_mode",)),
    Pass("choose-plans", choose_plans, "groups"),
    Pass("fit-buffer", fit_buffer, "groups", needed=True),
    Pass("choose-groups", choose_groups, "groups"),
    Pass("choose-tiles", choose_tiles, "groups"),
    Pass("tile", tile, "tiling", needed=True, switches=("block_start", "interleaved")),
    Pass("schedule", schedule, "schedule", needed=True, switches=("prefetch",)),
    Pass("allocate", allocate, "allocation", needed=True),
    Pass("encode", encode, "commands", needed=True),
    Pass("spread-buffers", spread, "allocation"),
    Pass("put-vectors-early", put_early, "schedule"),
    Pass("choose-bound", choose_bound, "bound"),
    Pass("assemble", assemble, "commands", needed=True),
)
"""All passes, in the order in which they run."""

WITHOUT = tuple(
    dict.fromkeys(
        name
        for each in PASSES
        for name in (
            *(x.replace("_", "-") for x in each.switches),
            *(() if each.needed else (each.name,)),
        )
    )
)
"""What can be left out: passes that are not needed, and mechanisms of passes."""


def check_left_out(names: Iterable[str]) -> None:
    """Raise ValueError if one of some names is not among :data:`WITHOUT`."""
    for name in names:
        if name not in WITHOUT:
            raise ValueError(no_such("pass to leave out", name, WITHOUT))


def run_passes(
    passes: Iterable[Pass],
    state: State,
    tell: Callable[[str], None],
    trace: dict[str, State] | None = None,
) -> State:
    """Return the state behind the last of some passes.

    Parameters
    ----------
    passes : iterable of Pass
        The passes.
    state : State
        The state before the first of them.
    tell : callable
        Called with the name of each pass before it runs.
    trace : dict of str to State, optional
        Takes the state behind each pass.
    """
    for each in passes:
        if each.runs(state.options):
            tell(each.name)
            state = each.run(state)
        if trace is not None:
            trace[each.name] = state
    return state


@stage()
def rewrite(state: State) -> dict[str, Any]:
    """Run :data:`REWRITES`; see :func:`run_rewrites`."""
    after = run_rewrites(state)
    names = ("layers", "macs", "simplified", "stacked", "changed")
    return {name: getattr(after, name) for name in names}


def run_rewrites(state: State, trace: dict[str, State] | None = None) -> State:
    """Return a network as it is lowered.

    Of layers of int16 those know nothing that are not needed, so they are left out.
    A rewrite whose result does not verify is left out, with a warning of class
    :class:`PassLeftOut`: tests make an error of it.
    """
    wide = has_int16(state.layers)
    for each in REWRITES:
        if each.runs(state.options) and (each.needed or not wide):
            state = _rewritten(state, each)
        if trace is not None:
            trace[each.name] = state
    return state


def _rewritten(state: State, each: Pass) -> State:
    """Return the state behind a rewrite, or the same if what it returns does not verify."""
    try:
        after = each.run(state)
        _verify(after, state)
    except ValueError as error:
        text = f"{state.layers.name!r} is compiled without the pass {each.name!r}: {error}"
        warnings.warn(text, PassLeftOut, stacklevel=2)
        return state
    if not _same(after.layers, state.layers):
        macs = after.macs if each.adds_zeros else _macs(after, state)
        after = replace(after, macs=macs, changed=(*state.changed, each.name))
    return after


def _verify(after: State, before: State) -> None:
    """Raise ValueError if a network has not the ends that it had before.

    Whatever makes a network has it verify that its layers suit each other.
    """
    new, old = after.layers, before.layers
    for what in ("inputs", "outputs", "unsigned"):
        if (found := getattr(new, what)) != (wanted := getattr(old, what)):
            raise ValueError(f"{what} must be {wanted}, not {found}")
    for name in (*new.inputs, *new.outputs) if after.stacked == before.stacked else ():
        if new.activations[name] != old.activations[name] and name not in new.packed:
            raise ValueError(
                f"{name!r} must be {old.activations[name]}, not {new.activations[name]}"
            )


def _macs(after: State, before: State) -> Mapping[str, int]:
    """Return the multiplications of a network, those by zeros of earlier passes not counted."""
    counts = after.layers.macs()
    if after.stacked != before.stacked:
        return counts
    return {name: min(count, before.macs.get(name, count)) for name, count in counts.items()}


def _same(a: LayerGraph, b: LayerGraph) -> bool:
    """Return whether no layer is another one, and no activation has another shape."""
    alike = len(a.layers) == len(b.layers) and a.activations == b.activations
    return alike and all(x is y for x, y in zip(a.layers, b.layers, strict=True))
