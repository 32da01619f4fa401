"""Blocks of transformers: every tensor is the library's, and only the softmax is the host's."""

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.quant.partition import HostSegment
from tpulite_testing.graphs.transformer import EncoderBlock
from tpulite_testing.oracles.model_tensors import equals_library


@pytest.mark.parametrize("sizes", [(21, 64, 2), (16, 96, 3), (5, 32, 1)])
@pytest.mark.parametrize("exact", ["litert-ref", "litert-xnnpack"])
def test_an_encoder_block_leaves_its_softmax_to_the_host(tmp_path, sizes, exact):
    model = equals_library(tmp_path, EncoderBlock(*sizes).build(), exact, count=2)
    if exact == "litert-ref":
        _, host, _ = model.segments
        assert isinstance(host, HostSegment)
        assert [node.op for node in host.nodes] == ["softmax"]
        assert model.crossings == 2
