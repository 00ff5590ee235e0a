"""The fixtures that strangers' tests have."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from genai_host_testing import FakeModel, FakeService, InlinePlugin, ManualClock
from genai_host_testing.fake_model import ASKING
from genai_host_testing.fake_service import json_reply
from genai_host_testing.pytest_plugin import MakeHost

pytestmark = pytest.mark.part


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
