"""Questions to models of a provider, and the imports of its plugin, for its tests."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import (
    Answer,
    Cancellation,
    Embed,
    Feature,
    FeatureSteps,
    ListedModel,
    NoSettings,
    Turn,
)
from genai_host.api.cancellation import Registration
from genai_host_testing.plugins import InlinePlugin


class Watched(Cancellation):
    """Cancel token with an event that is set when a caller registers a callback."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waited_for = threading.Event()

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        """Like that of `Cancellation`."""
        registration = super().on_cancel(wake)
        self.is_waited_for.set()
        return registration


each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def answered(
    host: Host, model: str, streamed: bool = False, feature: str = "chat", **options: Any
) -> Answer:
    conversation = host.open(feature, model, **options)
    if not streamed:
        return conversation.say("hi")
    *events, last = conversation.stream("hi")
    assert last.answer is not None
    assert "".join(event.text for event in (*events, last)) == last.answer.text
    return last.answer


def ask(
    host: Host, model: str, streamed: bool = False, feature: str = "chat", **options: Any
) -> str:
    """Return the text of the answer to `hi`, as it is shown."""
    if not streamed:
        return answered(host, model, feature=feature, **options).text
    conversation = host.open(feature, model, **options)
    return "".join(event.text for event in conversation.stream("hi"))


def listed(host: Host, provider: str) -> list[ListedModel]:
    return list(host.instances[provider].provider.list_models(Cancellation()))


def _vectors(turn: Turn[NoSettings]) -> FeatureSteps:
    result = yield from Embed(["a", "b"], role="main", purpose="query")
    return Answer("", data=[list(each) for each in result.vectors])


VECTORS = InlinePlugin(features=[Feature("vectors", NoSettings, _vectors, roles={"main": "embed"})])
"""The feature `vectors`, whose answer has the vectors of the queries `a` and `b`."""


def modules_after(program: str) -> set[str]:
    """Return the modules that are loaded after a program, in a process of its own."""
    program += "\nimport json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))
