import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import RECORD, RecordForm
from tpulite.arch.memory import Window
from tpulite.golden.machine.arithmetic import read_records
from tpulite.layout import (
    pack_activations,
    pack_record_columns,
    pack_records,
    pack_weights,
    unpack_activations,
    unpack_weights,
)
from tpulite.program import TensorSpec

CONFIGS = st.sampled_from([Config(array_size=n) for n in (4, 8, 16, 32)])
EXTENTS = st.integers(1, 70)
SEEDS = st.integers(0, 1 << 32)


def random_bytes(seed, shape, dtype="int8"):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@given(
    config=CONFIGS,
    m=EXTENTS,
    channels=EXTENTS,
    dtype=st.sampled_from(["int8", "uint8", "int32"]),
    seed=SEEDS,
)
def test_activations_survive_the_round_trip(config, m, channels, dtype, seed):
    spec = TensorSpec("x", Window.INPUT, 0, m=m, channels=channels, dtype=dtype)
    values = random_bytes(seed, (m, channels), dtype)
    image = pack_activations(values, spec, config)
    assert image.size == spec.nbytes(config)
    np.testing.assert_array_equal(unpack_activations(image, spec, config), values)


@pytest.mark.parametrize("n", [4, 8, 16, 32])
def test_activation_of_a_channel_lies_in_its_block(n):
    config = Config(array_size=n)
    spec = TensorSpec("x", Window.INPUT, 0, m=5, channels=2 * n + 1)
    values = random_bytes(1, (5, 2 * n + 1))
    image = pack_activations(values, spec, config).view(np.int8)
    block = -(-5 * n // 16) * 16
    for m in range(5):
        for c in range(2 * n + 1):
            assert image[c // n * block + m * n + c % n] == values[m, c]
    assert np.count_nonzero(image) == np.count_nonzero(values)


def test_wrong_tensors_are_refused():
    spec = TensorSpec("x", Window.INPUT, 0, m=2, channels=3)
    with pytest.raises(ValueError, match=r"^Tensor 'x' must be int8, not float64$"):
        pack_activations(np.zeros((2, 3)), spec, Config())
    with pytest.raises(ValueError, match=r"^Tensor 'x' must have shape \(2, 3\), not \(3, 2\)$"):
        pack_activations(np.zeros((3, 2), np.int8), spec, Config())
    with pytest.raises(ValueError, match=r"^Tensor 'x' must have 32 bytes, not 31$"):
        unpack_activations(np.zeros(31, np.uint8), spec, Config())


@given(config=CONFIGS, k=EXTENTS, n=EXTENTS, zero_point=st.integers(-128, 127), seed=SEEDS)
def test_weights_survive_the_round_trip(config, k, n, zero_point, seed):
    weight = random_bytes(seed, (k, n))
    tiles = pack_weights(weight, config, zero_point=zero_point)
    np.testing.assert_array_equal(unpack_weights(tiles, k, n), weight)
    # Whatever is not a weight counts as zero.
    assert (tiles.astype(int) - zero_point).sum() == (weight.astype(int) - zero_point).sum()


def test_tile_row_is_an_input_channel():
    weight = random_bytes(2, (40, 50))
    tiles = pack_weights(weight, Config())
    assert tiles[2, 1, 5, 7] == weight[16 + 5, 32 + 7]


@st.composite
def record_lists(draw, short):
    config = draw(CONFIGS)
    strategies = {
        field.name: st.sampled_from(list(field.enum))
        if field.enum
        else st.integers(field.range[0], field.range[-1])
        for field in RECORD.fields
    }
    records = [draw(st.fixed_dictionaries(strategies)) for _ in range(4)]
    records = [records[draw(st.integers(0, 3))] for _ in range(config.array_size)]
    if short:
        records = [{**records[0], "bias": record["bias"]} for record in records]
    return config, records


def decoded(rows, form):
    """Return the records that the machine reads."""
    fields = read_records(rows, form)
    values = np.broadcast_arrays(*fields.values())
    return [dict(zip(fields, map(int, each), strict=True)) for each in zip(*values, strict=True)]


@given(record_lists(short=False))
def test_full_records_survive_the_round_trip(drawn):
    config, records = drawn
    rows = pack_records(records, config, RecordForm.FULL)
    assert rows.shape == (16, config.array_size)
    assert decoded(rows, RecordForm.FULL) == records
    flat = rows.reshape(-1)
    for c, record in enumerate(records):
        assert int(flat[16 * c : 16 * c + 4].view("<i4")[0]) == record["bias"]


@given(record_lists(short=True))
def test_short_records_survive_the_round_trip(drawn):
    config, records = drawn
    rows = pack_records(records, config, RecordForm.SHORT)
    assert rows.shape == (config.short_record_rows, config.array_size)
    assert decoded(rows, RecordForm.SHORT) == records
    biases = rows[-4:].reshape(-1).view("<i4")
    assert biases.tolist() == [record["bias"] for record in records]


def test_records_without_a_short_form_are_refused():
    config = Config(array_size=4)
    record = {field.name: 0 for field in RECORD.fields}
    with pytest.raises(ValueError, match=r"^Records have no short form: channel 2 has "):
        pack_records([record, record, record | {"low": 1}, record], config, RecordForm.SHORT)
    with pytest.raises(ValueError, match=r"^An n-block has 4 records, not 3$"):
        pack_records([record] * 3, config, RecordForm.FULL)


@given(record_lists(short=False), st.integers(1, 3))
def test_records_by_columns_are_those_of_the_layout(drawn, n_blocks):
    config, records = drawn
    records = n_blocks * records
    columns = {field.name: np.array([r[field.name] for r in records]) for field in RECORD.fields}
    blocks = pack_record_columns(columns, config, RecordForm.FULL)
    assert blocks.shape == (n_blocks, config.record_rows, config.row_bytes)
    words = b"".join(RECORD.pack(**record).to_bytes(RECORD_BYTES, "little") for record in records)
    assert blocks.tobytes() == words


@given(record_lists(short=False), st.data())
def test_an_illegal_field_of_any_channel_is_refused(drawn, data):
    config, records = drawn
    columns = {field.name: np.array([r[field.name] for r in records]) for field in RECORD.fields}
    field = data.draw(st.sampled_from(RECORD.fields))
    channel = data.draw(st.integers(0, config.array_size - 1))
    beyond = len(field.enum) if field.enum else field.range[-1] + 1
    columns[field.name][channel] = data.draw(st.sampled_from([field.range[0] - 1, beyond]))
    with pytest.raises(ValueError, match=rf"^Record\.{field.name} must be "):
        pack_record_columns(columns, config, data.draw(st.sampled_from(RecordForm)))
