"""AXI4 protocol and stability monitor: what cocotbext-axi's models do not look at."""

from collections import Counter, deque
from dataclasses import dataclass

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import PAGE_BYTES
from tpulite_tb.coverage.functional import Functional
from tpulite_tb.edges import at_each_edge, reader

__all__ = ["CHANNELS", "AxiMonitor", "AxiRules", "Burst", "Sample"]

_SIZE = BEAT_BYTES.bit_length() - 1
_INCR = 1
_ERROR = 2
"""The lowest response that is an error: SLVERR, and above it DECERR."""

_ADDRESS = ("id", "addr", "len", "size", "burst")
CHANNELS = {
    "ar": _ADDRESS,
    "r": ("id", "data", "resp", "last"),
    "aw": _ADDRESS,
    "w": ("data", "strb", "last"),
    "b": ("id", "resp"),
}
"""Channels and the payload that the rules look at."""

Sample = dict[str, tuple[bool, dict[str, int]]]
"""Offers at one edge: channel to ready and payload; a channel without an offer is absent."""


@dataclass
class Burst:
    """One read or write transaction; edges are those of its request and of its last answer."""

    id: int
    address: int
    beats: int
    edge: int
    moved: int = 0
    answered: int | None = None
    error: bool = False


class AxiRules:
    """The rules themselves, apart from any simulator.

    Offers are stable until accepted; bursts are INCR of whole aligned beats that do not cross
    4 KiB; LAST is where it belongs; data and responses belong to a request, reads of one id in
    order; a write is answered after its last beat; nothing remains open at the end.

    Parameters
    ----------
    max_beats : int
        Longest burst that is allowed.
    """

    def __init__(self, *, max_beats: int = 256) -> None:
        self.max_beats = max_beats
        self.edge = 0
        self.reads: list[Burst] = []
        self.writes: list[Burst] = []
        self.events: list[tuple[str, int]] = []
        self.waits: Counter[tuple[str, int]] = Counter()
        self._pending: dict[str, dict[str, int]] = {}
        self._waited: dict[str, int] = {}
        self._open_reads: deque[Burst] = deque()
        self._open_data: deque[Burst] = deque()  # requested, data still missing
        self._early_data: deque[int] = deque()  # beats of writes that are not requested yet
        self._early_beats = 0
        self._unanswered: deque[Burst] = deque()

    def step(self, sample: Sample) -> None:
        """Check one edge.

        Raises
        ------
        AssertionError
            If a rule is broken.
        """
        self.edge += 1
        for channel, payload in self._pending.items():
            assert channel in sample, self._text(channel, f"offer {payload} withdrawn")
            offered = sample[channel][1]
            assert offered == payload, self._text(channel, f"{payload} changed to {offered}")
        self._pending = {c: payload for c, (ready, payload) in sample.items() if not ready}
        for channel, (ready, _) in sample.items():
            waited = self._waited.pop(channel, 0)
            if ready:
                self.waits[channel, waited] += 1
            else:
                self._waited[channel] = waited + 1
        # Requests first: data and requests may be accepted at one edge.
        for channel in ("ar", "aw", "w", "r", "b"):
            if channel in sample and sample[channel][0]:
                self.events.append((channel, self.edge))
                getattr(self, f"_{channel}")(sample[channel][1])

    def finish(self) -> None:
        """Check that nothing is open.

        Raises
        ------
        AssertionError
            If an offer, a request, data or a response is.
        """
        assert not self._pending, f"offers never accepted: {self._pending}"
        assert not self._open_reads, f"reads without their data: {list(self._open_reads)}"
        assert not self._open_data, f"writes without their data: {list(self._open_data)}"
        assert not self._early_data and not self._early_beats, "write data without a request"
        assert not self._unanswered, f"writes without a response: {list(self._unanswered)}"

    def reset(self) -> None:
        """Forget what is open: the design was reset."""
        self._pending.clear()
        self._waited.clear()
        self._open_reads.clear()
        self._open_data.clear()
        self._early_data.clear()
        self._early_beats = 0
        self._unanswered.clear()

    def _ar(self, payload: dict[str, int]) -> None:
        burst = self._request("ar", payload)
        self.reads.append(burst)
        self._open_reads.append(burst)

    def _aw(self, payload: dict[str, int]) -> None:
        burst = self._request("aw", payload)
        self.writes.append(burst)
        self._open_data.append(burst)
        if self._early_data:
            self._complete(self._early_data.popleft())
        elif self._early_beats:
            # The data that came early is the beginning of this burst.
            burst.moved, self._early_beats = self._early_beats, 0
            assert burst.moved < burst.beats, self._text("w", f"no LAST at the end of {burst}")

    def _w(self, payload: dict[str, int]) -> None:
        if not self._open_data:
            self._early_beats += 1
            if payload["last"]:
                self._early_data.append(self._early_beats)
                self._early_beats = 0
            return
        burst = self._open_data[0]
        burst.moved += 1
        last = burst.moved == burst.beats
        assert payload["last"] == last, self._text("w", f"LAST is {payload['last']} in {burst}")
        if last:
            self._unanswered.append(self._open_data.popleft())

    def _r(self, payload: dict[str, int]) -> None:
        burst = next((x for x in self._open_reads if x.id == payload["id"]), None)
        assert burst is not None, self._text("r", f"no read of id {payload['id']} is open")
        burst.moved += 1
        burst.error |= payload["resp"] >= _ERROR
        last = burst.moved == burst.beats
        assert payload["last"] == last, self._text("r", f"LAST is {payload['last']} in {burst}")
        if last:
            burst.answered = self.edge
            self._open_reads.remove(burst)

    def _b(self, payload: dict[str, int]) -> None:
        burst = next((x for x in self._unanswered if x.id == payload["id"]), None)
        assert burst is not None, self._text(
            "b", f"no complete write of id {payload['id']} is open"
        )
        burst.answered = self.edge
        burst.error = payload["resp"] >= _ERROR
        self._unanswered.remove(burst)

    def _request(self, channel: str, payload: dict[str, int]) -> Burst:
        beats = payload["len"] + 1
        burst = Burst(payload["id"], payload["addr"], beats, self.edge)
        for wrong, why in (
            (payload["size"] != _SIZE, f"size must be {_SIZE}"),
            (payload["burst"] != _INCR, f"burst must be {_INCR}"),
            (burst.address % BEAT_BYTES, f"address must be a multiple of {BEAT_BYTES}"),
            (beats > self.max_beats, f"at most {self.max_beats} beats are allowed"),
            (
                burst.address % PAGE_BYTES + beats * BEAT_BYTES > PAGE_BYTES,
                f"the burst crosses {PAGE_BYTES} bytes",
            ),
        ):
            assert not wrong, self._text(channel, f"{why}: {payload}")
        return burst

    def _complete(self, moved: int) -> None:
        burst = self._open_data.popleft()
        assert moved == burst.beats, self._text("w", f"{moved} beats came for {burst}")
        burst.moved = moved
        self._unanswered.append(burst)

    def _text(self, channel: str, what: str) -> str:
        return f"AXI {channel.upper()} at edge {self.edge}: {what}"


