"""Every fault of a service, with vendors of a few lines, and the suite of executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from genai_host import api
from genai_host_testing import FakeModel, FakeService, InlinePlugin, ManualClock
from genai_host_testing.fake_model import ASKING
from genai_host_testing.fake_service import json_reply
from genai_host_testing.pytest_plugin import MakeHost
from genai_host_testing.suites import ExecutorSuite, HttpProviderSuite, OpenAIChatReplies

pytestmark = pytest.mark.part

ACME = api.http_provider(
    "acme", "https://acme.invalid/v1", {"openai-chat": api.DialectEndpoint()}, key="ACME_KEY",
    models="/models",
)  # fmt: skip
LINES = api.http_provider(
    "lines", "https://lines.invalid", {"plain": api.DialectEndpoint("/say")}, key="LINES_KEY",
    auth_header="x-api-key: {key}",
)  # fmt: skip


class TestAcme(OpenAIChatReplies, HttpProviderSuite):
    plugin = InlinePlugin(providers=[ACME])
    provider = "acme"
    settings = {"base_url": "{url}/v1"}
    keys = ["ACME_KEY"]


class TestLines(HttpProviderSuite):
    """In the host's own form, streamed as lines of JSON."""

    plugin = InlinePlugin(providers=[LINES])
    provider = "lines"
    settings = {"base_url": "{url}"}
    keys = ["LINES_KEY"]
    dialect = "plain"
    model_id = "m-1"
    stream_type = "application/x-ndjson"

    def body(self, text: str) -> bytes:
        return json.dumps(
            api.Codec().to_json(api.Completion(api.Message("assistant", text)))
        ).encode()

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        deltas = [json.dumps({"delta": {"text": piece}}, ensure_ascii=False) for piece in pieces]
        return [*map(str.encode, deltas), b'{"end": ' + self.body("".join(pieces)) + b"}"]

    def frame(self, event: bytes) -> bytes:
        return event + b"\n"


def brings(open: Callable[[Any], Executor]) -> InlinePlugin:
    return InlinePlugin(executors=[api.ExecutorType("threads", api.NoSettings, open)])


@pytest.mark.part
class TestThreads(ExecutorSuite):
    plugin = brings(lambda settings: ThreadPoolExecutor(4))
    executor = "threads"


class Forgetful(ThreadPoolExecutor):
    """It does what it has been asked for only once, and begins nothing beside anything else."""

    def __init__(self) -> None:
        super().__init__(1)
        self._known: dict[Any, Any] = {}

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Any:
        if (function, arguments) not in self._known:
            self._known[function, arguments] = super().submit(function, *arguments, **named)
        return self._known[function, arguments]


class Broken(ExecutorSuite):
    """No class of tests, by its name: it is not collected."""

    plugin = brings(lambda settings: Forgetful())
    executor = "threads"
    patience = 0.2


@pytest.mark.part
def test_the_suite_finds_what_is_wrong(tmp_path: Any) -> None:
    suite = Broken()
    executor = suite.open()
    with pytest.raises(AssertionError):
        suite.test_equal_calls_run_separately(executor, tmp_path)
    (tmp_path / "all").unlink()
    with pytest.raises(AssertionError):
        suite.test_calls_run_concurrently(executor, tmp_path)
    executor.shutdown()


@pytest.mark.parametrize("number", range(2))
def test_each_test_has_a_home(home: Path, number: int) -> None:
    from genai_host import paths

    assert not home.exists()
    home.mkdir()
    assert os.environ["GENAI_HOST_HOME"] == str(home)
    assert Path(paths.config_file()).is_relative_to(home)


def test_a_host_is_made_of_what_is_given(make_host: MakeHost, clock: ManualClock) -> None:
    host = make_host(fake=FakeModel(), asking=InlinePlugin(features=[ASKING]), clock=clock)
    assert host.clock is clock
    assert host.open("asking", "fake").say("hi").text == "hi"
    assert "plain" in host.registry.dialects


def test_a_service_answers(service: FakeService) -> None:
    service.replies = [json_reply({"a": 1})]
    with urllib.request.urlopen(service.url) as reply:
        assert reply.read() == b'{"a": 1}'


@pytest.mark.process
def test_they_are_there_where_they_are_enabled(pytester: pytest.Pytester) -> None:
    """With nothing else of this project's tests; hosts are closed after the test."""
    pytester.makeconftest('pytest_plugins = ["genai_host_testing.pytest_plugin"]')
    pytester.makepyfile(
        """
        hosts = []

        def test_a_host_has_the_dialects_alone(make_host, home):
            hosts.append(make_host())
            names = [each.found.name for each in hosts[0].plugins.results]
            assert [name for name in names if not name.startswith("wire-")] == ["dialects"]
            assert make_host(**dict.fromkeys(names)).plugins.results == []

        def test_it_was_closed():
            assert hosts[0]._closed
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.parametrize("module", ["genai_host_testing", "genai_host_testing.fake_model"])
def test_the_rest_needs_no_pytest(module: str) -> None:
    program = f"import sys; sys.modules['pytest'] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
