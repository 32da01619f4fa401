"""Blocks of transformers: every tensor is the library's; the host has at most a softmax."""

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.configs import named_config
from tpulite.quant.partition import HostSegment
from tpulite_testing.graphs.transformer import EncoderBlock
from tpulite_testing.oracles.model_tensors import equals_library

_SIZES = [(21, 64, 2), (16, 96, 3), (5, 32, 1)]


@pytest.mark.parametrize("sizes", [*_SIZES, (197, 192, 3)])
def test_an_encoder_block_runs_without_the_host(tmp_path, sizes):
    model = equals_library(tmp_path, EncoderBlock(*sizes).build(), "litert-ref", count=1)
    assert len(model.segments) == 1
    assert model.crossings == 0


@pytest.mark.parametrize("sizes", _SIZES)
def test_softmax_of_floats_is_the_hosts(tmp_path, sizes):
    equals_library(tmp_path, EncoderBlock(*sizes).build(), "litert-xnnpack", count=2)


@pytest.mark.parametrize("machine", ["16x16,softmax=0", "ecp5-85"])
def test_a_machine_without_softmax_leaves_it_to_the_host(tmp_path, machine):
    block, config = EncoderBlock(21, 64, 2), named_config(machine)
    model = equals_library(tmp_path, block.build(), "litert-ref", count=1, config=config)
    _, host, _ = model.segments
    assert isinstance(host, HostSegment)
    assert [node.op for node in host.nodes] == ["softmax"]
    assert host.reasons == ("this configuration has no softmax",)
