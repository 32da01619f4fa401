"""Inputs on the command line: arrays, pictures, and folders of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click
import numpy as np

from tpulite.cli.common import load_inputs
from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness
from tpulite.runtime.inputs import as_inputs, check_inputs
from tpulite.runtime.pictures import PICTURES, load_picture, picture_remark

__all__ = ["PIXELS", "InputReader", "Inputs", "named_error", "pixels_option"]

_ARRAYS = (".npy", ".npz")


class _Pixels(click.ParamType):
    """Two numbers, LOW:HIGH."""

    name = "low:high"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        try:
            low, high = map(float, str(value).split(":"))
        except ValueError:
            self.fail(f"{value} is not LOW:HIGH, as 0:1 or -1:1", param, ctx)
        if not np.isfinite([low, high]).all() or low == high:
            self.fail(f"{value} are not two different finite numbers", param, ctx)
        return low, high


PIXELS = _Pixels()

pixels_option = click.option(
    "--pixels",
    type=PIXELS,
    metavar="LOW:HIGH",
    help="What black and white are to the network.  [the ends of what its input holds]",
)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of a network.

    Parameters
    ----------
    values : dict of str to ndarray
        By name, [count, *shape].
    names : tuple of str
        What each is called: its file, with a number if that holds several.
    remarks : tuple of str
        What was done to them, in words.
    """

    values: dict[str, np.ndarray]
    names: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputReader:
    """How files become inputs of a network.

    Parameters
    ----------
    graph : Graph
        The network.
    exact : Exactness
        Whose rounding quantizes.
    pixels : (float, float), optional
        What black and white are to the network.
    """

    graph: Graph
    exact: Exactness
    pixels: tuple[float, float] | None = None

    def read(self, path: Path, limit: int | None = None) -> Inputs:
        """Read a file, or all pictures and arrays of a folder by their names.

        Parameters
        ----------
        path : Path
            The file or folder.
        limit : int, optional
            Read no more files of a folder than that.

        Raises
        ------
        ValueError
            If something cannot be read or does not suit the network; the file comes first.
        """
        if not path.is_dir():
            return self._file(path)
        files = (x for x in sorted(path.iterdir()) if x.suffix.lower() in (*PICTURES, *_ARRAYS))
        parts = [self._file(x) for x in islice(files, limit)]
        if not parts:
            kinds = ", ".join((*PICTURES, *_ARRAYS))
            raise ValueError(f"{path} holds no inputs: no file with one of the suffixes {kinds}")
        values = {
            name: np.concatenate([part.values[name] for part in parts])
            for name in self.graph.inputs
        }
        names, remarks = (
            tuple(x for part in parts for x in getattr(part, field))
            for field in ("names", "remarks")
        )
        return Inputs(values, names, tuple(dict.fromkeys(remarks)))

    def _file(self, path: Path) -> Inputs:
        if path.suffix.lower() in PICTURES:
            try:
                image = load_picture(path, self.graph, self.exact, self.pixels)
            except ValueError as error:
                raise named_error(path, error) from error
            (name,) = self.graph.inputs
            remark = picture_remark(self.graph, self.pixels)
            return Inputs({name: image[None]}, (path.name,), (remark,))
        given = load_inputs(path)
        try:
            remarks = {}
            if isinstance(given, np.ndarray) and len(self.graph.inputs) == 1:
                given = {self.graph.inputs[0]: given}
            if not isinstance(given, np.ndarray):
                converted = dict(self._converted(given, remarks))
                given = given | converted
            values, count = check_inputs(self.graph, given)
        except ValueError as error:
            raise named_error(path, error) from error
        names = [f"{path.name}[{i}]" for i in range(count)] if count > 1 else [path.name]
        return Inputs(values, tuple(names), tuple(f"{path.name}: {x}" for x in remarks))

    def _converted(
        self, given: dict[str, np.ndarray], remarks: dict[str, None]
    ) -> Iterator[tuple[str, np.ndarray]]:
        for name, values in given.items():
            if name in self.graph.inputs:
                converted, said = as_inputs(values, self.graph.tensors[name], self.exact)
                if said:
                    remarks[said] = None
                yield name, converted


def named_error(path: Path, error: ValueError) -> ValueError:
    """Return an error that begins with the file."""
    text = str(error)
    return ValueError(text if text.startswith(str(path)) else f"{path}: {text}")
