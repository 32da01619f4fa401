"""``export --shapes``: what it writes, and what it refuses."""

import json

import numpy as np
import pytest

from tpulite.models import CNN_DIGITS

pytest_plugins = ("tpulite_testing.command_line",)

pytest.importorskip("onnx", reason="onnx is missing")


@pytest.fixture
def network(tmp_path):
    """Write a network of one BatchNorm."""
    from tpulite_testing.files.onnx_builder import OnnxBuilder

    b = OnnxBuilder()
    x = b.quantize(b.input("x", (1, 20, 8, 6)), 0.05, 7, "int8")
    values = [b.constant(np.linspace(low, 2, 20, dtype=np.float32)) for low in (1, -1, 0, 0.5)]
    y = b.node("BatchNormalization", x, *values, name="norm")
    path = tmp_path / "norm.onnx"
    path.write_bytes(b.build(b.quantize(y, 0.1, 3, "int8")))
    return path


def test_a_range_is_written_with_its_sizes(tpulite, network, tmp_path):
    limits = "batch=1..4,height=1..9"
    words = ("export", network, "--shapes", limits, "-o", "out", "--name", "norm20")
    code, out, err = tpulite(*words, "--json", "facts.json")
    assert (code, err) == (0, "")
    assert "norm20_bind() of norm20.h binds it to a shape" in out
    facts = json.loads((tmp_path / "facts.json").read_text())
    ranges = {"batch": [1, 4], "height": [1, 9], "width": [6, 6], "channels": [20, 20]}
    assert facts["shapes"] == ranges
    folder = tmp_path / "out"
    assert {str(path.relative_to(tmp_path)) for path in folder.iterdir()} == set(facts["files"])
    header = (folder / "norm20.h").read_text()
    for macro, value in (
        ("CHANNELS", 20),
        ("COMMANDS", facts["commands"]),
        ("IMAGE_BYTES", facts["image"]),
        ("MEMORY_BYTES", facts["memory"]),
    ):
        assert f"#define NORM20_{macro} {value}" in header


def test_what_has_no_c_or_no_meaning_is_refused_before_anything_is_written(
    tpulite, network, tmp_path
):
    for words, message in (
        (
            (CNN_DIGITS, "--shapes", "batch=1..8"),
            "Layer 'depthwise_conv_2d_1' follows Layer 'conv_2d_0', and C binds one layer to "
            "shapes; --inputs and --outputs cut one out",
        ),
        (
            (network, "--shapes", "batch=1..8", "--seed", "3"),
            "--seed cannot be used with --shapes.",
        ),
        (
            (network, "--shapes", "batch=1..8", "--layout", "bm1684x"),
            "--shapes cannot be used with --layout bm1684x.",
        ),
        (
            (network, "--shapes", "batch=1..100,height=1..1024,width=1..1024"),
            "inputs and outputs take up to 6710886400 bytes, and C counts less than 4294967296: "
            "the range must be smaller",
        ),
        (
            (network, "--shapes", "height=0"),
            "every shape of the range is empty: there is nothing to bind",
        ),
    ):
        code, out, err = tpulite("export", *words, "-o", "out")
        assert (code, out) == (2, "")
        assert err.endswith(f"{message}\n"), err
        assert not (tmp_path / "out").exists()
