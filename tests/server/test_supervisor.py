"""Worker processes of one server: start, stop, failure and replacement."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
from fronts import WORD
from genai_server import supervisor as supervisor_module
from genai_server.listener import listen
from genai_server.supervisor import Child, Supervisor, check_platform
from hanging_turns import hanging, service
from raw_http import dial, receive_all

from genai_host.errors import ConfigurationError, GenaiError, PluginError
from genai_host_testing import ManualClock
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.servers import (
    Several,
    begun,
    client_of,
    configure,
    halt,
    is_alive,
    serving,
    wait_until,
)

__all__ = ["service"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


def ready(server: Several) -> bool:
    return requests.get(f"{server.url}/ready", timeout=30).ok


@pytest.mark.process
class TestTheyServe:
    def test_at_one_address_and_end_in_order(self, service: FakeService) -> None:
        """The supervisor loads no host."""
        with serving("--workers", "2") as server:
            maps = Path(f"/proc/{server.pid}/maps").read_text("utf-8")
            assert "httptools" not in maps
            assert "msgspec" not in maps
            first, second = server.workers()
            for worker in (first, second):
                with server.at(worker) as client:
                    assert client.get("/ready") == {"status": "ready"}
                    turn = client.post(f"{client.opened()}/turns", {"message": "hi"})
                    assert turn["answer"]["text"] == WORD
            assert server.end() == (0, "")
        assert not is_alive(first)
        assert not is_alive(second)

    def test_one_is_the_process_itself(self, service: FakeService) -> None:
        with serving("--workers", "1") as server:
            assert server.workers() == []
            wait_until(lambda: ready(server))
            assert server.end() == (0, "")


@pytest.mark.process
class TestTheyEnd:
    def test_with_streams_that_are_told(self, service: FakeService) -> None:
        """Streams of all workers may finish within the timeout, then they are interrupted."""
        with serving("--workers", "2") as server, ExitStack() as stack:
            clients = []
            for worker in server.workers():
                client = stack.enter_context(server.at(worker))
                clients.append(stack.enter_context(hanging(server, client.opened())))
            server.process.send_signal(signal.SIGTERM)
            for connection in clients:
                reply = receive_all(connection)
                assert b'event: error\ndata: {"code":"interrupted"' in reply
                assert reply.endswith(b"0\r\n\r\n")
            assert server.process.wait(30) == 0

    def test_at_once_with_the_second_signal(self, service: FakeService) -> None:
        with (
            serving("--workers", "2", "--graceful-timeout", "60") as server,
            client_of(server.url) as client,
        ):
            with hanging(server, client.opened()) as connection:
                server.process.send_signal(signal.SIGINT)
                wait_until(lambda: not listens(server.url))
                server.process.send_signal(signal.SIGINT)
                assert b"interrupted" in receive_all(connection)
            assert server.process.wait(30) == 0

    def test_when_a_signal_comes_to_all_of_them(self, service: FakeService) -> None:
        """As systemd sends it: the supervisor's order is not a second signal for the workers."""
        with (
            serving("--workers", "2", "--graceful-timeout", "60") as server,
            client_of(server.url) as client,
        ):
            with hanging(server, client.opened(), b"hold") as connection:
                for pid in (server.pid, *server.workers()):
                    os.kill(pid, signal.SIGTERM)
                wait_until(lambda: not listens(server.url))
                service.let_go()
                reply = receive_all(connection)
                assert b'"finish":"stop"' in reply
                assert b"interrupted" not in reply
            assert server.process.wait(30) == 0

    def test_when_the_supervisor_is_killed(self, service: FakeService) -> None:
        with serving("--workers", "2") as server:
            workers = server.workers()
            os.kill(server.pid, signal.SIGKILL)
            wait_until(lambda: not any(map(is_alive, workers)))
            wait_until(lambda: not listens(server.url))


