"""What commands do as they are executed, sampled from the golden machine's datapath."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import BEAT_BYTES, RECORD_BYTES, Config
from tpulite.arch.effects import early_weights
from tpulite.arch.isa import Command, Drain, RecordForm, VectorOp
from tpulite.arch.memory import PAGE_BYTES
from tpulite.arch.numerics import Rounding
from tpulite.golden.effects.access import FaultSite, Footprint
from tpulite.golden.effects.footprint import record_offset
from tpulite.golden.machine.arithmetic import read_records, unpack_records
from tpulite.golden.machine.datapath import Datapath
from tpulite.golden.machine.dram import Dram
from tpulite_tb.coverage.cross import Cross
from tpulite_tb.coverage.crosses import SCALED

__all__ = ["SampledDatapath", "mode_of", "outputs_of"]


class SampledDatapath(Datapath):
    """The machine's datapath, which samples each command that it executes.

    Parameters
    ----------
    config : Config
        The machine.
    crosses : mapping of str to Cross
        What was seen, by title; added to.
    """

    def __init__(self, config: Config, crosses: Mapping[str, Cross]) -> None:
        super().__init__(config)
        self._crosses = crosses

    def load(self, command: Command, access: Footprint, dram: Dram) -> None:
        """Sample a LOAD."""
        self._transfer(command, access)
        super().load(command, access, dram)

    def store(
        self, command: Command, access: Footprint, dram: Dram
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Sample a STORE."""
        self._transfer(command, access)
        return super().store(command, access, dram)

    def conv(self, command: Command, access: Footprint) -> FaultSite | None:
        """Sample a CONV."""
        mode, drain = mode_of(command), Drain(command["drain"]).name
        rows = self.buffer[access.early_reads][early_weights(command, self.config) :]
        fault = super().conv(command, access)
        if fault is not None:
            return fault
        if drain == "REQUANTIZE":
            form = RecordForm(command["record_form"])
            codes = np.unique(read_records(rows, form)["rounding"])
            drain = Rounding(int(codes[0])).name if len(codes) == 1 else "mixed"
            for code in codes:
                self._crosses["channel records"].hit(
                    form=form.name, mode=mode, rounding=Rounding(int(code)).name
                )
        outputs = outputs_of(command["rows"] * command["columns"], self.config)
        accumulate = "yes" if command["accumulate"] else "no"
        self._crosses["CONV"].hit(mode=mode, drain=drain, accumulate=accumulate, outputs=outputs)
        return None

    def vector(self, command: Command, access: Footprint) -> FaultSite | None:
        """Sample a VECTOR."""
        operation, rounding = VectorOp(command["operation"]), "-"
        parameters = self.buffer[access.early_reads]
        fault = super().vector(command, access)
        if fault is not None:
            return fault
        if operation.name in SCALED:
            if operation == VectorOp.AFFINE:
                codes = np.unique(read_records(parameters, RecordForm.FULL)["rounding"])
            else:
                rows = parameters[record_offset(operation, self.config) :]
                codes = unpack_records(rows.reshape(-1)[None, :RECORD_BYTES])["rounding"]
            rounding = Rounding(int(codes[0])).name if len(codes) == 1 else "mixed"
        outputs = "1" if len(access.writes) == 1 else "more"
        self._crosses["VECTOR"].hit(operation=operation.name, outputs=outputs, rounding=rounding)
        return None

    def _transfer(self, command: Command, access: Footprint) -> None:
        if access.fault is not None or not access.spans:
            return
        partial = command["rows"] * self.config.row_bytes % BEAT_BYTES
        pages = any((x.start ^ (x.stop - 1)) // PAGE_BYTES for x in access.spans)
        self._crosses["transfers"].hit(
            opcode=command.opcode.name,
            flip="yes" if command["flip"] else "no",
            tail="partial beat" if partial else "whole beats",
            lines="one" if command["lines"] == 1 else "more",
            page="crossed" if pages else "within",
        )


def mode_of(command: Command) -> str:
    """Return the mode of a CONV, as its cross calls it."""
    if command["depthwise"]:
        return "depthwise"
    if command["byte_step"]:
        return "bytes"
    taps = command["kernel_rows"] * command["kernel_columns"]
    return "product" if taps == 1 and command["rows"] == 1 else "image"


def outputs_of(count: int, config: Config) -> str:
    """Return what the cross of CONV calls so many output vectors."""
    size = config.array_size
    return "1" if count == 1 else "<N" if count < size else "N" if count == size else ">N"
