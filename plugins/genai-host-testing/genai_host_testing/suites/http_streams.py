"""Tests with streams that are truncated, stalled, slow, oddly chunked or malformed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from concurrent import futures
from typing import Any

import pytest

from genai_host.api import CancelToken, HttpRequest, ProviderReply, StreamParser
from genai_host.api.stream_parsers import FRAMINGS
from genai_host.config import InstanceConfig
from genai_host.errors import (
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ProviderError,
    ProviderTimeout,
)
from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_model import EventList
from genai_host_testing.fake_service import CUT, HANG, HOLD, RESET, Act, reply, stream_reply
from genai_host_testing.suites.base import ONE_PER_ROUTE, in_background
from genai_host_testing.suites.http_stage import ANSWER, HttpStage

_TOKENS = [f"w{number:02} " for number in range(60)]
_FEW = _TOKENS[:3]  # first, middle and last: further ones would be truncated alike
_NEVER = 1_000_000_000  # failures until the circuit opens


class HttpStreams(HttpStage):
    """See `HttpProviderSuite`."""

    # truncation

    @pytest.mark.parametrize("act", [CUT, RESET])
    def test_a_stream_that_is_cut_before_the_first_token_is_tried_again(self, act: Act) -> None:
        self.service.replies = [self.streamed([act]), self.good("streamed")]
        assert self.ask(self.stage(), "streamed") == (ANSWER, ANSWER)
        assert len(self.service.requests) == 2

    def test_an_error_before_the_first_token_is_tried_again_if_it_may_pass(self) -> None:
        if self.late_error is None:
            pytest.skip("the service has no errors amid streams: `late_error`")
        failed = self.streamed([self.frame(self.late_error)])
        self.service.replies = [failed, self.good("streamed")]
        streamed, outcome = self.ask(self.stage(), "streamed")
        if len(self.service.requests) == 2:
            assert (streamed, outcome) == (ANSWER, ANSWER)
        else:
            assert streamed == ""
            assert isinstance(outcome, ProviderError)
            assert not outcome.retryable

    def test_stream_cut_after_the_first_token_is_not_retried(self) -> None:
        """A truncated stream is not retried on any route; the error has the received text."""
        self.service.replies = [self.streamed([*self.begun(), CUT]), self.good("streamed")]
        second = InstanceConfig(self.provider, settings=self.settings)
        host = self.stage(instances={"second": second})
        streamed, error = self.ask(host, "streamed", at="")
        assert isinstance(error, IncompleteReply)
        assert streamed == error.text == "hel"
        assert len(self.service.requests) == 1

    def test_stream_without_end_marker_is_incomplete(self) -> None:
        """A stream without its end marker is an error, even if the connection is closed
        normally."""
        self.service.replies = [self.streamed(self.frames(["hel", "lo"])[: -self.closing_events])]
        streamed, error = self.ask(self.stage(), "streamed")
        assert isinstance(error, IncompleteReply)
        assert streamed == error.text == ANSWER

    @pytest.mark.parametrize("act", [CUT, RESET])
    def test_failure_after_end_marker_is_ignored(self, act: Act) -> None:
        self.service.replies = [self.streamed([*self.frames(["hel", "lo"]), act])]
        streamed, outcome = self.ask(self.stage(patience=ONE_PER_ROUTE), "streamed")
        if act is CUT:
            assert (streamed, outcome) == (ANSWER, ANSWER)
        else:  # data may be lost with the connection, but is never duplicated
            assert outcome == ANSWER or isinstance(outcome, GenaiError)
            assert ANSWER.startswith(streamed)

    def test_a_whole_stream_does_not_wait_for_the_end_of_the_transmission(self) -> None:
        clock = ManualClock()
        self.service.replies = [self.streamed([*self.frames(["hel", "lo"]), HANG])]
        asking = in_background(self.ask, self.stage(clock=clock), "streamed")
        clock.wait_for_alarm_in(0.25)
        clock.advance(0.25)
        assert asking.result(self.patience) == (ANSWER, ANSWER)

    def test_a_cut_around_any_event_is_never_an_answer(self) -> None:
        """Truncate over the network: one byte before the end of an event, at its end, and one byte
        after."""
        texts = self._text_by_place()
        ends = itertools.accumulate(map(len, self.frames(_FEW)[:-1]))
        places = [end + by for end in ends for by in (-1, 0, 1)]
        text = b"".join(self.frames(_FEW))
        self.service.replies = [self.streamed([text[:place], CUT]) for place in places]
        host = self.stage(patience=ONE_PER_ROUTE, breaker_threshold=_NEVER)
        for place in places:
            _must_be_cut(place, texts[place], *self.ask(host, "streamed"))

    def test_a_cut_at_any_byte_is_never_an_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Truncate in memory, instead of in the host's transport. The host's parsers are tested
        separately at every byte, so the bytes around line ends suffice here."""
        memory = _Memory(self.stream_type, b"".join(self.frames(_FEW)))
        monkeypatch.setattr("genai_host.http.transport.Transport", lambda **_: memory)
        host = self.stage(patience=ONE_PER_ROUTE, breaker_threshold=_NEVER)
        for place, text in enumerate(self._text_by_place()):
            if self.stream_type in FRAMINGS and b"\n" not in memory.text[max(place - 2, 0) :][:3]:
                continue
            memory.place = place
            _must_be_cut(place, text, *self.ask(host, "streamed"))
        assert memory.sent, "the provider does not use services.http"

    def _text_by_place(self) -> list[str]:
        """Text of the complete events before each byte, by its number. The last event is the end
        marker."""
        events = self.events(_FEW)
        texts = [""]
        for count, event in enumerate(events[:-1], 1):
            before = texts[-1]
            texts += [before] * (len(self.frame(event)) - 1)
            texts.append(self.heard(events[:count], _FEW))
        return texts + [texts[-1]] * (len(self.frame(events[-1])) - 1)

    # timeouts

    def test_headers_and_then_silence_end_at_the_first_token_deadline(self) -> None:
        clock = ManualClock()
        self.service.replies = [self.streamed([HANG])]
        asking = in_background(
            self.ask, self.stage(clock=clock, patience=ONE_PER_ROUTE), "streamed"
        )
        self.service.wait_for_requests(1)
        clock.advance(60)
        _, error = asking.result(self.patience)
        assert isinstance(error, ProviderTimeout)
        assert error.deadline == "first_token_timeout"
        self.service.wait_until_closed()

    def test_a_stream_that_stands_still_ends_at_its_deadline(self) -> None:
        clock = ManualClock()
        self.service.replies = [self.streamed([*self.begun(), HANG])]
        events = self.open(self.stage(clock=clock, timeout=1e9), "streamed").stream("hi")
        assert next(event.text for event in events if event.text) == "hel"
        waiting = in_background(list, events)
        while not futures.wait([waiting], timeout=0.01).done:
            clock.advance(30)  # the time counts from the first read
        error = waiting.exception()
        assert isinstance(error, ProviderTimeout)
        assert (error.deadline, error.text) == ("read_timeout", "hel")
        self.service.wait_until_closed()

    def test_slow_stream_ends_at_total_timeout(self) -> None:
        clock = ManualClock()
        frames = self.frames(_TOKENS)
        self.service.replies = [self.streamed([each for frame in frames for each in (HOLD, frame)])]
        self.service.let_go(self.begins(_TOKENS))
        pieces = 0
        with pytest.raises(ProviderTimeout) as caught:
            for event in self.open(self.stage(clock=clock, timeout=20), "streamed").stream("hi"):
                pieces += bool(event.text)
                clock.advance(1)
                self.service.let_go()
        assert caught.value.deadline == "timeout"
        assert pieces == 20
        assert caught.value.text == "".join(_TOKENS[:20])

    def test_slow_consumer_does_not_cause_idle_timeout(self) -> None:
        clock = ManualClock()
        frames = self.frames(["hel", "lo"])
        first = self.begins(["hel", "lo"])
        self.service.replies = [self.streamed([*frames[:first], HOLD, *frames[first:]])]
        events = self.open(self.stage(clock=clock), "streamed").stream("hi")
        assert next(event.text for event in events if event.text) == "hel"
        clock.advance(300)
        self.service.let_go()
        assert [event.answer.text for event in events if event.answer] == [ANSWER]

    # formats

    def test_one_byte_at_a_time_gives_the_same(self) -> None:
        text = b"".join(self.frames(["h\u2028é", "llo"]))
        self.service.replies = [self.streamed([text[at : at + 1] for at in range(len(text))])]
        assert self.ask(self.stage(), "streamed") == ("h\u2028éllo", "h\u2028éllo")

    def test_sse_line_endings_and_comments_are_accepted(self) -> None:
        if self.stream_type != "text/event-stream":
            pytest.skip("applies to text/event-stream only")
        text = b": ping\n\n" + b"".join(self.frames(["hel", "lo"])).rstrip(b"\n")
        for line_end in (b"\n", b"\r\n", b"\r"):
            self.service.replies = [self.streamed([text.replace(b"\n", line_end)])]
            assert self.ask(self.stage(), "streamed") == (ANSWER, ANSWER)

    @pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "application/json", ""])
    def test_a_stream_is_read_whatever_its_content_type(self, kind: str) -> None:
        if self.stream_type not in FRAMINGS:
            pytest.skip("the provider has a parser of its own, which it names by content type")
        frames = self.frames(["hel", "lo"])
        self.service.replies = [stream_reply(frames, content_type=kind)]
        assert self.ask(self.stage(), "streamed") == (ANSWER, ANSWER)

    def test_a_whole_reply_is_read_where_a_stream_was_asked_for(self) -> None:
        events = "text/event-stream"
        for kind in {self.json_type, events if self.stream_type == events else ""}:
            self.service.replies = [reply(self.body(ANSWER), headers={"Content-Type": kind})]
            assert self.ask(self.stage(), "streamed") == (ANSWER, ANSWER)

    def test_a_stream_is_read_where_none_was_asked_for(self) -> None:
        if self.stream_type not in FRAMINGS:
            pytest.skip("the provider has a parser of its own, which it uses for streams alone")
        frames = self.frames(["hel", "lo"])
        self.service.replies = [self.streamed(frames)]
        assert self.ask(self.stage(), "whole")[1] == ANSWER
        self.service.replies = [self.streamed(frames[: -self.closing_events])]
        assert isinstance(self.ask(self.stage(patience=ONE_PER_ROUTE), "whole")[1], IncompleteReply)

    def test_a_malformed_event_is_a_typed_error(self) -> None:
        frames = self.frames(["hel", "lo"])
        first = self.begins(["hel", "lo"])
        changed = [*frames[:first], self.frame(self.malformed), *frames[first:]]
        self.service.replies = [self.streamed(changed)]
        streamed, error = self.ask(self.stage(), "streamed")
        assert isinstance(error, MalformedReply)
        assert streamed == "hel"
        assert len(self.service.requests) == 1

    def test_an_error_amid_a_stream_is_raised(self) -> None:
        if self.late_error is None:
            pytest.skip("the service has no errors amid streams: `late_error`")
        self.service.replies = [self.streamed([*self.begun(), self.frame(self.late_error)])]
        streamed, error = self.ask(self.stage(), "streamed")
        assert isinstance(error, ProviderError)
        assert not isinstance(error, (IncompleteReply, MalformedReply))
        assert streamed == "hel"
        assert len(self.service.requests) == 1


def _must_be_cut(place: int, expected: str, streamed: str, error: Any) -> None:
    assert isinstance(error, IncompleteReply), f"cut at byte {place}: {error!r}"
    assert streamed == error.text == expected, f"cut at byte {place}"


class _Memory:
    """A stream in memory that records how much of it was read.

    Attributes:
        sent: Number of bytes read so far.
    """

    def __init__(self, content_type: str, text: bytes) -> None:
        self._content_type = content_type
        self.text = text
        self.place = 0
        self.sent = False

    def send(self, request: HttpRequest, limits: CancelToken) -> ProviderReply:
        raise AssertionError("the provider does not stream")

    def stream(
        self,
        request: HttpRequest,
        limits: CancelToken,
        framings: Mapping[str, StreamParser] | None = None,
    ) -> EventList:
        self.sent = True
        return EventList({**FRAMINGS, **(framings or {})}[self._content_type](self._blocks()))

    def close(self) -> None:
        """Do nothing."""

    def _blocks(self) -> Iterator[bytes]:
        if self.place:
            yield self.text[: self.place]
        raise IncompleteReply("the reply was cut")
