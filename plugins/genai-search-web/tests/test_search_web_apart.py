"""A search in another process, and what becomes of it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from genai_search_web import tools
from genai_search_web.results import WebResult

from genai_host.api import Cancellation
from genai_host.errors import MalformedReply, RateLimited


def test_the_process_gets_the_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OPENAI_API_KEY": "sk-1", "HTTPS_PROXY": "http://p:1", "no_proxy": "localhost"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found: list[Any] = []
    monkeypatch.setattr(tools, "run_in_child", lambda *_, **named: found.append(named))
    tools.search_apart("ddgs", {}, Cancellation())
    [named] = found
    assert named["environment"].items() >= {*given.items()} - {("OPENAI_API_KEY", "sk-1")}
    assert "sk-1" not in named["environment"].values()


@pytest.mark.parametrize("engine", ["ddgs", "searxng"])
def test_results_are_sound_and_few(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    def search(asked: Mapping[str, Any]) -> Iterator[WebResult]:
        for number in range(9):
            yield WebResult(f"<b>{asked['query']}</b>", f"https://x.example/{number}", None)

    monkeypatch.setattr(f"genai_search_web.by_{engine}.search", search)
    assert tools.search(engine, {"query": "q", "limit": 2}) == [
        WebResult("q", "https://x.example/0", ""), WebResult("q", "https://x.example/1", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raised", "error", "says"),
    [
        (LookupError("x"), MalformedReply, r"unreadable results \(LookupError\)"),
        (RateLimited("later"), RateLimited, "later"),
        (MemoryError(), MemoryError, "^$"),
    ],
)
def test_errors_of_libraries_are_malformed_replies(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, error: type[Exception], says: str
) -> None:
    def search(asked: Any) -> Any:
        raise raised

    monkeypatch.setattr("genai_search_web.by_searxng.search", search)
    with pytest.raises(error, match=says):
        tools.search("searxng", {"limit": 1})
