"""Search engines by ddgs: the library as it is, and engines played on this machine."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import genai_search_web
import pytest
from genai_search_web import tools
from genai_search_web.by_ddgs import Outcomes
from genai_search_web.tools import MAX_WRITTEN, WebResult, plain, sound, written
from hypothesis import given, strategies as st

from genai_host import Config, Host
from genai_host.api import Cancellation, ToolOutput
from genai_host.errors import (
    Cancelled,
    MalformedReply,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.internal.fixtures import MakeHost

from .search_engines import (
    DUCKDUCKGO,
    MOJEEK,
    WIKIPEDIA,
    Page,
    SearchEngines,
    duckduckgo_page,
    mojeek_page,
)

HENS = ("Hens", "https://hens.example/all%20of%20them?a=1&b=2", "They lay <b>eggs</b> &amp; sleep.")
EGGS = ("Eggs", "http://eggs.example/", "Hens lay them.")


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[SearchEngines]:
    with SearchEngines(tmp_path) as started:
        yield started


class _Asking:
    @pytest.fixture(autouse=True)
    def _made(self, make_host: MakeHost, engines: SearchEngines) -> None:
        self.make = make_host
        self.engines = engines

    def host(self, **settings: Any) -> Host:
        usual = {"backend": "mojeek", "proxy": self.engines.proxy}
        usual["certificates"] = str(self.engines.certificates)
        config = Config(tools={"ddgs": tools_config(**{**usual, **settings})})
        return self.make(config=config, web=genai_search_web)

    def search(self, query: str = "hens", *, settings: Any = None, **arguments: Any) -> ToolOutput:
        host = self.host(**(settings or {}))
        return host.call_tool("ddgs__search", {"query": query, **arguments})

    def found(self, query: str = "hens", **arguments: Any) -> Any:
        output = self.search(query, **arguments)
        assert not output.error, output.text
        return json.loads(output.text)


@pytest.mark.process
class TestFinding(_Asking):
    def test_results_have_title_link_and_text(self) -> None:
        """A link leads where it led: escapes stay in it."""
        self.engines.pages[MOJEEK] = mojeek_page(HENS, EGGS)
        assert self.found() == [
            {"title": "Hens", "link": HENS[1], "text": "They lay eggs & sleep."},
            {"title": "Eggs", "link": "http://eggs.example/", "text": "Hens lay them."},
        ]

    def test_there_are_as_many_as_are_wanted(self) -> None:
        self.engines.pages[MOJEEK] = mojeek_page(HENS, EGGS)
        assert len(self.found(limit=1)) == 1

    def test_nothing_that_is_found_is_an_empty_list(self) -> None:
        assert self.found() == []
        assert self.engines.asked == [(MOJEEK, "/search?q=hens")]

    def test_query_and_region_are_handed_on(self) -> None:
        self.engines.pages[DUCKDUCKGO] = duckduckgo_page(HENS)
        [_] = self.found("hens & <eggs>", region="de-de", settings={"backend": "duckduckgo"})
        assert self.found(settings={"safesearch": "on"}) == []
        assert self.engines.asked == [(DUCKDUCKGO, "/html/"), (MOJEEK, "/search?q=hens&safe=1")]

    def test_all_engines_are_asked_until_there_is_enough(self) -> None:
        self.engines.pages[MOJEEK] = mojeek_page(HENS)
        self.engines.pages[DUCKDUCKGO] = duckduckgo_page(HENS, EGGS)
        links = {each["link"] for each in self.found(settings={"backend": "auto"})}
        assert links == {HENS[1], EGGS[1]}
        assert WIKIPEDIA in {host for host, _ in self.engines.asked}


@pytest.mark.process
class TestOutages(_Asking):
    def failed(self, **settings: Any) -> str:
        output = self.search(settings=settings)
        assert output.error
        return output.text

    @pytest.mark.parametrize("status", [202, 403, 429])
    def test_engines_that_refuse_are_no_empty_list(self, status: int) -> None:
        self.engines.pages[MOJEEK] = Page(b"are you a robot?", status)
        assert "search engines reject requests: mojeek" in self.failed()

    def test_engines_that_fail_are_no_empty_list(self) -> None:
        self.engines.pages[MOJEEK] = Page(b"", 502)
        assert "cannot connect to any search engine: mojeek (status 502)" in self.failed()

    def test_empty_wikipedia_result_does_not_hide_outage(self) -> None:
        self.engines.pages[MOJEEK] = Page(b"", 429)
        self.engines.pages[WIKIPEDIA] = Page(b'["hens", [], [], []]')
        assert "search engines reject requests" in self.failed(backend="wikipedia,mojeek")

    def test_where_one_engine_answers_the_others_may_fail(self) -> None:
        self.engines.pages[MOJEEK] = Page(b"", 502)
        self.engines.pages[DUCKDUCKGO] = duckduckgo_page(EGGS)
        settings = {"backend": "mojeek,duckduckgo"}
        assert [each["link"] for each in self.found(settings=settings)] == [EGGS[1]]

    def test_a_refused_connection_is_said_to_be_one(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        text = self.failed(proxy=f"http://me:canary-51c9@127.0.0.1:{port}")
        assert "canary" not in text
        assert "any search engine: mojeek (Connection refused (os error 111))" in text

    def test_an_engine_that_is_not_trusted_is_not_believed(self, tmp_path: Path) -> None:
        self.engines.pages[MOJEEK] = mojeek_page(EGGS)
        (tmp_path / "others").mkdir()
        with SearchEngines(tmp_path / "others") as others:
            text = self.failed(certificates=str(others.certificates))
        assert "cannot connect to any search engine" in text

    def test_an_engine_that_does_not_answer_is_given_up(self) -> None:
        self.engines.pages[MOJEEK] = Page(None)
        assert "no search engine responded in time: mojeek" in self.failed(seconds=2.0)

    def test_a_call_that_is_cancelled_ends_at_once(self, background: Any) -> None:
        self.engines.pages[MOJEEK] = Page(None)
        host, limits = self.host(seconds=300), Cancellation()
        [tool] = [each for name, each in host.tools().items() if name == "ddgs__search"]
        called = background(tool.run, {"query": "hens"}, _Run(limits))
        assert self.engines.got.wait(30)
        limits.cancel()
        with pytest.raises(Cancelled):
            called.result(30)

    @pytest.mark.smoke
    def test_an_engine_that_nobody_knows_is_named(self) -> None:
        text = self.failed(backend="mojeek,alta vista")
        assert "unknown search engines in tools.ddgs.backend: alta vista" in text
        assert self.engines.asked == []

    @pytest.mark.parametrize("wrong", [{"certificates": "/nowhere.pem"}, {"proxy": "no proxy"}])
    def test_a_setting_that_cannot_be_used_is_said_to_be_one(self, wrong: Any) -> None:
        assert "an invalid proxy or invalid certificates" in self.failed(**wrong)
        assert self.engines.asked == []

    @pytest.mark.parametrize(
        "body",
        [b"", b"\xff\xfe\x00", b"<" * 100_000, b"<html><body><ul class='results'><li><h2>", b"{}"],
    )
    def test_a_page_that_is_none_has_no_results(self, body: bytes) -> None:
        self.engines.pages[MOJEEK] = Page(body)
        output = self.search()
        assert output.error or json.loads(output.text) == []

    def test_too_large_page_ends_the_search_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tools, "MAX_MEMORY", 2**28)
        packed = gzip.compress(b"<p>" + b"a" * 2**27)
        self.engines.pages[MOJEEK] = Page(packed, headers=["Content-Encoding: gzip"])
        assert "memory or time limit" in self.failed()


class _Run:
    context: dict[str, Any] = {}

    def __init__(self, limits: Cancellation) -> None:
        self.limits = limits


@pytest.mark.parametrize(("statuses", "failures", "timed_out", "error"), [
    ({"mojeek": 200, "brave": 429}, {}, ["yahoo"], None),  # one that answered has nothing
    ({"mojeek": 200}, {"mojeek": "no such field"}, [], ServiceUnavailable),  # and then failed
    # the worst is told
    ({}, {"yahoo": "refused"}, [], ServiceUnavailable),
    ({}, {"yahoo": "refused"}, ["brave"], ProviderTimeout),
    ({"mojeek": 403}, {"yahoo": "refused"}, ["brave"], RateLimited),
    ({"wikipedia": 200}, {}, [], None),  # a book alone may speak for itself
])  # fmt: skip
def test_outcomes_of_several_engines_are_taken_together(
    statuses: Any, failures: Any, timed_out: list[str], error: type[Exception] | None
) -> None:
    outcomes = Outcomes()
    outcomes.statuses, outcomes.failures, outcomes.timed_out = statuses, failures, timed_out
    assert type(outcomes.error()) is (error or type(None))


def test_the_process_gets_the_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "HTTPS_PROXY": "http://p:1", "no_proxy": "localhost"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    values: list[Any] = []
    monkeypatch.setattr(tools, "run_in_child", lambda *_, **named: values.append(named))
    tools.search_apart("ddgs", {}, Cancellation())
    [named] = values
    assert named["environment"].items() >= {*environ.items()} - {("OPENAI_API_KEY", "sk-1")}
    assert "sk-1" not in named["environment"].values()


@pytest.mark.parametrize("engine", ["ddgs", "searxng"])
def test_results_are_sound_and_few(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    def search(request: Mapping[str, Any]) -> Iterator[WebResult]:
        for number in range(9):
            yield WebResult(f"<b>{request['query']}</b>", f"https://x.example/{number}", None)

    monkeypatch.setattr(f"genai_search_web.by_{engine}.search", search)
    assert tools.search(engine, {"query": "q", "limit": 2}) == [
        WebResult("q", "https://x.example/0", ""),
        WebResult("q", "https://x.example/1", ""),
    ]


@pytest.mark.parametrize(("raised", "error", "says"), [
    (LookupError("x"), MalformedReply, r"unreadable results \(LookupError\)"),
    (RateLimited("later"), RateLimited, "later"),
    (MemoryError(), MemoryError, "^$"),
])  # fmt: skip
def test_errors_of_libraries_are_malformed_replies(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, error: type[Exception], says: str
) -> None:
    def search(request: Any) -> Any:
        raise raised

    monkeypatch.setattr("genai_search_web.by_searxng.search", search)
    with pytest.raises(error, match=says):
        tools.search("searxng", {"limit": 1})


ANYTHING = st.one_of(st.none(), st.integers(), st.lists(st.text()), st.text(), st.binary())


@pytest.mark.parametrize(("raw", "expected"), [
    ("Tom &amp; Jerry", "Tom & Jerry"), ("a <b>bold</b><br/> word<!-- x -->", "a bold word"),
    ("if a < b and c > d", "if a < b and c > d"), ("&lt;b&gt; is bold", "<b> is bold"),
    ("  a\n\tb\u2028c\x00d  ", "a b c d"), ("left\u202eright\u200b", "left right"),
    ("é 日本 🐔", "é 日本 🐔"), ("x" * 21, "x" * 19 + "…"), (None, ""), (5, ""),
])  # fmt: skip
def test_texts_are_plain(raw: Any, expected: str) -> None:
    assert plain(raw, 20) == expected


@given(st.lists(st.builds(WebResult, ANYTHING, ANYTHING, ANYTHING)))
def test_whatever_is_found_can_be_written(results: list[WebResult]) -> None:
    for each in json.loads(written(sound(results), 50)):
        assert sorted(each) == ["link", "text", "title"]
        assert each["link"].startswith(("http://", "https://"))


@given(st.text(max_size=200))
def test_texts_have_nothing_that_cannot_be_seen(raw: str) -> None:
    assert plain(raw, 100).isprintable()


def test_a_result_without_a_title_has_its_link_for_one() -> None:
    [result] = sound([WebResult(None, "https://a.example/", "x")])
    assert result == WebResult("https://a.example/", "https://a.example/", "x")


def test_what_would_be_too_long_is_left_out_whole() -> None:
    results = [WebResult("x", f"https://a.example/{number}", "é" * 1000) for number in range(200)]
    text = written(results, 200)
    assert MAX_WRITTEN * 0.9 < len(text) <= MAX_WRITTEN + 2
    assert len(json.loads(text)) < 200
