"""Tests with error replies, interrupted replies and invalid replies; whole and streamed."""

from __future__ import annotations

import functools
import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from genai_host.config import InstanceConfig
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    CircuitOpen,
    ContextOverflow,
    GenaiError,
    MalformedReply,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_service import CUT, HANG, HOLD, RESET, Act, FakeService, Reply
from genai_host_testing.suites.base import ONE_PER_ROUTE, in_background
from genai_host_testing.suites.http_stage import ANSWER, CANARY, HttpStage
from genai_host_testing.suites.provider import MODEL, both_ways


class HttpReplies(HttpStage):
    """See `HttpProviderSuite`."""

    @both_ways
    def test_an_answer_takes_one_request(self, way: str) -> None:
        """An answer takes one request, with the key in a header only."""
        self.service.replies = [self.good(way)]
        assert self.ask(self.stage(), way) == (ANSWER, ANSWER)
        [request] = self.service.requests
        assert request.method == "POST"
        assert self.carries_key(request)
        assert CANARY not in request.path
        assert CANARY.encode() not in request.body

    # number of attempts

    @both_ways
    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
    def test_temporary_error_is_attempted_three_times(self, way: str, status: int) -> None:
        self.service.replies = [self.refusal(status)]
        streamed, error = self.ask(self.stage(), way)
        assert streamed == ""
        assert isinstance(error, (RateLimited, ServiceUnavailable))
        assert (error.status, error.provider, error.model) == (status, "tested", MODEL)
        assert len(self.service.requests) == 3

    @both_ways
    def test_the_last_try_may_succeed(self, way: str) -> None:
        self.service.replies = [self.refusal(503), self.refusal(429), self.good(way)]
        assert self.ask(self.stage(), way) == (ANSWER, ANSWER)

    @both_ways
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, BadRequest),
            (401, AuthenticationFailed),
            (403, AuthenticationFailed),
            (404, BadRequest),
            (422, BadRequest),
        ],
    )
    def test_a_refusal_is_not_repeated(self, way: str, status: int, kind: type[GenaiError]) -> None:
        self.service.replies = [self.refusal(status)]
        _, error = self.ask(self.stage(), way)
        assert (type(error), error.status, len(self.service.requests)) == (kind, status, 1)

    @both_ways
    @pytest.mark.parametrize("act", [CUT, RESET])
    def test_a_broken_connection_is_tried_three_times(self, way: str, act: Act) -> None:
        self.service.replies = [Reply([act])]
        _, error = self.ask(self.stage(), way)
        assert isinstance(error, ServiceUnavailable)
        assert len(self.service.requests) == 3

    @both_ways
    def test_a_service_that_is_not_there_is_tried_three_times(self, way: str) -> None:
        self.service.stop()
        _, error = self.ask(self.stage(), way)
        assert isinstance(error, ServiceUnavailable)
        assert len(self.observer.begun) == 3

    @both_ways
    @pytest.mark.parametrize("asked", ["86400", "Thu, 31 Dec 2099 00:00:00 GMT"])
    def test_long_retry_after_fails_immediately(self, way: str, asked: str) -> None:
        self.service.replies = [self.refusal(429, Retry_After=asked)]
        _, error = self.ask(self.stage(), way)
        assert isinstance(error, RateLimited)
        assert error.retry_after is not None
        assert error.retry_after > 60
        assert len(self.service.requests) == 1

    @both_ways
    def test_long_retry_after_fails_over_immediately(self, way: str) -> None:
        self.service.replies = [self.refusal(429, Retry_After="86400"), self.good(way)]
        host = self.stage(instances=self._others("second"))
        assert self.ask(host, way, at="") == (ANSWER, ANSWER)
        assert [route.provider for route in self.observer.begun] == ["tested", "second"]

    @both_ways
    @pytest.mark.parametrize("asked", ["2", "Thu, 01 Jan 2026 00:00:02 GMT"])
    def test_short_retry_after_is_respected(self, way: str, asked: str) -> None:
        clock = ManualClock()
        self.service.replies = [self.refusal(429, Retry_After=asked), self.good(way)]
        asking = in_background(self.ask, self.stage(clock=clock), way)
        clock.wait_for_alarm_in(2)
        clock.advance(1.999)
        assert len(self.service.requests) == 1
        clock.advance(0.001)
        assert asking.result(self.patience) == (ANSWER, ANSWER)

    @both_ways
    def test_invalid_retry_after_is_ignored(self, way: str) -> None:
        self.service.replies = [self.refusal(429, Retry_After="soon"), self.good(way)]
        assert self.ask(self.stage(), way) == (ANSWER, ANSWER)

    @both_ways
    def test_failover_before_the_first_token(self, way: str) -> None:
        """Another route is used after three attempts, and no text is repeated."""
        self.service.replies = [*[self.refusal(500)] * 3, self.good(way)]
        host = self.stage(instances=self._others("second"))
        assert self.ask(host, way, at="") == (ANSWER, ANSWER)
        assert [route.provider for route in self.observer.begun] == ["tested"] * 3 + ["second"]

    @both_ways
    def test_failover_makes_at_most_six_calls(self, way: str) -> None:
        self.service.replies = [self.refusal(500)]
        host = self.stage(instances=self._others("second", "third"))
        _, error = self.ask(host, way, at="")
        assert isinstance(error, ServiceUnavailable)
        assert len(self.service.requests) == 6

    @both_ways
    def test_a_prompt_that_is_too_long_is_sent_once(self, way: str) -> None:
        """A route with a smaller window would not help."""
        if self.overflow is None:
            pytest.skip("the service has no reply of its own for it: `overflow`")
        self.service.replies = [self.reply(self.overflow, 400), self.good(way)]
        host = self.stage(instances=self._others("second"))
        _, error = self.ask(host, way, at="")
        assert isinstance(error, ContextOverflow)
        assert len(self.service.requests) == 1

    def test_an_answer_that_was_filtered_is_not_asked_for_again(self) -> None:
        if self.filtered is None:
            pytest.skip("the service has no filter: `filtered`")
        self.service.replies = [self.reply(self.filtered)]
        self.ask(self.stage(instances=self._others("second")), "whole", at="")
        assert len(self.service.requests) == 1

    @both_ways
    def test_circuit_opens_after_repeated_failures(self, way: str) -> None:
        clock = ManualClock()
        self.service.replies = [*[self.refusal(500)] * 5, self.good(way)]
        host = self.stage(clock=clock, patience=ONE_PER_ROUTE)
        for _ in range(5):
            assert type(self.ask(host, way)[1]) is ServiceUnavailable
        assert isinstance(self.ask(host, way)[1], CircuitOpen)
        assert len(self.service.requests) == 5
        clock.advance(30)
        assert self.ask(host, way) == (ANSWER, ANSWER)

    # invalid content

    @both_ways
    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("text/html", b"<html>hello</html>"),
            ("", b""),
            ("", b"[" * 100_000),
            ("", b"\xff\xfe"),
            ("", b"[1, 2]"),
            ("", b"{"),
        ],
        ids=["html", "empty", "deep", "not utf-8", "no object", "cut"],
    )
    def test_invalid_body_raises_malformed_reply(self, way: str, kind: str, body: bytes) -> None:
        self.service.replies = [self.reply(body, Content_Type=kind or self.json_type)]
        _, error = self.ask(self.stage(patience=ONE_PER_ROUTE), way)
        assert isinstance(error, MalformedReply)
        assert (error.provider, error.model) == ("tested", MODEL)
        if kind:
            assert error.message.endswith("a page of HTML, not JSON: hello")
            assert "base_url" in error.hint

    @both_ways
    def test_decompressed_size_is_limited(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for most in ("_MAX_REPLY", "_MAX_STREAM"):  # limits what is decompressed
            monkeypatch.setattr(f"genai_host.http.transport.{most}", 1 << 20)
        self.service.replies = [self.reply(_bomb(), Content_Encoding="gzip")]
        _, error = self.ask(self.stage(patience=ONE_PER_ROUTE), way)
        assert isinstance(error, MalformedReply)

    @both_ways
    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_a_redirect_is_not_followed(self, way: str, status: int) -> None:
        with FakeService([self.good(way)]) as elsewhere:
            self.service.replies = [self.refusal(status, Location=elsewhere.url)]
            _, error = self.ask(self.stage(), way)
            assert isinstance(error, ServiceUnavailable)
            assert not elsewhere.requests
        assert len(self.service.requests) == 1

    @both_ways
    def test_netrc_is_not_read(
        self, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login somebody password else\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        self.service.replies = [self.good(way)]
        self.ask(self.stage(), way)
        assert self.carries_key(self.service.requests[0])

    # timeouts

    @both_ways
    def test_silence_ends_at_its_deadline(self, way: str) -> None:
        clock = ManualClock()
        self.service.replies = [Reply([HANG])]
        asking = in_background(self.ask, self.stage(clock=clock, patience=ONE_PER_ROUTE), way)
        self.service.wait_for_requests(1)
        clock.advance(60 if way == "streamed" else 600)
        assert self.ended(asking) is None, "it has ended in another way"
        _, error = asking.result()
        assert isinstance(error, ProviderTimeout)
        assert error.deadline == ("first_token_timeout" if way == "streamed" else "timeout")
        self.service.wait_until_closed()

    @both_ways
    def test_60_calls_at_once_through_a_cap_of_20(self, way: str) -> None:
        """Calls that exceed the queue are rejected with a retry time."""
        host = self.stage(patience=ONE_PER_ROUTE, max_concurrency=20, queue_size=20)
        self.service.replies = [Reply([HOLD, *self.good(way).steps], keep=True)]
        with ThreadPoolExecutor(60) as pool:
            asking = [pool.submit(self.ask, host, way) for _ in range(60)]
            self.service.wait_for_requests(20)
            self.service.let_go(60)
            outcomes = [each.result(self.patience)[1] for each in asking]
        assert self.service.max_at_once <= 20
        assert outcomes.count(ANSWER) >= 40
        refused = [each for each in outcomes if each != ANSWER]
        assert all(isinstance(each, RateLimited) and each.retry_after for each in refused)

    def _others(self, *names: str) -> dict[str, InstanceConfig]:
        return {name: InstanceConfig(self.provider, settings=self.settings) for name in names}


@functools.cache
def _bomb() -> bytes:
    """A compressed reply that exceeds every size limit."""
    return gzip.compress(bytes(65 << 20))
