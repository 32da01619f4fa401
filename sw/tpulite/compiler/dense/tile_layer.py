"""Tiling of one layer: its loads, products and stores, in serial order."""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain, Opcode, dense
from tpulite.arch.memory import Window
from tpulite.compiler.dense.pack import LayerConstants
from tpulite.compiler.dense.plan import LayerPlan, LayerShape
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.graph.network import Dense
from tpulite.program import TensorSpec

__all__ = ["Held", "LayerTiler", "Place"]

_STAGES = 4
"""Output vectors of so many n-blocks wait for their STORE, if the buffer has room."""


@dataclass(frozen=True)
class Place:
    """Where a tensor is: in ``buffer``, one block after the other, or else in DRAM."""

    spec: TensorSpec
    buffer: Buffer | None = None


class Held:
    """Buffers of one operand by key, and how far each has been loaded."""

    def __init__(self, name: str, bank: int | None = None) -> None:
        self.name, self.bank = name, bank
        self._buffers: dict[Hashable, Buffer] = {}
        self._loaded: dict[Hashable, float] = {}

    def fix(self, key: Hashable, buffer: Buffer, loaded: bool) -> None:
        """Give a key a buffer, all or none of which has been loaded."""
        self._buffers[key] = buffer
        self._loaded[key] = math.inf if loaded else 0

    def take(self, key: Hashable, whole: range, wanted: range, rows: int) -> tuple[Region, range]:
        """Return where some tiles lie, and which of them must be loaded first.

        Parameters
        ----------
        key : hashable
            Key of the buffer.
        whole : range
            Tiles that the buffer holds in the end.
        wanted : range
            Tiles that are needed now; tiles are asked for in order.
        rows : int
            Rows from tile to tile.
        """
        if key not in self._buffers:
            self._buffers[key] = Buffer(self.name, len(whole) * rows, bank=self.bank)
            self._loaded[key] = whole.start
        start = int(min(max(self._loaded[key], wanted.start), wanted.stop))
        self._loaded[key] = max(self._loaded[key], wanted.stop)
        region = Region(self._buffers[key], (wanted.start - whole.start) * rows)
        return region, range(start, wanted.stop)


