"""The folder of a layout: bytes for memory, a manifest of them, and tensors of each step.

``coefficients.bin`` is what lies in memory: of an int8 layer its merged coefficients, of a float
layer filter and bias, each from a multiple of 64 bytes on, lane after lane. ``manifest.json`` says
what lies where. ``steps.npz`` has the tensors of each step of the document for numpy, as
``LAYER/step3/filter``; nothing reads it back.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.atomic import write_whole
from tpulite.layout.bm1684x import (
    ConvSpec,
    Fold,
    Geometry,
    from_bfloat16,
    unpack_bias,
    unpack_coefficients,
    unpack_filter,
)
from tpulite.layouts.layer import Layer, Requant
from tpulite.layouts.layout import Layout, LeftOut

_FORMAT, _VERSION = "tpulite-layout", 1
_MANIFEST, _BYTES, _STEPS = "manifest.json", "coefficients.bin", "steps.npz"

_ALIGNMENT = 64
"""Bytes from a multiple of which each tensor begins: a burst of a memory, a line of a cache."""


def write(layout: Layout, folder: str | Path) -> tuple[Path, ...]:
    """Write a layout to a folder, which is made if it is not there.

    Parameters
    ----------
    layout : Layout
        The layout.
    folder : str or Path
        Gets ``manifest.json``, ``coefficients.bin`` and ``steps.npz``.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    OSError
        If they cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    manifest = describe(layout)
    data = bytearray(manifest["coefficients"]["bytes"])
    steps = {}
    for layer, entry in zip(layout.layers, manifest["layers"], strict=True):
        for name, values in layer.tensors().items():
            start = entry["tensors"][name]["offset"]
            data[start : start + values.nbytes] = _little(values).tobytes()
        steps |= {f"{layer.name}/{step}": values for step, values in layer.steps().items()}
    text = json.dumps(manifest, indent=1) + "\n"
    write_whole(folder / _BYTES, partial(Path.write_bytes, data=bytes(data)))
    write_whole(folder / _STEPS, partial(_save_arrays, arrays=steps))
    write_whole(folder / _MANIFEST, partial(Path.write_text, data=text))
    return tuple(folder / name for name in (_MANIFEST, _BYTES, _STEPS))


def describe(layout: Layout) -> dict[str, Any]:
    """Return the manifest of a layout: everything but the weights, as plain values for JSON.

    Each layer has the widths and offsets of the document, in bytes of a lane, and for each tensor
    in memory its ``offset`` in ``coefficients.bin``, its ``shape`` and type.
    """
    layers, end = [], 0
    for layer in layout.layers:
        tensors = {}
        for name, values in layer.tensors().items():
            start = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = start + values.nbytes
            tensors[name] = {
                "offset": start,
                "bytes": values.nbytes,
                "shape": list(values.shape),
                "type": values.dtype.name,
            }
        layers.append(_describe_layer(layer) | {"tensors": tensors})
    machine = layout.geometry
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "layout": "bm1684x",
        "network": layout.network,
        "machine": {
            "lanes": machine.lanes,
            "ic_parallel": machine.parallel,
            "eu_num": machine.lane_bytes,
        },
        "coefficients": {"file": _BYTES, "bytes": end},
        "layers": layers,
        "left_out": [asdict(each) for each in layout.left_out],
    }


def read(folder: str | Path) -> Layout:
    """Read a layout that :func:`write` wrote, and turn all weights back.

    Parameters
    ----------
    folder : str or Path
        Has ``manifest.json`` and ``coefficients.bin``.

    Raises
    ------
    OSError
        If a file is missing.
    ValueError
        If they are not what :func:`write` writes; the message begins with the file.
    """
    folder = Path(folder)
    path = folder / _MANIFEST
    text, data = path.read_bytes(), (folder / _BYTES).read_bytes()
    try:
        manifest = json.loads(text)
        if (manifest["format"], manifest["version"]) != (_FORMAT, _VERSION):
            raise ValueError(f"its format is not {_FORMAT} version {_VERSION}")
        due = manifest["coefficients"]["bytes"]
        if len(data) != due:
            raise _DamagedError(f"it has {len(data)} bytes, and {_MANIFEST} says {due}")
        machine = manifest["machine"]
        geometry = Geometry(
            lanes=machine["lanes"],
            parallel=machine["ic_parallel"],
            lane_bytes=machine["eu_num"],
        )
        layers = tuple(_read_layer(entry, geometry, data) for entry in manifest["layers"])
        left_out = tuple(LeftOut(**each) for each in manifest["left_out"])
        return Layout(manifest["network"], geometry, layers, left_out)
    except _DamagedError as error:
        raise ValueError(f"{folder / _BYTES} is damaged: {error}") from error
    except KeyError as error:
        raise ValueError(f"{path} is not a layout manifest: it has no {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a layout manifest: {error}") from error


