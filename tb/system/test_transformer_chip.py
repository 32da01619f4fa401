"""Transformers on the Verilated chip: every tensor is LiteRT's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from tpulite.arch.isa import Opcode, VectorOp
from tpulite.configs import named_config
from tpulite.frontend.files import load_graph
from tpulite.frontend.states import with_states
from tpulite.golden.timing import predict_cycles
from tpulite.quant.calibrate import quantize_onnx
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import open_oracle
from tpulite_tb.machines import FEW_LANES
from tpulite_testing.files.onnx_optimized import fuse_transformer
from tpulite_testing.graphs.onnx_decoders import OnnxDecoder
from tpulite_testing.graphs.onnx_encoders import OnnxEncoder
from tpulite_testing.graphs.transformer import EncoderBlock
from tpulite_testing.published.catalog import network_file
from tpulite_testing.published.language import stories_layer
from tpulite_testing.published.network import Network
from tpulite_testing.regress import thinned
from tpulite_testing.sweep.case import Net

CYCLES = 0.02
"""Of a run, relative."""


def check(
    path: Path, frames: Sequence[Mapping[str, np.ndarray]], states: Mapping[str, str]
) -> None:
    """Compare all tensors of runs on golden model and chip with LiteRT; and cycles."""
    graph = with_states(load_graph(path), [*states.items()])
    model = Model.load(graph, config=FEW_LANES).compile()
    assert len(model.programs) == 1
    frames = [{name: frame[name] for name in graph.inputs} for frame in frames]
    oracle = open_oracle("litert-ref", path, graph)
    for device in ("golden", "rtl"):
        compared = compare_model(model, oracle, frames, Comparing(device=device))
        assert compared.same and compared.inputs == len(frames), str(compared)
    cycles = Runner(model, "rtl").run(frames[0]).cycles
    assert cycles is not None
    predicted = sum(predict_cycles(each.commands, FEW_LANES) for each in model.programs)
    print(f"{predicted} cycles predicted, {cycles[0]} counted")
    assert abs(predicted / cycles[0] - 1) <= CYCLES


def test_an_encoder_as_minilm_s_is_litert_s(tmp_path):
    made = OnnxEncoder(tokens=8, width=32, heads=2, added=True, words=True)
    data = fuse_transformer(made.build(), "bert", made.heads, made.width)
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize_onnx(data, made.samples(8), numerics="litert-ref"))
    check(path, made.samples(2), {})


def test_tokens_of_a_llama_s_block_are_litert_s_with_their_cache(tmp_path):
    made = OnnxDecoder(tokens=1, width=32, hidden=48, window=8)
    data = made.build()
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize_onnx(data, made.sequence(data, 12), numerics="litert-ref"))
    check(path, made.sequence(data, 3), made.states)


def token_layer() -> bytes:
    """Return a layer of TinyStories-15M for a token behind 255 others."""
    net = Network()
    return net.build(*stories_layer(net, net.image((1, 1, 288)), past=255))


WHOLE = {
    "MiniLM, 16 tokens": EncoderBlock(16, 384, 12).build,
    "TinyStories, a layer": token_layer,
    "MiniLM, 128 tokens": EncoderBlock(128, 384, 12).build,
    "TinyStories, a token": lambda: network_file("stories_token"),
}
"""Of the models' own widths and heads."""

QUICK = ("MiniLM, 16 tokens", "TinyStories, a layer")


@pytest.mark.parametrize("name", thinned(WHOLE, *QUICK, reason="fewer tokens, fewer layers"))
def test_layers_of_their_own_width_are_litert_s(tmp_path, name):
    path, config = tmp_path / "net.tflite", named_config("16x16")
    path.write_bytes(WHOLE[name]())
    graph = load_graph(path)
    model = Model.load(graph, config=config).compile()
    assert len(model.programs) == 1 and model.host_macs == 0
    frames = [random_inputs(graph, 1, 3)]
    compared = compare_model(
        model, open_oracle("litert-ref", path, graph), frames, Comparing(device="rtl")
    )
    assert compared.same and compared.inputs == 1, str(compared)
    cycles = Runner(model, "rtl").run(frames[0]).cycles
    assert cycles is not None
    predicted = sum(predict_cycles(each.commands, config) for each in model.programs)
    print(f"{predicted} cycles predicted, {cycles[0]} counted")
    assert abs(predicted / cycles[0] - 1) <= CYCLES


def test_products_of_inverted_shares_are_litert_s(tmp_path):
    net = Net()
    shares = net.input((1, 8, 1, 32), 1 / 256, -128)
    values = net.input((1, 8, 32, 12), 0.05, 3)
    mixed = net.tensor((1, 8, 1, 12), 0.02, 5)
    options = {"options_type": "BatchMatMulOptions", "adjX": False, "adjY": False}
    net.operator("BATCH_MATMUL", [shares, values], [mixed], **options)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.build(mixed))
    graph = load_graph(path)
    (program,) = Model.load(graph, config=FEW_LANES).programs
    vectors = [each for each in program.commands if each.opcode == Opcode.VECTOR]
    assert sum(each["operation"] == VectorOp.LUT for each in vectors) >= 2
    check(path, [random_inputs(graph, 1, seed) for seed in range(2)], {})
