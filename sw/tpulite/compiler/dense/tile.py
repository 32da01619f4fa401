"""Tiling: cut a network into commands, in an order in which they could run one after the other."""

from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.arch.memory import Window
from tpulite.compiler.dense.pack import Constants
from tpulite.compiler.dense.plan import LayerShape, NetworkPlan
from tpulite.compiler.dense.tile_layer import Held, LayerTiler, Place
from tpulite.compiler.ops import Buffer, Op, Tiling
from tpulite.graph.network import Network
from tpulite.program import TensorSpec

__all__ = ["Residency", "check_sizes", "layer_shapes", "resident_rows", "tile_network"]

_WINDOW_LIMIT = 1 << 32


@dataclass(frozen=True)
class Residency:
    """Constants at fixed rows, for programs that run one after the other.

    ``loaded`` says whether an earlier program has left them there.
    """

    loaded: bool


def check_sizes(network: Network, config: Config, batch: int) -> None:
    """Refuse what no window of DRAM can hold.

    Raises
    ------
    ValueError
        If the batch is not positive, or a window would have 2**32 bytes or more.
    """
    if batch < 1:
        raise ValueError(f"Batch must be at least 1, not {batch!r}")
    size = config.array_size

    def nbytes(channels: int, dtype: str) -> int:
        return TensorSpec("", Window.INPUT, 0, batch, channels, dtype).nbytes(config)

    hidden = network.layers[:-1]
    constants = sum(
        -(-layer.n // size) * (-(-layer.k // size) * size + config.record_rows) * config.row_bytes
        for layer in network.layers
    )
    for what, needed in (
        ("constants", constants),
        ("inputs", nbytes(network.k, network.input_dtype)),
        ("outputs", nbytes(network.n, network.output_dtype)),
        ("tensors between layers", sum(nbytes(layer.n, "int8") for layer in hidden)),
    ):
        if needed >= _WINDOW_LIMIT:
            raise ValueError(
                f"Network {network.name!r} with batch {batch} has {needed} bytes of {what}, but a "
                f"window of DRAM has less than {_WINDOW_LIMIT}"
            )


def layer_shapes(network: Network, config: Config, batch: int) -> tuple[LayerShape, ...]:
    """Return the extents of all layers in tiles."""
    size = config.array_size
    return tuple(
        LayerShape(batch, -(-layer.k // size), -(-layer.n // size)) for layer in network.layers
    )


def resident_rows(
    constants: Constants, shapes: tuple[LayerShape, ...], config: Config
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return where resident constants lie.

    Returns
    -------
    layers : tuple of (int, int)
        First rows of the weights and of the records of each layer.
    end : int
        First row behind them all.
    """
    weights, row = [], config.ub_banks // 2
    for shape in shapes:
        weights.append(row)
        row += shape.n_blocks * shape.k_tiles * config.array_size
    records = []
    for layer, shape in zip(constants.layers, shapes, strict=True):
        records.append(row)
        row += shape.n_blocks * layer.record_rows
    return tuple(zip(weights, records, strict=True)), row


def tile_network(
    network: Network,
    constants: Constants,
    plan: NetworkPlan,
    config: Config,
    *,
    batch: int,
    residency: Residency | None = None,
) -> Tiling:
    """Turn a network and a plan into commands without addresses.

    Parameters
    ----------
    network, constants : Network, Constants
        The network, and where its constants lie.
    plan : NetworkPlan
        How to cut it.
    config : Config
        The machine.
    batch : int
        Vectors of a run.
    residency : Residency, optional
        Whether constants have fixed places in the unified buffer, and are there already.

    Returns
    -------
    Tiling
        Commands that cover every layer exactly once.
    """
    shapes = layer_shapes(network, config, batch)
    rows, end = resident_rows(constants, shapes, config)
    source = network_input = Place(
        TensorSpec("input", Window.INPUT, 0, batch, network.k, network.input_dtype)
    )
    ops: list[Op] = []
    scratch_bytes = 0
    for i, (layer, shape) in enumerate(zip(network.layers, shapes, strict=True)):
        if layer is network.layers[-1]:
            spec = TensorSpec("output", Window.OUTPUT, 0, batch, layer.n, network.output_dtype)
            target = Place(spec)
        elif plan.on_chip[i]:
            spec = TensorSpec(layer.name, Window.SCRATCH, 0, batch, layer.n)
            target = Place(spec, Buffer(f"output of {layer.name}", shape.n_blocks * batch, bank=0))
        else:
            spec = TensorSpec(layer.name, Window.SCRATCH, scratch_bytes, batch, layer.n)
            target = Place(spec)
            scratch_bytes += spec.nbytes(config)
        held = None
        if residency is not None:
            held = _hold_constants(i, rows[i], shape, constants, config, residency)
        tiler = LayerTiler(
            i, layer, shape, plan.layers[i], constants.layers[i], config, source, target, held
        )
        ops += tiler.ops()
        source = target
    first_row = 0 if residency is None else end
    resident = ((rows[0][0], end),) if residency is not None and residency.loaded else ()
    return Tiling(
        ops=tuple(ops),
        inputs=(network_input.spec,),
        outputs=(source.spec,),
        scratch_bytes=scratch_bytes,
        first_row=first_row,
        resident=resident,
    )


def _hold_constants(
    index: int,
    places: tuple[int, int],
    shape: LayerShape,
    constants: Constants,
    config: Config,
    residency: Residency,
) -> tuple[Held, Held]:
    """Return weights and records of a layer, held at fixed rows."""
    weights, records = Held(f"weights of layer {index}"), Held(f"records of layer {index}")
    row, rows = places[0], shape.k_tiles * config.array_size
    for n in range(shape.n_blocks):
        weights.fix(n, Buffer(weights.name, rows, row), residency.loaded)
        row += rows
    row, rows = places[1], constants.layers[index].record_rows
    for n in range(shape.n_blocks):
        records.fix(n, Buffer(records.name, rows, row), residency.loaded)
        row += rows
    return weights, records
