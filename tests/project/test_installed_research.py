"""The research assistant as a user has it: wheels in an environment of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from environments import Environment

from genai_host_testing.environments import make_environment

pytestmark = pytest.mark.slow

PLUGINS = (
    "genai-feature-research", "genai-search-corpus", "genai-search-web", "genai-tools-pages",
    "genai-vendor-mock", "genai-vendor-wordlist",
)  # fmt: skip


@pytest.fixture
def installed(wheels: dict[str, Path], tmp_path: Path) -> Environment:
    environment = make_environment(tmp_path / "venv", tmp_path / "home")
    environment.install(*(str(wheels[name]) for name in ("genai-host", *PLUGINS)))
    return environment


def test_it_searches_a_folder_and_cites_it(installed: Environment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "rivers.md").write_text("# Rivers\n\nRivers run to the sea.\n")

    listed = json.loads(installed.run("plugins", "check", "--json", check=True).stdout)
    assert {each["status"] for each in listed} == {"loaded"}
    assert {each["distribution"] for each in listed} == {"genai-host", *PLUGINS}
    tools = json.loads(installed.run("tools", "--json", check=True).stdout)
    assert {"corpus__search", "ddgs__search", "searxng__search", "pages__read"} <= {
        each["name"] for each in tools
    }

    installed.run("config", "set", f"tools.corpus.folder={notes}", check=True)
    indexed = installed.run("corpus", "index", "--json", check=True)
    assert json.loads(indexed.stdout)["passages"] == 1
    command = ["ask", "--feature", "research", "-p", "mock"]
    settings = ["moderate=true", "answer_with_search=false", 'additional_searches=["rivers"]']
    options = [each for setting in settings for each in ("--setting", setting)]
    done = installed.run(*command, *options, "Where do rivers run to?", check=True)
    assert "Rivers run to the sea." in done.stdout, "the mock says what it hears"
    assert (notes / "rivers.md").as_uri() in done.stdout

    conversations = json.loads(installed.run("conversations", "list", "--json", check=True).stdout)
    assert [each["feature"] for each in conversations] == ["research"]
