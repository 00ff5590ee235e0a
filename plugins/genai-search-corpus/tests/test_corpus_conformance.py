"""The tool, by the suite that strangers' plugins run."""

from __future__ import annotations

import json
from pathlib import Path

import genai_search_corpus
import pytest

from genai_host_testing.suites import ToolSourceSuite, ToolSuite

pytestmark = pytest.mark.slow  # each host loads the model anew


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "rivers.md").write_text("# Rivers\n\nRivers run to the sea.\n")
    monkeypatch.setenv("GENAI_TOOLS_CORPUS", str(folder))
    monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path / "home"))


class TestSearch(ToolSuite):
    plugin = genai_search_corpus
    tool = "corpus__search"
    samples = [({"query": "rivers"},), ({"query": "rivers", "limit": 1, "region": "us-en"},)]


class TestSource(ToolSourceSuite):
    plugin = genai_search_corpus
    source = "corpus"
    samples = {"search": [({"query": "rivers"},)]}


def test_what_it_gives_is_json() -> None:
    from genai_host import Config, Host, StaticPlugins

    with Host(config=Config(), discovery=StaticPlugins({"corpus": genai_search_corpus})) as host:
        results = json.loads(host.call_tool("corpus__search", {"query": "rivers"}).text)
    assert [{*each} for each in results] == [{"title", "link", "text"}]
