"""Every fault of a service, with vendors of a few lines, and the suite of executors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from genai_host.api import (
    Codec,
    Completion,
    DialectEndpoint,
    ExecutorType,
    Message,
    NoSettings,
    http_provider,
)
from genai_host_testing import InlinePlugin
from genai_host_testing.suites import ExecutorSuite, HttpProviderSuite, OpenAIChatReplies

pytestmark = pytest.mark.part

ACME = http_provider(
    "acme",
    "https://acme.invalid/v1",
    {"openai-chat": DialectEndpoint()},
    key="ACME_KEY",
    models="/models",
)
LINES = http_provider(
    "lines",
    "https://lines.invalid",
    {"plain": DialectEndpoint("/say")},
    key="LINES_KEY",
    auth_header="x-api-key: {key}",
)


class TestAcme(OpenAIChatReplies, HttpProviderSuite):
    plugin = InlinePlugin(providers=[ACME])
    provider = "acme"
    settings = {"base_url": "{url}/v1"}
    keys = ["ACME_KEY"]


class TestLines(HttpProviderSuite):
    """In the host's own form, streamed as lines of JSON."""

    plugin = InlinePlugin(providers=[LINES])
    provider = "lines"
    settings = {"base_url": "{url}"}
    keys = ["LINES_KEY"]
    dialect = "plain"
    model_id = "m-1"
    stream_type = "application/x-ndjson"

    def body(self, text: str) -> bytes:
        return json.dumps(Codec().to_json(Completion(Message("assistant", text)))).encode()

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        deltas = [json.dumps({"delta": {"text": piece}}, ensure_ascii=False) for piece in pieces]
        return [*map(str.encode, deltas), b'{"end": ' + self.body("".join(pieces)) + b"}"]

    def frame(self, event: bytes) -> bytes:
        return event + b"\n"


def brings(open: Callable[[Any], Executor]) -> InlinePlugin:
    return InlinePlugin(executors=[ExecutorType("threads", NoSettings, open)])


@pytest.mark.part
class TestThreads(ExecutorSuite):
    plugin = brings(lambda settings: ThreadPoolExecutor(4))
    executor = "threads"


class Forgetful(ThreadPoolExecutor):
    """It does what it has been asked for only once, and begins nothing beside anything else."""

    def __init__(self) -> None:
        super().__init__(1)
        self._known: dict[Any, Any] = {}

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Any:
        if (function, arguments) not in self._known:
            self._known[function, arguments] = super().submit(function, *arguments, **named)
        return self._known[function, arguments]


class Broken(ExecutorSuite):
    """No class of tests, by its name: it is not collected."""

    plugin = brings(lambda settings: Forgetful())
    executor = "threads"
    patience = 0.2


@pytest.mark.part
def test_the_suite_finds_what_is_wrong(tmp_path: Any) -> None:
    suite = Broken()
    executor = suite.open()
    with pytest.raises(AssertionError):
        suite.test_equal_calls_run_separately(executor, tmp_path)
    (tmp_path / "all").unlink()
    with pytest.raises(AssertionError):
        suite.test_calls_run_concurrently(executor, tmp_path)
    executor.shutdown()
