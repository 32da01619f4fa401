"""Float files as the tools of ONNX Runtime optimize them for inference."""

import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["fuse_transformer", "optimize_session"]


def fuse_transformer(
    data: bytes, kind: str, heads: int, width: int, *, many: bool = False
) -> bytes:
    """Return a file as ``onnxruntime.transformers.optimizer`` writes it.

    Parameters
    ----------
    data : bytes
        A float transformer.
    kind : str
        Its family, such as ``bert`` or ``gpt2``.
    heads, width : int
        Heads of attention, and channels of them together.
    many : bool
        Whether attention becomes MultiHeadAttention, not Attention with its projections.
    """
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    options = FusionOptions(kind)
    options.enable_shape_inference = False  # it needs sympy
    options.use_multi_head_attention = many
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "net.onnx")
        path.write_bytes(data)
        made = optimizer.optimize_model(
            str(path), kind, heads, width, opt_level=0, optimization_options=options
        )
        made.save_model_to_file(str(path))
        return path.read_bytes()


def optimize_session(data: bytes) -> bytes:
    """Return a file as a session of ONNX Runtime writes it at the extended level."""
    from tpulite.frontend.onnx.library import open_session

    with TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        open_session(data, "ENABLE_EXTENDED", path=path)
        return path.read_bytes()
