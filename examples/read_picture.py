"""Read the text of a picture: one network finds lines, another one reads them.

Run it with ``python examples/read_picture.py PICTURE --find det.onnx --read rec.onnx``; the page
on reading pictures says how ``tpulite quantize`` makes both of PP-OCRv4.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

import tpulite
from tpulite.language.reading import find_lines, fit_picture, letters, read_alphabet
from tpulite.runtime.model import Model

parser = argparse.ArgumentParser(description="Read the text of a picture.")
parser.add_argument("picture", type=Path)
parser.add_argument("--find", type=Path, required=True, help="int8 network that finds lines")
parser.add_argument("--read", type=Path, required=True, help="int8 network that reads a line")
parser.add_argument("--device", default="golden", help="golden, or rtl: the Verilated chip")
given = parser.parse_args()


def shares(model: Model, image: Image.Image) -> tuple[np.ndarray, float]:
    """Run a network on a picture; return its output, and by what the picture was scaled."""
    height, width = model.graph.tensors[model.graph.inputs[0]].shape[-2:]
    pixels, scale = fit_picture(image, height, width)
    return np.asarray(tpulite.run(model, pixels[None], given.device).output)[0], scale


try:
    finder, reader = (tpulite.load(path) for path in (given.find, given.read))
    alphabet = read_alphabet(given.read)
    picture = Image.open(given.picture).convert("RGB")
except (ValueError, OSError) as error:
    parser.error(str(error))

text_map, scale = shares(finder, picture)
cycles = tpulite.profile(finder).cycles
for box in find_lines(text_map[0]):
    part = box.unscaled(scale, picture)
    line, _ = shares(reader, picture.crop((part.left, part.top, part.right, part.bottom)))
    cycles += tpulite.profile(reader).cycles
    print(f"{part.left:5d} {part.top:5d}  {letters(line, alphabet)}")
print(f"{cycles:,} cycles")
