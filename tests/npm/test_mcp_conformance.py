"""The conformance package of MCP, at both ends: its scenarios against the host as a server, and
against the client of genai-mcp.

What does not apply stands here with the reason. All else has to pass, and what is new in the
package fails until somebody has looked at it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import genai_mcp
import pytest
from npm import mcp_everything, mcp_peer
from npm.packages import NODE, install

from genai_host import Config, Host, StaticPlugins, dialects as genai_dialects
from genai_host_testing import RouteServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

PACKAGE = Path(__file__).with_name("mcp_conformance")
HELPERS = Path(__file__).parents[1] / "helpers"

RESUMED = "streams that have broken are not resumed"
RESOURCES = "no resources are offered"
PROMPTS = "no prompts are offered"
COMPLETIONS = "there is nothing to complete"
LOGGING = "the server logs to standard error, and not to clients"
SAMPLING = "no client is asked for a model's answer: the host has models"
ROOTS = "no client is asked for its folders"
SOUNDS = "tools of the host give texts and pictures"
PROGRESS = "features tell how it goes, tools of the host do not"
FORMS = "a client is asked for approval, and for no other form"
ONE = "one thing is asked at a time, of those that can be asked"

SERVER: Mapping[str, str] = {
    "completion-complete": COMPLETIONS,
    "elicitation-sep1034-defaults": FORMS,
    "elicitation-sep1330-enums": FORMS,
    "input-required-result-basic-elicitation": FORMS,
    "input-required-result-basic-list-roots": ROOTS,
    "input-required-result-basic-sampling": SAMPLING,
    "input-required-result-capability-check": SAMPLING,
    "input-required-result-ignore-extra-params": FORMS,
    "input-required-result-multi-round": FORMS,
    "input-required-result-multiple-input-requests": ONE,
    "input-required-result-non-tool-request": PROMPTS,
    "logging-set-level": LOGGING,
    "prompts-get-embedded-resource": PROMPTS,
    "prompts-get-simple": PROMPTS,
    "prompts-get-with-args": PROMPTS,
    "prompts-get-with-image": PROMPTS,
    "prompts-list": PROMPTS,
    "resources-list": RESOURCES,
    "resources-read-binary": RESOURCES,
    "resources-read-text": RESOURCES,
    "resources-subscribe": RESOURCES,
    "resources-templates-read": RESOURCES,
    "resources-unsubscribe": RESOURCES,
    "sep-2164-resource-not-found": RESOURCES,
    "server-sse-polling": RESUMED,
    "tools-call-audio": SOUNDS,
    "tools-call-embedded-resource": RESOURCES,
    "tools-call-mixed-content": RESOURCES,
    "tools-call-sampling": SAMPLING,
    "tools-call-with-logging": LOGGING,
    "tools-call-with-progress": PROGRESS,
}
"""Scenarios for servers that do not apply."""

SERVER_CHECKS: Mapping[str, str] = {
    "sep-2549-prompts-list-caching-hints": PROMPTS,
    "sep-2549-resources-list-caching-hints": RESOURCES,
    "sep-2549-resources-templates-list-caching-hints": RESOURCES,
    "sep-2575-server-rejects-undeclared-capability": SAMPLING,
}
"""Single checks, of scenarios that apply else."""

ASKED = "the client is not asked back: there is no user at its side"

CLIENT: Mapping[str, str] = {
    "elicitation-sep1034-client-defaults": ASKED,
    "sep-2322-client-request-state": ASKED,
    "sse-retry": RESUMED,
}
"""Scenarios for clients that do not apply, beside those of `auth/`: the client does not sign
in by OAuth, a token is given in its headers."""

STABLE, NEXT = "conformance", "conformance-next"
RUNS = [(STABLE, "2025-06-18"), (STABLE, "2025-11-25"), (NEXT, "2025-11-25"), (NEXT, "2026-07-28")]
"""Which package is asked for which version of the protocol."""


class Check(NamedTuple):
    """One of a scenario."""

    id: str
    status: str
    why: str

    @property
    def failed(self) -> bool:
        """Whether what has to be, or should be, is not."""
        return self.status not in ("SUCCESS", "SKIPPED", "INFO")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(PACKAGE, tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a host with the tools that the scenarios ask for."""
    plugins = {"dialects": genai_dialects, "mcp": genai_mcp, "everything": mcp_everything}
    with (
        Host(config=Config(), discovery=StaticPlugins(plugins)) as host,
        RouteServer(host) as server,
    ):
        yield f"{server.url}/mcp"


def run(packages: Path, package: str, *arguments: str) -> str:
    program = packages / package / "dist" / "index.js"
    done = subprocess.run([NODE, program, *arguments], capture_output=True, text=True, timeout=500)
    return done.stdout + done.stderr


def scenarios(packages: Path, package: str, kind: str, version: str) -> list[str]:
    """Those of one end, for a version of the protocol."""
    listed = run(packages, package, "list")
    part = listed.partition(f"{kind} scenarios")[2].partition("\n\n")[0]
    matches = re.findall(r"^  - (\S+) \[(.*)\]$", part, re.MULTILINE)
    return [name for name, versions in matches if version in versions.split(",")]


def checks(folder: Path) -> list[Check]:
    """What the package has found."""
    return [
        Check(each["id"], each["status"], each.get("errorMessage", ""))
        for file in folder.glob("**/checks.json")
        for each in json.loads(file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("package", "version"), RUNS)
def test_the_host_as_a_server(
    packages: Path,
    url: str,
    package: str,
    version: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    passed = 0
    wrong: list[tuple[str, Check]] = []
    listed = scenarios(packages, package, "Server", version)
    applying = [name for name in listed if name not in SERVER]
    for name in applying:
        folder = tmp_path / name
        options = ["--url", url, "--scenario", name, "--spec-version", version, "-o", str(folder)]
        output = run(packages, package, "server", *options)
        results = checks(folder)
        assert results, output
        passed += sum(check.status == "SUCCESS" for check in results)
        wrong += [
            (name, check)
            for check in results
            if check.failed
            != (check.id in SERVER_CHECKS)  # one that passes is to be listed no more
        ]
    record_property("scenarios", len(applying))
    record_property("checks passed", passed)
    assert not wrong
    assert passed


@pytest.mark.parametrize(("package", "version"), RUNS)
def test_the_client(
    packages: Path,
    package: str,
    version: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HELPERS))
    command = shlex.join([sys.executable, mcp_peer.__file__])
    passed = 0
    wrong: list[tuple[str, Check]] = []
    listed = scenarios(packages, package, "Client", version)
    applying = [name for name in listed if name not in CLIENT and not name.startswith("auth/")]
    for name in applying:
        folder = tmp_path / name
        options = ["--scenario", name, "--spec-version", version, "-o", str(folder)]
        output = run(packages, package, "client", "--command", command, *options)
        results = checks(folder)
        assert results, output
        passed += sum(check.status == "SUCCESS" for check in results)
        wrong += [
            (name, check) for check in results if check.status not in ("SUCCESS", "SKIPPED", "INFO")
        ]
    record_property("scenarios", len(applying))
    record_property("checks passed", passed)
    assert not wrong
    assert passed


def test_what_does_not_apply_is_there(packages: Path) -> None:
    versions = sorted({version for _, version in RUNS})
    names = {
        name
        for kind in ("Server", "Client")
        for version in versions
        for name in scenarios(packages, NEXT, kind, version)
    }
    assert {*SERVER, *CLIENT} <= names
