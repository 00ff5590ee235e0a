"""Official SDKs as oracles: an SDK and we say the same to a service that writes down what it is
sent. Method, path, query, headers and body agree, but for what is listed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import filter as fnfilter, fnmatch
from typing import Any, ClassVar, NamedTuple

import pytest
from attrs import field, frozen
from peers.conversations import LOOK, user

from genai_host import Config, Host
from genai_host.api import (
    Answer,
    Cancellation,
    Feature,
    FeatureSteps,
    Message,
    NoSettings,
    Operation,
    Prompt,
    Step,
    ToolResult,
    Turn,
)
from genai_host.config import InstanceConfig
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import FakeService, Received, Reply
from genai_host_testing.internal.fixtures import MakeHost

Tell = Callable[[Turn[NoSettings]], FeatureSteps]


class Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


class Difference(NamedTuple):
    """A field of a body, what it is here, and what it is with the SDK."""

    field: str
    ours: Any
    theirs: Any


HEADERS: Mapping[str, str] = {
    "accept": "a service answers in JSON, or in events if asked to by `stream`",
    "accept-encoding": "streamed replies are not to be held back by compression",
    "connection": "a connection is kept unless a side says otherwise",
    "content-length": "follows the body",
    "user-agent": "each says its own name",
    "x-stainless-*": "the SDK tells of its platform, its retries and its time-out",
}
"""The headers that may differ, and why."""


@frozen
class Place:
    """A service, and how both sides are set up for it.

    environment   variables; `{url}` stands for the recording service
    client        makes the SDK's client for that address
    may           headers that may differ beside the usual ones, and why
    """

    environment: Mapping[str, str]
    client: Callable[[str], Any]
    may: Mapping[str, str] = field(factory=dict)


@frozen
class Case:
    """What both sides do.

    model        its name here; for a list of models, the name of the provider
    tell         the step of a feature, or all of its steps; None for a list of models
    by_sdk       does the same with a client; what it gives is read to its end
    replies      what the service answers, one for each request
    operation    what the model is for
    parameters   of the conversation
    fields       differences of the bodies that may be in this case alone, and why
    """

    place: Place
    model: str
    tell: Step[Any] | Tell | None
    by_sdk: Callable[[Any], Any]
    replies: Sequence[Reply]
    streamed: bool = False
    operation: Operation = "chat"
    parameters: Mapping[str, Any] = field(factory=dict)
    fields: Mapping[Difference, str] = field(factory=dict)


def both_ways(name: str, make_case: Callable[[bool], Case]) -> dict[str, Case]:
    """A case whole and streamed."""
    return {f"{name}, whole": make_case(False), f"{name}, streamed": make_case(True)}


def using_tools(*errors: bool, apart: bool = False) -> Tell:
    """A feature whose tools are called, and what they gave is sent back.

    errors   which of the results are failures, which say `no`
    apart    whether each result is a message
    """

    def tell(turn: Turn[NoSettings]) -> FeatureSteps:
        messages = [user("hi")]
        completion = yield from Prompt(messages, tools=[LOOK])
        results = [
            ToolResult(call.id, "", "no", error=True)  # it is known which tool that was
            if error
            else ToolResult(call.id, call.name, "fine")
            for call, error in zip(completion.tool_calls, errors, strict=True)
        ]
        contents = [[each] for each in results] if apart else [results]
        again = [*messages, completion.message, *(Message("tool", each) for each in contents)]
        yield from Prompt(again, tools=[LOOK])
        return Answer("")

    return tell


class Clients:
    """The SDK's clients for one service, each made once, as that takes long."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: dict[Any, Any] = {}

    def of(self, place: Place) -> Any:
        """To be called while the environment is set up."""
        key = (place.client, *place.environment.items())
        if key not in self._made:
            self._made[key] = place.client(self._url)
        return self._made[key]

    def close(self) -> None:
        for client in self._made.values():
            getattr(client, "close", client.__class__)()


