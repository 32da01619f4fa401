import dataclasses

import numpy as np
import pytest

from tpulite.arch.numerics import Rounding
from tpulite.graph import Dense, Network


def dense(name="fc", k=5, n=3, **fields):
    rng = np.random.default_rng(1)
    values = {
        "weight": rng.integers(-128, 128, (k, n), dtype=np.int8),
        "bias": rng.integers(-1000, 1000, n, dtype=np.int32),
        "scale": rng.uniform(0.001, 0.01, n).astype(np.float32),
        "rounding": Rounding.FLOAT32,
    }
    return Dense(name=name, **(values | fields))


def chain():
    first = dense("a", 5, 7, output_zero_point=3, low=3)
    second = dense("b", 7, 2, input_zero_point=3, weight_zero_point=-4, rounding=Rounding.RUY)
    return Network("net", (first, second), "uint8")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight": np.zeros((5, 3), np.int16)}, "weight must be int8, not 'int16'"),
        ({"weight": np.zeros(3, np.int8)}, "weight must have 2 non-empty dimensions, not (3,)"),
        (
            {"weight": np.zeros((0, 3), np.int8)},
            "weight must have 2 non-empty dimensions, not (0, 3)",
        ),
        ({"bias": np.zeros(4, np.int32)}, "bias must have shape (3,), not (4,)"),
        ({"bias": np.zeros(3)}, "bias must be int32, not 'float64'"),
        ({"scale": np.ones(2, np.float32)}, "scale must have shape (3,) or (1,), not (2,)"),
        ({"scale": np.ones(3)}, "scale must be float32, not 'float64'"),
        ({"scale": np.float32([0.5, 0, 1])}, "scale must be finite and positive, not 0.0"),
        ({"scale": np.float32([np.nan])}, "scale must be finite and positive, not nan"),
        ({"scale": np.float32([2.0**-120])}, "scale must be at least 2**-104, not (8388608, -143)"),
        ({"rounding": 9}, "rounding must be a Rounding, not 9"),
        ({"input_zero_point": 128}, "input_zero_point must be in [-128, 127], not 128"),
        ({"raw": True, "bias": np.int32([0, 7, 0])}, "bias of a raw layer must be zero, not 7"),
        (
            {"raw": True, "bias": np.zeros(3, np.int32), "input_zero_point": 2},
            "input_zero_point of a raw layer must be 0, not 2",
        ),
        ({"low": 5, "high": 4}, "low must not exceed high, not (5, 4)"),
    ],
)
def test_layer_names_the_wrong_value(fields, message):
    with pytest.raises(ValueError) as error:
        dense(**fields)
    assert str(error.value) == f"Layer 'fc': {message}"


def test_network_must_be_a_chain():
    with pytest.raises(ValueError, match=r"^Layer 'b': input channels must be 3 as in layer 'a'"):
        Network("net", (dense("a"), dense("b")))
    with pytest.raises(ValueError, match=r"^Layer 'b': input_zero_point must be 7 as in layer 'a'"):
        Network("net", (dense("a", output_zero_point=7), dense("b", k=3)))
    with pytest.raises(ValueError, match=r"^Layer 'a': only the last layer may be raw$"):
        Network("net", (dense("a", raw=True, bias=np.zeros(3, np.int32)), dense("b", k=3)))
    with pytest.raises(ValueError, match=r"^Layer 'a': name must be unique in network 'net'$"):
        Network("net", (dense("a"), dense("a", k=3)))
    with pytest.raises(ValueError, match=r"must have at least one layer, not 0$"):
        Network("net", ())
    with pytest.raises(ValueError, match=r"input_dtype must be int8 or uint8, not 'int4'$"):
        Network("net", (dense(),), "int4")


def test_output_dtype_follows_input_unless_raw():
    assert chain().output_dtype == "uint8"
    assert Network("net", (dense(raw=True, bias=np.zeros(3, np.int32)),)).output_dtype == "int32"


def test_arrays_are_frozen_copies():
    weight = np.zeros((5, 3), np.int8)
    layer = dense(weight=weight)
    weight[0, 0] = 1
    assert not layer.weight.any()
    with pytest.raises(ValueError, match="read-only"):
        layer.weight[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        layer.low = 0


def test_file_holds_the_whole_network(tmp_path):
    network = chain()
    network.save(tmp_path / "x.npz")
    network.save(tmp_path / "y.npz")
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    loaded = Network.load(tmp_path / "x.npz")
    assert loaded.dump() == network.dump()
    for before, after in zip(network.layers, loaded.layers, strict=True):
        for field in dataclasses.fields(Dense):
            np.testing.assert_array_equal(getattr(before, field.name), getattr(after, field.name))


def test_foreign_and_damaged_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    chain().save(path)
    whole = path.read_bytes()
    for data in (b"", b"hello", whole[:-30], whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"x\.npz is not a tpulite network file: "):
            Network.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"x\.npz is not a tpulite network file: "):
        Network.load(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=r"x\.npz is not a tpulite network file: "):
        Network.load(path)
