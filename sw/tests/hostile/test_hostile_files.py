"""Files that others made: taken, or refused in one line, whatever is in them."""

import io
import json
import zipfile

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("PIL", reason="Pillow is missing (pip install pillow)")

from PIL import Image

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.archive import members, packed
from tpulite.arrays import read_array
from tpulite.frontend.files import load_graph
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.program import Program
from tpulite.quant.exactness import Exactness
from tpulite.runtime.model_file import load_model_file
from tpulite.runtime.pictures import load_picture
from tpulite.tensor_spec import TensorSpec
from tpulite_testing.hostile.corpus import corpus
from tpulite_testing.hostile.trials import guarded, try_mutant
from tpulite_testing.regress import thinned


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("hostile")) as guard:
        yield guard


_PART = 500
_QUICK = 30
_FOUND = (40127, 41607, 42012, 43254, 43737, 7130767)
"""Mutants that were neither, once: types that are none, outputs that nothing computes, sums of
floats in operators of integers, an overflow that was printed, a scale that is no list."""


@pytest.mark.parametrize(
    "first",
    thinned(
        range(0, 20 * _PART, _PART), 0, reason="each part has mutants of all kinds; 10,000 in all"
    ),
)
def test_mutants_are_taken_or_refused_in_one_line(first, guard):
    count = _PART if first else _QUICK
    tried = (try_mutant(number, guard) for number in range(first, first + count))
    found = [str(trial) for trial in tried if trial.problem]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("number", _FOUND)
def test_mutants_that_were_found_stay_refused(number, guard):
    trial = try_mutant(number, guard)
    assert not trial.problem, str(trial)


def test_the_guard_sees_what_is_written_elsewhere_and_errors_of_one_line(guard):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model.json", "[" * 100_000)
    (guard.folder / "deep.tpulite").write_bytes(buffer.getvalue())
    assert guard.run("info", "deep.tpulite") == (False, "")
    _, problem = guard.run("compile", str(MLP_DIGITS), "--config", "4x4", "-o", "../x.tpulite")
    assert "nobody asked for" in problem and "x.tpulite" in problem


def npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|O', 'fortran_order': False, 'shape': (0,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1 << 40,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1099511627776,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (-1,), }",
    ],
)
def test_arrays_are_not_larger_than_their_files(header):
    data = npy(header)
    with pytest.raises(ValueError):
        read_array(io.BytesIO(data), len(data))


def test_arrays_begin_where_their_file_is(tmp_path):
    buffer = io.BytesIO(b"..")
    buffer.seek(2)
    np.save(buffer, np.arange(3))
    buffer.seek(2)
    np.testing.assert_array_equal(read_array(buffer, len(buffer.getvalue()) - 2), np.arange(3))


def test_small_archives_do_not_unpack_to_much():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in "ab":
            archive.writestr(name, bytes((1 << 27) + 1))
    with pytest.raises(ValueError, match="unpacks to 268,435,458"):
        members(buffer.getvalue())


def spec(**changed):
    return TensorSpec("x", Window.INPUT, 0, m=4, channels=3, image=(2, 2)).as_dict() | changed


@pytest.mark.parametrize(
    "changed",
    [{"batch": 1.0}, {"m": -1}, {"image": [2, "2"]}, {"dtype": "object"}, {"name": ["x"]}],
)
def test_tensors_of_programs_have_numbers(changed):
    assert TensorSpec.from_dict(spec()).shape == (2, 2, 3)
    with pytest.raises(ValueError, match=r"has the (number|type)"):
        TensorSpec.from_dict(spec(**changed))


def test_programs_have_whole_numbers():
    program = Program(Config(), (Command.make(Opcode.END),), window_bytes=(0, 1, 2, -3))
    with pytest.raises(ValueError, match="there is the number -3"):
        Program.unpack(program.pack(), "p")


def test_what_a_library_gives_has_a_name(tmp_path):
    (whole,) = corpus()[7]
    parts = members(whole.data)
    about = json.loads(parts.pop("model.json"))
    for key in ("sha256", "format"):
        del about[key]
    version, (ports,) = about.pop("version"), about["parts"]
    model, inputs = tmp_path / "m.tpulite", {"x0": np.zeros((1, 8, 4), np.float32)}
    for end in ports:
        named, end[0][0] = end[0][0], "nobody"
        model.write_bytes(packed("model", version, about, parts))
        with pytest.raises(ValueError, match="nobody"):
            load_model_file(model).run(inputs)
        end[0][0] = named


@pytest.mark.parametrize("size", [(13_000, 9_000), (16_000, 16_000)])
def test_pictures_of_many_pixels_are_refused(size, tmp_path):
    path = tmp_path / "x.png"
    Image.new("1", size).save(path)
    with pytest.raises(ValueError, match=r"x.png is not a complete PNG.*pixels"):
        load_picture(path, load_graph(CNN_DIGITS), Exactness.ORT)
