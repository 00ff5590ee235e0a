"""The Assistants API of a host in this process, for tests. A scripted model gives the answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import genai_feature_assistants
import pytest
import requests

from genai_host import Config, Host
from genai_host.api import Completion, FinishReason, Message, Text, ToolCall, ToolResult, Usage
from genai_host.store import Store
from genai_host_testing import FakeModel, RecordedPrompt, RouteServer
from genai_host_testing.internal.fixtures import MakeHost

CONFIG = Config(models={"chat": "fake", "embed": "fake-embed"})
ENDS = ("requires_action", "completed", "failed", "cancelled", "expired", "incomplete")
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "the weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
SEARCH = {"type": "file_search"}
CODE = {"type": "code_interpreter"}


def calls(*specs: tuple[str, str, Mapping[str, Any]], text: str = "") -> Completion:
    """Return an answer that requests tools: the id, the name and the arguments of each."""
    tool_calls = [ToolCall(id, name, arguments) for id, name, arguments in specs]
    parts = [Text(text), *tool_calls] if text else tool_calls
    return Completion(
        Message("assistant", parts),
        finish="tool_calls",
        usage=Usage(input_tokens=20, output_tokens=10),
    )


def says(text: str, finish: FinishReason = "stop") -> Completion:
    used = Usage(input_tokens=7, output_tokens=3)
    return Completion(Message("assistant", text), finish=finish, usage=used)


def outputs_in(prompt: RecordedPrompt) -> list[str]:
    """Return the tool outputs in the last message that the model receives."""
    return outputs_of(prompt.messages[-1])


def outputs_of(message: Message) -> list[str]:
    results = [part for part in message.content if isinstance(part, ToolResult)]
    return [
        "".join(each.text for each in part.content if isinstance(each, Text)) for part in results
    ]


class Api:
    """A client of the API.

    Attributes:
        url: URL of the API, which ends in /v1.
        fake: The model behind it.
        store: The store of the host, if `api_of` made it.
        token: Bearer token. If the server requires none, any token shows that the request does not
            come from a page.
    """

    def __init__(self, url: str, fake: FakeModel, token: str = "-") -> None:  # noqa: S107 - of a test
        self.url = f"{url}/v1"
        self.fake = fake
        self.store: Any = None
        self._session = requests.Session()
        self._session.headers["authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self._session.request(method, self.url + path, json=body, timeout=60, **options)

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        return _json(self.ask("GET", path, params=query), status)

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return _json(self.ask("POST", path, body if body is not None else {}), status)

    def delete(self, path: str, status: int = 200) -> Any:
        return _json(self.ask("DELETE", path), status)

    def upload(self, name: str, data: bytes, purpose: str = "assistants") -> str:
        """Upload a file and return its id."""
        reply = self._session.post(
            f"{self.url}/files", files={"file": (name, data)}, data={"purpose": purpose}, timeout=60
        )
        id: str = _json(reply, 200)["id"]
        return id

    def store_of(self, **files: str) -> str:
        """Create a vector store with files with these texts, by name, and return its id when all of
        them are searchable.
        """
        ids = [self.upload(f"{name}.txt", text.encode()) for name, text in files.items()]
        store: str = self.post("/vector_stores", {"file_ids": ids})["id"]
        until(lambda: self.get(f"/vector_stores/{store}")["status"] == "completed")
        return store

    def assistant(self, *tools: Any, **fields: Any) -> str:
        body = {"model": "fake", "tools": list(tools), **fields}
        id: str = self.post("/assistants", body)["id"]
        return id

    def thread(self, *texts: str) -> str:
        """Create a thread with these user messages and return its id."""
        messages = [{"role": "user", "content": each} for each in texts]
        id: str = self.post("/threads", {"messages": messages})["id"]
        return id

    def run(self, thread: str, assistant: str, **fields: Any) -> dict[str, Any]:
        """Start a run and return it when it has ended or waits for its client."""
        return self.ended(self.begin(thread, assistant, **fields))

    def begin(self, thread: str, assistant: str, **fields: Any) -> dict[str, Any]:
        """Start a run and return it as it is then."""
        run: dict[str, Any] = self.post(
            f"/threads/{thread}/runs", {"assistant_id": assistant, **fields}
        )
        return run

    def submit(self, run: Mapping[str, Any], **outputs: str) -> dict[str, Any]:
        """Submit outputs by the ids of their calls and return the run when it has ended again."""
        tool_outputs = [{"tool_call_id": id, "output": output} for id, output in outputs.items()]
        return self.ended(
            self.post(f"{path_of(run)}/submit_tool_outputs", {"tool_outputs": tool_outputs})
        )

    def ended(self, run: Mapping[str, Any]) -> dict[str, Any]:
        run_body: dict[str, Any] = {}

        def has_ended() -> bool:
            run_body.update(self.get(path_of(run)))
            return run_body["status"] in ENDS

        until(has_ended)
        return run_body

    def texts(self, thread: str) -> list[tuple[str, str]]:
        """Return role and text of the messages of a thread, oldest first."""
        messages = self.get(f"/threads/{thread}/messages", order="asc")["data"]
        return [
            (each["role"], "".join(part["text"]["value"] for part in each["content"]))
            for each in messages
        ]

    def events(self, path: str, body: Any) -> list[tuple[str, Any]]:
        """Return the name and the data of each event of a stream; `[DONE]` is unchanged."""
        reply = self.ask("POST", path, {**body, "stream": True})
        assert reply.headers["content-type"].startswith("text/event-stream"), reply.text
        parsed = []
        for block in reply.text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
            if lines:
                data = lines["data"]
                parsed.append((lines["event"], data if data == "[DONE]" else json.loads(data)))
        return parsed

    def steps(self, run: Mapping[str, Any], **query: Any) -> list[Any]:
        run_steps: list[Any] = self.get(f"{path_of(run)}/steps", order="asc", **query)["data"]
        return run_steps

    def error(self, reply: Any) -> str:
        message: str = reply["error"]["message"]
        return message

    def close(self) -> None:
        self._session.close()


@contextmanager
def api_of(
    make_host: MakeHost,
    store: Store,
    answer: Callable[[RecordedPrompt], Any] | None = None,
    *,
    user: str = "",
    **settings: Any,
) -> Iterator[Api]:
    """Serve a host with the plugin and yield a client of its API.

    The answer of the model is None for a model that repeats the message.
    """
    fake = FakeModel(*([answer] if answer is not None else []))
    plugins = {"fake": fake, "assistants": genai_feature_assistants}
    host: Host = make_host(**{"store": store, "config": CONFIG, **plugins, **settings})
    with RouteServer(host, user=user) as server:
        api = Api(server.url, fake)
        api.store = host.store
        try:
            yield api
        finally:
            api.close()


MakeApi = Callable[..., Api]


@pytest.fixture
def make_api(make_host: MakeHost, tmp_path: Path) -> Iterator[MakeApi]:
    """Create APIs of hosts that share a store: `make_api(answer, user="ann")`."""
    with Store(tmp_path / "store.db") as store, ExitStack() as opened:
        yield lambda answer=None, **settings: opened.enter_context(
            api_of(make_host, store, answer, **settings)
        )


def path_of(run: Mapping[str, Any]) -> str:
    return f"/threads/{run['thread_id']}/runs/{run['id']}"


def until(holds: Callable[[], bool], most: float = 60.0) -> None:
    """Wait for an effect of another thread or process by polling the API, which has no other
    signal.
    """
    waits = threading.Event()
    for _ in range(int(most / 0.02)):
        if holds():
            return
        waits.wait(0.02)
    raise AssertionError("condition not met before the timeout")


def _json(reply: requests.Response, status: int) -> Any:
    assert reply.status_code == status, (reply.status_code, reply.text)
    return reply.json()


def ids_of(page: Mapping[str, Any]) -> Sequence[str]:
    return [each["id"] for each in page["data"]]
