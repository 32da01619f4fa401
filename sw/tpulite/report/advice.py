"""What would make a layer faster: it follows from what takes most of its cycles."""

from tpulite.arch.config import Config
from tpulite.arch.memory import Window
from tpulite.report.profile import LayerProfile, Profile
from tpulite.report.spending import Cause

_FULL = 0.97
"""Share of the multipliers from which on a layer is said to fill them."""

_ALWAYS = {
    Cause.BUFFER: "it waits for buffer banks that other engines use; more banks "
    "(--config 16x16,ub_banks=16) or another batch may help",
    Cause.WAITING: "it is short, and waits for commands and for earlier layers; a larger "
    "--batch amortizes these cycles",
}


def advise(layer: LayerProfile, profile: Profile) -> str:
    """Say what holds a layer up most, and what would help."""
    if layer.bound is None:
        return "it runs in parallel with other layers"
    if text := _ALWAYS.get(layer.bound):
        return text
    if layer.bound == Cause.DRAM:
        return _of_dram(layer)
    size = profile.config.array_size
    if layer.bound == Cause.MULTIPLIERS:
        return _of_multipliers(layer, profile.config)
    if layer.bound == Cause.WEIGHTS:
        half = f" ({size // 2} if weights have 4 bits)" if profile.config.int4 else ""
        return (
            f"loading a weight tile takes {size} cycles{half}, however few vectors use it; a "
            f"larger --batch amortizes it"
        )
    if layer.bound == Cause.DEPTHWISE:
        return (
            f"a depthwise convolution streams every input pixel for each block of {size} "
            f"channels; fewer pixels or channels help{_rest(layer.n, size)}"
        )
    lanes = profile.config.vector_lanes or size
    more = f", or more lanes (vector_lanes={size})" if lanes < size else ""
    return (
        f"the vector path computes up to {lanes} elements per cycle, and the multipliers are idle; "
        f"smaller activations help{more}"
    )


def advise_slowest(profile: Profile) -> list[str]:
    """Return sentences on the slowest layers; those with the same advice share one."""
    heads: dict[str, list[str]] = {}
    for layer in profile.slowest:
        share = f"{layer.cycles / profile.cycles:.1%} of the cycles: {layer.spending()}"
        heads.setdefault(advise(layer, profile), []).append(f"{layer.name} ({share})")
    return [f"{', '.join(layers)}: {advice}." for advice, layers in heads.items()]


def _of_multipliers(layer: LayerProfile, config: Config) -> str:
    size, lanes = config.array_size, config.lanes
    used = layer.macs / (layer.spent[Cause.MULTIPLIERS] * size**2)
    if used >= _FULL:
        full = "fully used" if layer.utilization >= _FULL else "fully used in these cycles"
        return f"the multipliers are {full}; only fewer MACs or a larger array help"
    text = f"only {used:.0%} of the multipliers have work in these cycles"
    # The last k-tile of a command lasts as long as its results are requantized.
    tiles = max(1, -(-layer.k // size))
    drained = tiles / (tiles - 1 + size // lanes)
    if drained < _FULL:
        text += f"; more requantizer lanes (requant_lanes={size}) take results faster"
    columns = layer.n / (-(-layer.n // size) * size)
    if used / (columns * drained) < _FULL:
        text += f"; input channels in multiples of {size}, and less padding, use more"
    return text + _rest(layer.n, size)


def _of_dram(layer: LayerProfile) -> str:
    loads, stores = layer.traffic.loads, layer.traffic.stores
    parts = {
        "weights are loaded from DRAM; a larger --batch amortizes them, --resident keeps them "
        "on chip if they fit": loads[Window.CONSTANTS],
        "it loads inputs or stores outputs of the network; smaller ones help": loads[Window.INPUT]
        + stores[Window.OUTPUT],
        "its activations do not fit on chip; smaller ones, a larger buffer (ub_rows), or "
        "--optimize memory help": loads[Window.SCRATCH] + stores[Window.SCRATCH],
    }
    return max(parts, key=lambda text: parts[text])


def _rest(channels: int, size: int) -> str:
    """Say what channels cost that do not fill their last block."""
    if not channels % size:
        return ""
    full = -(-channels // size) * size
    return f"; {full} output channels would take no more cycles than its {channels}"
