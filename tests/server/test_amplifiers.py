"""A request takes memory in proportion to its body, whatever is in it."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import genai_feature_agent
import genai_feature_assistants
import genai_feature_research
import genai_mcp
import pytest
from genai_server.routes import own_routes

from genai_host import Host
from genai_host.api import (
    Cancellation,
    CancelToken,
    DialectEndpoint,
    Model,
    NoSettings,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    RouteRequest,
    RouteResponse,
    StreamEvent,
    ValueBudget,
    hookimpl,
    write_json,
)
from genai_host.serving.router import HttpRoutes
from genai_host.store.store import Store
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part  # stores

TIMES = 10
"""Bytes of memory that may be taken for each byte of a body."""

SPARE = 2 * 10**6
"""And for the values that even a small body may have, of 30 bytes for example: a dictionary of two
short texts takes more than ten times its JSON."""

SPARE_TWICE = 4 * 10**6
"""And where they are held twice: the Responses API keeps the items that it was sent, and a job may
begin before the reply."""

SIZE = 2**20
PLUGINS = {
    "agent": genai_feature_agent, "assistants": genai_feature_assistants, "mcp": genai_mcp,
    "research": genai_feature_research,
}  # fmt: skip


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Iterator[Host]:
    with Store(tmp_path / "store.db") as store:
        yield make_host(remote=Remote(), store=store, **PLUGINS)


@pytest.fixture
def routes(host: Host) -> Iterator[HttpRoutes]:
    http_routes = HttpRoutes(host, own_routes())
    yield http_routes
    http_routes.close()


OK = {"message": {"role": "assistant", "content": "ok"}}


class Remote(Provider):
    """A plugin with the model `fake`, whose service is in another process: it reads no request."""

    serves = {"plain": DialectEndpoint()}

    @hookimpl
    def genai_providers(self) -> Iterable[ProviderType[Any]]:
        yield ProviderType("remote", NoSettings, lambda *arguments: self, automatic=False)

    @hookimpl
    def genai_models(self) -> Iterable[Model]:
        yield Model("fake", dialects=["plain"], at={"remote": "fake"})

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        request.data()
        return ProviderReply(write_json(OK))

    def stream(
        self, request: ProviderRequest, limits: CancelToken
    ) -> Generator[StreamEvent, None, None]:
        request.data()
        yield StreamEvent(write_json({"end": OK}))


def measured(routes: HttpRoutes, method: str, path: str, body: bytes) -> tuple[RouteResponse, int]:
    """The reply, and the most memory that was taken at once for it, with the body."""
    headers = {"content-type": "application/json"}
    request = RouteRequest(method, path, headers=headers, body=body, limits=Cancellation())
    tracemalloc.start()
    try:
        reply = routes.answer(request)
        if not isinstance(reply.body, bytes):
            reply = RouteResponse(b"".join(reply.body), headers=reply.headers)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return reply, most + len(body)


def filled(element: str, before: str, after: str, size: int) -> bytes:
    """A list of as many as there is room for."""
    count = (size - len(before) - len(after)) // (len(element) + 1)
    return (before + ",".join([element] * count) + after).encode()


def padded(element: str, values: int, template: str, size: int) -> bytes:
    """A list of as many as are taken, beside one text that fills the body.

    values   of an element
    """
    count = (ValueBudget.SPARE + size // ValueBudget.BYTES - 50) // values
    count = min(count, (size - len(template)) // (len(element) + 1))
    listed = ",".join([element] * count)
    text = "x" * (size - len(listed) - len(template))
    return template.replace("TEXT", text).replace("LIST", listed).encode()


def keys(size: int) -> bytes:
    return ("{" + ",".join(f'"k{number:07}":0' for number in range(size // 13)) + "}").encode()


MANY = r"""{\"a\":[LIST]}""".replace("LIST", ",".join(["{}"] * 500))
CALL = r"""{"id":"a","function":{"name":"f","arguments":"MANY"}}""".replace("MANY", MANY)
ITEM = r"""{"type":"function_call","call_id":"a","name":"f","arguments":"MANY"}"""
HI = '"messages":[{"role":"user","content":"x"}'
LISTS = {
    "objects": ("{}", '{"model":"fake","messages":[', "]}"),
    "pairs": ('{"a":0}', '{"model":"fake","messages":[', "]}"),
    "lists": ("[]", '{"model":"fake","input":[', "]}"),
    "zeros": ("0", '{"model":"fake","input":[', "]}"),
    "strings": ('""', '{"model":"fake","input":[', "]}"),
    "escaped": (r'"\""', '{"model":"fake","input":[', "]}"),
    "numbers": ("0.1", '{"model":"fake","input":[', "]}"),
    "bare": ("{}", "[", "]"),
    "nested": ("[" * 90 + "]" * 90, '{"model":"fake","input":[', "]}"),
    "tools": ('{"type":"function","function":{"name":"f"}}',
              f'{{"model":"fake","max_tokens":9,{HI}],"tools":[', "]}"),
    "calls": (CALL, f'{{"model":"fake",{HI},{{"role":"assistant","tool_calls":[', "]}]}"),
    "call items": (ITEM.replace("MANY", MANY), '{"model":"fake","store":false,"input":[', "]}"),
}  # fmt: skip
AMPLIFIERS: dict[str, Callable[[int], bytes]] = {
    **{name: partial(filled, *each) for name, each in LISTS.items()},
    "keys": keys,
    "depth": lambda size: b'{"messages":' + b"[" * size,
    "digits": lambda size: b'{"model":"fake","top_p":' + b"1" * size + b"}",
}
SMALL = 2**16


def test_every_route_refuses_what_takes_much_memory(host: Host, routes: HttpRoutes) -> None:
    handlers: set[str] = set()
    for route in [*own_routes(), *host.registry.http_routes.values()]:
        if route.method not in ("POST", "PATCH", "PUT") or route.load in handlers:
            continue
        handlers.add(route.load)
        path = route.path.replace("{call}", "fake:generateContent")
        path = re.sub(r"{[a-z_]+}", "x", path)
        size = min(route.max_body_size, SIZE // 4)
        text = IN_CONTENT.replace("TEXT", "x" * (size - 100) + "😀").encode()
        measured(
            routes, route.method, path, IN_CONTENT.encode()
        )  # imports, and creates what is kept
        assert measured(routes, route.method, path, text)[1] <= TIMES * len(text), route.key
        measured(routes, route.method, path, b"{}")
        reply, most = measured(routes, route.method, path, AMPLIFIERS["objects"](size))
        assert 400 <= reply.status < 500, route.key
        assert most <= TIMES * size, route.key
        for name in ("objects", "pairs", "keys", "bare", "nested"):
            _, most = measured(routes, route.method, path, AMPLIFIERS[name](SMALL))
            assert most <= TIMES * SMALL + SPARE, (route.key, name)


@pytest.mark.parametrize("amplifier", AMPLIFIERS)
def test_whatever_it_is_made_of(routes: HttpRoutes, amplifier: str) -> None:
    for path in ("/v1/chat/completions", "/v1beta/models/fake:generateContent", "/v1/responses"):
        body = AMPLIFIERS[amplifier](SIZE)
        reply, most = measured(routes, "POST", path, body)
        assert 400 <= reply.status < 500, path
        assert most <= TIMES * SIZE, path


IN_MESSAGES = (
    '{"model":"fake","max_tokens":9,"stream":false,'
    '"messages":[{"role":"user","content":"TEXT"},LIST]}'
)
IN_PARTS = '{"model":"fake","max_tokens":9,"messages":[{"role":"user","content":[TEXT,LIST]}]}'
USER = '{"role":"user","content":"hi"}'
TEXT = '{"type":"text","text":"a"}'
GEMINI = "/v1beta/models/fake:generateContent"
TAKEN = {
    "completions": ("/v1/chat/completions", USER, 3, IN_MESSAGES),
    "parts of completions": ("/v1/chat/completions", TEXT, 3,
                             IN_PARTS.replace("TEXT", '{"type":"text","text":"TEXT"}')),
    "messages": ("/v1/messages", USER, 3, IN_MESSAGES),
    "ollama": ("/api/chat", USER, 3, IN_MESSAGES),
    "gemini": (GEMINI, '{"role":"user","parts":[{"text":"a"}]}', 5,
               '{"contents":[{"role":"user","parts":[{"text":"TEXT"}]},LIST]}'),
    "parts of gemini": (GEMINI, '{"text":"a"}', 2,
                        '{"contents":[{"role":"user","parts":[{"text":"TEXT"},LIST]}]}'),
    "responses": ("/v1/responses", USER, 3,
                  '{"model":"fake","input":[{"role":"user","content":"TEXT"},LIST]}'),
    "jobs": ("/api/v1/jobs", TEXT, 3,
             '{"feature":"chat","model":"fake","message":[{"type":"text","text":"TEXT"},LIST]}'),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("size", [SMALL, SIZE])
def test_what_is_taken_takes_memory_by_its_size(routes: HttpRoutes, name: str, size: int) -> None:
    path, element, values, template = TAKEN[name]
    measured(routes, "POST", path, template.replace("TEXT", "a").replace("LIST", element).encode())
    body = padded(element, values, template, size)
    reply, most = measured(routes, "POST", path, body)
    assert reply.status in (200, 202)
    assert most <= TIMES * len(body) + (SPARE_TWICE if name in ("responses", "jobs") else SPARE)
    if size == SIZE and name != "responses":
        assert most <= TIMES * len(body)


IN_CONTENT = '{"model":"fake","stream":false,"messages":[{"role":"user","content":"TEXT"}]}'
TEXTS = [name for name in TAKEN if not name.startswith("parts")]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("text", [
    "x" * SIZE,
    "é" * (SIZE // 2),
    "😀" * (SIZE // 4),
    "x" * SIZE + "😀",  # Python holds four bytes for each character of it
    r"\u20ac" * (SIZE // 6),
], ids=["ascii", "latin", "emoji", "one emoji", "escapes"])  # fmt: skip
def test_a_text_takes_memory_by_its_size(routes: HttpRoutes, name: str, text: str) -> None:
    path, _, _, template = TAKEN[name]
    template = template.replace(",LIST", "")
    small, large = (template.replace("TEXT", each).encode() for each in ("a", text))
    measured(routes, "POST", path, small)  # what is made when it is first used
    reply, most = measured(routes, "POST", path, large)
    assert reply.status in (200, 202)
    times = 2 * TIMES if reply.status == 202 else TIMES  # the job may begin before the reply
    assert most <= times * len(large)


@pytest.mark.slow
def test_a_body_of_16_mb_takes_memory_by_its_size(routes: HttpRoutes) -> None:
    for name in ("completions", "gemini"):
        path, element, values, template = TAKEN[name]
        for body, status in [
            (padded(element, values, template, 16 * SIZE), 200),
            (AMPLIFIERS["objects"](16 * SIZE), 400),
        ]:
            reply, most = measured(routes, "POST", path, body)
            assert reply.status == status
            assert most <= TIMES * len(body)


def test_commas_and_brackets_in_texts_are_no_values(routes: HttpRoutes) -> None:
    text = json.dumps('[{,\\"' * 100_000)
    body = b'{"model":"fake","messages":[{"role":"user","content":%b}]}' % text.encode()
    assert measured(routes, "POST", "/v1/chat/completions", body)[0].status == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_schema_has_a_size(routes: HttpRoutes, path: str) -> None:
    schema = {"type": "object", "anyOf": [True] * 6000}
    tool = {"type": "function", "name": "f", "parameters": schema}
    body: dict[str, Any] = {"model": "fake", "input": "x", "tools": [tool]}
    if path == "/v1/chat/completions":
        messages = [{"role": "user", "content": "x"}]
        tools = [{"type": "function", "function": tool}]
        body = {"model": "fake", "messages": messages, "tools": tools}
    reply, _ = measured(routes, "POST", path, json.dumps(body).encode())
    assert reply.status == 400
    assert b"more than 5000 values" in reply.body
