"""From the blocks that a pipe gives to the lines that were written into it."""

from __future__ import annotations

from genai_host.errors import MalformedReply


class Lines:
    """most   bytes of one line"""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that end in a block, without what ends them; blank ones are none.

        Raises `MalformedReply` for a line that is too long, ended or not.
        """
        first, *rest = block.split(b"\n")
        self._pending.append(first)
        self._size += len(first)
        if self._size > self._most or any(len(line) > self._most for line in rest):
            raise MalformedReply(f"a line of it is longer than {self._most} bytes")
        if not rest:
            return []
        lines = [b"".join(self._pending), *rest[:-1]]
        self._pending, self._size = [rest[-1]], len(rest[-1])
        return [line for line in map(bytes.strip, lines) if line]
