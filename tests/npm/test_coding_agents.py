"""Coding agents, unmodified, repair a program: they read a picture and a file, edit it and run its
test. Meanwhile, the model is busy once, overloaded once, and an answer is cut off.

The model is a script that calls the tools of each agent. It runs in the host, whose requests are
read and written, or at a service of the agent's own format, which is another host: the requests of
the agent pass through. Aider has no tools: its model answers with blocks to search and to replace.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_openai
import pytest
from attrs import frozen
from npm.packages import NODE, install

from genai_host import Config, Host, RetryPolicy
from genai_host.api import Completion, Image, Message, ToolCall, ToolResult, hookimpl
from genai_host.calls.passthrough import PassedCompletion
from genai_host.config import InstanceConfig, ServerConfig
from genai_host.errors import GenaiError, RateLimited, ServiceUnavailable
from genai_host_testing import FakeModel
from genai_host_testing.environments import uv
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.fake_service import CUT, Act
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

# the first test installs all agents, which is slow on a busy machine
pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]

WRONG, RIGHT = "return a - b", "return a + b"
PROGRAM = f"def add(a, b):\n    {WRONG}\n"
TEST = """
import unittest
from program import add

class TestAdd(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""
PATCH = f"""*** Begin Patch
*** Update File: program.py
@@
-    {WRONG}
+    {RIGHT}
*** End Patch
"""


def _png(side: int) -> bytes:
    """A black square."""

    def block(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    head = block(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    lines = block(b"IDAT", zlib.compress(bytes((side + 1) * side)))
    return b"\x89PNG\r\n\x1a\n" + head + lines + block(b"IEND", b"")


PICTURE = _png(32)
RUN = "python3 -m unittest -q && echo passed"
TASK = "Fix the failing test and run it."
CODEX_PROVIDER = (
    'model_provider = "host"\n[model_providers.host]\nname = "host"\nbase_url = "{url}/v1"\n'
)

OPENCODE = """
{"provider": {"host": {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": "{url}/v1", "apiKey": "none"},
    "models": {"fake": {}}
}}}
"""

Call = tuple[str, Mapping[str, Any]]


@frozen
class Agent:
    """How an agent is started, and how a model calls its tools.

    Attributes:
        program: Its program, in `node_modules`.
        arguments: Options before the task.
        environ: Environment variables; `{url}` is the address of the server.
        files: Files in its home directory, with their contents.
        calls: Makes the calls of its tools from the path of the program to repair.
        format: Its format; see `SERVICES`.
        refused: Requests that are refused, with their statuses; it goes on without.
        repeats_cut: Whether it repeats a request whose answer was cut off.
        shows_pictures: Whether it shows a picture that it reads to a model that it does not know.
        is_native: Whether the program runs without Node.js.
    """

    program: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    files: Mapping[str, str]
    calls: Callable[[Path], Sequence[Call]]
    format: str
    refused: Sequence[tuple[str, int]] = ()
    repeats_cut: bool = True
    shows_pictures: bool = True
    is_native: bool = False


def codex(model: str, config: str, *calls: Call) -> Agent:
    options = ("exec", "--dangerously-bypass-approvals-and-sandbox", "--model", model)
    read, run = (("exec_command", {"cmd": command}) for command in ("cat program.py", RUN))
    look = ("view_image", {"path": "picture.png"})
    refused = [("GET /v1/responses", 426)] if "openai_base_url" in config else []
    files = {".codex/config.toml": config}
    return Agent(
        ".bin/codex", options, {}, files, lambda _: [look, read, *calls, run], "responses", refused
    )


AGENTS = {
    # models that it knows get a tool for patches with a grammar, and one to search tools
    "codex": codex(
        "gpt-5.5",
        CODEX_PROVIDER,
        ("tool_search", {"query": "agents", "limit": 3}),
        ("apply_patch", {"input": PATCH}),
    ),
    "codex, other model": codex(
        "fake", CODEX_PROVIDER, ("exec_command", {"cmd": "sed -i 's/a - b/a + b/' program.py"})
    ),
    # its own provider asks for a WebSocket first
    "codex, own provider": codex(
        "gpt-5.5", 'openai_base_url = "{url}/v1"\n', ("apply_patch", {"input": PATCH})
    ),
    "claude-code": Agent(
        "@anthropic-ai/claude-code/cli-wrapper.cjs",
        ("--print", "--dangerously-skip-permissions", "--model", "fake"),
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_AUTH_TOKEN": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",  # it refuses to skip permissions for root elsewhere
        },
        {},
        lambda file: [
            ("Read", {"file_path": str(file.with_name("picture.png"))}),
            ("Read", {"file_path": str(file)}),
            ("Edit", {"file_path": str(file), "old_string": WRONG, "new_string": RIGHT}),
            ("Bash", {"command": RUN, "description": "run the test"}),
        ],
        "messages",
    ),
    "gemini-cli": Agent(
        ".bin/gemini",
        ("--yolo", "--model", "fake", "--prompt"),
        {
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
        lambda file: [
            ("read_file", {"file_path": str(file.with_name("picture.png"))}),
            ("read_file", {"file_path": str(file)}),
            (
                "replace",
                {
                    "file_path": str(file),
                    "instruction": "add, do not subtract",
                    "old_string": WRONG,
                    "new_string": RIGHT,
                },
            ),
            ("google_web_search", {"query": "add"}),
            ("run_shell_command", {"command": RUN}),
        ],
        "contents",
        [("POST /v1beta/models/gemini-3-flash-preview:generateContent", 400)],
    ),
    "opencode": Agent(
        "opencode-linux-x64/bin/opencode",  # what its script for Node.js starts
        ("run", "--model", "host/fake"),
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        {".config/opencode/opencode.json": OPENCODE},
        lambda file: [
            ("read", {"filePath": str(file.with_name("picture.png"))}),
            ("read", {"filePath": str(file)}),
            ("edit", {"filePath": str(file), "oldString": WRONG, "newString": RIGHT}),
            ("bash", {"command": RUN}),
        ],
        "chat",
        shows_pictures=False,
        is_native=True,
    ),
    "qwen-code": Agent(
        ".bin/qwen",
        ("--yolo", "--auth-type", "openai", "--model", "fake", "--prompt"),
        {"OPENAI_BASE_URL": "{url}/v1"},
        {},
        lambda file: [
            ("read_file", {"file_path": str(file.with_name("picture.png"))}),
            ("read_file", {"file_path": str(file)}),
            ("edit", {"file_path": str(file), "old_string": WRONG, "new_string": RIGHT}),
            ("run_shell_command", {"command": RUN, "is_background": False}),
        ],
        "chat",
        repeats_cut=False,
        shows_pictures=False,
    ),
}


SERVICES: Mapping[str, tuple[str, Mapping[str, Any], str, str]] = {
    "chat": ("openai-compatible", {"serves": ["openai-chat"]}, "/v1", "fake"),
    "responses": ("openai-compatible", {"serves": ["openai-responses"]}, "/v1", "fake"),
    "messages": ("anthropic", {}, "", "claude-opus-5"),
    "contents": ("gemini", {}, "", "gemini-3.1-pro-preview"),
}
"""The provider, its settings, the path of its base URL and a model, by format."""


NAMES = {"gpt-5.5", *(model for *_, model in SERVICES.values())} - {"fake"}


FAULTS_BEFORE: Mapping[int, GenaiError | Act] = {
    1: RateLimited("too many requests", status=429, retry_after=1.0),
    3: ServiceUnavailable("overloaded", status=529),
}
"""Before the answer, by number of the call: an agent repeats the request."""
FAULTS = {**FAULTS_BEFORE, 5: CUT}
AGAIN = (429, 503, 529)
NO_RETRIES = RetryPolicy(max_attempts=1)


class Statuses:
    """A plugin that collects the statuses of requests to the APIs, and the results of calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.results: list[Any] = []

    @hookimpl
    def genai_on_call_end(self, result: Any) -> None:
        self.results.append(result)

    @hookimpl
    def genai_on_request_end(self, request: Any, status: int) -> None:
        self.seen.append((f"{request.method} {request.path}", status))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coding_agents")
    return install(Path(__file__).with_name("coding_agents"), folder)


def answering(calls: Sequence[Call]) -> Callable[[RecordedPrompt], str | Completion]:
    """A model that makes these calls, one after the other. Requests without tools, such as those
    for a title, get a text."""

    def answer(prompt: RecordedPrompt) -> str | Completion:
        if not prompt.tools:
            return "{}" if prompt.schema is not None else "a title"
        number = sum(message.role == "tool" for message in prompt.messages)
        if number >= len(calls):
            return "All tests pass."
        name, arguments = calls[number]
        call = ToolCall(f"call_{number}", name, arguments)
        return Completion(Message("assistant", ["I go on.", call]), "tool_calls")

    return answer


def flat(parts: Iterable[Any]) -> Iterator[Any]:
    """Parts, with those of the results of tools."""
    for part in parts:
        yield part
        if isinstance(part, ToolResult):
            yield from flat(part.content)


class Project:
    """A program to repair, its test and a picture; and the home directory of an agent."""

    def __init__(self, parent: Path) -> None:
        self.home, self.folder = parent / "home", parent / "project"
        self.home.mkdir()
        self.folder.mkdir()
        self.program = self.folder / "program.py"
        self.program.write_text(PROGRAM)
        (self.folder / "test_program.py").write_text(TEST)
        (self.folder / "picture.png").write_bytes(PICTURE)

    def run(
        self, command: Sequence[str | Path], environ: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run an agent."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env={
                "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(self.home),
                "TMPDIR": str(self.home),
                "OPENAI_API_KEY": "none",
                "TERM": "dumb",
                "NO_PROXY": "127.0.0.1",
                **environ,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def in_front(make_host: MakeHost, agent: Agent, fake: Host, statuses: Statuses) -> Iterator[Host]:
    """A host in front of a service of the agent's format."""
    kind, settings, path, model = SERVICES[agent.format]
    with served(fake) as service:
        own = InstanceConfig(kind, settings={"base_url": f"{service.url}{path}", **settings})
        names = dict.fromkeys(("fake", "gpt-5.5"), f"{kind}/{model}")
        config = Config(models={"chat": "fake"}, aliases=names, providers={kind: own})
        yield make_host(
            openai=genai_vendor_openai,
            anthropic=genai_vendor_anthropic,
            gemini=genai_vendor_gemini,
            statuses=statuses,
            config=config,
            patience=NO_RETRIES,
        )


FIRST = {agent.format: name for name, agent in reversed(AGENTS.items())}
"""An agent of each format. Where requests pass through, the host behind reads those of all."""


@pytest.mark.parametrize(
    ("agent", "passes", "strict"),
    [
        *(pytest.param(AGENTS[name], False, False, id=f"{name}-read") for name in FIRST.values()),
        *(pytest.param(agent, True, False, id=f"{name}-passed") for name, agent in AGENTS.items()),
        pytest.param(AGENTS["claude-code"], False, True, id="claude-code-strict"),
    ],
)
def test_an_agent_repairs_a_program(
    make_host: MakeHost,
    packages: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    agent: Agent,
    passes: bool,
    strict: bool,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("GEMINI_API_KEY", "none")
    if not (packages / agent.program).exists():
        pytest.skip(f"{agent.program} has no build for this system")
    project = Project(tmp_path)
    fake = FakeModel(answering(agent.calls(project.program)))
    statuses = Statuses()
    fake.faults.update(FAULTS if agent.repeats_cut else FAULTS_BEFORE)
    server_config = ServerConfig(strict=strict)
    config = Config(
        models={"chat": "fake"}, aliases=dict.fromkeys(NAMES, "fake"), server=server_config
    )
    observers = {} if passes else {"statuses": statuses}
    host = make_host(fake=fake, config=config, patience=NO_RETRIES, **observers)
    with ExitStack() as stack:
        if passes:
            host = stack.enter_context(in_front(make_host, agent, host, statuses))
        server = stack.enter_context(served(host))
        for name, content in agent.files.items():
            file = project.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content.replace("{url}", server.url))
        environ = {
            name: value.replace("{url}", server.url) for name, value in agent.environ.items()
        }
        interpreter = [] if agent.is_native else [NODE]
        command: list[str | Path] = [*interpreter, packages / agent.program, *agent.arguments, TASK]
        run = project.run(command, environ)
    output = f"{run.stdout}\n{run.stderr}\n{statuses.seen}"
    assert run.returncode == 0, output
    assert "All tests pass." in run.stdout, output
    assert RIGHT in project.program.read_text(), output
    last = [message for message in fake.prompts[-1].messages if message.role == "tool"][-1]
    assert "passed" in repr(last), output
    parts = [part for message in fake.prompts[-1].messages for part in flat(message.content)]
    assert any(isinstance(part, Image) for part in parts) == agent.shows_pictures, output
    passed = [each for each in statuses.results if isinstance(each, PassedCompletion)]
    assert bool(passed) == passes, output
    refused = [each for each in statuses.seen if each[1] >= 400 and each[1] not in AGAIN]
    assert refused == [*agent.refused]
    again = [sys.executable, "-m", "unittest", "-q"]
    tested = subprocess.run(again, cwd=project.folder, check=False)
    assert tested.returncode == 0


AIDER = "aider-chat==0.86.2"
"""It requires exact versions of many distributions, and a Python before 3.13."""

REPLACED = f"""I change the sign.

program.py
```python
<<<<<<< SEARCH
    {WRONG}
=======
    {RIGHT}
>>>>>>> REPLACE
```
"""


@pytest.fixture(scope="module")
def aider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("aider") / "venv"
    try:
        uv("venv", "--quiet", "--no-python-downloads", "--python", ">=3.10,<3.13", str(folder))
        uv("pip", "install", "--quiet", "--python", str(folder), AIDER)
    except (FileNotFoundError, RuntimeError) as error:
        reason = f"{AIDER} cannot be installed: {error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder / "bin" / "aider"


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_aider(make_host: MakeHost, aider: Path, tmp_path: Path, stream: str) -> None:
    project = Project(tmp_path)
    fake = FakeModel(lambda prompt: REPLACED)
    statuses = Statuses()
    options = ("--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings")
    tested = ("--auto-test", "--test-cmd", f"{sys.executable} -m unittest -q")
    model = ("--model", "openai/fake", "--edit-format", "diff", stream)
    with served(make_host(fake=fake, statuses=statuses)) as server:
        command: list[str | Path] = [
            aider,
            *options,
            *tested,
            *model,
            "--message",
            TASK,
            "program.py",
        ]
        environ = {"OPENAI_API_BASE": f"{server.url}/v1", "AIDER_ANALYTICS": "false"}
        run = project.run(command, environ)
    output = f"{run.stdout}\n{run.stderr}\n{statuses.seen}"
    assert run.returncode == 0, output
    assert RIGHT in project.program.read_text(), output
    [prompt] = fake.prompts  # it sends another one if the test fails
    assert WRONG in repr(prompt.messages), output
    assert "Applied edit to program.py" in run.stdout, output
    assert {status for _, status in statuses.seen} == {200}, output
