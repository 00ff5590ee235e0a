"""Search engines by ddgs: the library as it is, and engines played on this machine."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import genai_search_web
import pytest
from genai_search_web import tools
from genai_search_web.by_ddgs import Outcomes

from genai_host import Config, Host
from genai_host.api import Cancellation, ToolOutput
from genai_host.errors import Cancelled, ProviderTimeout, RateLimited, ServiceUnavailable
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
        run = _Run(limits)
        called = background(tool.run, {"query": "hens"}, run)
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

    def test_a_page_that_unpacks_to_too_much_ends_the_search_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tools, "MOST_MEMORY", 2**28)
        packed = gzip.compress(b"<p>" + b"a" * 2**27)
        self.engines.pages[MOJEEK] = Page(packed, headers=["Content-Encoding: gzip"])
        assert "memory or time limit" in self.failed()


class _Run:
    context: dict[str, Any] = {}

    def __init__(self, limits: Cancellation) -> None:
        self.limits = limits


@pytest.mark.parametrize(
    ("statuses", "failures", "timed_out", "error"),
    [
        ({"mojeek": 200, "brave": 429}, {}, ["yahoo"], None),  # one that answered has nothing
        ({"mojeek": 200}, {"mojeek": "no such field"}, [], ServiceUnavailable),  # and then failed
        # the worst is told
        ({}, {"yahoo": "refused"}, [], ServiceUnavailable),
        ({}, {"yahoo": "refused"}, ["brave"], ProviderTimeout),
        ({"mojeek": 403}, {"yahoo": "refused"}, ["brave"], RateLimited),
        ({"wikipedia": 200}, {}, [], None),  # a book alone may speak for itself
    ],
)
def test_outcomes_of_several_engines_are_taken_together(
    statuses: Any, failures: Any, timed_out: list[str], error: type[Exception] | None
) -> None:
    outcomes = Outcomes()
    outcomes.statuses, outcomes.failures, outcomes.timed_out = statuses, failures, timed_out
    assert type(outcomes.error()) is (error or type(None))