@frozen
class Sides:
    """Lets both sides speak to one service, and gives what it was sent."""

    _oracle: Oracle
    _service: FakeService
    _clients: Clients
    _make_host: MakeHost
    _monkeypatch: pytest.MonkeyPatch

    def set_up(self, place: Place) -> Any:
        """The SDK's client there."""
        for name in self._oracle.variables | {"ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}:
            self._monkeypatch.delenv(name, raising=False)
            self._monkeypatch.delenv(name.lower(), raising=False)
        for name, value in place.environment.items():
            self._monkeypatch.setenv(name, value.format(url=self._service.url))
        return self._clients.of(place)

    def host(self, tell: Step[Any] | Tell, operation: Operation = "chat") -> Host:
        """A host whose feature `tell` tells this story, with a model for this operation."""
        respond = tell if callable(tell) else telling(tell)
        feature = Feature("tell", NoSettings, respond, roles={"main": operation})
        return self._make_host(
            config=Config(providers=dict(self._oracle.instances(self._service.url))),
            tell=InlinePlugin(features=[feature]),
            **self._oracle.plugins,
        )

    def sent(self, replies: Sequence[Reply], speak: Callable[[], object]) -> list[Received]:
        """The requests that come while one side speaks."""
        self._service.requests.clear()
        self._service.replies[:] = replies
        speak()
        return list(self._service.requests)

    def both(self, case: Case) -> list[tuple[Received, Received]]:
        """Our requests, each with that of the SDK."""
        client = self.set_up(case.place)
        host = self.host(case.tell or Prompt([]), case.operation)

        def speak() -> object:
            if case.tell is None:
                return list(host.instances[case.model].provider.list_models(Cancellation()))
            conversation = host.open("tell", case.model, parameters=case.parameters)
            return list(conversation.stream("go")) if case.streamed else conversation.say("go")

        ours = self.sent(case.replies, speak)
        theirs = self.sent(case.replies, lambda: list(case.by_sdk(client) or ()))
        assert len(ours) == len(theirs) == len(case.replies)
        return [self._oracle.spelled(*both) for both in zip(ours, theirs, strict=True)]


def telling(step: Step[Any]) -> Tell:
    """A feature that takes this one step."""

    def tell(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from step
        return Answer("")

    return tell


class Oracle:
    """What all SDKs are asked: a subclass says how one of them is called.

    variables   the environment variables that either side heeds, beside those of proxies
    plugins     those that our side takes
    cases       by name
    fields      all that may differ in a body, and why; the order of keys and the spelling of JSON
                say nothing in any case
    alike       headers that may differ elsewhere, and need not here
    """

    variables: ClassVar[set[str]]
    plugins: ClassVar[Mapping[str, Any]]
    cases: ClassVar[Mapping[str, Case]]
    fields: ClassVar[Mapping[Difference, str]] = {}
    alike: ClassVar[set[str]] = set()
    noted: ClassVar[dict[str, tuple[set[Difference], set[str]]]]

    def __init_subclass__(cls) -> None:
        cls.noted = {}

    def instances(self, url: str) -> Mapping[str, InstanceConfig]:
        """Named instances beside those that the environment sets up."""
        return {}

    def spelled(self, ours: Received, theirs: Received) -> tuple[Received, Received]:
        """Both in one spelling, where several mean the same."""
        return ours, theirs

    @pytest.fixture
    def sides(
        self, service: FakeService, clients: Clients, make_host: MakeHost,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Sides:  # fmt: skip
        return Sides(self, service, clients, make_host, monkeypatch)

    def test_both_send_the_same(self, sides: Sides, name: str) -> None:
        differences, _ = self.compared(sides, name)
        more = differences - self.fields.keys() - self.cases[name].fields.keys()
        assert not more, more

    def test_nothing_is_listed_in_vain(self, sides: Sides) -> None:
        noted = [self.compared(sides, name) for name in self.cases]
        listed = {*self.fields}.union(*(case.fields for case in self.cases.values()))
        vain = listed - set().union(*(fields for fields, _ in noted))
        assert not vain, vain
        may = set(HEADERS).union(*(case.place.may for case in self.cases.values()))
        differ = set().union(*(headers for _, headers in noted))
        alike = {each for each in may if not fnfilter(differ, each)} - self.alike
        assert not alike, alike

    def compared(self, sides: Sides, name: str) -> tuple[set[Difference], set[str]]:
        """What differs in the bodies and among the headers, which are otherwise equal."""
        if name not in self.noted:
            case = self.cases[name]
            may = {*HEADERS, *case.place.may, *(["content-type"] if case.tell is None else ())}
            fields: set[Difference] = set()
            headers: set[str] = set()
            for ours, theirs in sides.both(case):
                fields |= differing(ours, theirs, may)
                headers.update(each for each, _ in ours.headers.items() ^ theirs.headers.items())
            self.noted[name] = fields, headers
        return self.noted[name]


def differing(ours: Received, theirs: Received, may: Iterable[str]) -> set[Difference]:
    """What differs between two bodies, field by field; all else is equal but the headers that
    may differ."""
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert _headers(ours, may) == _headers(theirs, may)
    here, there = dict(_leaves(_read(ours))), dict(_leaves(_read(theirs)))
    return {
        Difference(re.sub(r"\[\d+\]", "[]", place), *both)
        for place in here.keys() | there.keys()
        if (both := (here.get(place, ABSENT), there.get(place, ABSENT)))[0] != both[1]
    }


def _headers(request: Received, but: Iterable[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in request.headers.items()
        if not any(fnmatch(name, pattern) for pattern in but)
    }


def _read(request: Received) -> Any:
    return json.loads(request.body, object_pairs_hook=_once) if request.body else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """No key may stand there twice."""
    assert len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{index}]")
    else:
        yield place, repr(value) if isinstance(value, (dict, list)) else value
