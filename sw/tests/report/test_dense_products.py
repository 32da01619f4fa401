"""What ``disasm --products`` says each command multiplies is what it does."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.options import Options
from tpulite.configs import named_config
from tpulite.models import MLP_DIGITS
from tpulite.report.products import dense_products
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import save_model

pytest_plugins = ("tpulite_testing.command_line",)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.load(MLP_DIGITS, options=Options(batch=16, order="document", effort=0)).compile()


def test_the_first_layer_is_multiplied_as_the_document_writes_it(model, tpulite, tmp_path):
    save_model(model, tmp_path / "net.tpulite")
    code, out, _ = tpulite("disasm", "net.tpulite", "--products")
    rows = [line.split("  ") for line in out.splitlines()]
    rows = [[word.strip() for word in row if word.strip()] for row in rows]
    first = [row[2:] for row in rows if row[1] == "dense1"]
    where = {1: "first", 16: "last"}
    assert code == 0 and first == [
        [f"A{i} W{i},{j}", f"acc {16 * j - 16}..{16 * j - 1}", where.get(i, "middle")]
        for i in range(1, 17)
        for j in range(1, 5)
    ]
    assert len(rows) == 74  # tiles, 16 vectors each: 1,184 cycles at least


def test_each_command_reads_the_weights_that_it_is_said_to(model):
    (program,) = model.programs
    (layers,) = [each.layers for each in model.simplified]
    weights = {layer.name: layer.weight[0, 0] for layer in layers.layers}
    loads = {
        command["row"]: command["offset"]
        for command in program.commands
        if command.opcode == Opcode.LOAD and command["window"] == Window.CONSTANTS
    }
    products = [each for each in dense_products(program) if each.layer == "dense1"]
    for each in products:
        offset = loads[program.commands[each.index]["weight_row"]]
        found = np.frombuffer(program.constants[offset : offset + 256], np.int8).reshape(16, 16)
        i, j = 16 * (each.inner[0] - 1), 16 * (each.outer - 1)
        block = weights["dense1"][i : i + 16, j : j + 16]
        np.testing.assert_array_equal(found[:, : block.shape[1]], block)


@pytest.mark.parametrize("size", ["16x16", "8x8"])
def test_other_orders_take_each_block_once(size):
    options = Options(batch=3, effort=0)
    (program,) = Model.load(MLP_DIGITS, config=named_config(size), options=options).programs
    n = program.config.array_size
    for layer in program.layers:
        tiles = [
            (i, each.outer)
            for each in dense_products(program)
            if each.layer == layer.name
            for i in each.inner
        ]
        assert len(tiles) == len(set(tiles)) == -(-layer.k // n) * -(-layer.n // n)


def test_programs_without_dense_layers_say_so(model, tpulite, tmp_path):
    replace(model.programs[0], layers=()).save(tmp_path / "x.tpl")
    assert tpulite("disasm", "x.tpl", "--products") == (
        *(2, ""),
        "tpulite: x.tpl: --products needs dense layers, and there are none\n",
    )
    assert tpulite("disasm", "resnet8", "--products") == (
        *(2, ""),
        "tpulite: resnet8 is not a compiled network; compile it first: tpulite "
        "compile resnet8 -o resnet8.tpulite\n",
    )