class TestTheyAreReplaced:
    @pytest.mark.slow
    def test_one_that_dies(self, service: FakeService) -> None:
        with serving("--workers", "2") as server:
            first, second = server.workers()
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: first not in server.workers() and len(server.workers()) == 2)
            assert second in server.workers()
            assert ready(server)
            code, output = server.end()
            assert code == 0
            assert "a worker exited unexpectedly: SIGKILL; starting another" in output

    @pytest.mark.slow
    def test_one_that_is_killed_amid_a_turn(self, service: FakeService) -> None:
        """The lock of the killed worker does not block the conversation."""
        with serving("--workers", "2") as server:
            first, killed = server.workers()
            with server.at(first) as client:
                path = client.opened()
            halt(first)  # the other takes the connection
            with client_of(server.url) as client, hanging(server, path):
                os.kill(first, signal.SIGCONT)
                os.kill(killed, signal.SIGKILL)
                wait_until(lambda: not is_alive(killed) and len(server.workers()) == 2)
                assert client.get(path)["status"] == "interrupted"
                reply = client.post(f"{path}/turns", {"message": "hi"})
                assert reply["answer"]["text"] == WORD
                statuses = [turn["status"] for turn in client.get(path)["turns"]]
                assert statuses == ["failed", "answered"]

    @pytest.mark.slow
    def test_on_sighup_and_nothing_is_lost(self, service: FakeService, home: Path) -> None:
        """The new configuration applies then, and each turn is stored once."""
        with serving("--workers", "2") as server:
            before = set(server.workers())
            is_over = threading.Event()

            def converse() -> int:
                with client_of(server.url) as client:
                    path, count = client.opened(), 0
                    while not is_over.is_set():
                        reply = client.send("POST", f"{path}/turns", {"message": "hi"})
                        assert reply.status_code == 200, reply.text
                        count += 1
                    turns = client.get(f"{path}?limit=1000")["turns"]
                    assert [turn["status"] for turn in turns] == ["answered"] * count
                    return count

            with ThreadPoolExecutor(4) as pool:
                conversations = [pool.submit(converse) for _ in range(4)]
                try:
                    configure(home, service, aliases={"mine": "remote/m"})
                    server.process.send_signal(signal.SIGHUP)
                    wait_until(lambda: not before & set(server.workers()))
                    wait_until(lambda: len(server.workers()) == 2)
                finally:
                    is_over.set()
            assert sum(each.result() for each in conversations) > 4
            with client_of(server.url) as client:
                body = {"model": "mine", "messages": [{"role": "user", "content": "hi"}]}
                assert client.post("/v1/chat/completions", body)["choices"]
            assert server.end() == (0, "")

    @pytest.mark.process
    def test_by_none_that_could_not_begin(self, service: FakeService, home: Path) -> None:
        with serving("--workers", "2") as server:
            before = server.workers()
            file = configure(home, service)
            good = file.read_text("utf-8")
            file.write_text("server = 1", "utf-8")
            server.process.send_signal(signal.SIGHUP)
            assert server.process.stderr is not None
            line = server.process.stderr.readline()
            while "the workers were not replaced" not in line:
                assert "the configuration was not reloaded" in line  # a worker has noticed, too
                line = server.process.stderr.readline()
            assert "server must be a table" in line
            assert server.workers() == before
            assert ready(server)
            file.write_text(good, "utf-8")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: not set(before) & set(server.workers()))
            assert server.end()[0] == 0


@pytest.mark.process
@pytest.mark.parametrize(("options", "code", "message"), [
    (["--allow-host", "-bad"], 2, "invalid host name '-bad'"),
    (["--host", "0.0.0.0"], 1, "listening on 0.0.0.0 requires a token"),
    (["--certfile", __file__], 1, "has no usable certificate"),
])  # fmt: skip
def test_what_keeps_them_from_beginning_is_told_in_a_line(
    service: FakeService, options: list[str], code: int, message: str
) -> None:
    environ = {"GENAI_HOST_SERVER_TOKEN": ""}
    with begun("--workers", "2", *options, environ=environ) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err.startswith("error: " if code == 1 else "Usage: ")
    assert err.count(message) == 1