class AxiMonitor(AxiRules):
    """Watches the AXI4 ports of a design from now on; a broken rule fails the test.

    ``reads`` and ``writes`` hold all bursts so far, ``events`` every transfer with its edge, and
    ``waits`` how many transfers of each channel waited for so many edges.

    Parameters
    ----------
    entity
        The design, with ``clk`` and ``rst``.
    prefix : str
        What the names of the AXI signals start with.
    max_beats : int
        Longest burst that is allowed.
    """

    def __init__(self, entity, prefix: str = "m_axi", *, max_beats: int = 256) -> None:
        super().__init__(max_beats=max_beats)
        self._in_reset = reader(entity.rst)
        self._ports = [
            (
                channel,
                reader(getattr(entity, f"{prefix}_{channel}valid")),
                reader(getattr(entity, f"{prefix}_{channel}ready")),
                [(name, reader(getattr(entity, f"{prefix}_{channel}{name}"))) for name in names],
            )
            for channel, names in CHANNELS.items()
        ]
        at_each_edge(entity.clk, self._step)

    def finish(self) -> None:
        """Check that nothing is open, and sample waits where coverage is wanted."""
        super().finish()
        if sampler := Functional.wanted():
            sampler.waits(self.waits)
            self.waits.clear()

    def _step(self) -> None:
        if self._in_reset():
            self.reset()
            self.edge += 1
            return
        self.step(
            {
                channel: (bool(ready()), {name: read() for name, read in payload})
                for channel, valid, ready, payload in self._ports
                if valid()
            }
        )
