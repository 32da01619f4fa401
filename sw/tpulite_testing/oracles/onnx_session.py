"""ONNX Runtime as an oracle, with exact kernels where it has them."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["open_onnx"]


def open_onnx(
    model: bytes | str | Path,
    *,
    level: str = "ENABLE_ALL",
    keep_int8: bool = False,
    threads: int = 0,
) -> "onnxruntime.InferenceSession":
    """Open an untouched file on the CPU, with the default options but for those named.

    On a CPU without VNNI the default kernels add pairs of uint8 x int8 products in int16, which
    saturates; ``x64quantprecision`` chooses kernels that add in int32, as all other CPUs do. ONNX
    Runtime fails to choose them for some files with int8 activations, and for weights that share a
    zero point; the entry has no effect at ``DISABLE_ALL``. There such a CPU is no oracle for large
    products of uint8 and int8.

    Parameters
    ----------
    model : bytes, str or Path
        A file, or its path.
    level : str
        What is optimized: ``DISABLE_ALL``, ``ENABLE_BASIC``, ``ENABLE_EXTENDED`` or ``ENABLE_ALL``.
    keep_int8 : bool
        Whether int8 activations stay int8.
    threads : int
        Threads of an operator; 0: as many as there are cores.
    """
    # Tests that need it are skipped where it is missing.
    import onnxruntime

    def opened(**entries: str) -> "onnxruntime.InferenceSession":
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are told by exceptions
        options.intra_op_num_threads = threads
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = getattr(levels, f"ORT_{level}")
        if keep_int8:
            options.add_session_config_entry("session.qdqisint8allowed", "1")
        for name, value in entries.items():
            options.add_session_config_entry(f"session.{name}", value)
        data = model if isinstance(model, bytes) else str(model)
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    with suppress(Exception):  # of classes of its own
        return opened(x64quantprecision="1")
    return opened()
