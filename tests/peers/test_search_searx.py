"""The tool `searxng__search` beside a searx that runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import genai_search_web
import pytest
from peers.searx_service import searx, searx_files

from genai_host.api import ToolOutput
from genai_host.config import Config, SetConfig
from genai_host_testing.fixtures import MakeHost

pytestmark = pytest.mark.peers

PAGES = [
    *(
        (f"Hens {number}", f"https://hens.example/{number}", "Hens lay <b>eggs</b> &amp; sleep.")
        for number in range(25)
    ),
    ("Cats", "https://cats.example/", "Cats sleep."),
]


@pytest.fixture(scope="module")
def files(pytestconfig: pytest.Config) -> Path:
    return searx_files(pytestconfig.rootpath / ".cache")


@pytest.fixture(scope="module")
def url(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with searx(files, tmp_path_factory.mktemp("searx"), PAGES) as running:
        yield running


class TestSearx:
    @pytest.fixture(autouse=True)
    def _made(self, make_host: MakeHost) -> None:
        self.make = make_host

    def search(self, url: str, query: str, **arguments: Any) -> ToolOutput:
        config = Config(tools={"searxng": SetConfig({"base_url": url})})
        host = self.make(config=config, web=genai_search_web)
        return host.call_tool("searxng__search", {"query": query, **arguments})

    def found(self, url: str, query: str, **arguments: Any) -> Any:
        output = self.search(url, query, **arguments)
        assert not output.error, output.text
        return json.loads(output.text)

    def test_it_finds(self, url: str) -> None:
        expected = {"title": "Cats", "link": "https://cats.example/", "text": "Cats sleep."}
        assert self.found(url, "cats") == [expected]

    def test_texts_are_plain(self, url: str) -> None:
        [found] = self.found(url, "hens", limit=1)
        assert found["text"] == "Hens lay eggs & sleep."

    def test_several_pages_are_one_list(self, url: str) -> None:
        found = self.found(url, "hens", limit=50)
        assert sorted(each["link"] for each in found) == sorted(link for _, link, _ in PAGES[:25])
        assert len(self.found(url, "hens", limit=12)) == 12

    def test_nothing_that_is_found_is_an_empty_list(self, url: str) -> None:
        assert self.found(url, "dogs") == []

    @pytest.mark.parametrize(
        "region", ["us-en", "uk-en", "ch-de", "jp-jp", "tw-tzh", "xa-ar", "ph-tl"]
    )
    def test_regions_are_languages_that_it_takes(self, url: str, region: str) -> None:
        assert len(self.found(url, "cats", region=region)) == 1

    def test_a_search_engine_of_its_own_that_fails_is_an_outage(self, url: str) -> None:
        """This one is asked what is no query of a full-text search."""
        output = self.search(url, 'cats AND "')
        assert output.error
        assert "SearXNG's search engines do not answer (pages: " in output.text
