"""What is worth knowing of a chip's netlist: its longest paths and its gates, by block."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby

from tpulite.configs import named_chip
from tpulite_silicon.design import Design, joint_name, plain_name
from tpulite_silicon.library import FO4
from tpulite_silicon.netlist import Netlist, flatten
from tpulite_silicon.paths import Analysis, Path
from tpulite_silicon.synthesis import gates_of
from tpulite_silicon.timed import Library
from tpulite_verilated.toolchain import build_root

__all__ = ["identity", "known_report", "measure", "report", "write_report"]

_ROUTES = 60
_ARRAY = re.compile(r"^mxu\.array\.pe_")


def measure(
    design: Design,
    progress: Callable[[int, int], None] = lambda *_: None,
    library: Library = FO4,
) -> dict:
    """Return the report of a design, whose blocks Yosys or the cache makes into gates.

    Before each block ``progress`` is told how many are done, and of how many.
    """
    total = sum(1 for _ in design.blocks())
    done = 0

    def block(name: str) -> dict:
        nonlocal done
        progress(done, total)
        done += 1
        return gates_of(design, design.modules[name], library)

    return report(flatten(design.top, block, library))


def report(netlist: Netlist) -> dict:
    """Return paths and areas as plain values.

    Lengths of paths are ``fo4`` and areas ``gates``, or ``ns`` and ``um2``, as the library says.
    ``chip`` has the longest path of all, and the area; ``blocks`` for each block the longest path
    that *ends* in it, wherever it begins, and the area of all its ``count`` instances without the
    blocks inside. Blocks whose names differ in numbers only are one. ``paths`` are the longest,
    one for each sequence of blocks that paths take, with the number of gates in each block.
    ``ports`` has the longest paths from inputs of the chip, to outputs, and from those to these.
    """
    analysis = Analysis(netlist)
    library = netlist.library
    storage, ports = netlist.storage, netlist.ports
    paths = sorted(analysis.longest(storage, storage), key=lambda path: -path.delay)
    areas: defaultdict[str, float] = defaultdict(float)
    for instance, area in netlist.areas.items():
        areas[joint_name(instance)] += area
    count = Counter(map(joint_name, netlist.areas))
    longest: dict[str, Path] = {}
    routes: dict[tuple[str, ...], Path] = {}
    for path in paths:
        longest.setdefault(joint_name(path.end.block), path)
        if len(routes) < _ROUTES:
            routes.setdefault(_route(path), path)

    blocks = [
        {
            "name": name,
            "count": count[name],
            **_plain(longest.get(name), library),
            library.area_unit: round(area),
        }
        for name, area in areas.items()
    ]
    array = sum(area for instance, area in netlist.areas.items() if _ARRAY.match(instance))
    return {
        "chip": {
            **_plain(paths[0] if paths else None, library),
            library.area_unit: round(sum(areas.values())),
            f"{library.area_unit}_array": round(array),
        },
        "blocks": sorted(blocks, key=lambda block: -block[library.unit]),
        "ports": {
            "inputs": _plain(_longest(analysis.longest(ports, storage)), library),
            "outputs": _plain(_longest(analysis.longest(storage, ports)), library),
            "through": _plain(_longest(analysis.longest(ports, ports)), library),
        },
        "paths": [{**_plain(path, library), "through": _through(path)} for path in routes.values()],
    }


def write_report(kind: str, name: str, content: dict) -> str:
    """Write build/KIND/NAME.json; return its path as a person in this directory would type it."""
    path = build_root() / kind / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    return os.path.relpath(path)


def identity(name: str) -> dict:
    """Return what a report says of the configuration that it is about."""
    config, build = named_chip(name)
    return {"config": name, "hash": f"{config.hash:#010x}", "build": asdict(build)}


def known_report(kind: str, name: str) -> dict:
    """Return what was measured of this definition of a configuration, nothing if it is not."""
    path = build_root() / kind / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    return found if found | identity(name) == found else {}


def _longest(paths: list[Path]) -> Path | None:
    return max(paths, key=lambda path: path.delay, default=None)


def _plain(path: Path | None, library: Library) -> dict:
    """Return a path as a JSON object; a block in which no path ends has one of no length."""
    if path is None:
        return {library.unit: 0.0, "levels": 0, "start": "", "end": ""}
    return {
        library.unit: round(path.delay * library.scale, library.digits),
        "levels": path.levels,
        "start": f"{plain_name(path.start.block)}.{path.start.name}".lstrip("."),
        "end": f"{plain_name(path.end.block)}.{path.end.name}".lstrip("."),
    }


def _through(path: Path) -> list[str]:
    """Return the blocks that a path passes, each with the number of gates there."""
    runs = groupby(path.through, key=lambda gate: gate.block)
    return [f"{plain_name(block) or 'chip'} {len(list(gates))}" for block, gates in runs]


def _route(path: Path) -> tuple[str, ...]:
    places = [path.start.block, *(gate.block for gate in path.through), path.end.block]
    return tuple(block for block, _ in groupby(map(joint_name, places)))
