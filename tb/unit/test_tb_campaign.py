"""A campaign: what the bench looks at kills, what it does not look at lives, once is enough."""

import json
import os
from pathlib import Path

import cocotb
import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.triggers import ReadOnly, RisingEdge

from tpulite_tb import campaign, harness
from tpulite_verilated.toolchain import build_root


class Counters(wiring.Component):
    """Two counters."""

    def __init__(self) -> None:
        super().__init__({"up": In(1), "seen": Out(unsigned(4)), "unseen": Out(unsigned(4))})

    def elaborate(self, platform) -> Module:
        m = Module()
        seen, unseen = Signal(4), Signal(4)
        m.d.comb += [self.seen.eq(seen), self.unseen.eq(unseen ^ 5)]
        with m.If(self.up):
            m.d.sync += [seen.eq(seen + 1), unseen.eq(unseen + 3)]
        return m


class MoreCounters(Counters):
    """Another one that nobody sees."""

    def elaborate(self, platform) -> Module:
        m = super().elaborate(platform)
        more = Signal(4)
        m.d.sync += more.eq(more + 1)
        m.d.comb += self.unseen.eq(more)
        return m


@cocotb.test(timeout_time=1, timeout_unit="us")
async def seen_counts(dut) -> None:
    dut.up.value = 0
    await harness.reset(dut)
    for cycle in range(40):
        dut.up.value = 1
        await ReadOnly()
        assert dut.seen.value == cycle % 16
        await RisingEdge(dut.clk)
    if os.environ.get("UNSEEN_TOO"):
        await ReadOnly()
        assert dut.unseen.value == (40 * 3 % 16) ^ 5


def test_benches_kill_what_they_look_at(tmp_path: Path, monkeypatch) -> None:
    shared = build_root() / "mutants"
    monkeypatch.setenv("TPULITE_MUTANTS", "30")
    monkeypatch.setattr(campaign, "build_root", lambda: tmp_path)
    run = {"name": "tb_campaign", "testcase": "seen_counts"}

    harness.simulate(Counters(), __file__, **run)
    (bench, found), *others = campaign.campaigns()
    assert (bench, others) == ("tb_campaign", []) and found.folder.is_relative_to(shared)
    killed = {number for number, fate in found.fates.items() if fate["fate"] == "killed"}
    assert set(found.fates) == set(range(1, 31))
    assert 5 < len(killed) < 25, "half of the component is looked at"

    harness.simulate(Counters(), __file__, **run)
    lines = found.path.read_text().splitlines()
    assert len(lines) == 31, "each is tried once by a bench"

    harness.simulate(Counters(), __file__, name="tb_campaign_more", extra_env={"UNSEEN_TOO": "1"})
    later = [json.loads(line) for line in found.path.read_text().splitlines()[31:]]
    assert {line["number"] for line in later} == set(range(1, 31)) - killed
    assert any(line["fate"] == "killed" for line in later)

    with pytest.raises(pytest.skip.Exception, match="smaller size"):
        harness.simulate(MoreCounters(), __file__, **run)
    found.path.with_name("deleted.0123456789ab.jsonl").write_text(lines[1] + "\n")
    assert [bench for bench, _campaign in campaign.campaigns()] == ["tb_campaign"]
