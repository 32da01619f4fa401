"""What is done to whole files: bytes, fields, members of archives."""

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from tpulite.archive import packed
from tpulite_testing.hostile.fields import INTEGERS, changed_value, with_field_changed
from tpulite_testing.hostile.headers import gguf_changed, json_changed, safetensors_changed
from tpulite_testing.hostile.tokens import tokenizer_changed

__all__ = ["mutant"]

Change = Callable[[bytes, np.random.Generator], bytes]

_BOMB = 1 << 31
"""Bytes that a member of an archive unpacks to, or says so."""


def mutant(data: bytes, kind: str, rng: np.random.Generator) -> bytes:
    """Return a damaged or hostile variant of a file.

    Parameters
    ----------
    data : bytes
        A whole file.
    kind : str
        ``tflite``, ``onnx``, ``npz``, ``npy``, ``model``, ``states`` (a model that has some) or
        ``program`` (archives of ours), ``picture``, ``gguf``, ``safetensors``, ``json`` or
        ``tokenizer``.
    rng : Generator
        Draws what is done.
    """
    changes = (_flip, _flip, _cut, _word, _splice, *_KINDS[kind])
    return changes[rng.integers(len(changes))](data, rng)


def _flip(data: bytes, rng: np.random.Generator) -> bytes:
    """Change up to eight bytes."""
    changed = bytearray(data)
    for place in rng.integers(len(data), size=rng.integers(1, 9)):
        changed[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, changed[place] ^ 1 << rng.integers(8)])
    return bytes(changed)


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data))]


