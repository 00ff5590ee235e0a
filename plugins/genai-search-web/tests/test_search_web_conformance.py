"""Both searches, by the suites that strangers' plugins run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import genai_search_web
import pytest

from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.suites import ToolSourceSuite, ToolSuite

from .search_engines import MOJEEK, SearchEngines, mojeek_page

# each search is a process
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_children")]
warmed = ("genai_search_web.by_ddgs", "genai_search_web.by_searxng", "ddgs.ddgs", "requests")

HENS = {"title": "Hens", "link": "https://hens.example/", "text": "They lay eggs."}
SAMPLES: Any = [
    ({"query": "hens"}, json.dumps([HENS])),
    ({"query": "hens", "region": "de-de", "limit": 1}, json.dumps([HENS])),
]


class _Ddgs:
    plugin = genai_search_web
    settings: Any

    @pytest.fixture(autouse=True)
    def _engines(self, tmp_path: Path) -> Iterator[None]:
        with SearchEngines(tmp_path) as engines:
            engines.pages[MOJEEK] = mojeek_page((HENS["title"], HENS["link"], HENS["text"]))
            self.settings = {
                "backend": "mojeek",
                "proxy": engines.proxy,
                "certificates": str(engines.certificates),
            }
            yield


class _Searxng:
    plugin = genai_search_web
    settings: Any

    @pytest.fixture(autouse=True)
    def _service(self) -> Iterator[None]:
        result = {"title": HENS["title"], "url": HENS["link"], "content": HENS["text"]}
        with FakeService([json_reply({"results": [result]})]) as service:
            self.settings = {"base_url": service.url}
            yield


class TestDdgsSearch(_Ddgs, ToolSuite):
    tool = "ddgs__search"
    samples = SAMPLES


class TestSearxngSearch(_Searxng, ToolSuite):
    tool = "searxng__search"
    samples = SAMPLES


class TestDdgs(_Ddgs, ToolSourceSuite):
    source = "ddgs"
    unusable = {"safesearch": "sometimes"}
    samples = {"search": SAMPLES}


class TestSearxng(_Searxng, ToolSourceSuite):
    source = "searxng"
    unusable = {"base_url": "ftp://127.0.0.1/"}
    samples = {"search": SAMPLES}
