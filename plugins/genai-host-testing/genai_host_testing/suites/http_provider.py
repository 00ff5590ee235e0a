"""Suite for HTTP providers: handling of every fault of a service."""

from __future__ import annotations

import io
import logging
import pickle
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genai_host.api.cancellation import Cancellation
from genai_host.errors import Cancelled, GenaiError, ServiceUnavailable
from genai_host.host import Host
from genai_host_testing.fake_service import CUT, HANG, RESET, Act, Reply
from genai_host_testing.suites.base import in_background, recommended
from genai_host_testing.suites.http_replies import HttpReplies
from genai_host_testing.suites.http_stage import CANARY
from genai_host_testing.suites.http_streams import HttpStreams
from genai_host_testing.suites.provider import both_ways

_HEAD = b"HTTP/1.1 200 OK\r\n"
_PLACES: dict[str, list[bytes | Act]] = {
    "awaiting headers": [HANG],
    "in headers": [_HEAD + b"Content-Le", HANG],
    "in the body": [_HEAD + b"Content-Length: 100\r\n\r\nhalf", HANG],
    "in a chunk": [_HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nhalf", HANG],
    "until closed": [b"HTTP/1.0 200 OK\r\n\r\nhalf", HANG],
}


class HttpProviderSuite(HttpReplies, HttpStreams):
    """Suite for an HTTP provider, with a fake service on this machine and all faults that a service
    can have, whole and streamed.

        class TestAcme(OpenAIChatReplies, HttpProviderSuite):
            plugin = genai_vendor_acme
            provider = "acme"
            settings = {"base_url": "{url}/v1"}
            keys = ["ACME_API_KEY"]

    `OpenAIChatReplies` has valid replies in the dialect `openai-chat`, `AnthropicMessagesReplies`
    in `anthropic-messages`. For another dialect, define the attributes from `dialect` to
    `late_error`.

    Attributes:
        provider: Name of the provider type.
        settings: Settings of the instance; `{url}` is replaced by the address of the service.
        keys: Environment variables of its keys.
        environment: Further required environment variables.
        carries_key: Method: whether a request shows that the key was used, if no header has the
            unchanged key.
        dialect: A chat dialect that the provider serves.
        model_id: Id of a model.
        body: Method: body of a whole reply with a text.
        events: Method: data of the events of a streamed reply, one event per chunk of text; the
            last one is the end marker of the format.
        closing_events: Number of events after the end of the answer; more than the end marker if
            the service may omit them.
        stream_type: Content type of a streamed reply.
        frame: Method: an event as bytes, if the format is not server-sent events.
        malformed: A malformed event.
        overflow: Body of a reply with status 400 for a prompt that is too long.
        filtered: Body of a reply that was ended by a content filter.
        late_error: An event that reports an error.
    """

    @recommended
    def test_its_models_are_listed(self) -> None:
        """A service without a list returns a typed error."""
        provider = self.stage().instances["tested"].provider
        for bad in (self.refusal(401), self.refusal(500), self.reply(b"<html>"), self.reply(b"[]")):
            self.service.replies = [bad]
            try:
                found = list(provider.list_models(Cancellation()))
            except GenaiError as error:
                assert CANARY not in repr(error)
            else:
                assert found == []

    def test_a_probe_tells_a_service_that_is_not_there(self) -> None:
        """Any reply is at most a typed error, without the key; no reply is `ServiceUnavailable`."""
        provider = self.stage().instances["tested"].provider
        for bad in (self.refusal(401), self.refusal(500), self.reply(b"<html>"), self.reply(b"[]")):
            self.service.replies = [bad]
            try:
                provider.probe(Cancellation())
            except GenaiError as error:
                assert CANARY not in repr(error)
        self.service.stop()
        with pytest.raises(ServiceUnavailable):
            provider.probe(Cancellation())

    # cancellation and closing

    @both_ways
    @pytest.mark.parametrize("place", _PLACES)
    def test_a_cancel_closes_the_connection(self, way: str, place: str) -> None:
        conversation = self.open(self.stage(), way)
        self.service.replies = [Reply(_PLACES[place])]
        answering = in_background(self.take, conversation, way)
        self.service.wait_for_requests(1)
        conversation.cancel()
        assert isinstance(self.ended(answering), Cancelled)
        self.service.wait_until_closed()

    @pytest.mark.parametrize("half", [False, True], ids=["between events", "in an event"])
    def test_a_cancel_closes_the_connection_of_a_stream(self, half: bool) -> None:
        host = self.stage()
        first = self.begins(["hel", "lo"])
        frames = self.frames(["hel", "lo"])
        begun = [*frames[:first], *([frames[first][:-3]] if half else [])]
        self.service.replies = [self.streamed([*begun, HANG])]
        conversation = self.open(host, "streamed")
        began = threading.Event()
        listening = in_background(self.take, conversation, "streamed", "hi", lambda _: began.set())
        assert began.wait(self.patience)
        conversation.cancel()
        assert isinstance(self.ended(listening), Cancelled)
        self.service.wait_until_closed()

    def test_leaving_a_stream_closes_its_connection(self) -> None:
        host = self.stage()
        self.will_stall("streamed")
        events = self.open(host, "streamed").stream("hi")
        while not next(events).text:
            pass
        events.close()
        self.service.wait_until_closed()

    @both_ways
    def test_faults_leave_nothing_behind(self, way: str) -> None:
        """Connections and threads end when the host is closed."""
        before = _own_threads()
        host = self.stage(breaker_threshold=1000)
        for reply in (*_bad(self), self.good(way)):
            self.service.replies = [reply]
            self.ask(host, way)
        host.close()
        self.service.wait_until_closed()
        assert _own_threads() <= before

    # secrets

    @both_ways
    @pytest.mark.parametrize("number", range(9))
    def test_the_key_is_nowhere(
        self,
        way: str,
        number: int,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """The key is in no output, log, traceback, repr, pickle, record or file."""
        caplog.set_level(logging.DEBUG)
        self.service.replies = [_bad(self)[number]]
        host = self.stage()
        conversation = self.open(host, way)
        with pytest.raises(GenaiError) as caught:
            self.take(conversation, way)
        assert self.service.requests
        shown = [
            *_shown_of(caught.value),
            *_shown_of_instance(host),
            caplog.text,
            "".join(capfd.readouterr()),
            repr(conversation.record.to_json(host.codec)),  # type: ignore[union-attr]  # a Record
            *(file.read_text(errors="replace") for file in _files(tmp_path)),
        ]
        for text in shown:
            assert CANARY not in text


def _own_threads() -> set[str]:
    """Threads that do not belong to the service."""
    return {each.name for each in threading.enumerate() if each.name != "fake-service"}


_TELLING = b'{"type":"error","error":{"message":"the key %b is wrong"}}' % CANARY.encode()


def _bad(suite: HttpProviderSuite) -> list[Reply]:
    """Faulty replies of each kind."""
    first = suite.begun()
    return [
        suite.refusal(401, f"the key {CANARY} is wrong"),
        suite.refusal(500),
        Reply([RESET]),
        suite.reply(b"<html>", Content_Type="text/html"),
        suite.reply(b"{"),
        suite.streamed([*first, CUT]),
        suite.streamed([*first, suite.frame(suite.malformed)]),
        suite.streamed([*first, suite.frame(_TELLING)]),
        suite.refusal(302, Location="http://elsewhere.invalid/"),
    ]


def _shown_of(error: GenaiError) -> Iterator[str]:
    output = io.StringIO()
    traceback.print_exception(error, file=output)
    yield output.getvalue()
    chain: BaseException | None = error
    while chain is not None:
        yield repr(chain)
        yield repr(vars(chain))
        chain = chain.__cause__ or chain.__context__
    yield from _pickled(error)


def _shown_of_instance(host: Host) -> Iterator[str]:
    instance = host.instances["tested"]
    provider: Any = instance.provider
    yield repr(provider)
    yield repr(getattr(provider, "services", None))
    yield repr(getattr(provider, "settings", None))
    yield repr(instance.config)
    yield from _pickled(provider)
    yield from _pickled(instance.config)


def _pickled(value: object) -> Iterator[str]:
    """Content of the pickled value; empty if it cannot be pickled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from the parts of the value
            text = repr(pickle.dumps(value))
        yield text
    except (TypeError, AttributeError, pickle.PicklingError):
        return


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
