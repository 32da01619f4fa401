"""A coverage point: what kind, where in the sources, what there."""

from dataclasses import dataclass

__all__ = ["Point"]


@dataclass(frozen=True, order=True)
class Point:
    """Something that a test can reach."""

    kind: str  #: ``line``, ``branch``, ``toggle``, ``state`` or ``arc``.
    file: str  #: File of the RTL, relative to its package.
    line: int  #: Line there.
    detail: str  #: What of the line.

    @property
    def component(self) -> str:
        """The component that the file holds, as the pages name it."""
        return self.file.removesuffix(".py").replace("/", ".")
