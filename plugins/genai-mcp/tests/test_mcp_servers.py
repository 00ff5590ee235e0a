"""The file with the servers and what is wrong in it, and `genai-host mcp`."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import genai_mcp
import pytest
from genai_mcp.client.servers import McpServer, filled, read_servers

from genai_host.cli.main import run
from genai_host.errors import ConfigurationError
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services import mcp as mcp_service


@pytest.fixture
def file(home: Path) -> Path:
    folder = home / "config"
    folder.mkdir(parents=True)
    return folder / "mcp.json"


def write(file: Path, **servers: Any) -> None:
    file.write_text(json.dumps({"mcpServers": servers}, indent=2), encoding="utf-8")


def test_there_need_be_none() -> None:
    assert read_servers() == []


def test_both_transports(file: Path) -> None:
    write(
        file,
        git={"command": "uvx", "args": ["a", "b"], "env": {"KEY": "k"}, "cwd": "/tmp"},
        shop={"type": "http", "url": "https://shop.example/mcp", "headers": {"X-Key": "k"}},
        off={"command": "x", "disabled": True},
    )
    git, shop = read_servers()
    assert git == McpServer("git", command="uvx", args=("a", "b"), env={"KEY": "k"}, cwd="/tmp")
    assert shop == McpServer("shop", url="https://shop.example/mcp", headers={"X-Key": "k"})
    assert (git.transport, shop.transport) == ("stdio", "http")
    assert "'k'" not in repr([git, shop])


def test_file_of_environment(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.json"
    monkeypatch.setenv("GENAI_MCP", str(other))
    with pytest.raises(ConfigurationError, match="no such file"):
        read_servers()
    write(other, git={"command": "x"})
    assert [server.name for server in read_servers()] == ["git"]


@pytest.mark.parametrize(("content", "message", "line"), [
    (b'{\n  "mcpServers": {\n    "a": }\n}', "invalid JSON", 3),
    (b'{\n"mcpServers": "\xff"}', "not UTF-8", 2),
    (b"[" * 100_000, "nested too deeply", None),
    (b'{"mcpServers": ' + b"1" * 5000 + b"}", "a number is too long", None),
    (b"[]", "mcpServers", 1),
    (b'{"servers": {}}', "mcpServers", 1),
    (b" " * (1 << 20) + b" ", "larger than", None),
], ids=["syntax", "utf-8", "deep", "number", "list", "other", "large"])  # fmt: skip
def test_a_file_that_is_wrong_breaks_nothing_else(
    file: Path, make_host: MakeHost, caplog: pytest.LogCaptureFixture, content: bytes, message: str,
    line: int | None,
) -> None:  # fmt: skip
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_servers()
    assert caught.value.file == str(file)
    assert caught.value.line == line or line is None
    host = make_host(mcp=genai_mcp)
    with caplog.at_level(logging.WARNING):
        assert host.tools() == {}
    assert f"{file}{f':{line}' if line else ''}" in caplog.text
    assert message in caplog.text
    assert host.open("chat", model="mock").say("hi").text


def test_a_file_that_cannot_be_read(file: Path) -> None:
    file.mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_servers()
    file.rmdir()
    os.mkfifo(file)  # without a writer
    with pytest.raises(ConfigurationError, match="it is a named pipe"):
        read_servers()


@pytest.mark.parametrize(("entry", "message"), [
    ([], "must be an object"),
    ({}, "either a command or a url"),
    ({"command": "x", "url": "http://x"}, "either a command or a url"),
    ({"command": ["x"]}, "either a command or a url"),
    ({"command": "x\0y"}, "either a command or a url"),
    ({"command": "x", "args": "-v"}, "the args of bad"),
    ({"command": "x", "args": [1]}, "the args of bad"),
    ({"command": "x", "cwd": 5}, "the cwd of bad"),
    ({"command": "x", "env": {"A": 1}}, "the env of bad"),
    ({"url": "http://x", "headers": ["a"]}, "the headers of bad"),
    ({"url": "http://x", "type": "sse"}, "no longer supports"),
    ({"url": "http://x", "type": "stdio"}, "invalid type"),
    ({"command": "x", "type": "http"}, "invalid type"),
    ({"command": "x", "type": 5}, "invalid type"),
], ids=repr)  # fmt: skip
def test_a_server_that_is_wrong_has_a_fault(file: Path, entry: Any, message: str) -> None:
    write(file, good={"command": "x"}, bad=entry)
    good, bad = read_servers()
    assert good.fault is None
    assert bad.name == "bad"
    assert bad.fault is not None
    assert message in str(bad.fault)
    assert bad.fault.line == file.read_text().split('"bad"')[0].count("\n") + 1


def test_a_name_that_none_can_have_is_told(file: Path) -> None:
    write(
        file,
        **{"My Server": {"command": "x"}, "my-server": {"command": "x"}, "1": {"command": "x"}},
        **{"": {"command": "x"}, "\x1b[1m": {"command": "x"}},
    )
    servers = read_servers()
    names = ["my-server", "my-server-2", "server-1", "server", "server-1m"]
    assert [each.name for each in servers] == names
    assert "'My Server' is not a valid server name" in str(servers[0].fault)
    assert "for example 'my-server'" in str(servers[0].fault)
    assert "\x1b" not in str(servers[4].fault)


def test_values_may_come_from_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "secret")
    monkeypatch.setenv("EMPTY", "")
    server = McpServer("shop")
    assert filled(server, "Bearer ${SHOP_TOKEN}!") == "Bearer secret!"
    assert filled(server, "${EMPTY:-other}, ${NOT_THERE:-}, $HOME, ${}") == "other, , $HOME, ${}"
    with pytest.raises(
        ConfigurationError, match="shop: the environment variable NOT_THERE is not set"
    ):
        filled(server, "${SHOP_TOKEN} ${NOT_THERE}")


SHOP = {"command": sys.executable, "args": ["-m", mcp_service.__name__]}
GONE = {"url": "http://127.0.0.1:9/mcp"}


@pytest.mark.smoke
@pytest.mark.process
def test_servers_are_listed(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(file, shop=SHOP)
    assert run(["mcp"]) == 0
    output = capfd.readouterr().out
    assert output.startswith("shop (stdio): shop 1.5, MCP 2026-07-28, 8 tools\n  add: Add two num")


@pytest.mark.process
def test_one_that_does_not_answer_is_told(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(file, shop=SHOP, gone=GONE, odd={})
    assert run(["mcp", "--json"]) == 1
    shop, gone, odd = json.loads(capfd.readouterr().out)
    assert shop["error"] == ""
    assert shop["tools"][0] == {"name": "add", "description": "Add two numbers."}
    assert "cannot connect" in gone["error"]
    assert odd["error"] == f"{file}:13: odd must have either a command or a url"
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
def test_tools_are_listed_and_called(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(file, shop=SHOP)
    assert run(["tools", "call", "shop__add", "a=1", "b=2"]) == 0
    assert capfd.readouterr().out == "3\n"
    assert run(["tools", "show", "shop__add", "--json"]) == 0
    row = json.loads(capfd.readouterr().out)
    assert (row["plugin"], row["approval"], row["idempotent"]) == ("mcp", "ask", False)


def test_a_file_that_is_wrong_is_told(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text('{"mcpServers":\n {]}', encoding="utf-8")
    assert run(["tools"]) == 0
    errors = capfd.readouterr().err
    assert f"the tools of mcp are not there for now: {file}:2: invalid JSON" in errors
    assert run(["mcp"]) == 1
    assert f"{file}:2" in capfd.readouterr().err
