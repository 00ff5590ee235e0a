"""`genai-host serve`, its options and its configuration."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme
from genai_server import Server
from genai_server.command import command
from genai_server.routes import own_routes
from genai_server.settings import ServerSettings, settings_of
from raw_http import dial, receive_all
from support import Terminal

from genai_host import Config, Host, SecretStore
from genai_host.api import Secret
from genai_host.config import ServerConfig, read_config
from genai_host.config.schema import SERVICE_TOOLS
from genai_host.errors import ConfigurationError
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

LIMITS = [
    "--allow-host", "a.example", "--cors", "https://b.example", "--max-concurrency", "3",
    "--queue-size", "4", "--rate-limit", "5", "--graceful-timeout", "2.5",
]  # fmt: skip


@pytest.mark.smoke
@pytest.mark.process
def test_the_help_imports_no_server() -> None:
    program = (
        "import sys; from genai_host.cli.main import run; run(['serve', '--help']);"
        "assert not {'uvicorn', 'asyncio', 'httptools'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--graceful-timeout" in done.stdout


class TestCommand:
    """Options of the command, with a server that returns immediately."""

    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[Server]:
        servers: list[Server] = []

        def run(self: Server, listening: Callable[[], None]) -> None:
            servers.append(self)
            listening()

        monkeypatch.setattr(Server, "run", run)
        return servers

    def test_what_is_given(self, terminal: Terminal, started: list[Server]) -> None:
        code, out, _ = terminal("serve", *["--port", "80", "--root-path", "/host"], *LIMITS)
        assert (code, out) == (0, "listening on http://127.0.0.1:80\n")
        assert started[0].settings == ServerSettings(
            port=80, root_path="/host", allowed_hosts=["a.example"],
            cors_origins=["https://b.example"], max_concurrency=3, queue_size=4, rate_limit=5,
            graceful_timeout=2.5,
        )  # fmt: skip

    def test_options_of_before(self, terminal: Terminal, started: list[Server]) -> None:
        old = ["--at-once", "3", "--waiting", "4", "--rate", "5", "--drain", "2.5", "--log"]
        assert terminal("serve", *old, "--log-json")[0] == 0
        settings = started[0].settings
        assert (settings.max_concurrency, settings.queue_size) == (3, 4)
        assert (settings.rate_limit, settings.graceful_timeout) == (5, 2.5)
        assert settings.access_log is not None
        assert "--at-once" not in terminal("serve", "--help")[1]

    def test_what_is_configured_and_what_comes_before_it(
        self, terminal: Terminal, started: list[Server], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GENAI_HOST_SERVER__PORT", "81")
        monkeypatch.setenv("GENAI_HOST_SERVER__ROOT_PATH", "/a")
        monkeypatch.setenv("GENAI_HOST_SERVER_TOKEN", "of-the-environment")
        out = terminal("serve", "--root-path", "/b", "--json")[1]
        assert out == '{"url": "http://127.0.0.1:81"}\n'
        settings = started[0].settings
        assert (settings.port, settings.root_path) == (81, "/b")
        assert settings.tokens == {"": Secret("of-the-environment")}

    def test_conversations_are_kept_as_configured(
        self, terminal: Terminal, started: list[Server], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert terminal("serve")[0] == 0
        monkeypatch.setenv("GENAI_HOST_CONVERSATIONS__RECORD", "no")
        assert terminal("serve")[0] == 0
        assert [each._host.store is None for each in started] == [False, True]

    @pytest.mark.parametrize(("has_browser", "note"), [(True, ""), (False, "no browser found\n")])
    def test_the_page_is_opened(
        self,
        terminal: Terminal,
        started: list[Server],
        monkeypatch: pytest.MonkeyPatch,
        has_browser: bool,
        note: str,
    ) -> None:
        opened: list[str] = []

        def open_(url: str) -> bool:
            opened.append(url)
            return has_browser

        monkeypatch.setattr("webbrowser.open", open_)
        assert terminal("serve", "--open", "--root-path", "/host")[2] == note
        assert opened == ["http://127.0.0.1:8642/host/"]

    def test_requests_are_logged_on_demand(self, terminal: Terminal, started: list[Server]) -> None:
        for arguments in (["serve"], ["serve", "--access-log"], ["-v", "serve"]):
            assert terminal(*arguments)[0] == 0
        assert [each.settings.access_log is not None for each in started] == [False, True, True]

    def test_what_does_not_fit_is_one_line_and_the_next_step(self, terminal: Terminal) -> None:
        code, out, err = terminal("serve", "--host", "0.0.0.0")
        assert (code, out) == (1, "")
        assert err.splitlines() == [
            "error: listening on 0.0.0.0 requires a token",
            "  set one: export GENAI_HOST_SERVER_TOKEN=$(openssl rand -hex 32)",
        ]

    @pytest.mark.part
    def test_a_port_that_is_taken(self, terminal: Terminal, host: Host) -> None:
        with served(host) as server:
            port = server.url.rpartition(":")[2]
            code, _, err = terminal("serve", "--port", port)
        assert code == 1
        assert f"port {port}: Address already in use" in err


class TestTokens:
    def find(self, server: ServerConfig, **environ: str) -> Any:
        config = Config(server=server)
        return settings_of(config, SecretStore(environ=environ), environ)["tokens"]

    def test_come_from_where_they_are_said_to_be(self, tmp_path: Path) -> None:
        file = tmp_path / "ann"
        file.write_text("of-ann\n")
        server = ServerConfig(token={"env": "MINE"}, users={"ann": {"file": str(file)}})
        assert self.find(server, MINE="mine") == {"": Secret("mine"), "ann": Secret("of-ann")}
        both = self.find(server, MINE="mine", GENAI_HOST_SERVER_TOKEN="other")
        assert both[""] == Secret("other")
        assert self.find(ServerConfig()) == {}

    def test_that_are_not_there(self) -> None:
        for fields in ({"token": {"env": "NONE"}}, {"users": {"a": {"env": "N"}}}):
            with pytest.raises(ConfigurationError, match="nothing in"):
                self.find(ServerConfig(**fields))

    @pytest.mark.parametrize(("text", "what"), [
        ('[server]\ntoken = "sk-secret"', "server.token must not be in the file"),
        ('[server.users.a]\ntoken = "sk-secret"', "server.users.a.token must not be"),
        ("[server.users.a]", "server.users.a must have a token and no other key"),
        ('[server.users.a]\ntoken = {env="A"}\nadmin = true', "and no other key"),
        ('[server.users."A b"]\ntoken = {env="A"}', "is not a valid user name"),
        ("[server]\nport = true", "server.port must be an integer"),
        ('[server]\ngraceful_timeout = "long"', "server.graceful_timeout must be a number"),
        ("[server]\nprot = 1", "unknown key 'server.prot'"),
        ("server = 1", "server must be a table"),
    ])  # fmt: skip
    def test_in_a_file_that_is_wrong(self, tmp_path: Path, text: str, what: str) -> None:
        file = tmp_path / "config.toml"
        file.write_text(text)
        with pytest.raises(ConfigurationError) as error:
            read_config(file)
        assert what in str(error.value)
        assert "secret" not in f"{error.value} {error.value.hint}"
        assert error.value.line is not None

    def test_in_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "config.toml"
        file.write_text(
            '[server]\nport = 1\ngraceful_timeout = 3\ntoken = {env="A"}\nrecord_api_calls = true\n'
            '[server.users.ann]\ntoken = {file="/f"}\n'
        )
        assert read_config(file).server == ServerConfig(
            port=1, record_api_calls=True, graceful_timeout=3.0, token={"env": "A"},
            users={"ann": {"file": "/f"}},
        )  # fmt: skip

    def test_are_not_shown(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GENAI_HOST_SERVER_TOKEN", "sk-secret-of-the-server")
        code, out, err = terminal("config", "show", "--json")
        assert code == 0
        assert "server.port" in out
        assert "sk-secret-of-the-server" not in out + err
        settings = ServerSettings(tokens={"": Secret("sk-secret-of-the-server")})
        assert "secret" not in repr(settings)


def test_keys_of_the_server_are_set(terminal: Terminal) -> None:
    assignments = ["server.port=9000", "server.allowed_hosts=a.example,b.example"]
    assert terminal("config", "set", *assignments)[0] == 0
    server = read_config().server
    assert (server.port, server.allowed_hosts) == (9000, ("a.example", "b.example"))
    assert terminal("config", "set", "server.port=many")[0] == 1


@pytest.mark.part
class TestTls:
    @pytest.fixture
    def files(self, tmp_path: Path) -> dict[str, str]:
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        names = {name: str(tmp_path / name) for name in ("certfile", "keyfile", "ca")}
        certificate.cert_chain_pems[0].write_to_path(names["certfile"])
        certificate.private_key_pem.write_to_path(names["keyfile"])
        authority.cert_pem.write_to_path(names["ca"])
        return names

    def test_it_speaks_https(self, host: Host, files: dict[str, str]) -> None:
        ca = files.pop("ca")
        with served(host, **files) as server:
            assert server.url.startswith("https://127.0.0.1:")
            reply = requests.get(f"{server.url}/health", verify=ca, timeout=30)
            assert reply.json() == {"status": "ok"}
            plain = server.url.replace("https", "http")
            with pytest.raises(requests.ConnectionError):
                requests.get(f"{plain}/health", timeout=30)

    def test_idle_handshakes_are_counted(
        self, host: Host, files: dict[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        ca = files.pop("ca")
        with (
            served(host, connections=3, head_seconds=300.0, **files) as server,
            ExitStack() as stack,
        ):
            idle = [stack.enter_context(dial(server.url)) for _ in range(40)]
            assert requests.get(f"{server.url}/health", verify=ca, timeout=30).status_code == 200
            for client in idle[:24]:  # of all but the last 16
                assert receive_all(client) == b""
            assert caplog.text.count("further connections are refused") == 1

    def test_a_handshake_has_a_time(self, host: Host, files: dict[str, str]) -> None:
        files.pop("ca")
        with served(host, head_seconds=0.1, **files) as server, dial(server.url) as client:
            assert receive_all(client) == b""

    def test_a_certificate_that_is_none(self, host: Host, tmp_path: Path) -> None:
        file = tmp_path / "x.pem"
        file.write_text("no certificate")
        with pytest.raises(ConfigurationError, match="certificate"):
            Server(host, port=0, certfile=str(file))


@pytest.mark.part
def test_two_hosts_are_served_by_one_process(make_host: MakeHost) -> None:
    with served(make_host()) as one, served(make_host()) as other:
        assert one.url != other.url
        for server in (one, other):
            assert requests.get(f"{server.url}/health", timeout=30).status_code == 200


@pytest.mark.part
def test_the_address_of_version_six(host: Host) -> None:
    try:
        with served(host, bind="::1") as server:
            assert server.url.startswith("http://[::1]:")
            assert requests.get(f"{server.url}/health", timeout=30).status_code == 200
    except ConfigurationError as error:
        pytest.skip(f"there is no IPv6 here: {error}")


def test_all_own_routes_are_told_apart() -> None:
    keys = [route.key for route in own_routes()]
    assert len(keys) == len(set(keys))


class TestDocuments:
    """The examples in docs/serving.md and the container file."""

    ROOT = Path(__file__).resolve().parents[2]
    TEXT = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    FILE = (ROOT / "Containerfile").read_text(encoding="utf-8")

    @pytest.mark.process
    def test_the_program(self) -> None:
        source = "".join(re.findall(r"```python\n(.*?)```", self.TEXT, re.DOTALL))
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")

    def test_the_commands(self) -> None:
        visible = [each for each in command.params if not getattr(each, "hidden", False)]
        options = {option for each in visible for option in each.opts}
        documented = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", self.TEXT))
        of_podman = {"--tag", "--publish", "--volume", "--env"}
        of_servers = {"--factory", "--interface"}
        assert documented - of_podman - of_servers <= options
        assert options - documented <= {"--json", "--open", "--port"}

    def test_the_configuration(self, tmp_path: Path) -> None:
        blocks = re.findall(r"```toml\n(.*?)```", self.TEXT, re.DOTALL)
        file = tmp_path / "config.toml"
        file.write_text("\n".join(blocks), encoding="utf-8")
        server = read_config(file).server
        assert set(server.users) == {"ann"}
        assert set(server.service_tools) == {*SERVICE_TOOLS}

    def test_the_container(self) -> None:
        lines = {line.partition(" ")[0]: line.partition(" ")[2] for line in self.FILE.splitlines()}
        assert lines["USER"] != "root"
        assert lines["EXPOSE"] == "8642"
        check = json.loads(lines["HEALTHCHECK"].partition("CMD ")[2])
        compile(check[2], "the health check", "exec")
        name, *options = json.loads(lines["CMD"])
        assert name == "serve"
        with command.make_context(name, options) as context:
            assert context.params["host"] == "0.0.0.0"
