"""The Verilog that we hand out."""

import re

import pytest

from tpulite.arch.config import Config
from tpulite_rtl.verilog import TOP, chip_verilog


@pytest.fixture(scope="module")
def text() -> str:
    return chip_verilog(Config(array_size=4, ub_rows=64, acc_rows=16, queue_depth=2))


def test_no_process_is_without_inputs(text: str) -> None:
    # `always @* x[3:0] = 4'h4;` is never executed by a simulator, and is by synthesis.
    processes = re.findall(r"always @\*\n\s+([^\n;]+) = \d+'\w+;\n", text)
    assert not processes, f"constants in processes of their own: {processes}"


def test_top_has_the_ports_that_tools_recognize(text: str) -> None:
    header = re.search(rf"^module {TOP}\((.*?)\);", text, re.MULTILINE | re.DOTALL)
    assert header is not None
    ports = {port.strip() for port in header[1].split(",")}
    assert {"clk", "rst", "irq", "m_axi_araddr", "m_axi_wstrb", "s_axil_awaddr"} <= ports


def test_equal_configurations_give_equal_texts(text: str) -> None:
    assert text == chip_verilog(Config(array_size=4, ub_rows=64, acc_rows=16, queue_depth=2))
