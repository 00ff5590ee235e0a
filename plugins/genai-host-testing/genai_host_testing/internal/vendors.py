"""Questions to models of a provider, and the imports of its plugin, for its tests."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import Answer

each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def answered(
    host: Host, model: str, streamed: bool = False, feature: str = "chat", **options: Any
) -> Answer:
    """Return the answer to `hi`."""
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


def modules_after(program: str) -> set[str]:
    """Return the modules that are loaded after a program, in a process of its own."""
    program += "\nimport json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))
