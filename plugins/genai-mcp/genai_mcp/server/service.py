"""What the sessions of all clients share."""

from __future__ import annotations

import threading

from genai_mcp.server.offer import Offer
from genai_mcp.server.work import Waiting

MOST_CALLS = 32
"""Requests of all clients that are under way at once."""


class Service:
    """May be used from many threads.

    offer     what is offered
    waiting   calls whose client was asked something, and has not come back
    places    for requests that are under way
    """

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.waiting = Waiting()
        self.places = threading.BoundedSemaphore(MOST_CALLS)

    def close(self) -> None:
        self.waiting.close()
