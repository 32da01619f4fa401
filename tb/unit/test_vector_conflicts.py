"""Vector engine at the real unified buffer: what bank conflicts of its own ports cost."""

import cocotb
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import RisingEdge
from vector_commands import draw_command
from vector_path import VectorPath

from tpulite.arch.config import Config
from tpulite.arch.effects import parameter_rows
from tpulite.arch.isa import Opcode, VectorOp
from tpulite.arch.timing import vector_pace
from tpulite_rtl.lib.interfaces import EngineSignature, WritePortSignature, write_layout
from tpulite_rtl.lib.layout import command_layout
from tpulite_rtl.ub.unified_buffer import UnifiedBuffer
from tpulite_tb.harness import reset, simulate

CONFIG = Config(array_size=4, ub_rows=1024)
_VECTORS = 200


class _EngineWithBuffer(wiring.Component):
    """The engine at a unified buffer, which the bench writes, too."""

    def __init__(self) -> None:
        super().__init__(
            {
                "engine": Out(EngineSignature(command_layout(Opcode.VECTOR))),
                "write": In(WritePortSignature(CONFIG)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.vpu = vpu = VectorPath(CONFIG)
        m.submodules.buffer = buffer = UnifiedBuffer(
            CONFIG, readers=("a", "b"), writers=("vpu", "bench")
        )
        wiring.connect(m, vpu.engine, wiring.flipped(self.engine))
        wiring.connect(m, vpu.read_a, buffer.read_a)
        wiring.connect(m, vpu.read_b, buffer.read_b)
        wiring.connect(m, vpu.write, buffer.write_vpu)
        wiring.connect(m, wiring.flipped(self.write), buffer.write_bench)
        return m


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(distance=range(CONFIG.ub_banks), operation=[VectorOp.MUL, VectorOp.ADD])
async def operands_in_one_bank_go_apart(dut, distance: int, operation: VectorOp) -> None:
    """Wherever B lies, vectors keep their pace: the ports walk a bank apart after the first one."""
    command = draw_command(
        operation,
        CONFIG,
        rows=1,
        columns=_VECTORS,
        a_row=64,
        a_step=1,
        b_row=320 + distance,
        b_step=1,
        out_row=640,
        out_step=1,
        param_row=0,
        wait=0,
        signal=0,
    )
    dut.engine__stop.value = 0
    dut.engine__take__ready.value = 1
    dut.engine__give__ready.value = 1
    dut.engine__command__valid.value = 0
    dut.write__request__valid.value = 0
    await reset(dut)
    edge = RisingEdge(dut.clk)
    dut.write__request__valid.value = 1
    for row in range(parameter_rows(operation, CONFIG)):  # of zeros, which are legal
        dut.write__request__payload.value = write_layout(CONFIG).const({"row": row}).as_bits()
        await edge
    dut.write__request__valid.value = 0
    dut.engine__command__payload.value = int.from_bytes(command.encode(), "little")
    dut.engine__command__valid.value = 1
    while not dut.engine__command__ready.value:
        await edge
    dut.engine__command__valid.value = 0
    cycles = 0
    while not dut.engine__give__valid.value:
        await edge
        cycles += 1
    # To the first read, parameters, the way of the last vector, to the tokens; and the conflict.
    pace = vector_pace(operation, CONFIG)
    assert cycles == 2 + 8 + _VECTORS * pace - 1 + 17 + 1 + (distance == 0)


def test_vector_conflicts() -> None:
    simulate(_EngineWithBuffer(), __file__, name="vector_conflicts")
