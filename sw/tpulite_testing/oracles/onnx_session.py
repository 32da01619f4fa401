"""ONNX Runtime as an oracle, with exact kernels where it has them."""

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
    """Open a file on the CPU with the default options but for those named.

    Only the choice of kernels is the product's: see
    :func:`tpulite.frontend.onnx.library.prefer_exact`.

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

    from tpulite.frontend.onnx.library import prefer_exact

    def opened(data: bytes, **entries: str) -> "onnxruntime.InferenceSession":
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are told by exceptions
        options.intra_op_num_threads = threads
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = getattr(levels, f"ORT_{level}")
        if keep_int8:
            options.add_session_config_entry("session.qdqisint8allowed", "1")
        for name, value in entries.items():
            options.add_session_config_entry(f"session.{name}", value)
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    return prefer_exact(opened, model if isinstance(model, bytes) else Path(model).read_bytes())
