"""Whatever clients, models and functions send, the objects of the API can be listed and deleted,
runs end, and the store is sound. A new path is a row of `_DOORS`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import genai_feature_assistants
import pytest

from genai_host import Message
from genai_host.api import Completion, ToolCall
from genai_host.serving.router import HttpRoutes
from genai_host_testing import FakeModel, RecordedPrompt
from genai_host_testing.internal.assistants_api import (
    CONFIG,
    ENDS,
    SEARCH,
    WEATHER,
    outputs_in,
    until,
)
from genai_host_testing.internal.faults import HOSTILE, Door, check_store, readable, variants
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

pytestmark = [pytest.mark.part, pytest.mark.timeout(300)]

_FORM = {"content-type": "multipart/form-data; boundary=x"}
_META = {"a": "b"}
_CHUNKING = {
    "type": "static",
    "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 100},
}
_RANKED = {
    "type": "file_search",
    "file_search": {"max_num_results": 5, "ranking_options": {"score_threshold": 0.1}},
}
_FILTERS = {
    "type": "and",
    "filters": [
        {"type": "eq", "key": "a", "value": "b"},
        {"type": "or", "filters": [{"type": "gte", "key": "n", "value": 1}]},
    ],
}
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
_NAMES = [json.loads(each) for each in HOSTILE if each.startswith('"')]


def _doors(api: Api) -> Iterator[tuple[str, Any]]:
    file = {"file_id": api.file, "attributes": {"a": "b", "n": 1}, "chunking_strategy": _CHUNKING}
    search = {"vector_store_ids": [api.store]}
    image = {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": image}],
        "attachments": [{"file_id": api.file, "tools": [SEARCH]}],
        "metadata": _META,
    }
    assistant = {
        "model": "fake", "name": "n", "instructions": "i", "tools": [WEATHER, _RANKED],
        "tool_resources": {"file_search": search}, "metadata": _META, "temperature": 1,
        "response_format": _SCHEMA,
    }  # fmt: skip
    expires = {"expires_after": {"anchor": "last_active_at", "days": 3}}
    run = {
        "assistant_id": api.assistant, "instructions": "i", "tools": [WEATHER], "metadata": _META,
        "temperature": 1, "max_prompt_tokens": 1000,
        "truncation_strategy": {"type": "last_messages", "last_messages": 3},
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
    }  # fmt: skip
    yield "/assistants", assistant
    yield f"/assistants/{api.assistant}", {"name": "n", "metadata": _META}
    yield "/threads", {"messages": [{"role": "assistant", "content": "x"}], "metadata": _META}
    yield f"/threads/{api.thread}", {"metadata": _META, "tool_resources": {"file_search": search}}
    yield f"/threads/{api.thread}/messages", message
    yield "/threads/runs", {**run, "thread": {"messages": [{"role": "user", "content": "x"}]}}
    more = {"additional_messages": [{"role": "user", "content": "x"}]}
    yield f"/threads/{api.thread}/runs", {"assistant_id": api.assistant, **more}
    yield "/vector_stores", {"name": "n", "file_ids": [api.file], "metadata": _META, **expires}
    yield f"/vector_stores/{api.store}", {"name": "n", "metadata": _META, **expires}
    yield f"/vector_stores/{api.store}/search", {"query": ["hello"], "filters": _FILTERS}
    yield f"/vector_stores/{api.store}/files", file
    yield f"/vector_stores/{api.store}/files/{api.file}", {"attributes": {"a": "b"}}
    yield f"/vector_stores/{api.store}/file_batches", {"files": [file]}


class Api:
    """A client of the API, which has one object of each kind."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.file = self.upload()
        self.assistant = self.create("/assistants", {"model": "fake", "tools": [WEATHER]})["id"]
        self.thread = self.create("/threads", {})["id"]
        self.store = self.create("/vector_stores", {"file_ids": [self.file]})["id"]

    def upload(self, name: str = "a.txt", data: str = "hello") -> str:
        parts = ("purpose", "assistants"), (f'file"; filename="{name}', data)
        head = 'Content-Disposition: form-data; name="'
        form = "".join(f'--x\r\n{head}{field}"\r\n\r\n{each}\r\n' for field, each in parts)
        sent = f"{form}--x--\r\n".encode(errors="surrogatepass")
        status, file = self.send("POST", "/files", sent, headers=_FORM)
        return str(file["id"]) if status == 200 else ""

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        return self._door.send(method, f"/v1{path}", body, **options)

    def create(self, path: str, body: Any, method: str = "POST") -> Any:
        status, value = self.send(method, path, body)
        assert status == 200, (path, value)
        return value

    def all(self, path: str) -> list[Any]:
        listed = self.create(path, None, "GET")
        while listed["has_more"]:
            status, more = self.send("GET", path, query={"after": listed["last_id"]})
            assert status == 200
            listed = {**more, "data": listed["data"] + more["data"]}
        return list(listed["data"])

    def is_indexed(self, store: str) -> bool:
        return bool(self.create(store, None, "GET")["status"] == "completed")

    def ended(self, run: Mapping[str, Any], output: Any) -> str:
        """The status of a run at its end, if its functions have this output."""
        path = f"/threads/{run['thread_id']}/runs/{run['id']}"
        until(lambda: self.create(path, None, "GET")["status"] in ENDS)
        now = self.create(path, None, "GET")
        if now["status"] != "requires_action":
            assert self.all(f"{path}/steps") is not None
            return str(now["status"])
        calls = now["required_action"]["submit_tool_outputs"]["tool_calls"]
        outputs = [{"tool_call_id": each["id"], "output": output} for each in calls]
        status, _ = self.send("POST", f"{path}/submit_tool_outputs", {"tool_outputs": outputs})
        if status != 200:
            self.create(f"{path}/cancel", None)
        return self.ended(run, "x")


