"""What stands beside the chip's Verilog for whoever instantiates it: a core file, and a README."""

from importlib.metadata import metadata, version

from amaranth.hdl import Shape
from amaranth.lib.wiring import In, Member

from tpulite.arch.config import Config
from tpulite_rtl.top import BOARD_PORTS
from tpulite_rtl.verilog import TOP

__all__ = ["fusesoc_core", "readme"]

_PORTS = {"clk": In(1), "rst": In(1), **BOARD_PORTS}


def fusesoc_core(stem: str) -> str:
    """Return a core file of FuseSoC (CAPI2) for the Verilog and the constraints named ``stem``."""
    return f"""CAPI=2:
name: tpulite:tpulite:{stem}:{version("tpulite")}
description: "{metadata("tpulite")["Summary"]}"
filesets:
  rtl:
    files: [{stem}.v]
    file_type: verilogSource
  constraints:
    files: [{stem}.sdc]
    file_type: SDC
targets:
  default:
    filesets: [rtl]
    toplevel: {TOP}
  synth:
    filesets: [rtl, constraints]
    toplevel: {TOP}
  lint:
    default_tool: verilator
    filesets: [rtl]
    toplevel: {TOP}
    tools:
      verilator:
        mode: lint-only
"""


def readme(stem: str, config: Config) -> str:
    """Return a README: what the files are, what the ports are, and an instance to copy."""
    size = f"{config.array_size}x{config.array_size}"
    rows = "\n".join(f"| `{n}` | {_direction(m)} | {_bits(m)} |" for n, m in _PORTS.items())
    wires = "\n".join(f"  wire {_range(m)}chip_{n};" for n, m in _PORTS.items())
    instance = ",\n".join(f"    .{name}(chip_{name})" for name in _PORTS)
    return f"""# {stem}

An int8 neural-network accelerator with {size} multipliers. Top module: `{TOP}`.

| file | for |
| --- | --- |
| `{stem}.v` | synthesis and simulation: Verilog 2005, one file, no includes |
| `{stem}.sdc` | the clock, for every tool, nextpnr included |
| `{stem}_io.sdc` | delays outside of the other ports, for tools that time them |
| `{stem}.lpf` | clock and delays for Diamond and nextpnr-ecp5 |
| `{stem}.core` | FuseSoC |

## Ports

- `clk`: all registers take its rising edge. `rst`: active high, at any time, for at least four
  cycles; two registers synchronize it.
- `s_axil_*`: AXI4-Lite subordinate with 32 bits of data: the registers. `CONFIG_HASH` reads
  0x{config.hash:08x}. `tpulite export NETWORK` writes C that drives them.
- `m_axi_*`: AXI4 master with 16 bytes a beat and INCR bursts within 4,096 bytes, for commands,
  weights and activations. Reads carry the ID 0 for commands and 1 for data; writes carry 0.
- `irq`: high from the end of a program, or a fault, until it is cleared.

No output depends on an input in the same cycle.

| port | direction | bits |
| --- | --- | --- |
{rows}

## An instance

```verilog
{wires}
  {TOP} chip (
{instance}
  );
```
"""


def _direction(member: Member) -> str:
    return "in" if member.flow == In else "out"


def _bits(member: Member) -> int:
    return Shape.cast(member.shape).width


def _range(member: Member) -> str:
    return f"[{_bits(member) - 1}:0] " if _bits(member) > 1 else ""
