"""Any subset of the vendors, as a user has it: wheels in an environment of their own. Each works
alone, and what is missing is named with the command that installs it. The research assistant."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from environments import ROOT, Environment

from genai_host_testing.environments import make_environment
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.services import (
    anthropic as anthropic_service,
    bedrock as bedrock_service,
    ollama as ollama_service,
)

pytestmark = pytest.mark.slow


VENDORS = sorted(each.name for each in (ROOT / "plugins").glob("genai-vendor-*"))
PROVIDERS: Mapping[str, set[str]] = {
    "genai-vendor-anthropic": {"anthropic"}, "genai-vendor-bedrock": {"bedrock"},
    "genai-vendor-gemini": {"gemini", "vertex"}, "genai-vendor-local": {"local"},
    "genai-vendor-mock": {"mock"}, "genai-vendor-ollama": {"ollama"},
    "genai-vendor-openai": {"openai", "azure-openai", "openai-compatible"},
    "genai-vendor-wordlist": {"wordlist"},
}  # fmt: skip
NEEDS = {
    "genai-vendor-anthropic": ["genai-wire-anthropic"],
    "genai-vendor-bedrock": ["genai-wire-anthropic"],
    "genai-vendor-gemini": ["genai-wire-anthropic", "genai-wire-gemini"],
    "genai-vendor-local": ["genai-models-open", "genai-wire-openai"],
    "genai-vendor-ollama": ["genai-wire-ollama"],
    "genai-vendor-openai": ["genai-wire-openai"],
}
ANY_VENDOR = "install a provider with genai-host install: genai-vendor-anthropic"
CLAUDE, LLAMA = "claude-haiku-4-5", "llama-3.3-70b"

Install = Callable[..., Environment]


@pytest.fixture(scope="module")
def bare(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the host and the chat: no vendor, and no model."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    environment = make_environment(folder, folder)
    environment.install(str(wheels["genai-host"]), str(wheels["genai-feature-chat"]))
    return folder


@pytest.fixture
def install(
    bare: Path, wheels: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Install]:
    """The bare environment with plugins, and all that they need, which are gone after the
    test; no service has a key."""
    for name in ("ANTHROPIC_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    installed = Environment(bare, tmp_path / "home")
    before = set(installed.site.iterdir())

    def add(*names: str) -> Environment:
        distributions = [each for name in names for each in (name, *NEEDS.get(name, ()))]
        if distributions:
            installed.install(*(str(wheels[each]) for each in distributions))
        return installed

    yield add
    for path in set(installed.site.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def rows(environment: Environment, *command: str, **variables: str) -> list[dict[str, Any]]:
    """What a command lists, without a word beside it."""
    done = environment.run(*command, "--json", environment=variables)
    assert (done.returncode, done.stderr) == (0, "")
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def refused(environment: Environment, *command: str) -> str:
    done = environment.run(*command)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def answered(environment: Environment, model: str, variables: Mapping[str, str]) -> None:
    """The model answers `fine`, and nothing is said beside it."""
    done = environment.run("ask", "--no-stream", "-m", model, "hi", environment=variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_all_vendors_are_here() -> None:
    assert set(PROVIDERS) == set(VENDORS)


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_vendor_works_alone_and_names_others(install: Install, vendor: str) -> None:
    alone = install(vendor)
    plugins = rows(alone, "plugins", "check")
    assert {each["status"] for each in plugins} == {"loaded"}
    assert {each["distribution"] for each in plugins} == {
        "genai-host", "genai-feature-chat", vendor, *NEEDS.get(vendor, ())
    }  # fmt: skip
    assert {each["name"] for each in rows(alone, "providers")} == PROVIDERS[vendor]
    assert {each["provider"] for each in rows(alone, "routes") if each["id"]} <= PROVIDERS[vendor]
    other = "bedrock" if vendor != "genai-vendor-bedrock" else "ollama"
    line = f"genai-host install genai-vendor-{other}"
    for named in (["-p", other], ["-m", f"{CLAUDE}@{other}"], ["-m", f"{other}/x"]):
        assert line in refused(alone, "ask", *named, "hi")


class TestNone:
    def test_a_host_without_vendors_says_what_to_install(self, install: Install) -> None:
        bare = install()
        for command in ("providers", "routes", "models"):
            assert rows(bare, command) == []
        for named in ([], ["-m", CLAUDE]):
            assert ANY_VENDOR in refused(bare, "ask", *named, "hi")

    def test_a_configured_account_of_a_vendor_that_is_gone(self, install: Install) -> None:
        bare = install()
        file = bare.home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text('[providers.work]\ntype = "bedrock"\n')
        line = "genai-host install genai-vendor-bedrock"
        [row] = rows(bare, "providers")
        assert (row["name"], row["status"]) == ("work", "needs")
        assert row["reason"].endswith(line)
        for named in (["-p", "work"], ["-m", f"{CLAUDE}@work"]):
            assert line in refused(bare, "ask", *named, "hi")
        assert line in refused(bare, "config", "add", "other", "bedrock")

    def test_the_vendor_of_a_conversation_is_gone(self, install: Install) -> None:
        environment = install("genai-vendor-mock")
        assert environment.run("ask", "-p", "mock", "hello you", check=True).stdout
        environment.uninstall("genai-vendor-mock")
        [conversation] = rows(environment, "conversations", "list")
        assert "hello you" in environment.run("conversations", "show", conversation["id"]).stdout
        output = refused(environment, "ask", "--continue", "and now?")
        assert "genai-host install genai-vendor-mock" in output
        install("genai-vendor-mock")
        assert environment.run("ask", "--continue", "and now?").stdout == "and now?\n"


class TestClaude:
    """Declared by one vendor, and offered by two."""

    @pytest.fixture
    def anthropic(self, service: FakeService) -> dict[str, str]:
        return {"NO_PROXY": "*", "ANTHROPIC_API_KEY": "ant-1", "ANTHROPIC_BASE_URL": service.url}

    @pytest.fixture
    def bedrock(self, service: FakeService) -> dict[str, str]:
        url = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": service.url}
        return {"NO_PROXY": "*", "AWS_BEARER_TOKEN_BEDROCK": "aws-1", "AWS_REGION": "x-1", **url}

    def test_with_both_each_stands_in_for_the_other(
        self, install: Install, service: FakeService, anthropic: dict[str, str],
        bedrock: dict[str, str],
    ) -> None:  # fmt: skip
        both = install("genai-vendor-anthropic", "genai-vendor-bedrock")
        service.replies = [json_reply({"data": []})]  # they are tried; Bedrock's list is elsewhere
        explained = rows(both, "routes", "explain", CLAUDE, **{**anthropic, **bedrock})
        assert [(each["provider"], each["dialect"], each["state"]) for each in explained] == [
            ("anthropic", "anthropic-messages", "works"),
            ("bedrock", "anthropic-messages", "unreachable"),
            ("bedrock", "bedrock-converse", "unreachable"),
        ]
        service.replies = [anthropic_service.claude("fine")]
        for variables, path in ((anthropic, "/v1/messages"), (bedrock, "/model/")):
            service.requests.clear()
            answered(both, CLAUDE, variables)
            [request] = service.requests
            assert request.path.startswith(path)

    def test_anthropic_alone(
        self, install: Install, service: FakeService, anthropic: dict[str, str]
    ) -> None:
        service.replies = [anthropic_service.claude("fine")]
        alone = install("genai-vendor-anthropic")
        answered(alone, CLAUDE, anthropic)
        assert "genai-vendor-bedrock" in refused(alone, "ask", "-m", f"{CLAUDE}@bedrock", "hi")

    def test_bedrock_alone(
        self, install: Install, service: FakeService, bedrock: dict[str, str]
    ) -> None:
        """It offers a model that nobody declares."""
        service.replies = [bedrock_service.converse("fine")]
        alone = install("genai-vendor-bedrock")
        answered(alone, f"{CLAUDE}@bedrock+bedrock-converse", bedrock)
        assert "genai-vendor-anthropic" in refused(alone, "ask", "-p", "anthropic", "hi")


class TestOpenModels:
    """Declared by one plugin, and run by another."""

    def test_models_that_nobody_runs(self, install: Install) -> None:
        alone = install("genai-models-open")
        assert LLAMA in {each["name"] for each in rows(alone, "models", "--all")}
        assert ANY_VENDOR in refused(alone, "ask", "-m", LLAMA, "hi")
        output = refused(alone, "ask", "-m", f"{LLAMA}@ollama", "hi")
        assert "genai-host install genai-vendor-ollama" in output

    @pytest.mark.parametrize("declared", [True, False])
    def test_models_that_run(self, install: Install, service: FakeService, declared: bool) -> None:
        output = install("genai-vendor-ollama", *["genai-models-open"] * declared)
        service.replies = [ollama_service.chat("fine")]
        answered(output, LLAMA, {"NO_PROXY": "*", "OLLAMA_HOST": service.url})
        assert [each.path for each in service.requests] == ["/api/chat"]


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
