"""SearXNG's JSON API: what is asked, what is read, and what comes in its place."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import genai_search_web
import pytest
from genai_search_web.by_searxng import MAX_BYTES, MAX_PAGES, language_of, search
from genai_search_web.tools import search_apart, sound, written

from genai_host import Config, Host, errors
from genai_host.api import Cancellation
from genai_host_testing.fake_service import (
    CUT,
    HANG,
    RESET,
    FakeService,
    Received,
    Reply,
    json_reply,
    reply,
    stream_reply,
)
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part


def result(number: int, **fields: Any) -> dict[str, Any]:
    usual = {"title": f"Hens {number}", "url": f"https://hens.example/{number}", "content": "lay"}
    return {**usual, "engine": "one", "score": 1.0, **fields}


def page(*results: Any, **fields: Any) -> Reply:
    return json_reply({"query": "hens", "results": list(results), **fields})


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService([page(result(1), result(2)), page()]) as started:
        yield started


class _Asking:
    @pytest.fixture(autouse=True)
    def _made(self, service: FakeService) -> None:
        self.service = service

    def asked(self, **options: Any) -> dict[str, Any]:
        usual = {
            "base_url": f"http://user:canary-51c9@127.0.0.1:{self.service.port}/",
            "key": "", "categories": "", "safesearch": "off", "seconds": 10.0, "query": "hens",
            "region": "wt-wt", "limit": 10,
        }  # fmt: skip
        return {**usual, **options}

    def found(self, query: str = "hens", **options: Any) -> Any:
        """In this process, which takes less time than one of its own."""
        values = self.asked(query=query, **options)
        return json.loads(written(sound(search(values)), values["limit"]))

    def failed(self, **options: Any) -> errors.GenaiError:
        with pytest.raises(errors.GenaiError) as caught:
            self.found(key="canary-51c9", **options)
        assert "canary" not in f"{caught.value.fields()}{caught.value}"
        return caught.value

    def queries(self) -> list[dict[str, str]]:
        return [
            {name: value for name, [value] in parse_qs(urlsplit(each.path).query).items()}
            for each in self.service.requests
        ]


class TestApart(_Asking):
    """As a host calls it: in a process of its own."""

    @pytest.fixture
    def host(self, make_host: MakeHost) -> Host:
        config = Config(tools={"searxng": tools_config(base_url=self.service.url)})
        return make_host(config=config, web=genai_search_web)

    @pytest.mark.process
    def test_results_have_title_link_and_text(self, host: Host) -> None:
        output = host.call_tool("searxng__search", {"query": "hens"})
        assert json.loads(output.text) == [
            {"title": "Hens 1", "link": "https://hens.example/1", "text": "lay"},
            {"title": "Hens 2", "link": "https://hens.example/2", "text": "lay"},
        ]

    @pytest.mark.process
    def test_key_of_the_environment(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GENAI_SEARXNG_KEY", "canary-51c9")
        host.call_tool("searxng__search", {"query": "hens"})
        assert self.service.requests[0].headers["authorization"] == "Bearer canary-51c9"

    @pytest.mark.process
    def test_an_error_is_the_same_as_here(self) -> None:
        self.service.replies = [reply(b"", 403)]
        with pytest.raises(errors.BadRequest) as caught:
            search_apart("searxng", self.asked(), Cancellation())
        expected = self.failed()
        assert (str(caught.value), caught.value.hint) == (str(expected), expected.hint)

    @pytest.mark.parametrize("arguments", [
        {"query": " "}, {"query": "x" * 1001}, {"query": "x", "region": "everywhere"},
        {"query": "x", "region": "us-en&format=html"}, {"query": "x", "limit": 0},
        {"query": "x", "limit": 51},
    ])  # fmt: skip
    def test_what_cannot_be_asked_is_refused(self, host: Host, arguments: Any) -> None:
        assert host.call_tool("searxng__search", arguments).error
        assert self.service.requests == []

    @pytest.mark.smoke
    @pytest.mark.process
    def test_a_call_that_is_cancelled_ends_at_once(self, background: Any) -> None:
        self.service.replies = [Reply([HANG])]
        limits = Cancellation()
        called = background(search_apart, "searxng", self.asked(seconds=300.0), limits)
        self.service.wait_for_requests(1)
        limits.cancel()
        with pytest.raises(errors.Cancelled):
            called.result(30)
        self.service.wait_until_closed()

    def test_it_does_not_apply_without_an_address(self, make_host: MakeHost) -> None:
        host = make_host(web=genai_search_web)
        offered = [each.name for each in host.toolbox.offered({}, Cancellation())]
        assert "ddgs__search" in offered
        assert "searxng__search" not in offered


class TestFinding(_Asking):
    def test_it_is_asked_as_its_api_wants_it(self) -> None:
        options = {"categories": "general,science", "safesearch": "on"}
        self.found("hens & eggs", region="de-de", **options)
        assert self.queries()[0] == {
            "q": "hens & eggs", "format": "json", "language": "de-DE", "safesearch": "2",
            "pageno": "1", "categories": "general,science",
        }  # fmt: skip
        first = self.service.requests[0]
        assert (first.method, urlsplit(first.path).path) == ("GET", "/search")

    def test_keys_of_a_netrc_are_not(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        self.found(base_url=self.service.url)
        assert "authorization" not in self.service.requests[0].headers

    def test_pages_are_asked_for_until_there_is_enough(self) -> None:
        self.service.replies = [
            page(*map(result, range(10))),
            page(*map(result, range(5, 15))),
            page(*map(result, range(15, 25))),
        ]
        results = self.found(limit=18)
        assert [each["link"][21:] for each in results] == [str(number) for number in range(18)]
        assert [each["pageno"] for each in self.queries()] == ["1", "2", "3"]

    def test_a_page_with_nothing_new_is_the_last(self) -> None:
        self.service.replies = [page(*map(result, range(3)))]
        assert len(self.found()) == 3
        assert len(self.service.requests) == 2

    def test_there_are_no_more_pages_than_it_may_be_asked_for(self) -> None:
        with FakeService(answer=_another) as self.service:
            assert len(self.found(limit=50)) == MAX_PAGES
            assert len(self.service.requests) == MAX_PAGES

    def test_what_came_before_a_failure_is_kept(self) -> None:
        self.service.replies = [page(result(1)), json_reply({}, 429)]
        assert len(self.found()) == 1

    def test_texts_are_plain(self) -> None:
        odd = {
            "title": "A&amp;B <b>C</b>\n\x1b[31m",
            "content": "1 &lt; 2 <em>and</em> 3 < 4 \u202e",
        }
        self.service.replies = [page(result(1, **odd)), page()]
        [hit] = self.found()
        assert (hit["title"], hit["text"]) == ("A&B C [31m", "1 < 2 and 3 < 4")

    def test_only_links_into_the_web_are_given_each_once(self) -> None:
        odd: list[Any] = [
            "javascript:1", "file:///etc/passwd", "//x.example", "https://", None, 5, [], "x" * 9,
        ]  # fmt: skip
        links = [*odd, "https://[::1", "https://a.example:99999/", "https://a.example/\n"]
        results = [result(1, url=link) for link in links]
        self.service.replies = [page(*results, *results), page()]
        assert [each["link"] for each in self.found()] == ["https://a.example/"]

    def test_wrong_types_are_left_out(self) -> None:
        odd: list[Any] = [
            None, 5, "x", [], {}, {"url": {}},
            {"url": "https://a.example/", "title": [], "content": 7},
        ]  # fmt: skip
        self.service.replies = [page(*odd), page()]
        expected = {"title": "https://a.example/", "link": "https://a.example/", "text": ""}
        assert self.found() == [expected]

    def test_long_texts_are_cut_and_the_whole_is_what_a_host_takes(self) -> None:
        long = [
            result(number, url=f"https://a.example/{number}/{'x' * 1900}", content='"' * 10**4)
            for number in range(50)
        ]
        self.service.replies = [page(*long)]
        results = self.found(limit=50)
        assert len(json.dumps(results)) <= 100_000
        assert len(results) > 10
        assert all(len(each["text"]) == 1000 for each in results)

    def test_nothing_that_is_found_is_an_empty_list(self) -> None:
        self.service.replies = [page(unresponsive_engines=[])]
        assert self.found() == []


def _another(received: Received) -> Reply:
    [number] = parse_qs(urlsplit(received.path).query)["pageno"]
    return page(result(int(number)))


class TestOutages(_Asking):
    @pytest.mark.parametrize(("answer", "expected", "message"), [
        (reply(b"<html>", 403), errors.BadRequest, "does not provide JSON"),
        (json_reply({}, 429), errors.RateLimited, "limits the request rate"),
        (json_reply({}, 401), errors.AuthenticationFailed, "requires a key"),
        (json_reply({}, 404), errors.BadRequest, "status 404"),
        (json_reply({}, 500), errors.ServiceUnavailable, "status 500"),
        (reply(b"", 302, {"Location": "http://127.0.0.1:1/"}), errors.BadRequest, "redirects"),
        (reply(b"<html>hello</html>"), errors.MalformedReply, "not JSON"),
        (reply(b"[" * 100_000), errors.MalformedReply, "not JSON"),
        (reply(b"\xff\xfe"), errors.MalformedReply, "not JSON"),
        (json_reply([]), errors.MalformedReply, "not a JSON object"),
        (json_reply({"results": {"a": 1}}), errors.MalformedReply, "no list of results"),
        (json_reply({}), errors.MalformedReply, "no list of results"),
        (reply(b" " * (MAX_BYTES + 1)), errors.MalformedReply, "more than 8 MiB"),
        (stream_reply([b" " * 2**16] * 800), errors.MalformedReply, "more than 8 MiB"),
        (stream_reply([b"{", CUT]), errors.ServiceUnavailable, "is unreachable"),
        (Reply([RESET]), errors.ServiceUnavailable, "is unreachable"),
        (Reply([b"nonsense\r\n\r\n"]), errors.ServiceUnavailable, "is unreachable"),
    ], ids=lambda each: each if isinstance(each, str) else "")  # fmt: skip
    def test_typed_errors(self, answer: Reply, expected: type[Exception], message: str) -> None:
        self.service.replies = [answer]
        error = self.failed()
        assert type(error) is expected
        assert message in str(error)
        assert ("search.formats" in error.hint) is (
            message in ("does not provide JSON", "not JSON")
        )
        assert len(self.service.requests) == 1

    def test_a_small_reply_that_unpacks_to_a_large_one_is_refused(self) -> None:
        packed = gzip.compress(b" " * 2**26)
        self.service.replies = [reply(packed, headers={"Content-Encoding": "gzip"})]
        assert isinstance(self.failed(), errors.MalformedReply)

    @pytest.mark.parametrize("begun", [[], [b"{"]])
    def test_one_that_does_not_answer_is_given_up(self, begun: list[bytes]) -> None:
        self.service.replies = [stream_reply([*begun, HANG]) if begun else Reply([HANG])]
        assert isinstance(self.failed(seconds=0.3), errors.ProviderTimeout)

    def test_unreachable_server_is_reported(self) -> None:
        self.service.stop()
        with socket.create_server(("127.0.0.1", 0)) as gone:
            self.service.port = gone.getsockname()[1]
        error = self.failed()
        assert isinstance(error, errors.ServiceUnavailable)
        assert "127.0.0.1 is unreachable: refused" in str(error)

    @pytest.mark.parametrize(
        ("proxy", "why"), [("http://127.0.0.1:9", "refused"), ("socks5://127.0.0.1:9", "SOCKS")]
    )
    def test_failing_proxy(self, monkeypatch: pytest.MonkeyPatch, proxy: str, why: str) -> None:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        error = self.failed(base_url="http://example.invalid")
        assert str(error).endswith(f"through the proxy of the environment: {why}")

    def test_engines_of_its_own_that_fail_are_no_empty_list(self) -> None:
        failing = [["google", "timeout"], ["bing", "<b>CAPTCHA</b>"], 5, []]
        self.service.replies = [page(unresponsive_engines=failing)]
        error = self.failed()
        assert isinstance(error, errors.ServiceUnavailable)
        assert "(google: timeout; bing: CAPTCHA)" in str(error)

    def test_failed_engines_are_ignored_if_others_have_results(self) -> None:
        self.service.replies = [
            page(result(1), unresponsive_engines=[["google", "timeout"]]),
            page(),
        ]
        assert len(self.found()) == 1


@pytest.mark.parametrize(("region", "language"), [
    ("wt-wt", "all"), ("us-en", "en-US"), ("uk-en", "en-GB"), ("de-de", "de-DE"),
    ("ch-fr", "fr-CH"), ("jp-jp", "ja-JP"), ("tw-tzh", "zh-TW"), ("xa-ar", "ar"),
])  # fmt: skip
def test_regions_are_languages_of_searxng(region: str, language: str) -> None:
    assert language_of(region) == language
