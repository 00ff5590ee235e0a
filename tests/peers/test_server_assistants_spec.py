"""What our Assistants API answers is what OpenAI's own OpenAPI document says that it is: under
each of its paths, in each state of a run, in each event of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import genai_feature_assistants
import genai_wire_openai
import pytest
import requests
from assistants_tour import CALL, CLOCK, CONFIG, NOTE, SEARCH, Holding, calling, cites
from assistants_tour_code import CODE, RUNS, SANDBOX, links
from attrs import field, frozen
from genai_feature_assistants import genai_http_routes
from peers.openai_document import Document

from genai_host.api import Completion, Message, ToolCall, Usage
from genai_host.errors import RateLimited, ServiceUnavailable
from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.clock import ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

TEXT = {"role": "user", "content": "when?"}
ENDED = ("completed", "failed", "cancelled", "expired", "incomplete", "requires_action")


@frozen
class Api:
    """Our API over HTTP; each reply is looked up in the document by the path that was asked.

    asked   the routes that were, as `GET /threads/{}`
    """

    url: str
    fake: FakeModel
    document: Document
    client: requests.Session
    asked: set[str] = field(factory=set)

    def ask(self, method: str, path: str, body: Any = None, **given: Any) -> Any:
        """The value that is answered, which is as the document has it."""
        reply = self.client.request(method, f"{self.url}/v1{path}", json=body, timeout=60, **given)
        assert reply.status_code == 200, reply.text
        route, operation = self.operation(method, path.partition("?")[0])
        self.asked.add(route)
        (content,) = operation["responses"]["200"]["content"].values()
        if "$ref" not in content["schema"]:
            return reply.content
        value = reply.json()
        is_empty = value.get("data") == [] and "first_id" in value
        # the document has no word for the first of none; the service says null, as we do
        told = {**value, "first_id": "", "last_id": ""} if is_empty else value
        self.document.check(content["schema"]["$ref"].rpartition("/")[2], told)
        return value

    def operation(self, method: str, path: str) -> tuple[str, Any]:
        """The route of the document that a path is of: without the names in it, and as it is."""
        asked = path.split("/")
        fitting = []
        for each, methods in self.document.value["paths"].items():
            parts = each.split("/")
            if len(parts) == len(asked) and all(
                part == given or part.startswith("{")
                for part, given in zip(parts, asked, strict=True)
            ):
                fitting.append((each.count("{"), each, methods))
        _, found, methods = min(fitting)
        return plain(f"{method} {found}"), methods[method.lower()]

    def post(self, path: str, body: Any = None, **given: Any) -> Any:
        return self.ask("POST", path, {} if body is None else body, **given)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def delete(self, path: str) -> Any:
        return self.ask("DELETE", path)

    def file(self, name: str = "harbour.txt", text: str = NOTE) -> Any:
        """The id of a new one."""
        form = {"files": {"file": (name, text)}, "data": {"purpose": "assistants"}}
        return self.ask("POST", "/files", None, **form)["id"]

    def store(self) -> Any:
        """The id of a new vector store with a file, ready to be searched."""
        store = self.post("/vector_stores", {"name": "notes"})["id"]
        path = f"/vector_stores/{store}/files"
        file = self.post(path, {"file_id": self.file()})
        while file["status"] == "in_progress":
            file = self.get(f"{path}/{file['id']}")
        return store

    def thread(self, *said: Any) -> str:
        """The path of a new one."""
        return f"/threads/{self.post('/threads', {'messages': list(said) or [TEXT]})['id']}"

    def run(self, thread: str, **more: Any) -> Any:
        """One that has ended, or waits; with an assistant of its own."""
        assistant = self.post("/assistants", {"model": "fake"})["id"]
        run = self.post(f"{thread}/runs", {"assistant_id": assistant, **more})
        return self.ended(run)

    def ended(self, run: Any) -> Any:
        while run["status"] not in ENDED:
            run = self.get(f"/threads/{run['thread_id']}/runs/{run['id']}")
        return run

    def events(self, path: str, body: Any) -> list[str]:
        """The names of what is told in a stream, each with data as the document has them."""
        reply = self.client.post(f"{self.url}/v1{path}", json={**body, "stream": True}, timeout=60)
        assert reply.headers["content-type"].startswith("text/event-stream")
        names = []
        for told in reply.content.decode().removesuffix("\n\n").split("\n\n"):
            event, data = told.split("\n")
            name, value = event.removeprefix("event: "), data.removeprefix("data: ")
            names.append(name)
            given = {"event": name, "data": value if name == "done" else json.loads(value)}
            self.document.check("AssistantStreamEvent", given)
        return names


def plain(route: str) -> str:
    """A route without the names of what stands in its path."""
    return "/".join("{}" if part.startswith("{") else part for part in route.split("/"))


@contextmanager
def serving(make_host: MakeHost, document: Document, **given: Any) -> Iterator[Api]:
    fake = FakeModel()
    plugins = {"fake": fake, "assistants": genai_feature_assistants, "sandbox": SANDBOX}
    with (
        Store() as store,
        served(make_host(**plugins, config=CONFIG, store=store, **given)) as server,
        requests.Session() as client,
    ):
        client.headers["authorization"] = "Bearer key"  # what sends forms has to say who it is
        yield Api(server.url, fake, document, client)


pytestmark = pytest.mark.peers

FOUND = ToolCall("s1", "file_search", {"query": NOTE})
OURS = ("/assistants", "/files", "/threads", "/vector_stores")


@pytest.fixture
def api(make_host: MakeHost, document: Document) -> Iterator[Api]:
    with serving(make_host, document) as api:
        yield api


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


def test_item_11_every_route(api: Api) -> None:
    api.fake.answer = calling(CALL)
    file, store = api.file(), api.store()
    given = {
        "name": "Ada",
        "description": "knows",
        "instructions": "be brief",
        "metadata": {"a": "b"},
        "temperature": 1,
        "top_p": 1,
        "tools": [CLOCK, SEARCH, CODE],
        "tool_resources": {
            "code_interpreter": {"file_ids": [file]},
            "file_search": {"vector_store_ids": [store]},
        },
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
    }
    assistant = api.post("/assistants", {"model": "fake", **given})["id"]
    # the model takes no effort
    api.post(f"/assistants/{assistant}", {"response_format": "auto", "reasoning_effort": None})
    api.get(f"/assistants/{assistant}")
    api.get("/assistants?limit=1")

    api.get("/files")
    api.get(f"/files/{file}")
    assert api.get(f"/files/{file}/content").decode() == NOTE

    image = {"type": "image_url", "image_url": {"url": "https://localhost/a.png"}}
    picture = {"type": "image_file", "image_file": {"file_id": file, "detail": "high"}}
    attached = [{"file_id": file, "tools": [SEARCH, CODE]}]
    said = {"role": "user", "content": [{"type": "text", "text": "a"}, image, picture]}
    thread = api.thread({**said, "attachments": attached}, TEXT)
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
    found = api.post(f"{path}/search", {"query": NOTE, "ranking_options": {"ranker": "auto"}})
    api.get(f"{path}/files/{found['data'][0]['file_id']}/content")
    batch = api.post(f"{path}/file_batches", {"file_ids": [file], "attributes": {"a": True}})["id"]
    api.get(f"{path}/file_batches/{batch}")
    api.get(f"{path}/file_batches/{batch}/files")
    api.post(f"{path}/file_batches/{batch}/cancel")
    api.delete(f"{path}/files/{file}")
    api.delete(path)
    api.delete(f"/files/{file}")
    api.delete(f"/assistants/{assistant}")
    assert api.asked == own_routes()


def test_item_11_what_is_there_without_more(api: Api) -> None:
    """Objects of which nothing was said, and empty lists."""
    for path in ("/assistants", "/files", "/vector_stores"):
        assert api.get(path)["data"] == []
    thread = f"/threads/{api.post('/threads')['id']}"
    assert api.get(f"{thread}/messages")["data"] == api.get(f"{thread}/runs")["data"] == []
    store = f"/vector_stores/{api.post('/vector_stores')['id']}"
    assert api.get(f"{store}/files")["data"] == []
    api.post("/assistants", {"model": "fake", "name": None, "tools": [], "metadata": None})


@pytest.mark.parametrize("fault", [RateLimited("slowly"), ServiceUnavailable("down")])
def test_item_11_runs_that_failed(api: Api, fault: Any) -> None:
    api.fake.faults[0] = fault
    assert api.run(api.thread())["status"] == "failed"


def test_item_11_runs_that_are_incomplete(api: Api) -> None:
    cut = Completion(Message("assistant", "and so"), "length", Usage(7, 300))
    api.fake.answer = lambda heard: cut
    thread = api.thread()
    assert api.run(thread, max_completion_tokens=300)["status"] == "incomplete"
    assert api.get(f"{thread}/messages")["data"][0]["status"] == "incomplete"


def test_item_11_runs_that_are_cancelled(api: Api) -> None:
    api.fake.answer = holding = Holding()
    thread, assistant = api.thread(), api.post("/assistants", {"model": "fake"})["id"]
    run = api.post(f"{thread}/runs", {"assistant_id": assistant})
    assert holding.asked.wait(30)
    assert api.get(f"{thread}/runs/{run['id']}")["status"] == "in_progress"
    assert api.post(f"{thread}/runs/{run['id']}/cancel")["status"] == "cancelling"
    holding.may.set()
    assert api.ended(run)["status"] == "cancelled"


def test_item_11_expired_runs(make_host: MakeHost, document: Document, clock: ManualClock) -> None:
    with serving(make_host, document, clock=clock) as api:
        api.fake.answer = calling(CALL)
        thread = api.thread()
        run = api.run(thread, tools=[CLOCK])
        clock.advance(601)
        path = f"{thread}/runs/{run['id']}"
        assert api.get(path)["status"] == "expired"
        assert api.get(f"{path}/steps")["data"][0]["status"] == "expired"


def test_item_11_what_a_run_says(api: Api) -> None:
    """All of a request comes back in the run."""
    api.fake.answer = lambda heard: "{}"
    schema = {"name": "p", "schema": {"type": "object"}, "strict": True}
    run = api.run(
        api.thread(),
        instructions="be kind",
        additional_instructions="and brief",
        additional_messages=[TEXT],
        max_completion_tokens=500,
        max_prompt_tokens=500,
        metadata={"a": "b"},
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": schema},
        tools=[CLOCK],
        tool_choice={"type": "function", "function": {"name": "clock"}},
        truncation_strategy={"type": "last_messages", "last_messages": 3},
    )
    assert run["status"] == "completed"


def test_item_11_files_that_cannot_be_read(api: Api) -> None:
    store = api.post("/vector_stores")["id"]
    file = api.file("a.bin", "\0")
    path = f"/vector_stores/{store}/files"
    added = api.post(path, {"file_id": file})
    while added["status"] == "in_progress":
        added = api.get(f"{path}/{file}")
    assert added["status"] == "failed"
    assert api.get(f"{path}?filter=failed")["data"] == [added]
    api.get(f"{path}/{file}/content")


def test_item_11_citations_and_steps(api: Api) -> None:
    content = "step_details.tool_calls[*].file_search.results[*].content"
    for call, tool, then in [(FOUND, SEARCH, cites), (RUNS, CODE, links)]:
        api.fake.answer = calling(call, then=then)
        file, thread = api.file(), api.thread(TEXT)
        attached = [{"file_id": file, "tools": [tool]}]
        api.post(f"{thread}/messages", {**TEXT, "attachments": attached})
        run = api.run(thread, tools=[tool])
        (message,) = api.get(f"{thread}/messages?run_id={run['id']}")["data"]
        assert len(message["content"][0]["text"]["annotations"]) == 1
        path = f"{thread}/runs/{run['id']}/steps"
        _, step = api.get(f"{path}?include[]={content}")["data"]
        assert step["type"] == "tool_calls"
        api.get(f"{path}/{step['id']}?include[]={content}")


def test_item_11_events(api: Api) -> None:
    api.fake.answer = calling(CALL, text="Let me see.")
    assistant = api.post("/assistants", {"model": "fake", "tools": [CLOCK]})["id"]
    begun: Any = {"assistant_id": assistant, "thread": {"messages": [TEXT]}}
    names = api.events("/threads/runs", begun)
    assert (names[0], names[-2], names[-1]) == (
        "thread.created", "thread.run.requires_action", "done",
    )  # fmt: skip
    thread = api.thread()
    run = api.run(thread, assistant_id=assistant)
    outputs = [{"tool_call_id": "c1", "output": "noon"}]
    path = f"{thread}/runs/{run['id']}/submit_tool_outputs"
    assert api.events(path, {"tool_outputs": outputs})[-2:] == ["thread.run.completed", "done"]


@pytest.mark.parametrize(
    ("call", "tool", "then"), [(FOUND, SEARCH, cites), (RUNS, CODE, links)], ids=["search", "code"]
)
def test_item_11_events_of_tools(api: Api, call: ToolCall, tool: Any, then: Any) -> None:
    api.fake.answer = calling(call, then=then)
    attached = [{"file_id": api.file(), "tools": [tool]}]
    thread = api.thread({**TEXT, "attachments": attached})
    assistant = api.post("/assistants", {"model": "fake", "tools": [tool]})["id"]
    names = api.events(f"{thread}/runs", {"assistant_id": assistant})
    assert names.count("thread.run.step.delta") == 2
    assert names[-2] == "thread.run.completed"


def test_item_11_events_of_what_fails(api: Api) -> None:
    assistant = api.post("/assistants", {"model": "fake"})["id"]
    api.fake.faults[0] = ServiceUnavailable("down")
    names = api.events(f"{api.thread()}/runs", {"assistant_id": assistant})
    assert names[-2] == "thread.run.failed"
    api.fake.answer = lambda heard: Completion(Message("assistant", "and so"), "length")
    names = api.events(f"{api.thread()}/runs", {"assistant_id": assistant})
    assert names[-2] == "thread.run.incomplete"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/assistants/asst_1", None, 404),
        ("GET", "/threads/thread_1", None, 404),
        ("POST", "/threads/thread_1/runs", {"assistant_id": "asst_1"}, 404),
        ("POST", "/threads/runs", {"assistant_id": "asst_1", "stream": True}, 404),
        ("GET", "/vector_stores/vs_1", None, 404),
        ("GET", "/files/file-1/content", None, 404),
        ("GET", "/threads", None, 405),
        ("POST", "/assistants", {}, 400),
        ("POST", "/assistants", [], 400),
        ("POST", "/assistants", {"model": "fake", "colour": "red"}, 400),
        ("POST", "/files", {"file": "a"}, 400),
        ("GET", "/assistants?limit=1000", None, 400),
        ("POST", "/vector_stores", {"expires_after": {"days": 1000}}, 400),
    ],
)
def test_item_11_errors(api: Api, method: str, path: str, body: Any, status: int) -> None:
    reply = api.client.request(method, f"{api.url}/v1{path}", json=body, timeout=60)
    assert reply.status_code == status
    api.document.check("ErrorResponse", reply.json())
