"""The tool, by the suite that strangers' plugins run."""

from __future__ import annotations

from collections.abc import Iterator

import genai_tools_pages
import pytest

from genai_host_testing.services.page_site import PageSite, reply
from genai_host_testing.suites import ToolSourceSuite, ToolSuite

pytestmark = pytest.mark.usefixtures("warm_children")
warmed = ("genai_tools_pages.process", "genai_tools_pages.web_page")


@pytest.fixture(scope="module")
def site() -> Iterator[PageSite]:
    with PageSite({"/a.txt": reply("hello", "text/plain")}) as site:
        yield site


@pytest.mark.process
class TestRead(ToolSuite):
    plugin = genai_tools_pages
    tool = "pages__read"
    settings = {"private": True}

    @pytest.fixture(autouse=True)
    def _served(self, site: PageSite) -> None:
        link = site.link("/a.txt")
        form = f'{{"title": "a.txt", "link": "{link}", "text": "hello", "kind": "text"}}'
        self.samples = [({"link": link}, form)]


@pytest.mark.process
class TestPages(ToolSourceSuite):
    plugin = genai_tools_pages
    source = "pages"
    settings = {"private": True}
    unusable = {"megabytes": 0}

    @pytest.fixture(autouse=True)
    def _served(self, site: PageSite) -> None:
        self.samples = {"read": [({"link": site.link("/a.txt")},)]}
