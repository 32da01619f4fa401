"""The example for Linux: it compiles, and says in one line what is missing. No chip is here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tpulite.export import export_files, export_network, reference_runs
from tpulite.models import MLP_DIGITS
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.exported import sources_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "c" / "selftest_on_linux.c"
NAME = "net"
BYTES = 1 << 20

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)


def test_each_missing_piece_is_one_line(tmp_path):
    model = Model.load(MLP_DIGITS)
    exported = export_network(model)
    inputs = random_inputs(model.graph, exported.batch, seed=1)
    files = export_files(exported, reference_runs(model, inputs), NAME, tmp_path)
    sources = [path for path in sources_of(files) if path.name != f"{NAME}_image.c"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-DNETWORK={NAME}"]
    command = ["gcc", *flags, "-include", f"{NAME}.h", f"-I{tmp_path}", EXAMPLE, *sources]
    subprocess.run([*command, "-o", tmp_path / "selftest"], check=True)

    registers, memory = tmp_path / "registers", tmp_path / "memory"
    for device in (registers, memory):
        device.write_bytes(bytes(BYTES))
    image, nothing = tmp_path / f"{NAME}_image.bin", tmp_path / "nothing"
    for words, code, said in (
        ((registers, memory, "0x70000000", image), 1, "error 1, fault 0\n"),
        ((registers, memory, "0x70000001", image), 1, "error 5, fault 0\n"),
        ((registers, nothing, "0x70000000", image), 2, f"{nothing}: No such file or directory\n"),
        ((nothing, memory, "0x70000000", image), 2, f"{nothing}: No such file or directory\n"),
        ((registers, memory, "0x70000000", nothing), 2, f"{nothing}: no image of "),
        ((registers, memory), 2, f"usage: {tmp_path / 'selftest'} UIO MEMORY ADDRESS IMAGE.bin\n"),
    ):
        done = subprocess.run([tmp_path / "selftest", *words], capture_output=True, text=True)
        assert done.returncode == code
        assert (done.stdout + done.stderr).startswith(said), done
    assert memory.read_bytes().startswith(image.read_bytes())
