"""The official `openai` SDK as a client of our Assistants API: the tour that an older one makes
as well, in `tests/assistants_peers`. Each reply and each event is what OpenAI's own OpenAPI
document says that it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import genai_wire_openai
import pytest
from assistants_tour import CALL, CLOCK, NOTE, POLL, QUIET, SEARCH, Side, calling, touring
from assistants_tour_runs import ObjectsTour as TestObjects, RunsTour as TestRuns
from assistants_tour_search import SearchTour as TestSearch
from assistants_tour_streams import (
    CODE,
    SANDBOX,
    CodeTour as TestCode,
    StreamsTour as TestStreams,
)
from genai_feature_assistants import genai_http_routes
from peers.openai_document import CheckedClient, Document, plain

from genai_host_testing.internal.fixtures import MakeHost

__all__ = ["TestCode", "TestObjects", "TestRuns", "TestSearch", "TestStreams"]

pytestmark = [pytest.mark.peers, *QUIET]

TEXT = {"role": "user", "content": "when?"}
ENDED = ("completed", "failed", "cancelled", "expired", "incomplete", "requires_action")
OURS = ("/assistants", "/files", "/threads", "/vector_stores")


@pytest.fixture
def side(make_host: MakeHost, http_client: CheckedClient) -> Iterator[Side]:
    with touring(make_host, http_client, sandbox=SANDBOX) as side:
        yield side


class Raw:
    """Requests without the SDK."""

    def __init__(self, side: Side, client: Any) -> None:
        self._url = side.url
        self._client = client

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": "Bearer key"}
        reply = self._client.request(method, f"{self._url}/v1{path}", json=body, headers=headers)
        assert reply.status_code == 200, reply.text
        return reply.json() if "json" in reply.headers["content-type"] else reply.text

    def post(self, path: str, body: Any = None) -> Any:
        return self.ask("POST", path, {} if body is None else body)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def delete(self, path: str) -> Any:
        return self.ask("DELETE", path)

    def thread(self, *messages: Any) -> str:
        """The path of a new one."""
        return f"/threads/{self.post('/threads', {'messages': list(messages) or [TEXT]})['id']}"

    def ended(self, run: Any) -> Any:
        while run["status"] not in ENDED:
            run = self.get(f"/threads/{run['thread_id']}/runs/{run['id']}")
        return run


def own_routes() -> set[str]:
    """The routes of the Assistants, and those of files, which other APIs use, too."""
    every = (*genai_http_routes(), *genai_wire_openai.genai_http_routes())
    own = [each for each in every if each.path.removeprefix("/v1").startswith(OURS)]
    return {plain(each.key.replace(" /v1", " ")) for each in own}


def test_item_11_the_routes_are_those_of_the_document(document: Document) -> None:
    ours = own_routes()
    theirs = {
        plain(f"{method.upper()} {path}")
        for path, methods in document.value["paths"].items()
        for method in methods
        if path.startswith(OURS) and method in ("get", "post", "delete")
    }
    assert ours == theirs


def test_item_11_every_route(side: Side, http_client: CheckedClient) -> None:
    side.fake.answer = calling(CALL)
    file, store, api = side.file(), side.store(), Raw(side, http_client)
    side.stores.files.create_and_poll(side.file(), vector_store_id=store, poll_interval_ms=POLL)
    settings = {
        "name": "Ada", "description": "knows", "instructions": "be brief", "metadata": {"a": "b"},
        "temperature": 1, "top_p": 1, "tools": [CLOCK, SEARCH, CODE],
        "tool_resources": {
            "code_interpreter": {"file_ids": [file]}, "file_search": {"vector_store_ids": [store]},
        },
        "response_format": {"type": "json_object"}, "reasoning_effort": "low",
    }  # fmt: skip
    assistant = api.post("/assistants", {"model": "fake", **settings})["id"]
    # the model takes no effort
    api.post(f"/assistants/{assistant}", {"response_format": "auto", "reasoning_effort": None})
    api.get(f"/assistants/{assistant}")
    api.get("/assistants?limit=1")

    api.get("/files")
    api.get(f"/files/{file}")
    assert api.get(f"/files/{file}/content") == NOTE

    image = {"type": "image_url", "image_url": {"url": "https://localhost/a.png"}}
    picture = {"type": "image_file", "image_file": {"file_id": file, "detail": "high"}}
    attached = [{"file_id": file, "tools": [SEARCH, CODE]}]
    user_message = {"role": "user", "content": [{"type": "text", "text": "a"}, image, picture]}
    thread = api.thread({**user_message, "attachments": attached}, TEXT)
    api.get(thread)
    api.post(thread, {"metadata": {"a": "b"}})
    message = api.post(f"{thread}/messages", TEXT)["id"]
    api.get(f"{thread}/messages?order=asc")
    api.get(f"{thread}/messages/{message}")
    api.post(f"{thread}/messages/{message}", {"metadata": {"a": "b"}})
    api.delete(f"{thread}/messages/{message}")

    thread = api.thread()
    run = api.ended(api.post(f"{thread}/runs", {"assistant_id": assistant}))
    assert run["status"] == "requires_action", run["last_error"]
    path = f"{thread}/runs/{run['id']}"
    api.get(f"{thread}/runs")
    api.post(path, {"metadata": {"a": "b"}})
    steps = api.get(f"{path}/steps")["data"]
    api.get(f"{path}/steps/{steps[0]['id']}")
    outputs = [{"tool_call_id": "c1", "output": "noon"}]
    api.ended(api.post(f"{path}/submit_tool_outputs", {"tool_outputs": outputs}))
    api.get(f"{path}/steps")
    other = api.ended(api.post("/threads/runs", {"assistant_id": assistant, "thread": {}}))
    api.post(f"/threads/{other['thread_id']}/runs/{other['id']}/cancel")
    api.delete(thread)

    path = f"/vector_stores/{store}"
    expires = {"anchor": "last_active_at", "days": 1}
    api.get("/vector_stores")
    api.post(path, {"expires_after": expires, "metadata": {"a": "b"}})
    api.get(path)
    api.get(f"{path}/files")
    api.post(f"{path}/files/{api.get(f'{path}/files')['data'][0]['id']}", {"attributes": {"a": 1}})
    results = api.post(f"{path}/search", {"query": NOTE, "ranking_options": {"ranker": "auto"}})
    api.get(f"{path}/files/{results['data'][0]['file_id']}/content")
    batch = api.post(f"{path}/file_batches", {"file_ids": [file], "attributes": {"a": True}})["id"]
    api.get(f"{path}/file_batches/{batch}")
    api.get(f"{path}/file_batches/{batch}/files")
    api.post(f"{path}/file_batches/{batch}/cancel")
    api.delete(f"{path}/files/{file}")
    api.delete(path)
    api.delete(f"/files/{file}")
    api.delete(f"/assistants/{assistant}")
    assert http_client.routes == own_routes()


@pytest.mark.parametrize(("method", "path", "body", "status"), [
    ("GET", "/assistants/asst_1", None, 404), ("GET", "/threads/thread_1", None, 404),
    ("POST", "/threads/thread_1/runs", {"assistant_id": "asst_1"}, 404),
    ("POST", "/threads/runs", {"assistant_id": "asst_1", "stream": True}, 404),
    ("GET", "/vector_stores/vs_1", None, 404), ("GET", "/files/file-1/content", None, 404),
    ("GET", "/threads", None, 405), ("POST", "/assistants", {}, 400),
    ("POST", "/assistants", [], 400),
    ("POST", "/assistants", {"model": "fake", "colour": "red"}, 400),
    ("POST", "/files", {"file": "a"}, 400), ("GET", "/assistants?limit=1000", None, 400),
    ("POST", "/vector_stores", {"expires_after": {"days": 1000}}, 400),
])  # fmt: skip
def test_item_11_errors(
    side: Side, http_client: CheckedClient, method: str, path: str, body: Any, status: int
) -> None:
    reply = http_client.request(method, f"{side.url}/v1{path}", json=body)
    assert reply.status_code == status
