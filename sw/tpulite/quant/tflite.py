"""Quantization after training of TFLite files: a float network and some data become int8."""

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tpulite.frontend.tflite.object_form import pack, unpack

__all__ = ["quantize_tflite"]

_PARTS = ("quantizer", "recipe")
"""Modules of the quantizer, which is not among what every developer has."""

_KEY = "serving_default"
"""Signature of files that have none."""


def quantize_tflite(data: bytes, samples: Sequence[Mapping[str, np.ndarray]]) -> bytes:
    """Quantize a network to int8 weights and activations with Google's AI Edge quantizer.

    Parameters
    ----------
    data : bytes
        TFLite file of floats, which ``ai-edge-quantizer`` can read.
    samples : sequence of mapping of str to ndarray
        Inputs by the names of their tensors; what they contain decides the ranges.

    Returns
    -------
    bytes
        TFLite file; its inputs and outputs are int8, too.

    Raises
    ------
    ValueError
        If the quantizer refuses the file or the samples.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantizer, recipe = (import_module(f"ai_edge_quantizer.{x}") for x in _PARTS)
        file, key, names = _signed(data)
        feeds = [{names[name]: value for name, value in sample.items()} for sample in samples]
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it reports what it does
                tool = quantizer.Quantizer(file, recipe.static_wi8_ai8())
                ranges = tool.calibrate({key: feeds}, num_threads=1)
                return bytes(tool.quantize(ranges).quantized_model or b"")
        except Exception as error:  # anything: it is foreign code on a foreign file
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(f"the AI Edge quantizer rejects the network: {lines[0]}") from error


def _signed(data: bytes) -> tuple[bytes, str, dict[str, str]]:
    """Return the file with a signature, its key, and what it calls inputs by their tensors."""
    from ai_edge_litert import schema_py_generated as schema

    model = unpack(data)
    graph = model.subgraphs[0]
    if not model.signatureDefs:
        signature: Any = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = _KEY.encode(), 0
        signature.inputs = [_entry(schema, graph, i) for i in graph.inputs]
        signature.outputs = [_entry(schema, graph, i) for i in graph.outputs]
        model.signatureDefs = [signature]
        data = pack(model)
    first: Any = model.signatureDefs[0]
    names = {
        graph.tensors[each.tensorIndex].name.decode(): each.name.decode() for each in first.inputs
    }
    return data, first.signatureKey.decode(), names


def _entry(schema: Any, graph: Any, index: int) -> Any:
    entry: Any = schema.TensorMapT()
    entry.name, entry.tensorIndex = graph.tensors[index].name, int(index)
    return entry
