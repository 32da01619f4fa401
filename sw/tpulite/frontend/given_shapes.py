"""Extents that a file leaves open: the user gives them, and an open batch is 1."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tpulite.near import no_such

Open = Sequence[int | str]
"""Extents as a file has them; an open one is its name, which may be empty."""

_EXAMPLE = 64
"""What messages propose for an open extent."""

_UNNAMED = "?"


@dataclass(frozen=True)
class GivenShapes:
    """What the user says of the shapes of inputs."""

    #: Whole shapes, by names of inputs (``--shape``).
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: Extents, by the names that the file has for them (``--dim``).
    dims: Mapping[str, int] = field(default_factory=dict)
    #: Numbers that inputs of ONNX files always have, by their names (``--set``).
    values: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.shapes or self.dims or self.values)

    def settle(
        self, inputs: Mapping[str, Open | None], *, fixed: bool = True
    ) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input.

        An extent that a shape gives counts wherever the file has the same name for it. A first
        extent that is still open is the batch: 1, wherever its name stands.

        Parameters
        ----------
        inputs : mapping of str to Open, or None
            Extents of every input as the file has them; None if not even their number is known.
        fixed : bool
            Whether extents that the file fixes must stay as they are.

        Raises
        ------
        ValueError
            If an extent stays open, with the options that give it; or if what was given
            contradicts the file, contradicts itself, or names nothing of it.
        """
        for name, extent in self.dims.items():
            if extent < 1:
                raise ValueError(f"--dim {name}={extent}: an extent must be 1 or more")
        named = {name: given for name, given in inputs.items() if given is not None}
        self._check_names(inputs, {each for open_ in named.values() for each in _names(open_)})
        known = dict(self.dims)
        for name, shape in self.shapes.items():
            known |= self._bound(name, shape, inputs[name], known, fixed)
        for name, extents in named.items():
            if name not in self.shapes and extents and isinstance(extents[0], str):
                known.setdefault(extents[0], 1)
        known.pop("", None)  # it is no name
        return {name: self._shape(name, extents, known) for name, extents in inputs.items()}

    def _check_names(self, inputs: Collection[str], dims: Collection[str]) -> None:
        for option, given, there, what in (
            ("--shape", self.shapes, inputs, "input"),
            ("--dim", self.dims, dims, "open dimension"),
        ):
            for name in given:
                if name not in there:
                    raise ValueError(f"{option} {no_such(what, name, sorted(there))}")

    def _bound(
        self,
        name: str,
        shape: tuple[int, ...],
        extents: Open | None,
        known: Mapping[str, int],
        fixed: bool,
    ) -> dict[str, int]:
        """Check a shape that is given; return what it says of names."""
        option = f"--shape {name}={shape_text(shape)}"
        if any(extent < 1 for extent in shape):
            raise ValueError(f"{option}: extents must be 1 or more")
        if extents is None:
            return {}
        its = f"{option}: the file's shape is {shape_text(extents)}"
        if len(extents) != len(shape):
            raise ValueError(f"{its}, which has {len(extents)} extents, not {len(shape)}")
        bound: dict[str, int] = {}
        for axis, (said, extent) in enumerate(zip(extents, shape, strict=True)):
            if isinstance(said, str):
                other = {**known, **bound}.get(said, extent) if said else extent
                if other != extent:
                    raise ValueError(f"{option}: {said!r} is {extent} here and {other} elsewhere")
                bound[said] = extent
            elif fixed and said != extent:
                raise ValueError(f"{its}: extent {axis} is {said}, not {extent}")
        return bound

    def _shape(self, name: str, extents: Open | None, known: Mapping[str, int]) -> tuple[int, ...]:
        if name in self.shapes:
            return tuple(self.shapes[name])
        if extents is None:
            return ()
        shape = [
            known.get(each, 1 if each == "" and axis == 0 else each)
            if isinstance(each, str)
            else each
            for axis, each in enumerate(extents)
        ]
        numbers = [each for each in shape if isinstance(each, int)]
        if len(numbers) == len(shape):
            return tuple(numbers)
        proposed = [_EXAMPLE if isinstance(each, str) else each for each in shape]
        open_ = dict.fromkeys(each for each in shape if isinstance(each, str))
        either = f"--shape {name}={shape_text(proposed)}"
        if "" not in open_:
            either += "".join(
                f"{' ' if index else ' or '}--dim {each}={_EXAMPLE}"
                for index, each in enumerate(open_)
            )
        raise ValueError(
            f"input {name!r} has the shape {shape_text(extents)}; give it with {either}"
        )


AS_IN_FILE = GivenShapes()
"""Nothing is said: shapes are the file's."""


def shape_text(shape: Iterable[int | str]) -> str:
    """Return a shape as it is typed: ``1x3xhxw``; an open extent without a name is ``?``."""
    return "x".join(str(extent) or _UNNAMED for extent in shape)


def _names(extents: Open) -> set[str]:
    return {each for each in extents if isinstance(each, str) and each}


AXES = ("batch", "height", "width", "channels")
"""What bound programs call the extents of an activation, in their order."""


@dataclass(frozen=True)
class FileInput:
    """An input of a file that is an image: four extents."""

    extents: Open  #: In the order of the file; an open one is its name, which may be empty.
    axes: tuple[str, ...]  #: What each of them is.
    #: Channels of the first operator's parameters, where the file leaves them open.
    weights: int | None = None

    def known(self, dims: Mapping[str, int]) -> dict[str, int]:
        """Return the extents that the file or ``dims`` (by their names in the file) fix."""
        pairs = zip(self.axes, self.extents, strict=True)
        found = {axis: dims.get(each) if isinstance(each, str) else each for axis, each in pairs}
        if found["channels"] is None:
            found["channels"] = self.weights
        return {axis: extent for axis, extent in found.items() if extent is not None}

    @property
    def ranged(self) -> bool:
        """Whether the file leaves open more than the batch."""
        pairs = zip(self.axes, self.extents, strict=True)
        return any(isinstance(each, str) and axis != "batch" for axis, each in pairs)
