"""The tool, by the suites that strangers' plugins run."""

from __future__ import annotations

from pathlib import Path

import genai_tools_sandbox
import pytest
from genai_tools_sandbox.process import can_run

from genai_host_testing.suites import ToolSourceSuite, ToolSuite

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not can_run(), reason="the sandbox is one of Linux"),
]

_FILES = [{"name": "a.txt", "data": "b25l"}]


class TestRun(ToolSuite):
    plugin = genai_tools_sandbox
    tool = "sandbox__run"
    samples = [
        ({"code": "print('one')\n1 + 1", "session": "s"}, "one\n2"),
        ({"code": "open('/mnt/data/a.txt').read()", "session": "s", "files": _FILES}, "'one'"),
    ]

    @pytest.fixture(autouse=True)
    def _pulled(self, pyodide: Path) -> None:
        # one for each value of `session`: a process takes seconds to start
        self.settings = {"folder": str(pyodide), "sessions": 8}


class TestSandbox(ToolSourceSuite):
    plugin = genai_tools_sandbox
    source = "sandbox"
    unusable = {"seconds": 0}
    samples = {"run": [({"code": "6 * 7"}, "42")]}

    @pytest.fixture(autouse=True)
    def _pulled(self, pyodide: Path) -> None:
        self.settings = {"folder": str(pyodide)}
