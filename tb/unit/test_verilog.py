"""The Verilog that we hand out."""

import fnmatch
import re
from dataclasses import fields

import pytest

from tpulite.arch.build import MEMORIES, MULTIPLIERS, TARGETS, Build
from tpulite.arch.config import Config
from tpulite.cli.verilog import verilog
from tpulite_rtl.constraints import lpf, sdc, sdc_of_ports
from tpulite_rtl.portable import portable_verilog
from tpulite_rtl.verilog import TOP, chip_verilog, header

SMALL = Config(array_size=4, ub_rows=64, acc_rows=16, queue_depth=2)


@pytest.fixture(scope="module")
def text() -> str:
    return chip_verilog(SMALL)


def test_no_process_is_without_inputs(text: str) -> None:
    # `always @* x[3:0] = 4'h4;` is never executed by a simulator, and is by synthesis.
    processes = re.findall(r"always @\*\n\s+([^\n;]+) = \d+'\w+;\n", text)
    assert not processes, f"constants in processes of their own: {processes}"


@pytest.fixture(scope="module")
def portable() -> str:
    return portable_verilog(SMALL)


def ports_of(text: str) -> set[str]:
    found = re.search(rf"^module {TOP}\((.*?)\);", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return {port.strip() for port in found[1].split(",")}


def test_top_has_the_ports_that_tools_recognize(text: str, portable: str) -> None:
    ports = ports_of(text)
    assert {"clk", "rst", "irq", "m_axi_araddr", "m_axi_wstrb", "s_axil_awaddr"} <= ports
    assert ports_of(portable) == {port for port in ports if not port.startswith("trace_")}


def test_portable_verilog_has_plain_names_and_each_module_once(portable: str) -> None:
    assert "\\" not in portable
    modules = re.findall(r"(?ms)^module (\w+)(.*?)^endmodule", portable)
    assert len({name for name, _ in modules}) == len({body for _, body in modules}) == len(modules)
    instances = set(re.findall(r"(?m)^  (\w+) \w+ \($", portable))
    assert instances == {name for name, _ in modules} - {TOP}


def test_rows_that_begin_alike_stand_in_a_loop(text: str, portable: str) -> None:
    rows = r"(?m)^ +\S+ ?\[\d+\] = \S+;$"
    listed, left = (len(re.findall(rows, verilog)) for verilog in (text, portable))
    looped = sum(map(int, re.findall(r"(?m)^    for \(\w+ = 0; \w+ < (\d+);", portable)))
    # Equal modules are one, so their rows stand once.
    assert left < listed / 10 and left + looped <= listed
    assert looped >= SMALL.ub_rows // SMALL.ub_banks


def test_two_registers_of_the_reset_are_marked(portable: str) -> None:
    marked = r'\(\* ASYNC_REG = "TRUE" \*\)\n  (?:output )?reg (\w+) = '
    assert sorted(re.findall(marked, portable)) == ["core_rst", "stage0"]


def test_equal_configurations_give_equal_texts(text: str) -> None:
    assert text == chip_verilog(SMALL)


def test_an_ecp5_has_its_own_cells_where_products_are_logic(text: str) -> None:
    assert "CCU2C" not in text
    assert "CCU2C" in chip_verilog(SMALL, Build(multipliers="logic", target="ecp5"))


def test_a_gw5a_has_multipliers_of_its_own(text: str) -> None:
    assert "MULT12X12" not in text
    ours = chip_verilog(SMALL, Build(target="gw5a"))
    assert "MULT12X12" in ours
    assert not re.search(r"[\w\])] \* [^\d\s]", ours)  # by constants alone


def test_an_element_of_a_xilinx_part_is_a_dsp48(text: str) -> None:
    assert "DSP48E1" not in text
    ours = chip_verilog(SMALL, Build(target="xilinx"))
    assert ours.count("DSP48E1 #(") == SMALL.array_size**2


def test_the_command_knows_all_builds() -> None:
    """Gates are what our own synthesis maps to."""
    known = {"multipliers": MULTIPLIERS, "memories": MEMORIES, "target": TARGETS[:4]}
    options = {option.name: option.to_info_dict()["type"] for option in verilog.params}
    assert {name: options[name]["choices"] for name in known} == known
    assert {field.name for field in fields(Build)} <= options.keys()


def test_header_says_what_the_chip_is() -> None:
    text = header("4x4,ub_rows=64", SMALL, Build(memories="block"))
    assert all(line.startswith("// ") for line in text.splitlines())
    for part in ("4x4,ub_rows=64", f"0x{SMALL.hash:08x}", '"acc_rows": 16', "Apache-2.0", "block"):
        assert part in text


def test_only_the_header_turns_warnings_of_verilator_off(text: str) -> None:
    # They are the kinds that lint at its defaults finds; simulators build the text without them.
    comment = header("4x4", SMALL, Build())
    found = re.findall(r"^// verilator lint_off (\w+)$", comment, re.MULTILINE)
    assert found == ["WIDTH", "CASEOVERLAP", "UNSIGNED", "UNOPTFLAT"]
    assert "lint_off" not in text


def test_constraints_name_every_port_once(portable: str) -> None:
    patterns = re.findall(r"\[get_ports (\S+)\]", sdc(8) + sdc_of_ports(8))
    found = [port for pattern in patterns for port in fnmatch.filter(ports_of(portable), pattern)]
    assert sorted(found) == sorted(ports_of(portable))


def test_constraints_take_the_period() -> None:
    assert "-period 8.000 " in sdc(8)
    assert 'FREQUENCY PORT "clk" 125.000 MHZ;' in lpf(8)
    for period in (0, -1.5):
        with pytest.raises(ValueError, match=f"{period!r} ns"):
            sdc(period)
