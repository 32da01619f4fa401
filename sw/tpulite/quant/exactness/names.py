"""The numerics that a network reproduces."""

from enum import StrEnum


class Exactness(StrEnum):
    """A library, or the definition of one, whose results are reproduced bit for bit.

    docs/exactness.md says which arithmetic each implies, and how that was found out.
    """

    LITERT_REF = "litert-ref"  #: LiteRT's reference kernels
    LITERT_OPT = "litert-opt"  #: LiteRT's optimized kernels, without delegates
    LITERT_XNNPACK = "litert-xnnpack"  #: LiteRT with its default delegate, on x86-64
    TFLM = "tflm"  #: TensorFlow Lite Micro's reference kernels
    ORT = "ort"  #: ONNX Runtime with its default options, as on x86
    ORT_INT8 = "ort-int8"  #: the same, but int8 activations stay int8 (session.qdqisint8allowed=1)
    BM1684X = "bm1684x"  #: the vendor's fixed-point rule: one multiplication, one half-up rounding

    @property
    def floats(self) -> bool:
        """Whether sums are scaled in float32, with scales that are float32 products."""
        return self.ort or self == Exactness.LITERT_XNNPACK

    @property
    def ort(self) -> bool:
        """Whether it is ONNX Runtime in some form."""
        return self in (Exactness.ORT, Exactness.ORT_INT8)

    @property
    def litert(self) -> bool:
        """Whether it is TensorFlow Lite in some form."""
        return self.name.startswith(("LITERT", "TFLM"))

    def is_of_format(self, file_format: str) -> bool:
        """Tell whether the library that runs files of a format on the CPU has these numerics."""
        return self.ort if file_format == "onnx" else self.litert


def default_exactness(file_format: str) -> Exactness:
    """Return the exactness of a file format unless the user asks for another.

    A TFLite file means what the reference kernels compute: they are the specification, and they
    give the same bits on every CPU. XNNPACK, which a user of LiteRT gets by default, does not: its
    kernels are chosen by CPU, and what it does not take is left to the optimized kernels. ONNX has
    one widespread implementation of its quantized operators, ONNX Runtime.

    Parameters
    ----------
    file_format : str
        ``tflite`` or ``onnx``.

    Raises
    ------
    ValueError
        If there is no such format.

    Examples
    --------
    >>> str(default_exactness("tflite"))
    'litert-ref'
    """
    defaults = {"tflite": Exactness.LITERT_REF, "onnx": Exactness.ORT}
    if file_format not in defaults:
        raise ValueError(f"File format must be one of {list(defaults)}, not {file_format!r}")
    return defaults[file_format]
