"""Files of compiled networks: plan, constants of the host and programs in one archive."""

import io
import json
import tempfile
import zipfile
import zlib
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.program import Program
from tpulite.quant.exactness import Exactness
from tpulite.runtime.model import Model
from tpulite.runtime.model_graph import graph_from_json, graph_to_json

__all__ = ["is_model_file", "load_model_file", "save_model"]

_FORMAT = "tpulite-model"
_FORMAT_VERSION = 2
_METADATA = "model.json"
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def save_model(model: Model, path: Path) -> None:
    """Write a compiled network; equal ones give equal bytes."""
    graph, arrays = graph_to_json(model.graph)
    metadata = {
        "format": _FORMAT,
        "version": _FORMAT_VERSION,
        "exactness": model.exactness.value,
        "host_fallback": model.host_fallback,
        "config": model.config.as_dict(),
        "options": asdict(model.options),
        "programs": len(model.programs),
        "graph": graph,
    }
    parts = {_METADATA: json.dumps(metadata, indent=1).encode()}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        parts[f"arrays/{name}.npy"] = buffer.getvalue()
    with tempfile.TemporaryDirectory() as folder:
        for number, program in enumerate(model.programs):
            file = Path(folder) / "program"
            program.save(file)
            parts[_program_name(number)] = file.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            # A ZipInfo of our own has a fixed date, unlike writestr with a name.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    path.write_bytes(buffer.getvalue())


def is_model_file(path: Path) -> bool:
    """Tell whether a file is an archive of :func:`save_model`."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _METADATA in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return False


def load_model_file(path: Path) -> Model:
    """Read a compiled network.

    Raises
    ------
    ValueError
        If the file is not a whole one of this version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = json.loads(archive.read(_METADATA))
            if metadata["format"] != _FORMAT:
                raise ValueError(f"format {metadata['format']!r}")
            if metadata["version"] != _FORMAT_VERSION:
                raise ValueError(f"version {metadata['version']!r}, this is {_FORMAT_VERSION}")
            arrays = {
                name.removeprefix("arrays/").removesuffix(".npy"): np.load(
                    io.BytesIO(archive.read(name))
                )
                for name in archive.namelist()
                if name.startswith("arrays/")
            }
            with tempfile.TemporaryDirectory() as folder:
                programs = tuple(
                    Program.load(archive.extract(_program_name(number), folder))
                    for number in range(metadata["programs"])
                )
        return Model(
            graph_from_json(metadata["graph"], arrays),
            Exactness(metadata["exactness"]),
            Config.from_dict(metadata["config"]),
            metadata["host_fallback"],
            programs,
            Options(**metadata["options"]),
        )
    except _UNREADABLE as error:
        raise ValueError(f"{path} is not a tpulite model file: {error}") from error


def _program_name(number: int) -> str:
    return f"programs/{number}.tpl"
