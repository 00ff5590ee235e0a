"""Each block of the documents runs, as somebody types it who reads them."""

from __future__ import annotations

import ast
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from documents import Block, Walk, blocks, commands_in, copy_clone, documents
from ways import invoked

from genai_host.cli.main import cli, commands
from genai_host_testing.environments import Environment, make_environment
from genai_host_testing.fake_service import FakeService, Received, Reply, json_reply
from genai_host_testing.services import (
    anthropic as anthropic_service,
    bedrock as bedrock_service,
    gemini as gemini_service,
    ollama as ollama_service,
    openai as openai_service,
)

SAID = "Because air scatters blue light more than red."


def played_vendors() -> FakeService:
    """Return a service that answers requests in the format of any vendor."""
    return FakeService(answer=_answer)


def _answer(request: Received) -> Reply:
    path = request.path.partition("?")[0]
    if request.method == "GET":
        return json_reply({"data": [], "models": []})
    streamed = bool(request.json().get("stream", path.startswith("/api/"))) or "tream" in path
    if path.endswith("/count_tokens"):
        return json_reply({"input_tokens": 14})
    for end, form in _FORMS.items():
        if end in path:
            return form(SAID, streamed=streamed)
    return json_reply({"error": {"message": f"there is no {path}"}}, 404)


_FORMS = {
    "/invoke": invoked, "/chat/completions": openai_service.chat,
    "/responses": openai_service.responses, "/messages": anthropic_service.claude,
    "/converse": bedrock_service.converse, "enerateContent": gemini_service.gemini,
    "/api/chat": ollama_service.chat,
}  # fmt: skip
"""A part of the path, and the format of the answer for it."""


TUTORIALS = [f"docs/first-{kind}.md" for kind in ("vendor", "feature", "tool")]
"""Their programs are edits of what they write: `test_tutorials.py` walks through them."""
NOT_RUN = 19
"""How many blocks may not be run."""


def _code(document: str) -> list[Block]:
    return blocks(document, "console", "python")


@pytest.mark.parametrize("document", documents())
def test_commands_exist_and_their_options_parse(document: str) -> None:
    for block in blocks(document, "console"):
        for words in commands_in(block):
            _parse(block, words)


def _parse(block: Block, words: list[str]) -> None:
    all_commands = dict(commands())
    parent = click.Context(cli, info_name="genai-host", **cli.context_settings)
    while words and words[0].startswith("-"):
        words.pop(0)
    if not words or words[0] not in all_commands:
        return  # a question, or a command of a plugin: those are run
    name = words.pop(0)
    command = all_commands[name]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    try:
        command.make_context(name, [*words], parent=parent, resilient_parsing=True)
    except click.UsageError as error:
        pytest.fail(f"{block.place}: genai-host {name}: {error.format_message()}")


@pytest.mark.parametrize("document", documents())
def test_programs_are_in_order(document: str) -> None:
    for block in blocks(document, "python"):
        try:
            ast.parse(block.text)
        except SyntaxError as error:
            pytest.fail(f"{block.place}: {error}")


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    unclosed = [each for document in documents() for each in _code(document) if _is_left(each)]
    assert len(unclosed) <= NOT_RUN, [each.place for each in unclosed]
    assert all(len(each.comments["not run"]) > 10 for each in unclosed)


def _is_left(block: Block) -> bool:
    return "not run" in block.comments


class AllInstalled:
    """An environment with all packages of the clone, restored after a document changes it.

    Attributes:
        bytecode: Directory for compiled modules, which remain when the environment is restored.
    """

    def __init__(self, wheels: dict[str, Path], folder: Path) -> None:
        self.bytecode = folder / "bytecode"
        self._wheels = wheels
        self._folder = folder / "venv"
        self._saved = folder / "saved"
        self._names: set[str] = set()

    def at(self, home: Path) -> Environment:
        environment = Environment(self._folder, home)
        if not self._names:
            make_environment(self._folder, home)
            environment.install(*map(str, self._wheels.values()))
            self._names = _installed(environment)
            _link(self._folder, self._saved)
        elif _installed(environment) != self._names:
            shutil.rmtree(self._folder)
            _link(self._saved, self._folder)
        return environment


def _installed(environment: Environment) -> set[str]:
    return {each.name for each in environment.site.iterdir()} - {"__pycache__"}


def _link(source: Path, copy: Path) -> None:
    """Copy a directory with hard links: installers replace files, and do not write to them."""
    shutil.copytree(source, copy, symlinks=True, copy_function=os.link)


@pytest.fixture(scope="session")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> AllInstalled:
    return AllInstalled(wheels, tmp_path_factory.mktemp("venv"))


@pytest.fixture
def walk(
    wheels: dict[str, Path], installed: AllInstalled, weights: Path, tmp_path: Path
) -> Iterator[Walk]:
    """A shell in a clone, and an environment with all that is in it, at a home with the weights."""
    environment = installed.at(tmp_path / "home")
    data = environment.home / "data"
    data.mkdir(parents=True)
    (data / "local").symlink_to(weights, target_is_directory=True)
    clone = tmp_path / "genai-host"
    copy_clone(clone)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with played_vendors() as vendors:
        addresses = {
            "127.0.0.1:8642": f"127.0.0.1:{port}",
            "https://api.groq.com/openai/v1": f"{vendors.url}/v1",
            "https://my-resource.openai.azure.com": vendors.url,
        }
        variables = {
            # no document shows a longer answer, and the model computes a second for 100 tokens
            "GENAI_HOST_PROVIDERS__LOCAL__MAX_TOKENS": "40",
            "GENAI_HOST_SERVER__PORT": str(port),
            "PYTHONPYCACHEPREFIX": str(installed.bytecode),
            "UV_FIND_LINKS": str(next(iter(wheels.values())).parent),
            "OPENAI_BASE_URL": f"{vendors.url}/v1",
            "ANTHROPIC_BASE_URL": vendors.url,
            "GOOGLE_GEMINI_BASE_URL": vendors.url,
            "OLLAMA_HOST": vendors.url,
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": vendors.url,
            "AWS_ENDPOINT_URL_BEDROCK": vendors.url,
        }
        with Walk(environment, clone, variables, addresses) as walk:
            yield walk


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.timeout(900)
@pytest.mark.parametrize("document", [each for each in documents() if each not in TUTORIALS])
def test_a_document_runs(document: str, walk: Walk) -> None:
    for block in _code(document):
        if not _is_left(block):
            walk.run(block)
