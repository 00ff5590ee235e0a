"""Our Assistants API over HTTP, each of its replies as OpenAI's own document has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import genai_feature_assistants
import requests
from assistants_tour import CONFIG, NOTE
from assistants_tour_code import SANDBOX
from attrs import field, frozen
from peers.openai_document import Document

from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

__all__ = ["TEXT", "Api", "plain", "serving"]

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
        reply = self.client.request(
            method, f"{self.url}/v1{path}", json=body, timeout=60, **given
        )  # fmt: skip
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
        reply = self.client.post(
            f"{self.url}/v1{path}", json={**body, "stream": True}, timeout=60
        )  # fmt: skip
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
