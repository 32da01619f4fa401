"""``import tpulite``: light, complete, and the same as the long way."""

import subprocess
import sys

import numpy as np
import pytest

import tpulite
from tpulite.models import CNN_DIGITS, MLP_DIGITS, DigitsTest
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import save_model
from tpulite_testing.files.npz import members


def test_importing_imports_nothing_else():
    code = "import sys, tpulite; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_compiling_imports_no_schema_of_tflite_before_there_is_such_a_file():
    code = "import sys, tpulite.cli.compile; sys.exit('tflite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_name_is_there_and_others_are_not():
    for name in tpulite.__all__:
        assert getattr(tpulite, name)
        assert name in dir(tpulite)
    with pytest.raises(AttributeError, match="nothing"):
        tpulite.nothing  # noqa: B018 - asking is the test


def test_a_network_is_run_by_path_model_and_compiled_file(tmp_path):
    images = DigitsTest.load().images[:3].reshape(3, 16, 16, 1)
    expected = Model.load(CNN_DIGITS).reference(images)["dense"]
    model = tpulite.compile(CNN_DIGITS, config="8x8", batch=3, effort=0)
    assert model.config.array_size == 8 and model.options.batch == 3
    save_model(model, tmp_path / "net.tpulite")
    for network in (CNN_DIGITS, str(CNN_DIGITS), model, tmp_path / "net.tpulite"):
        np.testing.assert_array_equal(tpulite.run(network, images).output, expected)
    assert tpulite.run(CNN_DIGITS).output.shape == (1, 10)


def test_comparison_finds_what_differs():
    pytest.importorskip("ai_edge_litert")
    same = tpulite.compare(CNN_DIGITS, "litert-ref", count=2)
    assert same.same and same.inputs == 2
    assert str(same).endswith("every bit the same")
    other = tpulite.compare(CNN_DIGITS, "litert-xnnpack", exact="litert-ref", count=2)
    assert not other.same and other.different[0].different > 0


def test_texts_are_short():
    assert repr(tpulite.load(CNN_DIGITS)) == (
        "<Model cnn_digits: 7 operators, 0 on the CPU, 397,952 MACs, numerics litert-ref>"
    )
    assert repr(tpulite.run(CNN_DIGITS)) == "<ModelResults 'dense': int8[1, 10]>"
    profile = tpulite.profile(CNN_DIGITS)
    assert repr(profile) == f"<Profile of cnn_digits: {profile.cycles:,} cycles, cycle model>"
    assert all(len(line) <= 80 for line in str(profile).splitlines())
    assert "average_pool_2d_5" in str(profile)
    assert "<pre" in profile._repr_mimebundle_([], [])["text/html"]
    assert tpulite.profile(MLP_DIGITS, batch=16).batch == 16


def test_a_network_is_built_from_arrays(tmp_path):
    with np.load(MLP_DIGITS) as file:
        arrays = [[file[f"{kind}{i}"] for i in (1, 2, 3)] for kind in ("W", "b", "scale")]
    images = DigitsTest.load().images[:2]
    model = tpulite.mlp(*arrays, classes=10, save=tmp_path / "mlp_digits.npz", effort=0)
    assert members(tmp_path / "mlp_digits.npz") == members(MLP_DIGITS)
    assert (model.options.effort, model.graph.name) == (0, "mlp_digits")
    expected = tpulite.load(MLP_DIGITS).reference(images)["output"]
    np.testing.assert_array_equal(model.run(images).output, expected)
    arrays[1][1] = arrays[1][1].astype(np.int16)
    with pytest.raises(ValueError, match=r"^b2 must be int32 \[32\] or \[1, 32\], not int16 "):
        tpulite.mlp(*arrays, save=tmp_path / "none.npz")
    assert not (tmp_path / "none.npz").exists()
