"""Write what the pages of docs/learn play, from traces of the RTL; --check only compares."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from generated import write_or_compare
from learn.conv_scene import conv_scenes
from learn.depthwise_scene import depthwise_scenes
from learn.drawing import Scene
from learn.limits_scene import limit_scenes
from learn.product_scene import product_scenes
from learn.requantizer_scene import requantizer_scenes
from learn.tiles_scene import tiles_scenes

ROOT = Path(__file__).resolve().parents[1]

PAGES: dict[str, Callable[[], list[Scene]]] = {
    "array": product_scenes,
    "tiles": tiles_scenes,
    "requantization": requantizer_scenes,
    "depthwise": depthwise_scenes,
    "convolution": conv_scenes,
    "limits": limit_scenes,
}
"""Scenes of each page, the first of which is its picture."""


def files(style: str) -> dict[str, str]:
    """Return the generated files of docs/learn by name."""
    made = {}
    for name, scenes_of in PAGES.items():
        scenes = scenes_of()
        panels = list(dict.fromkeys(panel.markup() for x in scenes for panel in x.panels))
        data = {"panels": panels, "scenes": [scene.data(panels) for scene in scenes]}
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        made[f"{name}.js"] = f'learn("{name}", {text});\n'
        made[f"{name}.svg"] = scenes[0].picture(style) + "\n"
    return made


def main() -> int:
    """Write or compare the files; 1 if one of them is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the tree to write to")
    options = parser.parse_args()
    folder: Path = options.root / "docs/learn"
    style = (folder / "drawing.css").read_text(encoding="utf-8")
    made = {f"docs/learn/{name}": text for name, text in files(style).items()}
    return write_or_compare(options.root, made, check=options.check, source="what the RTL does")


if __name__ == "__main__":
    sys.exit(main())
