"""Suite of API formats that are read and written on both sides: by a dialect, for services, and by
HTTP routes, for clients.

It tests four properties with a host between a client and a service of the same format:

- What the dialect writes of a call is read as that call.
- A field that the format does not know survives where it was, or is named as dropped.
- A stream that arrives in other pieces gives the same answer.
- The usage of a reply that passes through is that of a reply that is read.

The routes read requests with `JsonReader`: after `carry`, its `extra_fields` returns the fields
that were not read, for `extra` of the part, message or tool. The dialect writes them with
`with_extra`, and reads those of replies with `unknown_fields`, for `extra` of the answer and its
chunks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve

from genai_host import Host
from genai_host.api import (
    ChatCall,
    Completion,
    Dialect,
    DialectEndpoint,
    Message,
    ProviderRequest,
    StreamEvent,
    ToolCall,
    ToolResult,
    Usage,
)
from genai_host.api.codec import default_codec
from genai_host.api.stream_parsers import FRAMINGS
from genai_host.config import Config, ServerConfig
from genai_host.serving import HttpRoutes
from genai_host.serving.router import DROPPED
from genai_host_testing.suites.base import PluginSuite
from genai_host_testing.suites.wire_service import MODEL, Json, WireClient, WireService

Path = tuple[str | int, ...]

UNKNOWN = "x_unknown"
VALUE = {"a": 1}
_ANSWER = Completion(Message("assistant", '{"city": "Oslo"}'))
_SSE = "text/event-stream"


class WireSuite(PluginSuite):
    """Suite for an API format with a chat dialect and HTTP routes.

        class TestMyFormat(WireSuite):
            plugin = my_plugin
            dialect = MyDialect()
            path = "/v1/my-chat"
            request = {"model": "tested", "messages": [{"role": "user", "content": "hi"}]}
            reply = {"said": "hello there", "tokens": [3, 2]}
            stream = [{"piece": "hello there"}, {"tokens": [3, 2]}]

    Attributes:
        dialect: The dialect.
        path: Path of the route for chat. The model is named `tested`, in the path or the request.
        stream_path: Path for streams, if it is another one.
        streaming: Fields of a request for a stream.
        request: Fields of a request, with all kinds of content. If there is a schema of the answer,
            `{"city": "Oslo"}` is valid.
        reply: A reply of the service, with all kinds of content.
        stream: Data of the events of a stream: JSON values, or strings for other data.
        stream_type: Media type of streams.
        named: Places of the request where further fields do not reach a service of the format, but
            are refused or named as dropped, each with the reason.
        named_if_whole: Further ones, of requests that are not for a stream.
        lost: Places of a reply where further fields are lost, for example `choices.message`, each
            with the reason.
        lost_in_streams: The same for the events of a stream; if these have a type, it precedes:
            `message_start: message`.
        service_tools: Tools that the service runs or describes itself, as in `tools` of a request.
        tool_name: Name of a tool that clients may give, but services may refuse.
        options: Further fields of the request, with unknown fields in their objects, that a service
            of the format receives as they are.
        settings: Further fields of the request that set parameters of models.
        lesser: How a service serves the format that receives no unknown fields; None if there is
            none.
        neutral: Places of the request in fields that mean nothing to services of other formats, so
            that they are left out without being named.
        data: Places of the request with objects of the user, such as the arguments of a tool. The
            dialect may write them in another form.
        new: Names of fields that differ for each reply, such as ids.
    """

    dialect: Dialect[ChatCall, Completion]
    path: str
    stream_path: str = ""
    streaming: Mapping[str, Any] = {"stream": True}
    request: Mapping[str, Any]
    reply: Mapping[str, Any]
    stream: Sequence[Json]
    stream_type: str = _SSE
    named: Mapping[str, str] = {}
    named_if_whole: Mapping[str, str] = {}
    lost: Mapping[str, str] = {}
    lost_in_streams: Mapping[str, str] = {}
    service_tools: Sequence[Json] = ()
    tool_name: str = f"1.{'x' * 200}:y"
    options: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    lesser: DialectEndpoint | None = None
    neutral: Collection[str] = ()
    data: Collection[str] = ()
    new: Collection[str] = ("completed_at", "created", "created_at", "id")

    def call(self) -> ChatCall:
        """A call with all content that both sides can express; that of the request by default."""
        return self.read(self.request)

    @pytest.fixture(autouse=True)
    def _calls_are_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[ChatCall] = []
        kind = type(self.dialect)
        prepare = kind.prepare_request

        def seen(dialect: Any, call: ChatCall) -> ProviderRequest:
            self.calls.append(call)
            return prepare(dialect, call)

        monkeypatch.setattr(kind, "prepare_request", seen)

    @contextmanager
    def serving(
        self,
        *,
        passing: bool = False,
        another: bool = False,
        parameters: Mapping[str, Any] = MappingProxyType({}),
        endpoint: DialectEndpoint | None = None,
        failing: bool = False,
        strict: bool = False,
    ) -> Iterator[tuple[WireService, WireClient]]:
        """A service, and a client of a host before it.

        Args:
            passing: Whether requests pass through.
            another: Whether the service has another format.
            parameters: Further parameters of the service.
            endpoint: How it serves the format, in place of `parameters`.
            failing: Whether a service of the format fails before.
            strict: Whether requests are refused if fields would be dropped.
        """
        own = self.dialect.name
        endpoint = endpoint or DialectEndpoint(parameters=parameters)
        service = WireService("plain" if another else own, endpoint, own if failing else "")
        service.reply = default_codec().to_json(_ANSWER) if another else self.reply
        service.events = [_event(each) for each in self.stream]
        server = ServerConfig(pass_through=passing, record_api_calls=False, strict=strict)
        config = Config(provider_order=("failing", "service"), server=server)
        host = Host(config=config, discovery=self.plugins(service=service))
        routes = HttpRoutes(host)
        try:
            yield service, WireClient(routes)
        finally:
            routes.close()
            host.close()

    def read(self, request: Mapping[str, Any]) -> ChatCall:
        with self.serving() as (_, client):
            client.post(self.path, request)
        return self.calls[-1]

    # requests

    def test_written_request_is_read_unchanged(self) -> None:
        call = self.call()
        written = self.fields_of(call)
        again = self.read(written)
        assert list(again.messages) == list(call.messages)
        assert list(again.tools) == list(call.tools)
        assert again.tool_choice == call.tool_choice
        assert again.schema == call.schema
        assert self.fields_of(again) == written

    def fields_of(self, call: ChatCall) -> Json:
        named = evolve(call, model_id=MODEL, stream=False)
        return json.loads(self.dialect.prepare_request(named).data())

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_an_unknown_field_in_a_request_survives_or_is_named(self, stream: bool) -> None:
        path, request = self._for_stream() if stream else (self.path, self.request)
        expected = {**self.named, **({} if stream else self.named_if_whole)}
        named = self._named(path, request)
        differing = sorted(named ^ expected.keys())
        assert named == expected.keys(), f"named, but not sent: {', '.join(differing)}"

    def _named(self, path: str, fields: Mapping[str, Any]) -> set[str]:
        """The places of a request where a further field is refused or named as dropped; checks that
        it reaches the service otherwise."""
        lost, named = set(), set()
        with self.serving() as (service, client):
            client.post(path, fields)
            usual = service.bodies[-1]
            for place, request in with_unknown(fields):
                status, headers, text = client.send(path, request)
                where = shown(place)
                if status >= 400:
                    assert UNKNOWN in text.decode(), f"{where}: {text.decode()}"
                    named.add(where)
                elif UNKNOWN in headers.get(DROPPED, ""):
                    named.add(where)
                else:
                    body = service.bodies[-1]
                    if where in self.data:
                        assert UNKNOWN in json.dumps(body), where
                        continue
                    if UNKNOWN not in _at(body, place, {}):
                        lost.add(where)
                    assert without_unknown(body) == without_unknown(usual), where
        assert not lost, f"lost in requests: {', '.join(sorted(lost))}"
        return named

    def test_an_unknown_field_is_named_for_a_service_of_another_format(self) -> None:
        unnamed = set()
        with self.serving(another=True) as (service, client):
            for place, request in with_unknown(self.request):
                status, headers, text = client.send(self.path, request)
                if status >= 400:
                    assert UNKNOWN in text.decode(), f"{shown(place)}: {text.decode()}"
                elif UNKNOWN not in headers.get(DROPPED, "") + json.dumps(service.bodies[-1]):
                    unnamed.add(shown(place))
        differing = unnamed.symmetric_difference(self.neutral)
        assert not differing, f"not named: {', '.join(sorted(differing))}"

    def test_an_unknown_field_is_named_after_a_failover_to_another_format(self) -> None:
        """As if the second service were the first. A strict server sends it nothing."""
        tools = [*self.request.get("tools", ()), *self.service_tools]
        whole = {**self.request, **({"tools": tools} if tools else {})}
        serving = partial(self.serving, another=True, parameters=self.dialect.parameters)
        with (
            serving() as (_, first),
            serving(failing=True) as (service, second),
            serving(failing=True, strict=True) as (spared, strict),
        ):
            for place, request in with_unknown(whole):
                dropped = first.dropped(self.path, request)
                assert second.dropped(self.path, request) == dropped, shown(place)
                assert not service.bodies or UNKNOWN not in service.bodies[-1], shown(place)
                assert strict.dropped(self.path, request) == (None if dropped else dropped)
                assert bool(spared.bodies) == (dropped == set()), shown(place)
                spared.bodies.clear()

    def test_an_unknown_field_is_named_after_a_failover_to_a_lesser_service(self) -> None:
        """As if the second service were the first."""
        if self.lesser is None:
            pytest.skip("all services of the format receive unknown fields: `lesser`")
        tools = [*self.request.get("tools", ()), *self.service_tools]
        whole = {**self.request, **({"tools": tools} if tools else {})}
        serving = partial(self.serving, endpoint=self.lesser)
        named: set[str] = set()
        with serving() as (_, first), serving(failing=True) as (service, second):
            for place, request in with_unknown(whole):
                dropped = first.dropped(self.path, request)
                assert second.dropped(self.path, request) == dropped, shown(place)
                named |= dropped or set()
                assert not dropped or UNKNOWN not in json.dumps(service.bodies[-1]), shown(place)
        assert any(UNKNOWN in each for each in named)

    def test_a_parameter_that_a_model_lacks_is_named_after_a_failover(self) -> None:
        """As if that model were the first; also if it is refused there."""
        if not self.settings:
            pytest.skip("no settings are given: `settings`")
        request = {**self.request, **self.settings}
        lacking = {}
        for name in self.dialect.parameters:
            parameters = {**self.dialect.parameters, name: False}
            serving = partial(self.serving, another=True, parameters=parameters)
            with (
                serving() as (_, first),
                serving(failing=True) as (_, second),
                serving(failing=True, strict=True) as (_, strict),
            ):
                lacking[name] = dropped = first.dropped(self.path, request)
                assert second.dropped(self.path, request) == dropped, name
                assert strict.dropped(self.path, request) == (None if dropped else dropped), name
        assert {*map(str, lacking.values())} != {"None"}, "nothing but refused: see `settings`"

    def test_unknown_options_are_sent_to_the_service(self) -> None:
        if not self.options:
            pytest.skip("no options are given: `options`")
        with self.serving() as (service, client):
            usual = client.dropped(self.path, self.request)
            assert client.dropped(self.path, {**self.request, **self.options}) == usual
            sent = service.bodies[-1]
        assert {name: sent[name] for name in self.options} == self.options

    def test_a_tool_of_the_service_is_sent_to_it_alone(self) -> None:
        if not self.service_tools:
            pytest.skip("the format has no tools of the service: `service_tools`")
        for tool in self.service_tools:
            request = {**self.request, "tools": [*self.request["tools"], tool]}
            with self.serving() as (service, client):
                client.post(self.path, request)
                sent = service.bodies[-1]["tools"]
                assert any(tool.items() <= each.items() for each in sent)
            with self.serving(another=True) as (service, client):
                status, headers, text = client.send(self.path, request)
                place = f"tools[{len(request['tools']) - 1}]"
                assert place in (text.decode() if status >= 400 else headers[DROPPED])

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_names_of_tools_fit_the_service(self, stream: bool) -> None:
        """Clients of other formats may have others, and get them back."""
        if not self.call().tools:
            pytest.skip("the format has no tools")
        usual, accepted = self.call().tools[0].name, self.dialect.tool_names
        path, request = self._for_stream() if stream else (self.path, self.request)
        with self.serving() as (service, client):
            client.post(path, _renamed(request, usual, self.tool_name))
            call = self.calls[-1]
            short = call.tools[0].name
            parts = [part for message in call.messages for part in message.content]
            named = [each.name for each in parts if isinstance(each, (ToolCall, ToolResult))]
            assert {*named} - {""} == {short}, "give a request with a call of its tool"
            assert accepted.fullmatch(short) if accepted else short == self.tool_name
            service.reply = _renamed(self.reply, usual, short)
            service.events = [_event(_renamed(each, usual, short)) for each in self.stream]
            answer = client.post(path, _renamed(request, usual, self.tool_name)).decode()
        assert json.dumps(self.tool_name) in answer, "give replies with a call of the tool"
        assert short == self.tool_name or short not in answer

    # replies

    def test_an_unknown_field_in_a_reply_survives(self) -> None:
        lost = set()
        with self.serving() as (service, client):
            usual = self._stable(json.loads(client.post(self.path, self.request)))
            for place, service.reply in with_unknown(self.reply):
                answer = self._stable(json.loads(client.post(self.path, self.request)))
                if UNKNOWN not in json.dumps(answer):
                    lost.add(shown(place))
                else:
                    assert UNKNOWN in _at(answer, place, {}), f"not at {shown(place)}"
                assert without_unknown(answer) == without_unknown(usual), shown(place)
        assert lost == self.lost.keys(), f"lost: {', '.join(sorted(lost ^ self.lost.keys()))}"

    def test_an_unknown_field_in_a_stream_survives(self) -> None:
        lost = set()
        with self.serving() as (service, client):
            whole = list(self.stream)
            for at, each in enumerate(whole):
                for place, event in with_unknown(each) if isinstance(each, dict) else ():
                    service.events = [_event(e) for e in [*whole[:at], event, *whole[at + 1 :]]]
                    answer = client.post(*self._for_stream())
                    if UNKNOWN not in answer.decode():
                        lost.add(_in_stream(each, place))
        differing = sorted(lost ^ self.lost_in_streams.keys())
        assert lost == self.lost_in_streams.keys(), f"lost: {', '.join(differing)}"

    def _stable(self, value: Json) -> Json:
        """A reply without what differs each time."""
        if isinstance(value, dict):
            return {
                name: self._stable(each) for name, each in value.items() if name not in self.new
            }
        return [self._stable(each) for each in value] if isinstance(value, list) else value

    # streams

    def test_a_stream_in_other_pieces_gives_the_same(self) -> None:
        """In two pieces, cut at any byte, and in pieces of few bytes."""
        call = evolve(self.call(), stream=True)
        text = b"".join(_framed(_event(each), self.stream_type) for each in self.stream)
        cuts = [[text[:at], text[at:]] for at in range(len(text))]
        cuts += [[text[at : at + n] for at in range(0, len(text), n)] for n in (1, 2, 3, 7)]
        expected = self._decoded(call, [text])
        assert expected[1].usage != Usage(), "give a stream with its usage"
        for pieces in cuts:
            assert self._decoded(call, pieces) == expected, pieces[0][-40:]

    def _decoded(self, call: ChatCall, pieces: Sequence[bytes]) -> tuple[Json, Completion]:
        decoder = self.dialect.decoder(call)
        assert decoder is not None
        parse = FRAMINGS[self.stream_type]
        deltas = [delta for event in parse(iter(pieces)) for delta in decoder.feed(event)]
        return deltas, decoder.finish()

    # usage

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_passed_through_reply_reports_the_same_usage(self, stream: bool) -> None:
        found = []
        for passing in (True, False):
            with self.serving(passing=passing) as (service, client):
                path, request = self._for_stream() if stream else (self.path, self.request)
                client.post(path, request)
                found.append(service.usage)
        assert found[0] == found[1] != [Usage()], "give replies with their usage"

    def _for_stream(self) -> tuple[str, Mapping[str, Any]]:
        return self.stream_path or self.path, {**self.request, **self.streaming}


def _renamed(value: Json, name: str, new: str) -> Json:
    """A JSON value with another name of a tool."""
    return json.loads(json.dumps(value).replace(json.dumps(name), json.dumps(new)))


def with_unknown(value: Json) -> Iterator[tuple[Path, Json]]:
    """Copies of a JSON value, each with a further field in another one of its objects, and the
    place of that object."""
    for place in _objects(value):
        copy = json.loads(json.dumps(value))
        _at(copy, place)[UNKNOWN] = VALUE
        yield place, copy


def without_unknown(value: Json) -> Json:
    """A JSON value without the further field. A list with a text is a text: some formats have both
    forms."""
    if isinstance(value, dict):
        return {name: without_unknown(each) for name, each in value.items() if name != UNKNOWN}
    if not isinstance(value, list):
        return value
    items = [without_unknown(each) for each in value]
    is_text = len(items) == 1 and isinstance(items[0], dict) and items[0].keys() == {"type", "text"}
    return items[0]["text"] if is_text else items


def _objects(value: Json, place: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        yield place
        pairs: Iterable[tuple[str | int, Json]] = value.items()
    else:
        pairs = enumerate(value) if isinstance(value, list) else ()
    for name, each in pairs:
        yield from _objects(each, (*place, name))


def _at(value: Json, place: Path, usual: Json = None) -> Json:
    for name in place:
        try:
            value = value[name]
        except (KeyError, IndexError, TypeError):
            return usual
    return value


def shown(place: Path) -> str:
    """A place without the numbers of items: `messages.content`."""
    return ".".join(name for name in place if isinstance(name, str)) or "$"


def _in_stream(event: Json, place: Path) -> str:
    kind = event.get("type")
    return f"{kind}: {shown(place)}" if isinstance(kind, str) else shown(place)


def _event(value: Json) -> StreamEvent:
    return StreamEvent((value if isinstance(value, str) else json.dumps(value)).encode())


def _framed(event: StreamEvent, kind: str) -> bytes:
    return b"data: %b\n\n" % event.data if kind == _SSE else event.data + b"\n"
