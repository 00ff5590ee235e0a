"""A tour of our Assistants API with an official `openai` SDK of any installed version.

This module contains the shared parts of `assistants_tour_*`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import genai_feature_assistants
import openai
import pytest
from attrs import frozen

from genai_host import Config, Host
from genai_host.api import Completion, Message, Part, Text, ToolCall, ToolResult, Usage
from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_model import FakeAnswer, RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

POLL = 10
"""Milliseconds between the polls of the SDK."""

QUIET = [
    pytest.mark.filterwarnings(f"ignore:{message}:DeprecationWarning:{module}")
    for message in ("deprecated$", "The Assistants API is deprecated")
    for module in ("assistants_tour", r"(openai|semantic_kernel|tests\.assistants_peers)\.")
]
"""The SDK marks the whole API as deprecated, also for its own calls."""

CONFIG = Config(models={"chat": "fake", "embed": "fake-embed"})
CLOCK: Any = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "what time it is",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
        "strict": False,
    },
}
SEARCH: Any = {"type": "file_search"}
CALL = ToolCall("c1", "clock", {"zone": "CET"})
NOON: Any = [{"tool_call_id": "c1", "output": "noon"}]
NOTE = "The harbour opens at nine."
"""Text of the file in the vector stores; the model searches for exactly these words."""
FOUND = ToolCall("s1", "file_search", {"query": NOTE})

_MARK = re.compile("【[^】]*】")


@frozen
class Side:
    """The SDK as a client of a served host."""

    client: openai.OpenAI
    fake: FakeModel
    host: Host
    url: str

    @property
    def beta(self) -> Any:
        return self.client.beta

    @property
    def runs(self) -> Any:
        return self.client.beta.threads.runs

    @property
    def stores(self) -> Any:
        return self.client.vector_stores

    def assistant(self, **more: Any) -> Any:
        """Create an assistant and return its id."""
        return self.beta.assistants.create(model="fake", **more).id

    def thread(self, *texts: str, **more: Any) -> Any:
        """Create a thread with these user messages and return its id."""
        messages = [{"role": "user", "content": text} for text in texts or ("hi",)]
        return self.beta.threads.create(messages=messages, **more).id

    def file(self, name: str = "notes.txt", text: str = NOTE) -> Any:
        """Create a file and return its id."""
        return self.client.files.create(file=(name, text.encode()), purpose="assistants").id

    def store(self, **texts: str) -> Any:
        """Create a searchable vector store with a text file for each name, and return its id."""
        store = self.stores.create(name="notes").id
        if texts:
            files = [self.file(f"{name}.txt", text) for name, text in texts.items()]
            self.stores.file_batches.create_and_poll(store, file_ids=files, poll_interval_ms=POLL)
        return store

    def ran(self, thread: Any, assistant: Any, **more: Any) -> Any:
        """Return a run that has ended, or waits for its client."""
        return self.runs.create_and_poll(
            thread_id=thread, assistant_id=assistant, poll_interval_ms=POLL, **more
        )

    def streaming(self, hooks: Any, thread: Any, assistant: Any) -> Any:
        """Return the context of a run whose events the hooks receive."""
        return self.runs.stream(thread_id=thread, assistant_id=assistant, event_handler=hooks)

    def submitted(self, run: Any, outputs: Any) -> Any:
        """Return the run after it has used these outputs of tools."""
        return self.runs.submit_tool_outputs_and_poll(
            run_id=run.id, thread_id=run.thread_id, tool_outputs=outputs, poll_interval_ms=POLL
        )

    def polled(self, run: Any) -> Any:
        return self.runs.poll(run.id, thread_id=run.thread_id, poll_interval_ms=POLL)

    def texts(self, run: Any) -> list[str]:
        """Return the texts of the run's messages, oldest first."""
        messages = self.beta.threads.messages.list(run.thread_id, run_id=run.id, order="asc")
        return [message.content[0].text.value for message in messages]


@contextmanager
def touring(make_host: MakeHost, http_client: Any = None, **settings: Any) -> Iterator[Side]:
    """Serve a host with the plugin and yield its client.

    Args:
        http_client: That of the SDK, if it is not the usual one.
        settings: Arguments of the host.
    """
    fake = FakeModel()
    plugins = {"fake": fake, "assistants": genai_feature_assistants}
    with (
        Store() as store,
        served(host := make_host(**plugins, config=CONFIG, store=store, **settings)) as server,
        openai.OpenAI(
            base_url=f"{server.url}/v1", api_key="key", max_retries=0, http_client=http_client
        ) as client,
    ):
        yield Side(client, fake, host, server.url)


class Tour:
    """A part of the tour; the `test_*` methods of subclasses are its tests. Their modules have a
    fixture `http_client`, for `touring`.

    Attributes:
        plugins: Additional plugins of the host.
    """

    plugins: Mapping[str, object] = {}

    @pytest.fixture
    def side(self, make_host: MakeHost, http_client: Any) -> Iterator[Side]:
        with touring(make_host, http_client, **self.plugins) as side:
            yield side

    @pytest.fixture
    def late(self, make_host: MakeHost, http_client: Any, clock: ManualClock) -> Iterator[Side]:
        """A side whose time is controlled by the test."""
        with touring(make_host, http_client, clock=clock) as side:
            yield side


def completion(*parts: Part | str, usage: Usage | None = None) -> Completion:
    """Return a completion of the model, which may request tools."""
    message = Message("assistant", list(parts))
    return Completion(message, "tool_calls" if message.tool_calls else "stop", usage or Usage(7, 3))


def calling(
    *calls: ToolCall, text: str = "", then: Callable[[RecordedPrompt], FakeAnswer] | None = None
) -> Callable[[RecordedPrompt], FakeAnswer]:
    """Return a model that requests tools first, and then reports their outputs or calls `then`."""

    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        if prompt.messages[-1].role == "tool":
            return then(prompt) if then else completion(f"It gave {', '.join(results(prompt))}.")
        return completion(*([Text(text)] if text else []), *calls)

    return answer


def results(prompt: RecordedPrompt) -> list[str]:
    """Return the outputs of the tools that were called last."""
    return [
        "".join(part.text for part in result.content if isinstance(part, Text))
        for result in prompt.messages[-1].content
        if isinstance(result, ToolResult)
    ]


def cites(prompt: RecordedPrompt) -> Completion:
    """Answer with the mark of each passage that was found."""
    marks = [mark for result in results(prompt) for mark in _MARK.findall(result)]
    return completion(f"At nine{''.join(marks)}.")


def ids(objects: Sequence[Any]) -> list[Any]:
    return [each.id for each in objects]
