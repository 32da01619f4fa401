"""Equal networks give equal bytes in every interpreter: nothing depends on hashes of strings."""

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from hashlib import sha256
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers

SAME = {"padding": (1, 1, 1, 1)}
builder = GraphBuilder((16, 16, 16))
source = builder.conv("x", 32, **SAME)
for channels, stride in ((32, 1), (64, 2), (64, 1)):
    beside = builder.conv(source, channels, 1, stride=(stride, stride))
    inner = builder.depthwise(builder.conv(source, 96, 1), stride=(stride, stride), **SAME)
    source = builder.add(builder.conv(inner, channels, 1), beside)
    first = builder.lut(source)
builder.pool(source, (2, 2))
layers = builder.graph(builder.layers[-1].output, first, "y1")
for rows in (512, 2048):
    for options in (Options(effort=900), Options(effort=900, batch=2, optimize="memory")):
        made = compile_layers(layers, Config(ub_rows=rows), options)
        text = repr((made.commands, made.inputs, made.outputs, made.window_bytes, made.layers))
        print(rows, sha256(text.encode() + made.constants).hexdigest())
"""


def test_equal_networks_give_equal_programs_whatever_the_hashes_of_names():
    found = set()
    for seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", CODE],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            check=True,
        )
        found.add(result.stdout)
    assert len(found) == 1
    assert len(set(found.pop().split())) == 2 + 4  # programs that differ
