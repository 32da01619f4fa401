"""What all integer layers have: names of images, and the shapes that follow from them."""

from dataclasses import dataclass

__all__ = ["Image", "Layer"]


@dataclass(frozen=True)
class Image:
    """Shape [height, width, channels] and dtype of an image: int8, or int32 for raw sums."""

    shape: tuple[int, int, int]
    dtype: str = "int8"

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ValueError(f"An image must have three positive extents, not {self.shape}")
        if self.dtype not in ("int8", "int32"):
            raise ValueError(f"An image must be int8 or int32, not {self.dtype}")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer: its name (unique), the images that it reads, and the one that it computes.

    Constructors of layers raise ValueError if a value or an array is not what they say.
    """

    name: str
    inputs: tuple[str, ...]
    output: str

    operands = 1
    """Images that the layer reads; 0 means one or more."""

    @property
    def title(self) -> str:
        """How error messages name the layer."""
        return f"Layer {self.name!r}"

    def __post_init__(self) -> None:
        if not self.inputs or (self.operands and len(self.inputs) != self.operands):
            raise ValueError(
                f"{self.title} must read {self.operands or 'some'} images, not {len(self.inputs)}"
            )

    def _infer(self, *images: Image) -> Image:
        """Return what the layer computes of such images; raise ValueError if it cannot."""
        raise NotImplementedError

    def check(self, images: tuple[Image, ...], output: Image) -> None:
        """Check that the layer computes ``output`` of ``images``.

        Raises
        ------
        ValueError
            If it does not.
        """
        for name, image in zip(self.inputs, images, strict=True):
            if image.dtype != "int8":
                raise ValueError(f"{self.title} needs int8, but {name!r} is {image.dtype}")
        if (found := self._infer(*images)) != output:
            raise ValueError(f"{self.title} computes {found}, but {self.output!r} is {output}")
