"""Words of a LiteX bus over a serial line, as LiteX's UARTBone speaks there."""

import time

from litex.tools.remote.comm_uart import CommUART
from serial import SerialException

__all__ = ["Line"]

_WORD = 4
_WORDS = 8
"""Words of a command that writes, as LiteX's own client has them."""

_UNREAD = 512
"""Bytes that may be under way to the other end, whose buffer has 2,048 in LiteX's simulator."""

_SECONDS = 10.0
"""After which silence is a broken line."""

_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts; a simulator's clock is slow."""


class Line(CommUART):
    """LiteX's client, with whole commands at a time, an end to waiting, and clear errors.

    Parameters
    ----------
    name : str
        What errors call it.
    port : str
        For pyserial: a device file, or ``socket://HOST:PORT``.
    baudrate : int
        Bits a second, of a device file.

    Raises
    ------
    OSError
        If it cannot be opened, or later if it breaks; the line comes first.
    """

    def __init__(self, name: str, port: str, baudrate: int) -> None:
        self.name = name
        self._unsent = b""
        self._unread = 0
        try:
            super().__init__(port, baudrate)
        except (OSError, ValueError) as error:
            raise OSError(f"{name} cannot be opened: {error}") from error
        self.comm = None  # itself: a circle, which would keep the line open
        self.port.timeout = self.port.write_timeout = _SECONDS

    def read_words(self, address: int, count: int) -> list[int]:
        """Read words of the bus from a multiple of 4 on."""
        words = []
        for at in range(0, count, _WORDS):
            words += self.read(address + _WORD * at, min(_WORDS, count - at))
        return words

    def write_words(self, address: int, words: list[int]) -> None:
        """Write words of the bus; they may still be under way when this returns."""
        for at in range(0, len(words), _WORDS):
            if self._unread > _UNREAD:
                self.read_words(address, 1)
            self.write(address + _WORD * at, words[at : at + _WORDS])
            self._send()

    def synchronize(self, address: int, value: int) -> None:
        """Read a word until it is what it must be, or a few times.

        When a line breaks within a command, the other end waits for the rest of it, a tenth of a
        second by its own clock, and takes what comes for that.
        """
        for seconds in _PAUSES:
            self.port.timeout = seconds
            try:
                if self.read_words(address, 1) == [value]:
                    break
            except TimeoutError:
                continue
            finally:
                self.port.timeout = _SECONDS
            time.sleep(seconds)
            self.port.reset_input_buffer()

    def close(self) -> None:
        """Close the line."""
        self.port.close()

    def _flush(self) -> None:
        """Nothing comes that was not asked for."""

    def _write(self, data) -> None:
        # The other end forgets a command that pauses, so it is sent in one go.
        self._unsent += bytes(data)

    def _read(self, length: int) -> bytes:
        self._send()
        try:
            answer = self.port.read(length)
        except SerialException as error:
            raise self._broken(error) from error
        if len(answer) < length:
            raise TimeoutError(f"{self.name} does not answer within {self.port.timeout:g} seconds")
        self._unread = 0
        return answer

    def _send(self) -> None:
        data, self._unsent = self._unsent, b""
        self._unread += len(data)
        try:
            self.port.write(data)
        except SerialException as error:
            raise self._broken(error) from error

    def _broken(self, why: object) -> OSError:
        return ConnectionError(f"{self.name} is broken: {why}")
