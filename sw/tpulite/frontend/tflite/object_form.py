"""TFLite files as objects of LiteRT's schema, which need ``ai-edge-litert``."""

import warnings
from typing import Any


def unpack(data: bytes) -> Any:
    """Return the object form of a file, a ModelT."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        from ai_edge_litert import schema_py_generated as schema

    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))


def pack(model: Any) -> bytes:
    """Return the file of an object form whose weights are all inside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flatbuffers
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
