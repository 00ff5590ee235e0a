"""Turns in progress on one server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from genai_server.native.turns import RunningTurns

from genai_host.api.cancellation import Cancellation


class Conversation:
    id = "c"
    status = "running"

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...

    def close(self, reason: Any = None) -> None:
        self.status = "closed"


@pytest.mark.parametrize("how", ["cancelled", "disconnected"])
def test_a_message_waits_for_the_end_of_a_turn_that_was_cancelled(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    live, order, waiting = RunningTurns(), [], threading.Event()
    conversation: Any = Conversation()
    limits = Cancellation()
    wait_for = live._has_ended.wait_for

    def wait(has_ended: Callable[[], bool], seconds: float) -> bool:
        waiting.set()
        return wait_for(has_ended, 60)

    def go_on() -> None:
        live.wait_for_end("c")
        order.append("next")

    monkeypatch.setattr(live._has_ended, "wait_for", wait)
    thread = threading.Thread(target=go_on)
    with live.turn(conversation, limits):
        live.wait_for_end("c")  # it was not cancelled
        live.wait_for_end("another")
        assert not waiting.is_set()
        if how == "cancelled":
            live.cancel("c")
        else:
            limits.cancel()
        thread.start()
        assert waiting.wait(60)
        order.append("end")
    thread.join(60)
    assert order == ["end", "next"]
