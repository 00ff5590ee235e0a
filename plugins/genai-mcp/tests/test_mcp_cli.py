"""`genai-host mcp`, and the plugin as the command line finds it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from genai_host.cli.main import run
from genai_host_testing.services import mcp as mcp_service

SHOP = {"command": sys.executable, "args": ["-m", mcp_service.__name__]}
GONE = {"url": "http://127.0.0.1:9/mcp"}


@pytest.fixture
def file(home: Path) -> Path:
    folder = home / "config"
    folder.mkdir(parents=True)
    return folder / "mcp.json"


def write(file: Path, **servers: Any) -> None:
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


@pytest.mark.smoke
@pytest.mark.process
def test_servers_are_listed(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(file, shop=SHOP)
    assert run(["mcp"]) == 0
    said = capfd.readouterr().out
    assert said.startswith("shop (stdio): shop 1.5, MCP 2026-07-28, 8 tools\n  add: Add two num")


@pytest.mark.process
def test_one_that_does_not_answer_is_told(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(file, shop=SHOP, gone=GONE, odd={})
    assert run(["mcp", "--json"]) == 1
    shop, gone, odd = json.loads(capfd.readouterr().out)
    assert shop["error"] == ""
    assert shop["tools"][0] == {"name": "add", "description": "Add two numbers."}
    assert "cannot connect" in gone["error"]
    assert odd["error"] == f"{file}:1: odd must have either a command or a url"
    assert run(["mcp", "list", "gone"]) == 1
    assert capfd.readouterr().out.startswith("gone: cannot connect to http://127.0.0.1:9")
    assert run(["mcp", "list", "other"]) == 2
    assert "unknown MCP server 'other'" in capfd.readouterr().err


def test_there_may_be_none(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == []
    assert run(["mcp"]) == 0
    assert f"no servers: {file} has none" in capfd.readouterr().err


@pytest.mark.process
def test_tools_are_listed_and_called_as_others_are(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(file, shop=SHOP)
    assert run(["tools", "call", "shop__add", "a=1", "b=2"]) == 0
    assert capfd.readouterr().out == "3\n"
    assert run(["tools", "show", "shop__add", "--json"]) == 0
    row = json.loads(capfd.readouterr().out)
    assert (row["plugin"], row["approval"], row["idempotent"]) == ("mcp", "ask", False)


def test_a_file_that_is_wrong_is_told(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text('{"mcpServers":\n {]}', encoding="utf-8")
    assert run(["tools"]) == 0
    said = capfd.readouterr().err
    assert f"the tools of mcp are not there for now: {file}:2: invalid JSON" in said
    assert run(["mcp"]) == 1
    assert f"{file}:2" in capfd.readouterr().err
