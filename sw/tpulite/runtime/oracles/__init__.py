"""Libraries whose numerics are promised: they run the network's file, untouched."""

from pathlib import Path

from tpulite.graph.graph import Graph
from tpulite.needs import require_package
from tpulite.runtime.host.libraries import lacked_operator, library_package
from tpulite.runtime.oracles.litert import RESOLVERS, open_litert
from tpulite.runtime.oracles.oracle import Oracle, known_faults
from tpulite.runtime.oracles.ort import ORT, open_ort
from tpulite.runtime.oracles.tflm import open_tflm

__all__ = ["ORACLES", "Oracle", "open_oracle", "oracle_package"]

ORACLES = (*RESOLVERS, "tflm", *ORT)
"""Names of the libraries and their kernel sets."""


def open_oracle(name: str, path: Path, graph: Graph) -> Oracle:
    """Prepare a library to run a file.

    Parameters
    ----------
    name : str
        One of :data:`ORACLES`.
    path : Path
        The network's file, as messages name it.
    graph : Graph
        What :func:`tpulite.frontend.files.load_graph` makes of the file, not simplified; or a part
        of it.

    Raises
    ------
    ValueError
        If there is no such oracle, it is not installed, does not read this format or refuses the
        file.
    """
    if name not in ORACLES:
        raise ValueError(f"--oracle {name!r}: must be one of {', '.join(ORACLES)}")
    wanted = "onnx" if name in ORT else "tflite"
    found = graph.format if graph.source is not None else path.suffix.removeprefix(".")
    written = found == "onnx" and name in RESOLVERS  # as TFLite: the operators are LiteRT's
    if not written and found != wanted:
        raise ValueError(f"{path.name}: --oracle {name} runs .{wanted} files, and this is .{found}")
    require_package(*oracle_package(name), f"--oracle {name}")
    assert graph.source is not None
    data = graph.source.data
    try:
        if written:
            require_package("onnxruntime", "onnx", f"--oracle {name} of an ONNX file")
            from tpulite.runtime.oracles.litert_onnx import open_litert_of_onnx

            oracle = open_litert_of_onnx(graph, name)
        elif name == "tflm":
            oracle = open_tflm(data, graph)
        else:
            oracle = (open_ort if name in ORT else open_litert)(data, graph, name)
    except Exception as error:  # ONNX Runtime has classes of its own, damaged files raise anything
        message = str(error).strip().splitlines() or [type(error).__name__]
        lacked = lacked_operator(data, error) if wanted == "tflite" else ""
        why = f"it does not have {lacked}; --oracle litert-opt runs it" if lacked else message[0]
        raise ValueError(f"{path}: {name} rejects it: {why}") from error
    if not written:
        oracle.known = known_faults(name, graph)
    return oracle


def oracle_package(name: str) -> tuple[str, str]:
    """Return the package of an oracle as it is imported, and the extra that brings it."""
    if name == "tflm":
        return "tflite_micro", "tflm"
    return library_package("onnx" if name in ORT else "tflite")