class LayerTiler:
    """Writes the commands of one layer as its plan says.

    Parameters
    ----------
    index : int
        Index of the layer.
    layer, shape, plan, constants : Dense, LayerShape, LayerPlan, LayerConstants
        The layer, its extents, how to cut it, and where its constants lie.
    config : Config
        The machine.
    source, target : Place
        Input and output.
    held : tuple of Held, optional
        Weights and records by n-block, if they have fixed places.
    """

    def __init__(
        self,
        index: int,
        layer: Dense,
        shape: LayerShape,
        plan: LayerPlan,
        constants: LayerConstants,
        config: Config,
        source: Place,
        target: Place,
        held: tuple[Held, Held] | None,
    ) -> None:
        self._index, self._layer, self._shape, self._plan = index, layer, shape, plan
        self._constants, self._config = constants, config
        self._source, self._target = source, target
        self._fixed = held is not None
        self._weights, self._records = held or (
            Held(f"weights of {layer.name}", config.ub_banks // 2),
            Held(f"records of {layer.name}"),
        )
        self._inputs = Held(f"input of {layer.name}", 0)
        self._drain = Drain.RAW if layer.raw else Drain.REQUANTIZE
        self._vector_rows = 4 if layer.raw else 1
        self._stages = [] if target.buffer else self._make_stages()
        self._drained = 0

    def ops(self) -> list[Op]:
        """Return the commands; the first one reserves the rows that the layer writes."""
        ops = [op for p in range(len(self._plan.m_parts)) for op in self._part(p)]
        reserve = self._target.buffer or self._stages[0].buffer
        return [replace(ops[0], reserve=(reserve,)), *ops[1:]]

    def _make_stages(self) -> list[Region]:
        """Return the places in which output waits to be stored; they are used in turn."""
        rows = max(len(part) for part in self._plan.m_parts) * self._vector_rows
        drains = len(self._plan.m_parts) * self._shape.n_blocks + len(self._plan.tail) - 1
        count = max(1, min(_STAGES, drains, self._config.ub_rows // 4 // rows))
        buffer = Buffer(f"output stage of {self._layer.name}", count * rows)
        return [Region(buffer, i * rows) for i in range(count)]

    def _part(self, p: int) -> Iterator[Op]:
        plan, shape = self._plan, self._shape
        for start in range(0, shape.n_blocks, plan.group):
            group = range(start, min(start + plan.group, shape.n_blocks))
            sizes = plan.head if p == start == 0 else plan.body
            k = 0
            for size in sizes:
                chunk = range(k, k + size)
                k += size
                yield from self._chunk(p, group, chunk)

    def _chunk(self, p: int, group: range, chunk: range) -> Iterator[Op]:
        """Multiply one chunk of K by all n-blocks of a group."""
        plan, shape = self._plan, self._shape
        part = plan.m_parts[p]
        last_k = chunk.stop == shape.k_tiles
        act, loads = self._input(p, group, chunk)
        yield from loads
        for n in group:
            weight, loads = self._weight(p, n, chunk)
            yield from loads
            record = None
            if last_k and self._drain == Drain.REQUANTIZE:
                record, loads = self._record(p, group, n)
                yield from loads
            final = last_k and n == shape.n_blocks - 1 and p == len(plan.m_parts) - 1
            start = part.start
            for m in plan.tail if final else (len(part),):
                vectors = range(start, start + m)
                start += m
                skipped = vectors.start - part.start
                fields = dense(
                    m=m,
                    k_tiles=len(chunk),
                    act_pitch=self._pitch(part),
                    weight_zero_point=self._layer.weight_zero_point,
                    acc_row=(n - group.start) * len(part) + skipped,
                    accumulate=int(chunk.start > 0),
                    drain=self._drain if last_k else Drain.KEEP,
                )
                del fields["act_row"]
                rows = {"act_row": Region(act.buffer, act.row + skipped), "weight_row": weight}
                if not last_k:
                    yield Op(Opcode.CONV, self._index, fields, rows)
                    continue
                if record is not None:
                    fields["record_form"] = self._constants.record_form
                    rows["record_row"] = record
                rows["out_row"], stores = self._output(n, vectors)
                yield Op(Opcode.CONV, self._index, fields, rows)
                yield from stores

    def _pitch(self, part: range) -> int:
        """Return the rows from k-tile to k-tile of the inputs of a part."""
        spec = self._source.spec
        if self._source.buffer is not None:
            return spec.m
        if len(part) == spec.m:  # as in DRAM, so that all k-tiles are one line
            return spec.block_bytes(self._config) // self._config.row_bytes
        return len(part)

    def _input(self, p: int, group: range, chunk: range) -> tuple[Region, list[Op]]:
        spec, part = self._source.spec, self._plan.m_parts[p]
        pitch = self._pitch(part)
        if self._source.buffer is not None:
            return Region(self._source.buffer, chunk.start * pitch + part.start), []
        key, whole = (p, range(self._shape.k_tiles))
        if not self._plan.whole_k:
            key, whole = (p, group.start, chunk.start), chunk
        region, missing = self._inputs.take(key, whole, chunk, pitch)
        row_bytes, block = self._config.row_bytes, spec.block_bytes(self._config)
        fields = {
            "window": spec.window,
            "flip": int(spec.dtype == "uint8"),
            "offset": spec.offset + missing.start * block + part.start * row_bytes,
            "stride": block,
            "lines": len(missing),
            "rows": len(part),
            "pitch": pitch,
        }
        barrier = spec.window == Window.SCRATCH
        # Padding of a block may be read along where the host has filled it.
        if pitch * row_bytes == block and (block == spec.m * row_bytes or not barrier):
            fields |= {"lines": 1, "rows": len(missing) * pitch, "stride": 0, "pitch": 0}
        return region, self._load(missing, chunk, region, pitch, fields, barrier)

    def _weight(self, p: int, n: int, chunk: range) -> tuple[Region, list[Op]]:
        key, whole, size = n, range(self._shape.k_tiles), self._config.array_size
        if not self._fixed and not self._plan.keep_weights:
            key = (p, n)
        if not self._fixed and not self._plan.whole_k:
            key, whole = (p, n, chunk.start), chunk
        region, missing = self._weights.take(key, whole, chunk, size)
        tile = n * self._shape.k_tiles + missing.start
        fields = {
            "window": Window.CONSTANTS,
            "offset": self._constants.weight_offset + tile * size * self._config.row_bytes,
            "lines": 1,
            "rows": len(missing) * size,
        }
        return region, self._load(missing, chunk, region, size, fields)

    def _record(self, p: int, group: range, n: int) -> tuple[Region, list[Op]]:
        rows = self._constants.record_rows
        fields = {
            "window": Window.CONSTANTS,
            "offset": self._constants.record_offset + n * rows * self._config.row_bytes,
            "lines": 1,
            "rows": rows,
        }
        if self._fixed:
            # Places of their own, so that programs with other groups find them.
            region, missing = self._records.take(n, range(1), range(1), rows)
            return region, self._load(missing, range(1), region, rows, fields)
        key = group.start if self._plan.keep_weights else (p, group.start)
        region, missing = self._records.take(key, group, group, rows)
        fields["rows"] *= len(missing)
        loads = self._load(missing, group, region, rows, fields)
        return Region(region.buffer, (n - group.start) * rows), loads

    def _load(
        self,
        missing: range,
        wanted: range,
        region: Region,
        pitch: int,
        fields: dict[str, int],
        barrier: bool = False,
    ) -> list[Op]:
        """Return the LOAD of the missing tiles of a region that holds the wanted ones."""
        if not missing:
            return []
        into = Region(region.buffer, region.row + (missing.start - wanted.start) * pitch)
        return [Op(Opcode.LOAD, self._index, fields, {"row": into}, barrier=barrier)]

    def _output(self, n: int, vectors: range) -> tuple[Region, list[Op]]:
        """Return where output vectors go, and the STORE that takes them on to DRAM."""
        spec = self._target.spec
        if self._target.buffer is not None:
            return Region(self._target.buffer, n * spec.m + vectors.start), []
        stage = self._stages[self._drained % len(self._stages)]
        self._drained += 1
        rows = len(vectors) * self._vector_rows
        skipped = vectors.start * self._vector_rows * self._config.row_bytes
        fields = {
            "window": spec.window,
            "flip": int(spec.dtype == "uint8"),
            "offset": spec.offset + n * spec.block_bytes(self._config) + skipped,
            "lines": 1,
            "rows": rows,
        }
        return stage, [Op(Opcode.STORE, self._index, fields, {"row": stage})]