def _word(data: bytes, rng: np.random.Generator) -> bytes:
    """Change an aligned word: offsets and lengths of flatbuffers and zip files are such."""
    place = 4 * int(rng.integers(max(1, len(data) // 4)))
    value = INTEGERS[rng.integers(len(INTEGERS))] & 0xFFFFFFFF
    return data[:place] + value.to_bytes(4, "little") + data[place + 4 :]


def _splice(data: bytes, rng: np.random.Generator) -> bytes:
    """Put a piece of the file elsewhere."""
    start, stop, place = (int(n) for n in rng.integers(len(data), size=3))
    return data[:place] + data[min(start, stop) : max(start, stop)] + data[place:]


def _tflite(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a field of a TFLite file."""
    from tpulite.frontend.tflite.builder import flatbuffers, schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    for _ in range(20):  # the builder refuses numbers that do not fit into a field
        try:
            changed = with_field_changed(model, rng)
            builder = flatbuffers.Builder(len(data))
            builder.Finish(changed.Pack(builder), b"TFL3")
            return bytes(builder.Output())
        except Exception:
            continue
    return data


def _onnx(data: bytes, rng: np.random.Generator) -> bytes:
    from tpulite_testing.hostile.protobuf import with_onnx_field_changed

    return with_onnx_field_changed(data, rng)


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _signed(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a field, or a member, of an archive of ours, whose checksum is right again."""
    kind, version, about, parts = _archive(data)
    if parts and rng.random() < 0.4:
        name = sorted(parts)[rng.integers(len(parts))]
        inner = {"tpl": "program", "npy": "npy"}.get(name.rpartition(".")[2], "bytes")
        parts[name] = mutant(parts[name], inner, rng) if parts[name] else b"x"
    else:
        about = with_field_changed(about, rng)
    return packed(kind, version, about, parts)


def _archive(data: bytes) -> tuple[str, int, dict[str, Any], dict[str, bytes]]:
    """Return kind, version, description and members of an archive of ours."""
    parts = _members(data)
    kind = "model" if "model.json" in parts else "program"
    about = json.loads(parts.pop(f"{kind}.json"))
    del about["sha256"], about["format"]
    return kind, about.pop("version"), about, parts


def _states(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a state, its initial value or its tensors; or the windows of a program."""
    kind, version, about, parts = _archive(data)
    graph = about["graph"]
    states, tensors = graph["states"], graph["tensors"]
    (state,) = states
    match rng.integers(6):
        case 0:
            graph["states"] = with_field_changed(states, rng)
        case 1:  # another tensor, perhaps of another shape or a constant
            state[rng.integers(1, 3)] = tensors[rng.integers(len(tensors))]["name"]
        case 2:
            states.append([*with_field_changed(state, rng)[:3], state[3]])
        case 3:
            shape = tuple(int(n) for n in rng.choice([0, 1, 2, 8, 300], rng.integers(5)))
            buffer = io.BytesIO()
            np.save(buffer, np.zeros(shape, rng.choice(["i1", "f4", "i8", "?", "c8", "U3"])))
            parts[f"arrays/{state[3]['array']}.npy"] = buffer.getvalue()
        case 4:
            held = [each for each in tensors if each["name"] in state[1:3]]
            place = rng.integers(len(held))
            key = ("shape", "dtype", "name", "data", "quantization")[rng.integers(5)]
            held[place][key] = changed_value(held[place][key], rng)
        case _ if "programs/0.tpl" in parts:
            _, number, program, inner = _archive(parts["programs/0.tpl"])
            windows = program["window_bytes"]
            windows[rng.integers(len(windows))] = int(rng.choice([0, 1, 15, 16, 2**31, 2**40]))
            parts["programs/0.tpl"] = packed("program", number, program, inner)
    return packed(kind, version, about, parts)


def _npy(data: bytes, rng: np.random.Generator) -> bytes:
    """Write another header: types, shapes and orders of an array that is not there."""
    headers = (
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (99999999999,), }",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (1048576, 1048576), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '|V8', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1, 256), }",
        "{'descr': '<c16', 'fortran_order': False, 'shape': (1, 16), }",
        "__import__('os').system('id')",
        "(" * 5000,
    )
    header = headers[rng.integers(len(headers))].encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data[128:]


def _npz(data: bytes, rng: np.random.Generator) -> bytes:
    """Change an array of an archive."""
    parts = _members(data)
    name = sorted(parts)[rng.integers(len(parts))]
    parts[name] = mutant(parts[name], "npy", rng)
    return _zipped(parts)


def _bomb(data: bytes, rng: np.random.Generator) -> bytes:
    """Let a member be zeros without end, or only say so."""
    parts = _members(data)
    name = sorted(parts)[rng.integers(len(parts))]
    if rng.random() < 0.5:
        return data.replace(
            len(parts[name]).to_bytes(4, "little"), (_BOMB - 1).to_bytes(4, "little")
        )
    head = parts[name][: rng.choice([0, 80, 128])]
    return _zipped(parts, **{name: head})


def _zipped(parts: dict[str, bytes], **bombs: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in parts.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(bombs.get(name, data))
                if name in bombs:
                    block = bytes(1 << 24)
                    for _ in range(_BOMB >> 24):
                        member.write(block)
    return buffer.getvalue()


def _picture(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a small file of many pixels."""
    size = tuple(int(n) for n in rng.choice([1, 4000, 9000, 13000, 30000], 2))
    buffer = io.BytesIO()
    Image.new("1", size).save(buffer, "PNG")
    return buffer.getvalue()


_KINDS: dict[str, tuple[Change, ...]] = {
    "bytes": (),
    "tflite": (_tflite,) * 10,
    "onnx": (_onnx,) * 10,
    "npy": (_npy,) * 3,
    "npz": (*(_npz,) * 4, _bomb),
    "model": (*(_signed,) * 10, _bomb),
    "picture": (_picture,),
    "program": (*(_signed,) * 10, _bomb),
    "states": (*(_signed,) * 4, *(_states,) * 10),
    "gguf": (gguf_changed,) * 15,
    "safetensors": (safetensors_changed,) * 10,
    "json": (json_changed,) * 20,
    "tokenizer": (*(json_changed,) * 10, *(tokenizer_changed,) * 15),
}