class _DamagedError(Exception):
    """Bytes are not those that the manifest describes."""


def _describe_layer(layer: Layer) -> dict[str, Any]:
    spec, requant, at = layer.spec, layer.requant, layer.manifest
    entry: dict[str, Any] = {
        "name": layer.name,
        "kind": layer.kind,
        "source": layer.source,
        "type": spec.dtype,
        "filter_shape": list(spec.filter_shape),
        "filter_type": layer.filter.dtype.name,
        "group": layer.group,
        "has_bias": layer.bias is not None,
        "3ic_optimize": int(spec.folded),
    }
    if requant is None or at is None:
        return entry | {"w1": spec.w1}
    plain = {
        name: value for name, value in asdict(requant).items() if not isinstance(value, np.ndarray)
    }
    widths = {f"w{i}": getattr(at, f"w{i}") for i in range(1, 6)}
    offsets = {
        "requant_offset": 0,
        "requant_stride": at.requant_stride,
        "bias_offset": at.bias_off,
        "filter_offset": at.filter_off,
    }
    return entry | {"lanes": at.lanes, "slots": at.slots, **widths, **offsets, "requant": plain}


def _read_layer(entry: Mapping[str, Any], geometry: Geometry, data: bytes) -> Layer:
    requant, has_bias = entry.get("requant"), entry["has_bias"]
    oc, ic, kh, kw = entry["filter_shape"]
    spec = ConvSpec(
        oc=oc,
        ic=ic,
        kh=kh,
        kw=kw,
        dtype=entry["type"],
        depthwise=entry["kind"] == "depthwise",
        has_bias=has_bias or (requant is not None and requant["input_zero_point"] != 0),
        fold=Fold(entry["3ic_optimize"]),
        geometry=geometry,
    )
    tensors = {name: _tensor(data, **place) for name, place in entry["tensors"].items()}
    fields = {name: entry[name] for name in ("name", "kind", "source", "group")}
    if requant is None:
        with _damaged(entry["name"]):
            values = unpack_filter(tensors["filter"], spec)
        return Layer(
            **fields,
            spec=spec,
            filter=from_bfloat16(values) if spec.dtype == "bf16" else values,
            bias=unpack_bias(tensors["bias"], spec) if has_bias else None,
        )
    with _damaged(entry["name"]):
        found = unpack_coefficients(tensors["coefficients"], spec)
    values = found.filter.view(entry["filter_type"])
    rule = Requant(multiplier=found.multiplier, rshift=found.rshift, **requant)
    if np.any(found.zero_point != rule.zero_point):
        raise _DamagedError(f"zero points of {entry['name']!r} are not all {rule.zero_point}")
    bias = found.bias + rule.offset(values) if has_bias and found.bias is not None else None
    return Layer(**fields, spec=spec, filter=values, bias=bias, requant=rule)


@contextmanager
def _damaged(layer: str) -> Iterator[None]:
    """Blame the bytes of a layer for what cannot be unpacked."""
    try:
        yield
    except ValueError as error:
        raise _DamagedError(f"{layer}: {error}") from error


def _tensor(data: bytes, *, offset: int, bytes: int, shape: list[int], type: str) -> np.ndarray:
    """Return a tensor of the file."""
    if not 0 <= offset <= offset + bytes <= len(data):
        raise ValueError(f"bytes {offset} to {offset + bytes} are not in {_BYTES}")
    dtype = np.dtype(type)
    values = np.frombuffer(data[offset : offset + bytes], dtype.newbyteorder("<"))
    return values.reshape(shape).astype(dtype)


def _little(values: np.ndarray) -> np.ndarray:
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def _save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
