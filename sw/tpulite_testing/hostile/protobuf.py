"""Changes of single fields of ONNX files."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import onnx

from tpulite_testing.hostile.fields import changed_value

__all__ = ["with_onnx_field_changed"]


def with_onnx_field_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Return an ONNX file in which one field is changed, or the bytes as they are."""
    model = onnx.load_model_from_string(data)
    sites = list(_sites(model))
    for _ in range(20):  # protobuf refuses what does not fit into a field
        message, field = sites[rng.integers(len(sites))]
        if _change(message, field, rng):
            break
    return model.SerializeToString()


def _change(message: Any, field: Any, rng: np.random.Generator) -> bool:
    old = getattr(message, field.name)
    if field.is_repeated:
        return _change_items(old, rng)
    if field.message_type is not None or rng.random() < 0.05:
        message.ClearField(field.name)
        return True
    try:
        setattr(message, field.name, changed_value(old, rng))
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _change_items(items: Any, rng: np.random.Generator) -> bool:
    """Drop, double, exchange or change items of a repeated field."""
    if not len(items):
        return False
    i, j = (int(n) for n in rng.integers(len(items), size=2))
    values = list(items)
    match rng.integers(4):
        case 0:
            values = values[:i] + values[i + 1 :]
        case 1:
            values = [*values, values[i]]
        case 2:
            values[i], values[j] = values[j], values[i]
        case _:
            if isinstance(values[i], int | float | str | bytes):
                values[i] = changed_value(values[i], rng)
            else:
                values = values[:i]
    before = list(map(deepcopy, items))
    values = list(map(deepcopy, values))
    try:
        del items[:]
        items.extend(values)
    except (TypeError, ValueError, OverflowError):
        del items[:]
        items.extend(before)
        return False
    return True


def _sites(message: Any) -> Iterator[tuple[Any, Any]]:
    """Yield messages and their fields: those that are there, and numbers and texts that are not."""
    for field in message.DESCRIPTOR.fields:
        nested = field.message_type is not None
        if not (nested or field.is_repeated):
            yield message, field
        elif field.is_repeated:
            items = getattr(message, field.name)
            if len(items):
                yield message, field
            for inner in items if nested else ():
                yield from _sites(inner)
        elif message.HasField(field.name):
            yield message, field
            yield from _sites(getattr(message, field.name))
