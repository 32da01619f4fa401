"""Everything that makes a network of integer layers smaller and keeps its results."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.simplify.channels import keep_channels
from tpulite.compiler.rewrite.simplify.copies import remove_copies
from tpulite.compiler.rewrite.simplify.needed import Mask, needed_channels
from tpulite.compiler.rewrite.simplify.ranges import Range, value_ranges
from tpulite.graph.layers import LayerGraph, has_int16


@dataclass(frozen=True, eq=False)
class Simplified:
    """A network that computes the same results with less, and what became of its images."""

    layers: LayerGraph  #: The network; its inputs and outputs are those that it had.
    #: Images that are gone, each with the one that equals it.
    originals: Mapping[str, str] = field(default_factory=dict)
    #: Mapping of str to ndarray of bool, [C]. Of each image that has fewer channels than before:
    #: which ones are left.
    needed: Mapping[str, Mask] = field(default_factory=dict)
    #: Of these images: what their channels can hold.
    ranges: Mapping[str, Range] = field(default_factory=dict)
    removed_macs: int = 0  #: Multiplications that need not be done any more.

    @property
    def removed_channels(self) -> int:
        """Channels of all images that are not computed any more."""
        return sum(int((~mask).sum()) for mask in self.needed.values())

    def known(self, name: str) -> Mask | None:
        """Return which channels of an image are computed or constant; None if all are."""
        name = self.originals.get(name, name)
        if name not in self.needed:
            return None
        return self.needed[name] | self.ranges[name].constant

    def restore(self, images: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Return images as they were before.

        Channels that nobody computes are their constant, and where they are none, the least number
        that they could hold: :meth:`known` tells them apart.

        Parameters
        ----------
        images : mapping of str to ndarray, [..., C]
            Images of the network; uint8 ones are int8 ones with their top bit inverted.
        """
        wide = {name: self._widen(name, image) for name, image in images.items()}
        copies = {name: wide[x] for name, x in self.originals.items() if x in wide}
        return wide | copies

    def _widen(self, name: str, image: NDArray) -> NDArray:
        if name not in self.needed:
            return image
        low = self.ranges[name].low.astype(np.int8)
        fill = low.view(np.uint8) ^ 0x80 if image.dtype == np.uint8 else low
        wide = np.empty((*image.shape[:-1], len(fill)), image.dtype)
        wide[...] = fill
        wide[..., self.needed[name]] = image
        return wide


def simplify_layers(layers: LayerGraph, config: Config, options: Options) -> Simplified:
    """Remove channels that are constant or that nobody reads, and tables that change nothing.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    config : Config
        The machine: what begins at a block of its channels still does.
    options : Options
        Whether to do it at all.
    """
    if not options.simplify or has_int16(layers):
        return Simplified(layers)
    ranges = value_ranges(layers)
    whole, originals = remove_copies(layers, ranges)
    every = needed_channels(whole, ranges, config.array_size)
    needed = {name: mask for name, mask in every.items() if not mask.all()}
    if not needed:
        return Simplified(whole, originals)
    narrow = keep_channels(whole, every, ranges)
    macs = (sum(each.macs().values()) for each in (whole, narrow))
    return Simplified(
        narrow, originals, needed, {name: ranges[name] for name in needed}, next(macs) - next(macs)
    )
