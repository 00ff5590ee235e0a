"""Hosts in processes that are forked, as by multiprocessing and gunicorn."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from genai_host_testing.fake_service import FakeService, json_reply

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork"),
]

SCRIPT = """
import os, sys
from genai_host import Host

def call(provider):
    return host.open("chat", provider=provider).say("hi").text

host = Host()
host.instances.add("one", "mock", {"replies": ["a", {"status": 429, "retry_after": 0.01}, "b"]})
host.instances.add("two", "openai-compatible", {"base_url": sys.argv[1], "default_model": "m"})
host.open("chat", provider="one").say("hi")
call("two")
child = os.fork()
if not child:
    texts = host.open("chat", provider="one").say("hi").text, call("two")
    os._exit(texts != ("b", "ok"))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), call("two"))
"""


def test_a_forked_process_has_its_own_timers_and_connections() -> None:
    reply = json_reply(
        {
            "choices": [
                {"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )
    with FakeService(answer=lambda request: reply) as service:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, f"{service.url}/v1"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout.split() == ["0", "ok"], done.stderr
        assert service.connections == 2
