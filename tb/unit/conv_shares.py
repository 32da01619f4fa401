"""The shares of a CONV, worked out in Python."""

from typing import Any

from conv_model import delay, pairs

from tpulite.arch.config import Config
from tpulite.arch.isa import Axis, Command
from tpulite_rtl.mxu.slots import vector_command

__all__ = ["drain_share", "k_tiles", "vector_bits", "vector_share"]


def k_tiles(command: Command) -> int:
    """Return the number of weight tiles."""
    if command["depthwise"]:
        return 1
    return command["blocks"] * command["kernel_rows"] * command["kernel_columns"]


def vector_share(command: Command, n: int, index: int = 0) -> dict[str, Any]:
    """Return the fields of ``VECTOR_COMMAND``."""
    depthwise = command["depthwise"]
    step_x = 1 if command["byte_step"] else command["stride_x"]
    two = pairs(command, n)
    origin = command["act_row"] - command["pad_top"] * command["act_pitch"] - command["pad_left"]
    same = (
        *("drain", "record_form", "weight_zero_point", "pad", "depthwise", "inner", "byte_step"),
        *("height", "width", "pad_top", "pad_left", "dilation_y", "dilation_x", "act_block_pitch"),
    )
    return {name: command[name] for name in same} | {
        "index": index,
        "dense": command["byte_step"] != 0,
        "delay": delay(command, n),
        "step_y": command["dilation_y"] if depthwise else command["stride_y"],
        "step_x": 2 if two else command["dilation_x"] if depthwise else step_x,
        "origin": origin % (1 << 14),
        "tap_rows": command["dilation_y"] * command["act_pitch"] % (1 << 14),
        "last_block": command["blocks"] - 1,
        "last_kernel_row": 0 if depthwise else command["kernel_rows"] - 1,
        "last_kernel_column": 0 if depthwise else command["kernel_columns"] - 1,
        "inner_axis": _axis(command, Axis(command["inner"]), two=two),
        "outer_axis": _axis(command, Axis(1 - command["inner"]), two=False),
    }


def vector_bits(config: Config, command: Command, index: int = 0) -> int:
    """Return the bits of a machine's ``vector_command``."""
    layout = vector_command(config)
    share = vector_share(command, config.array_size, index)
    more = {name: command[name] for name in layout.members if name not in share}
    return layout.const(share | more).as_bits()


def drain_share(command: Command) -> dict[str, int]:
    """Return the fields of ``DRAIN_COMMAND``."""
    by_y = command["inner"] == Axis.Y
    same = ("acc_row", "accumulate", "drain", "out_row", "signal")
    return {name: command[name] for name in same} | {
        "last_row": command["acc_row"] + command["rows"] * command["columns"] - 1,
        "last_tile": k_tiles(command) - 1,
        "inner_last": command["rows" if by_y else "columns"] - 1,
        "inner_step": command["out_pitch" if by_y else "out_step"],
        "outer_step": command["out_step" if by_y else "out_pitch"],
    }


def _axis(command: Command, axis: Axis, *, two: bool) -> dict[str, int]:
    if axis == Axis.Y:
        names, rows = ("rows", "stride_y", "kernel_rows", "dilation_y"), command["act_pitch"]
    else:
        names, rows = ("columns", "stride_x", "kernel_columns", "dilation_x"), 1
    count, stride, kernel, dilation = (command[name] for name in names)
    if two:  # positions are pairs
        last, tail, period, step = count, 1, 1, 2
    elif command["depthwise"]:
        last, tail, period, step = (count - 1) * stride + kernel - 1, kernel - 1, stride, dilation
    elif command["byte_step"] and axis == Axis.X:
        last, tail, period, step = count, 0, 1, 1
    else:
        last, tail, period, step = count - 1, 0, 1, stride
    return {"last": last, "tail": tail, "period": period, "rows": step * rows % (1 << 14)}