class TestSupervisor:
    """The supervisor, with workers that do not serve."""

    @pytest.fixture
    def messages(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        monkeypatch.setattr(supervisor_module, "_RESTART_DELAY", 0.01)
        return []

    def run(self, messages: list[str], monkeypatch: pytest.MonkeyPatch, program: str) -> None:
        monkeypatch.setattr(supervisor_module, "_WORKER_PROGRAM", program)
        listener = listen("127.0.0.1", 0)

        def start(number: int) -> Child:
            return Child(listener, [], number)

        Supervisor(listener, 1, start, messages.append).run(lambda: messages.append("listening"))

    @pytest.mark.process
    def test_gives_up_on_workers_that_die_as_they_begin(
        self, messages: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(PluginError, match="a worker exited unexpectedly: exit code 7"):
            self.run(messages, monkeypatch, "raise SystemExit(7)")
        assert len(messages) == 2
        assert "starting another in 0.01 s" in messages[0]
        assert "starting another in 0.02 s" in messages[1]

    @pytest.mark.smoke
    @pytest.mark.process
    def test_tells_why_they_failed(
        self, messages: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = (
            "import socket, sys; s = socket.socket(fileno=int(sys.argv[-1].split(',')[1]));"
            's.sendall(b\'failed {"message": "no key", "hint": "set one"}\\n\')'
        )
        with pytest.raises(ConfigurationError, match="no key") as error:
            self.run(messages, monkeypatch, program)
        assert error.value.hint == "set one"
        assert messages == []

    @pytest.mark.process
    def test_ends_one_that_hangs(
        self, messages: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(supervisor_module, "_START_TIMEOUT", 0.1)
        with pytest.raises(GenaiError, match="SIGKILL"):
            self.run(messages, monkeypatch, "import time; time.sleep(60)")

    def test_replaces_one_that_has_served_without_delay(self, messages: list[str]) -> None:
        clock = ManualClock()

        class Idle(Child):
            """A worker without a process. The first reports that it is ready."""

            has_ended = False

            def __init__(self, number: int) -> None:
                self.number, self.error = number, None
                self.is_ready = self.is_stopping = False
                self._unread = b""
                self._channel, self.theirs = socket.socketpair()
                self._channel.setblocking(False)
                started.append(self)
                if len(started) == 1:
                    self.theirs.send(b"ready\n")
                else:
                    signal.raise_signal(signal.SIGTERM)

            def send(self, order: str) -> None:
                self.has_ended = True

            def close(self) -> None:
                self.theirs.close()
                self._channel.close()

            def exit_error(self) -> GenaiError:
                return PluginError("a worker exited")

        started: list[Idle] = []

        def listening() -> None:
            clock.advance(5.1)
            started[0].has_ended = True
            started[0].theirs.close()

        Supervisor(socket.socket(), 1, Idle, messages.append, clock=clock).run(listening)
        assert messages == ["warning: a worker exited; starting another now"]
        assert len(started) == 2

    @pytest.mark.process
    def test_what_a_worker_says_wrongly_is_no_fault_of_it(
        self, messages: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = (
            "import socket, sys; s = socket.socket(fileno=int(sys.argv[-1].split(',')[1]));"
            "s.sendall(b'failed nonsense\\n\\xff\\n')"
        )
        with pytest.raises(PluginError, match="exit code 0"):
            self.run(messages, monkeypatch, program)

    def test_needs_a_system_that_shares_ports(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("genai_server.supervisor.os.name", "nt")
        with pytest.raises(ConfigurationError, match="several workers at one port"):
            check_platform()


def listens(url: str) -> bool:
    try:
        with dial(url):
            return True
    except ConnectionRefusedError:
        return False
