"""A request that has been answered, for a log."""

from __future__ import annotations

from attrs import frozen


@frozen
class Answered:
    """It has no query, in which keys may stand, and nothing that drives a terminal.

    method, path   `-` if none could be read
    status         of the reply; 499 if the client went before there was one
    seconds        from the first of its bytes to the last of the reply
    user           whose token it had; empty for whoever runs the server
    """

    method: str
    path: str
    status: int
    seconds: float
    user: str

    def __str__(self) -> str:
        said = f"{self.method} {self.path} {self.status} {self.seconds:.3f} s {self.user or '-'}"
        return ascii(said)[1:-1]
