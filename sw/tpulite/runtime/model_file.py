"""Files of compiled networks: plan, constants of the host and programs in one archive.

Version 5 of the format has, besides the graph, its plan and programs (``model.json``,
``arrays/*.npy``, ``programs/*.tpl``) and what libraries run (``library/*``): the graph's
``states``; ``library``, name and version of the package whose numerics the programs have;
``named``, the tensors that the network's file has, if a library of other numerics runs parts of it;
and an ``example``, inputs drawn by a seed with the outputs of a first run, the states behind it,
the other inputs and outputs of programs (``example/inputs/0.npy`` and so on, in the order of the
names), and the cycles of each program by the cycle model. `make web` makes a page that checks such
a file.
"""

import io
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.arch.config import Config
from tpulite.archive import holds, opened, packed
from tpulite.arrays import read_array
from tpulite.compiler.options import Options
from tpulite.graph.graph import Origin, Source
from tpulite.program import Program
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.network import lacking
from tpulite.quant.place import place
from tpulite.runtime.example import EXAMPLE_SEED, Example
from tpulite.runtime.host.libraries import library_version
from tpulite.runtime.host.part import LibraryFile
from tpulite.runtime.model import Model
from tpulite.runtime.model_graph import graph_from_json, graph_to_json
from tpulite.runtime.model_plan import Plan

_KIND, VERSION = "model", 5
"""Version of the format, see above."""

_EXAMPLE = ("inputs", "outputs", "states", "borders")


def save_model(model: Model, path: Path, example: Example | None = None) -> None:
    """Write a compiled network, perhaps with an example; equal ones give equal bytes."""
    graph, arrays = graph_to_json(model.graph)
    files = [host.part for host in model.plan.hosts if host.segment.library]
    metadata = {
        "exactness": model.exactness.value,
        "strict": model.strict,
        "along": dict(model.plan.placed.along),
        "named": _named_tensors(model),
        "parts": [[_written(file.inputs), _written(file.outputs)] for file in files],
        "library": library_version(model.exactness),
        "config": model.config.as_dict(),
        "options": asdict(model.options),
        "programs": len(model.programs),
        "graph": graph,
        "example": None if example is None else _named(example),
    }
    parts = {f"arrays/{name}.npy": _npy(array) for name, array in arrays.items()}
    if example is not None:
        for field in _EXAMPLE:
            for number, array in enumerate(getattr(example, field).values()):
                parts[_example_name(field, number)] = _npy(array)
    for number, program in enumerate(model.programs):
        parts[_program_name(number)] = program.pack()
    for number, file in enumerate(files):
        parts[_library_name(number)] = file.data
    path.write_bytes(packed(_KIND, VERSION, metadata, parts))


def is_model_file(path: Path) -> bool:
    """Tell whether a file is an archive of :func:`save_model`."""
    return holds(_KIND, path)


def load_model_file(path: Path) -> Model:
    """Read a compiled network.

    ValueError if the file is not a whole one of this version, or a library that it needs is
    missing.
    """
    with opened(_KIND, VERSION, path.read_bytes(), path) as (metadata, parts):
        arrays = {
            name.removeprefix("arrays/").removesuffix(".npy"): _array(data)
            for name, data in parts.items()
            if name.startswith("arrays/")
        }
        names = map(_program_name, range(metadata["programs"]))
        programs = tuple(Program.unpack(parts[name], name) for name in names)
        graph = graph_from_json(metadata["graph"], arrays)
        files = [
            LibraryFile(parts[_library_name(number)], _ports(inputs), _ports(outputs))
            for number, (inputs, outputs) in enumerate(metadata["parts"])
        ]
        config, options = Config.from_dict(metadata["config"]), Options(**metadata["options"])
        strict, exactness = bool(metadata["strict"]), Exactness(metadata["exactness"])
        lacks, named = lacking(graph, config), metadata.get("named", [])
        source = Source(b"", {name: Origin(name) for name in named}) if named else None
        placed = place(
            replace(graph, source=source),
            exactness,
            metadata["along"],
            lacking=lacks,
            strict=strict,
            vector=config.array_size,
        )
    for spec in (spec for program in programs for spec in program.inputs):
        if spec.name not in graph.tensors:
            raise ValueError(f"{path}: a program needs {spec.name!r}, which is not a tensor")
    try:
        plan = Plan.of(placed, strict=strict, files=files)
        return Model(graph, placed.exactness, config, strict, programs, options, plan)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # wrong contents lead anywhere
        raise ValueError(f"{path} is not a tpulite model file: {error}") from error


def load_example(path: Path) -> Example | None:
    """Read the example of a compiled network, if it has one.

    ValueError if the file is not a whole one of this version.
    """
    with opened(_KIND, VERSION, path.read_bytes(), path) as (metadata, parts):
        if metadata["example"] is None:
            return None
        example = metadata["example"]
        inputs, outputs, states, borders = (
            {
                name: _array(parts[_example_name(field, number)])
                for number, name in enumerate(example[field])
            }
            for field in _EXAMPLE
        )
        cycles = example["cycles"]
        return Example(inputs, outputs, states, borders, cycles and tuple(cycles))


def _named_tensors(model: Model) -> list[str]:
    """Return the tensors that the network's file has, if they decide which parts a library runs."""
    graph = model.plan.placed.graph
    if graph.source is None or model.exactness.is_of_format(graph.format):
        return []
    computed = (name for name, tensor in graph.tensors.items() if tensor.data is None)
    return [name for name in computed if name in graph.source.origins]


def _named(example: Example) -> dict[str, Any]:
    names = {field: list(getattr(example, field)) for field in _EXAMPLE}
    return {"seed": EXAMPLE_SEED, "cycles": example.cycles, **names}


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array, order="C"))
    return buffer.getvalue()


def _array(data: bytes) -> np.ndarray:
    return read_array(io.BytesIO(data), len(data))


def _written(ends: tuple[Any, ...]) -> list[list[Any]]:
    return [[name, asdict(origin), *rest] for name, origin, *rest in ends]


def _ports(ends: list[list[Any]]) -> tuple[Any, ...]:
    return tuple((name, _origin(**origin), *rest) for name, origin, *rest in ends)


def _origin(
    key: int | str,
    shape: list[int] | None,
    moves: list[list[list[int]]],
    unsigned: bool = False,
) -> Origin:
    steps = tuple((tuple(before), tuple(perm)) for before, perm in moves)
    return Origin(key, None if shape is None else tuple(shape), steps, unsigned)


def _program_name(number: int) -> str:
    return f"programs/{number}.tpl"


def _example_name(field: str, number: int) -> str:
    return f"example/{field}/{number}.npy"


def _library_name(number: int) -> str:
    return f"library/{number}"
