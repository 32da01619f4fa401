"""Images while a network runs: in the unified buffer, or in DRAM and here a strip at a time."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import LOAD, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.progressions import Progression
from tpulite.compiler.ops import Buffer, Op, Side
from tpulite.compiler.place.kept import Kept
from tpulite.compiler.place.views import InDram, StoreExtents, View
from tpulite.program import TensorSpec


@dataclass(frozen=True, eq=False)
class Store(Kept):
    """Where an image is kept: the whole of it, one image of a batch, or a range of its columns.

    :meth:`of` makes one of a whole image, and methods make parts of it; of what is resident and
    given, all parts share what has been loaded. Fields are those of :class:`Kept`.
    """

    @classmethod
    def of(
        cls,
        name: str,
        extents: StoreExtents,
        config: Config,
        dram: InDram,
        *,
        resident: bool,
        over: "Store | None" = None,
        skew: int = 0,
    ) -> "Store":
        """Return where a whole image is; ``over`` is one of the same size that it replaces."""
        pitch = extents.width * extents.vector_rows + skew
        block_pitch = extents.batch * extents.height * pitch
        buffer = None
        if resident:
            old = over and over.buffer
            rows = extents.blocks * block_pitch
            buffer = Buffer(name, rows, bank=0, side=Side.BOTTOM, over=old)
        return cls(
            name,
            extents.height,
            extents.width,
            extents.blocks,
            extents.vector_rows,
            extents.batch,
            config,
            dram.specs,
            dram.given,
            dram.line or extents.width,
            pitch,
            block_pitch,
            skew,
            buffer,
            [[0] * extents.blocks for _ in range(extents.batch)],
            resident,
            full=extents.height,
        )

    def unread(self) -> "Store":
        """Return the same image, of which nothing is loaded yet."""
        return replace(self, loaded=[[0] * self.blocks for _ in range(self.batch)])

    def part(self, image: int = 0, columns: range | None = None) -> "Store":
        """Return one image of the batch, and of that some columns."""
        one = self
        if self.batch > 1:
            one = replace(
                self,
                batch=1,
                image=image,
                first=self.first + image * self.full * self.pitch,
                specs=tuple(
                    replace(spec.one, offset=spec.offset_of(image, self.config))
                    for spec in self.specs
                ),
            )
        if not columns:
            return one
        return replace(
            one,
            first=one.first + columns.start * self.vector_rows,
            column=self.column + columns.start,
            width=len(columns),
        )

    def some_blocks(self, blocks: range) -> "Store":
        """Return some channel blocks of one image; it must be there if it is resident."""
        if len(blocks) == self.blocks:
            return self
        row_bytes = self.line * self.vector_rows * self.config.row_bytes
        skipped = blocks.start * -(-self.full * row_bytes // BEAT_BYTES) * BEAT_BYTES
        return replace(
            self,
            blocks=len(blocks),
            block=self.block + blocks.start,
            first=self.first + blocks.start * self.block_pitch,
            specs=tuple(replace(spec, offset=spec.offset + skipped) for spec in self.specs),
        )

    def here(self) -> "Store":
        """Return the same channel blocks in a place of their own, to which a layer writes them."""
        view = self.strip(range(self.height), side=Side.BOTTOM)
        return replace(
            self,
            specs=(),
            first=0,
            pitch=view.pitch,
            block_pitch=view.block_pitch,
            buffer=view.buffer,
            resident=True,
        )

    def tall(self) -> "Store":
        """Return all images of a batch that are resident as one, which is not in DRAM."""
        height = self.batch * self.height
        return replace(self, height=height, full=height, batch=1, specs=(), given=False)

    def flat(self) -> "Store":
        """Return the same image as one column of all its pixels; it must be there if resident.

        Of an image of which there are only some columns it has the others, too.
        """
        line = self.line
        return replace(
            self._full_width(),
            height=self.height * line,
            full=self.full * line,
            top=self.top * line,
            width=1,
            line=1,
            pitch=self.vector_rows,
        )

    def window(self, name: str, rows: range, columns: range, blocks: range) -> "Store":
        """Return a part of the image as an image of its own: a view, which nothing is loaded for.

        It must begin at a beat, if it is in DRAM.
        """
        first = rows.start * self.pitch + columns.start * self.vector_rows
        part = replace(
            self,
            name=name,
            height=len(rows),
            width=len(columns),
            top=self.top + rows.start,
            left=self.left + columns.start,
            first=self.first + first,
        )
        return part.some_blocks(blocks)

    def alias(self, name: str, height: int, width: int) -> "Store":
        """Return the same pixels as images of another shape."""
        extents = StoreExtents(height, width, self.blocks, batch=self.batch)
        other = Store.of(name, extents, self.config, InDram(), resident=True)
        return replace(other, buffer=self.buffer)

    def read(self, rows: range, layer: int) -> tuple[View, list[Op]]:
        """Return where rows can be read, and the LOADs that must come before."""
        rows = range(max(rows.start, 0), min(rows.stop, self.height))
        if self.buffer is None:
            rows = range(rows.start // self.grain * self.grain, rows.stop)
            view = self.strip(rows)
            return view, self.load(view, rows, layer)
        view, ops = self._whole(self.buffer), []
        if not self.given:
            return view, []
        loaded, whole = self.loaded[self.image], self._whole_image()
        stop = min(-(-(self.top + rows.stop) // self.grain) * self.grain, self.full)
        mine = range(self.block, self.block + self.blocks)
        for here, run in groupby(mine, key=loaded.__getitem__):
            if here < (self.top + rows.stop) * self.line:
                start = here // self.line // self.grain * self.grain
                blocks = [block - self.block for block in run]
                part = whole if len(blocks) == self.blocks else whole.some_blocks(_range(blocks))
                ops += part.load(part._whole(self.buffer), range(start, stop), layer)
        for block in mine:
            loaded[block] = max(loaded[block], stop * self.line)
        return view, ops

    def open(self, rows: range, over: Iterable[View] = ()) -> View:
        """Return where rows can be written; perhaps in place of those that they are made from."""
        return self.strip(rows, over) if self.buffer is None else self._whole(self.buffer)

    def load(self, view: View, rows: range, layer: int) -> list[Op]:
        """Return the LOADs of rows."""
        return rows_moved(self, Opcode.LOAD, view, rows, layer, self.specs[0])

    def store(self, view: View, rows: range, layer: int) -> list[Op]:
        """Return the STOREs that must follow when rows are complete."""
        transfers = (
            rows_moved(self, Opcode.STORE, view, rows, layer, spec)
            for spec in ([] if self.given else self.specs)
        )
        return [op for ops in transfers for op in ops]

    def store_lines(self, view: View, rows: Progression, layer: int) -> list[Op]:
        """Return the STOREs of rows that lie apart in DRAM, of one channel block.

        ``rows`` says which of them are which rows of the view. Rows must begin at beats.
        """
        return lines_apart(self, view, rows, layer)

    def strip(
        self,
        rows: range,
        over: Iterable[View] = (),
        *,
        least: int = 0,
        bank: int | None = 0,
        side: Side = Side.TOP,
    ) -> View:
        """Return a place for rows of the image that are not resident: of ``least`` rows or more."""
        pitch = self.width * self.vector_rows + self.skew
        block_pitch = len(rows) * pitch
        size = max(self.blocks * block_pitch, least)
        same = (rows, 0, pitch, block_pitch, size)
        old = (
            view.buffer
            for view in over
            if (view.rows, view.row, view.pitch, view.block_pitch, view.buffer.rows) == same
        )
        buffer = Buffer(
            f"{self.name}, rows {rows.start} to {rows.stop - 1}",
            size,
            bank=bank,
            side=side,
            over=next(old, None),
        )
        return View(buffer, rows, 0, pitch, block_pitch)

    def _whole(self, buffer: Buffer) -> View:
        return View(buffer, range(self.height), self.first, self.pitch, self.block_pitch)

    def _full_width(self) -> "Store":
        if self.width == self.line:
            return self
        first = self.first - (self.left + self.column) * self.vector_rows
        return replace(self, first=first, column=0, left=0, width=self.line)

    def _whole_image(self) -> "Store":
        """Return all rows and columns of what this is a part of."""
        if self.whole:
            return self
        first = self.first - self.top * self.pitch
        return replace(self, first=first, top=0, height=self.full)._full_width()


def _range(numbers: list[int]) -> range:
    """Return consecutive numbers as a range."""
    return range(numbers[0], numbers[-1] + 1)


_LINES = LOAD.limit("lines")
"""Most channel blocks that one command moves; a STORE's field is as wide."""