def test_item_a_no_value_spoils_the_objects(make_host: MakeHost, make_store: MakeStore) -> None:
    store = make_store()
    odd = itertools.cycle(readable(iter(HOSTILE)))

    def answer(prompt: RecordedPrompt) -> Any:
        if outputs_in(prompt) or not prompt.tools:
            return "done"
        return Completion(
            Message(
                "assistant", [ToolCall(f"c{len(prompt.messages)}", "weather", {"city": next(odd)})]
            ),
            "tool_calls",
        )

    plugins = {"fake": FakeModel(answer), "assistants": genai_feature_assistants}
    routes = HttpRoutes(make_host(store=store, config=CONFIG, **plugins))
    api, another = Api(Door(routes)), Api(Door(routes, "ann"))
    theirs = another.create(f"/threads/{another.thread}", None, "GET")
    ends: set[str] = set()
    for path, body in _doors(api):
        for number, text in enumerate((json.dumps(body), *variants(body, 1))):
            status, reply = api.send("POST", path, text)
            assert number or status == 200, (path, reply)
            if status == 200 and reply["object"] == "thread.run":
                ends.add(api.ended(reply, next(odd)))
    assert "completed" in ends
    for name in _NAMES:
        api.send("POST", f"/vector_stores/{api.store}/files", {"file_id": api.upload(name, name)})
        for path in ("/assistants", "/files", "/vector_stores", f"/threads/{api.thread}/messages"):
            for key in ("after", "limit"):
                api.send("GET", path, query={key: name})
            for method in ("GET", "DELETE"):
                api.send(method, f"{path}/{quote(name, errors='surrogatepass')}")
    for each in api.all("/vector_stores"):
        path = f"/vector_stores/{each['id']}"
        until(partial(api.is_indexed, path))
        assert len(api.all(f"{path}/files")) == each["file_counts"]["total"]
        api.create(f"{path}/search", {"query": "hello"})
    api.create(f"/threads/{api.thread}", None, "DELETE")
    for path in ("/vector_stores", "/assistants", "/files"):
        for each in api.all(path):
            api.create(f"{path}/{each['id']}", None, "DELETE")
        assert api.all(path) == []
        assert len(another.all(path)) == 1
    assert another.create(f"/threads/{another.thread}", None, "GET") == theirs
    routes.close()
    check_store(make_store, store)
