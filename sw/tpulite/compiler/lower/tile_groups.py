"""Tiling: groups of layers become commands without addresses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from tpulite.arch.config import Config
from tpulite.compiler.geometry.cut import STRIPS
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import COLUMN_GRAIN, part_grain, plan_columns
from tpulite.compiler.lower.block_by_block import cut_channels, pair_by_blocks, strips_by_blocks
from tpulite.compiler.lower.lowering import LayerContext, Lowering
from tpulite.compiler.lower.lowerings import lowering_of
from tpulite.compiler.lower.rearrange import same_pixels
from tpulite.compiler.lower.slicing import SlicedGroup
from tpulite.compiler.ops import Op, Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import Constant, ConstantPool
from tpulite.compiler.place.placement import Placement, view_of
from tpulite.compiler.place.stores import Store
from tpulite.compiler.plan.conv import ConvPlan
from tpulite.compiler.plan.depthwise_rows import DepthwiseRows
from tpulite.compiler.plan.layer_plan import LayerPlan, plan_layer
from tpulite.compiler.plan.slabs import TilePlan
from tpulite.graph.layers import Affine, Layer, LayerGraph, Lut, Pick, Reshape, is_pointwise


def tile_groups(  # noqa: PLR0913 - what earlier stages have found
    layers: LayerGraph,
    groups: tuple[Group, ...],
    placement: Placement,
    pool: ConstantPool,
    config: Config,
    options: Options,
    *,
    shares: Mapping[int, float] = MappingProxyType({}),
    plans: Mapping[int, ConvPlan | TilePlan] = MappingProxyType({}),
) -> Tiling:
    """Return the commands of a network in an order in which they could run one after the other.

    Parameters
    ----------
    groups : tuple of Group
        Which of its layers run together; all of them, in order.
    placement : Placement
        Where images are.
    pool : ConstantPool
        Takes weights and records.
    shares : mapping of int to float
        By layer, part of their usual size that the strips of a layer alone may have.
    plans : mapping of int to ConvPlan or TilePlan
        How layers alone are cut that do not cut themselves.

    Raises
    ------
    ValueError
        If a layer does not suit the machine.
    """
    tiler = Tiler(layers, placement, pool, config, options, shares, plans)
    ops = tuple(op for group in groups for op in tiler.group(group))
    pinned = 0 if pool.pins is None else pool.pins.end
    resident = ((0, pinned),) if pool.pins is not None and pool.pins.loaded else ()
    tensors = placement.inputs, placement.outputs, placement.scratch_bytes
    return Tiling(ops, *tensors, pinned, resident)


@dataclass
class Tiler:
    """What :func:`tile_groups` does, group by group; parameters are the same."""

    layers: LayerGraph
    placement: Placement
    pool: ConstantPool
    config: Config
    options: Options
    shares: Mapping[int, float]
    plans: Mapping[int, ConvPlan | TilePlan] = field(default_factory=dict)
    stores: dict[str, Store] = field(init=False)
    channels: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        # What is loaded changes while commands are made.
        self.stores = {name: store.unread() for name, store in self.placement.stores.items()}
        self.channels = {name: image.shape[2] for name, image in self.layers.activations.items()}

    def group(self, group: Group, *, widest: bool = False) -> Iterator[Op]:
        """Yield the commands of a group: image by image, column by column, slice by slice.

        ``widest``: only those for the columns of which the most of some image are there.
        """
        if (alias := self._alias(group)) is not None:
            yield from alias
            return
        if self._merges(group):
            yield from self._merged(group)
            return
        constants: dict[tuple[object, ...], Constant] = {}
        again = False
        windows: tuple[Mapping[str, range], ...] = ({},)
        if group.columns > 1:
            first = self.layers.layers[group.layers.start]
            grain = COLUMN_GRAIN if group.slices else part_grain(first, self.config)
            windows = plan_columns(self.layers, group, grain=grain)
        if widest:
            windows = (max(windows, key=lambda window: max(map(len, window.values()), default=0)),)
        for image in range(self.options.batch):
            for window in windows:
                stores = {
                    name: self.stores[name].part(image, window.get(name))
                    for i in group.layers
                    for name in (*self.layers.layers[i].inputs, self.layers.layers[i].output)
                }
                if group.slices:
                    yield from self._slices(group, stores, constants, again=again)
                elif group.by_blocks:
                    yield from self._pair(group, stores)
                elif group.columns > 1 or group.channels > 1:
                    yield from self._parts(group, stores)
                else:
                    yield from self._alone(group, stores, constants, again=again)
                again = True

    def _alias(self, group: Group) -> Iterator[Op] | None:
        """Give pixels of an image another name, if that is all that there is to do."""
        index, *others = group.layers
        layer = self.layers.layers[index]
        if isinstance(layer, Pick) and layer.view:
            self.stores[layer.output] = view_of(layer, self.stores[layer.inputs[0]])
            return iter(())
        if others or not isinstance(layer, Reshape):
            return None
        source, target = self.stores[layer.inputs[0]], self.stores[layer.output]
        if not same_pixels(source, target):
            return None
        if source.spec is not None and target.spec is not None and not target.resident:
            same = replace(source.spec, name=target.name, image=target.spec.image)
            if not source.resident and same == target.spec:
                return iter(())
        if not source.resident or target.spec is not None:
            return None
        self.stores[layer.output] = source.alias(layer.output, target.height, target.width)
        parts = (source.part(image) for image in range(self.options.batch))
        return (op for part in parts for op in part.read(range(part.height), index)[1])

    def _merges(self, group: Group) -> bool:
        """Whether a layer sees vectors only, so that a batch of resident images is a tall one."""
        layer = self.layers.layers[group.layers.start]
        vectors = isinstance(layer, Affine | Lut) or is_pointwise(layer)
        stores = [self.stores[name] for name in (*layer.inputs, layer.output)]
        plain = all(
            store.resident and store.batch > 1 and not store.packed_rows for store in stores
        )
        plain &= all(store.whole for store in stores)
        cuts_itself = group.alone and not group.finer
        cuts_itself &= not isinstance(self.plans.get(group.layers.start), TilePlan)
        return cuts_itself and vectors and plain

    def _merged(self, group: Group) -> Iterator[Op]:
        (index,) = group.layers
        layer = self.layers.layers[index]
        source, target = self.stores[layer.inputs[0]], self.stores[layer.output]
        for image in range(self.options.batch):
            yield from source.part(image).read(range(source.height), index)[1]
        stores = {source.name: source.tall(), target.name: target.tall()}
        yield from self._alone(group, stores, {}, again=False)
        for image in range(self.options.batch):
            part, rows = target.part(image), range(target.height)
            yield from part.store(part.open(rows), rows, index)

    def _alone(
        self,
        group: Group,
        stores: Mapping[str, Store],
        constants: dict[tuple[object, ...], Constant],
        *,
        again: bool,
        layer: Layer | None = None,
    ) -> Iterator[Op]:
        (index,) = group.layers
        layer = layer or self.layers.layers[index]
        if isinstance(tiles := self.plans.get(index), TilePlan):
            yield from self._tiled(tiles, index, stores)
            return
        context = self._context(layer, index, group, stores, constants)
        plan = self._plan(layer, context)
        if isinstance(plan, DepthwiseRows) and plan.by_block:
            strips = replace(group, slices=len(plan.strips), rolling=self.options.rolling)
            part = partial(self._part, group)
            yield from strips_by_blocks(self.layers, strips, layer, stores, plan, part)
            return
        _, lowering = self._lower(layer, index, group, stores, constants, plan)
        yield from lowering.alone(again=again)

    def _tiled(self, tiles: TilePlan, index: int, stores: Mapping[str, Store]) -> Iterator[Op]:
        """Return the commands of a layer that has been planned as tiles."""
        from tpulite.compiler.lower.tiles import TiledLayer  # few networks have such a layer

        layer = self.layers.layers[index]
        pair = stores[layer.inputs[0]], stores[layer.output]
        tiled = TiledLayer.of(self.layers, index, pair, self.pool)
        assert tiled is not None
        return tiled.ops(tiles)

    def _parts(self, group: Group, stores: Mapping[str, Store]) -> Iterator[Op]:
        """Yield the commands of a layer part by part, each with constants of its own."""
        (index,) = group.layers
        layer = self.layers.layers[index]
        for name in dict.fromkeys(layer.inputs):
            if stores[name].resident:
                yield from stores[name].read(range(stores[name].height), index)[1]
        for part, some in cut_channels(layer, stores, group.channels, self.config.array_size):
            yield from self._alone(group, some, {}, again=False, layer=part)

    def _pair(self, group: Group, stores: Mapping[str, Store]) -> Iterator[Op]:
        """Yield the commands of two layers that run channel block by channel block."""
        i, j = group.layers
        layer, middle = self.layers.layers[j], self.layers.layers[i].output
        whole = {**stores, middle: stores[middle].here()}
        plan = self._plan(layer, self._context(layer, j, group, whole, {}))
        assert isinstance(plan, DepthwiseRows)
        return pair_by_blocks(
            self.layers, group.layers, stores, self.config, plan, partial(self._part, group)
        )

    def _part(
        self,
        group: Group,
        layer: Layer,
        index: int,
        stores: Mapping[str, Store],
        plan: DepthwiseRows | None,
    ) -> tuple[LayerContext, Lowering]:
        return self._lower(layer, index, group, stores, {}, plan)

    def _slices(
        self,
        group: Group,
        stores: dict[str, Store],
        constants: dict[tuple[object, ...], Constant],
        *,
        again: bool,
    ) -> Iterator[Op]:
        sliced = SlicedGroup(self.layers, group, stores)
        lowerings = {
            i: self._lower(self.layers.layers[i], i, group, sliced.stores, constants)
            for i in group.layers
        }
        return sliced.ops(lowerings, again=again)

    def _lower(
        self,
        layer: Layer,
        index: int,
        group: Group,
        stores: Mapping[str, Store],
        constants: dict[tuple[object, ...], Constant],
        plan: LayerPlan | None = None,
    ) -> tuple[LayerContext, Lowering]:
        context = self._context(layer, index, group, stores, constants)
        try:
            return context, lowering_of(layer, context, plan or self._plan(layer, context))
        except ValueError as error:
            raise ValueError(f"Layer {layer.name!r}: {error}") from error

    def _plan(self, layer: Layer, context: LayerContext) -> LayerPlan:
        """Return how a layer is cut."""
        names = (*layer.inputs, layer.output)
        placed = [context.stores[name].placed for name in names]
        channels = [self.channels[name] for name in names]
        known = self.plans.get(context.index)
        assert not isinstance(known, TilePlan)
        return known or plan_layer(layer, placed[:-1], placed[-1], context.space, channels)

    def _context(
        self,
        layer: Layer,
        index: int,
        group: Group,
        stores: Mapping[str, Store],
        constants: dict[tuple[object, ...], Constant],
    ) -> LayerContext:
        share = self.shares.get(index, 1.0)
        return LayerContext(
            index,
            layer.name,
            self.config,
            self.pool,
            stores,
            self.channels,
            int(share * (self.config.ub_rows // STRIPS)),
            int(share * self.placement.free_rows[index]),
            self.options,
            share,
            keep=index not in group.reloaded if group.slices else None,
            fleeting=index in group.reloaded and not group.slices,
            constants=constants,
        )