def rows_moved(
    kept: Kept, opcode: Opcode, view: View, rows: range, layer: int, spec: TensorSpec
) -> list[Op]:
    """Return the LOADs or STOREs of rows.

    Whole rows take a command for up to 4,095 blocks of channels, parts of rows one for each block.
    """
    vector_bytes = kept.vector_rows * kept.config.row_bytes
    row_bytes = kept.line * vector_bytes
    whole = kept.full * row_bytes
    block_bytes = -(-whole // BEAT_BYTES) * BEAT_BYTES
    fields = {
        "window": spec.window,
        "flip": int(spec.dtype == "uint8"),
        "offset": spec.offset
        + (kept.top + rows.start) * row_bytes
        + (kept.left + kept.column) * vector_bytes,
    }
    shapes = []
    if kept.width == kept.line and view.pitch == row_bytes // kept.config.row_bytes:
        count = len(rows) * view.pitch
        complete = len(rows) == kept.full and whole % BEAT_BYTES == 0
        if kept.blocks == 1:
            shapes = [(0, {"lines": 1, "rows": count, "stride": 0, "pitch": 0})]
        elif complete and view.block_pitch == count:
            shapes = [(0, {"lines": 1, "rows": kept.rows, "stride": 0, "pitch": 0})]
        else:
            stride = {"stride": block_bytes, "pitch": view.block_pitch}
            shapes = [
                (start, {"lines": min(_LINES, kept.blocks - start), "rows": count} | stride)
                for start in range(0, kept.blocks, _LINES)
            ]
    else:
        count = kept.width * kept.vector_rows
        stride = {"stride": row_bytes, "pitch": view.pitch}
        if len(rows) == 1:
            stride = {"stride": 0, "pitch": 0}
        shape = {"lines": len(rows), "rows": count} | stride
        shapes = [(block, shape) for block in range(kept.blocks)]
    barrier = opcode == Opcode.LOAD and spec.window == Window.SCRATCH
    ops = []
    for block, shape in shapes:
        place = view.at(rows.start, 0, block)
        offset = {"offset": fields["offset"] + block * block_bytes}
        ops.append(Op(opcode, layer, fields | offset | shape, {"row": place}, barrier=barrier))
    return ops


def lines_apart(kept: Kept, view: View, rows: Progression, layer: int) -> list[Op]:
    """Return the STOREs of rows that lie apart in DRAM, of one channel block of an image.

    ``rows`` says which of them are which rows of the view. Rows must begin at beats.
    """
    row_bytes = kept.line * kept.config.row_bytes
    apart = rows.length > 1
    place = kept.left + kept.column + (kept.top + rows.start) * kept.line
    shape = {
        "lines": rows.length,
        "rows": kept.width,
        "stride": rows.step * row_bytes if apart else 0,
        "pitch": rows.stride * view.pitch if apart else 0,
    }
    return [
        Op(
            Opcode.STORE,
            layer,
            {
                "window": spec.window,
                "flip": int(spec.dtype == "uint8"),
                "offset": spec.offset + place * kept.config.row_bytes,
                **shape,
            },
            {"row": view.at(rows.first)},
        )
        for spec in kept.specs
    ]
