"""`GET /metrics`, as Prometheus asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import genai_otel
import pytest
import requests
from genai_otel.conventions import INSTRUMENTS
from genai_otel.sums import Sums, prometheus_name
from genai_otel.workers import SharedSums, is_alive, shared_folder
from genai_server import Server
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from genai_host import Config, Host
from genai_host.api import Secret, hookimpl
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

pytestmark = pytest.mark.part

TOKEN, OTHERS = "operator-canary-1", "user-ann-canary-2"
NAME = "gen_ai_client_operation_duration_seconds"


class Ends(InlinePlugin):
    """Knows when requests have ended; those that come before it among plugins know by then."""

    def __init__(self) -> None:
        super().__init__()
        self.count = threading.Semaphore(0)

    @hookimpl
    def genai_on_request_end(self) -> None:
        self.count.release()


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def host(make_host: MakeHost, ends: Ends) -> Host:
    return make_host(config=Config(models={"chat": "mock"}), otel=genai_otel.plugin, ends=ends)


@pytest.fixture
def server(host: Host) -> Iterator[Server]:
    with served(host) as server:
        yield server


def ask(server: Server, ends: Ends, **further: Any) -> requests.Response:
    body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}], **further}
    reply = requests.post(f"{server.url}/v1/chat/completions", json=body)
    assert ends.count.acquire(timeout=10)
    return reply


def scrape(server: Server, **headers: str) -> str:
    reply = requests.get(f"{server.url}/metrics", headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.text


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in plain_text(text)
        for sample in family.samples
    }


def total(text: str, name: str, **labels: str) -> float:
    return sum(
        value
        for (metric, label_set), value in samples(text).items()
        if metric == name and labels.items() <= dict(label_set).items()
    )


def test_calls_tokens_and_requests_are_counted(server: Server, ends: Ends) -> None:
    for _ in range(3):
        assert ask(server, ends).status_code == 200
    ask(server, ends, stream=True)
    assert ask(server, ends, model="feature:chat").status_code == 200
    text = scrape(server)
    call = {"gen_ai_provider_name": "mock", "gen_ai_request_model": "mock"}
    assert total(text, f"{NAME}_count", **call) == 5
    assert total(text, f"{NAME}_count", **call, gen_ai_agent_name="chat") == 1
    assert total(text, "gen_ai_client_token_usage_sum", gen_ai_token_type="output") >= 5
    first = "gen_ai_client_operation_time_to_first_chunk_seconds_count"
    assert total(text, first) == 2  # the feature is heard as it goes, too
    assert total(text, "genai_host_client_active_calls") == 0
    labels = {"http_route": "/v1/chat/completions", "http_response_status_code": "200"}
    assert total(text, "http_server_request_duration_seconds_count", **labels) == 5
    assert total(text, "http_server_active_requests") == 1  # this one
    assert total(text, "process_resident_memory_bytes") > 0 or sys.platform != "linux"


def test_paths_and_methods_of_anybody_are_no_labels(server: Server, ends: Ends) -> None:
    for number in range(3):
        requests.get(f"{server.url}/made-up-{number}")
        assert ends.count.acquire(timeout=10)
    requests.request("PROPFIND", f"{server.url}/metrics")
    assert ends.count.acquire(timeout=10)
    text = scrape(server)
    assert "made-up" not in text
    assert "PROPFIND" not in text
    name = "http_server_request_duration_seconds_count"
    assert total(text, name, http_response_status_code="404", http_route="") == 3
    assert total(text, name, http_request_method="_OTHER", http_route="") == 1


def test_both_formats_are_what_their_parsers_take(server: Server, ends: Ends) -> None:
    ask(server, ends)
    plain = requests.get(f"{server.url}/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "no-store" in plain.headers["cache-control"]
    opened = requests.get(
        f"{server.url}/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in open_metrics(opened.text)}  # type: ignore[no-untyped-call]
    ours = {prometheus_name(each) for each in INSTRUMENTS}
    assert ours <= names
    assert ours <= {family.name.removesuffix("_total") for family in plain_text(plain.text)}


def test_names_and_units_are_what_promtool_asks_for(server: Server, ends: Ends) -> None:
    """Its lints: base units, `_total` for counters alone, help for all."""
    ask(server, ends)
    for family in plain_text(scrape(server)):
        assert family.documentation, family.name
        for sample in family.samples:
            assert sample.name.endswith("_total") == (
                family.type == "counter" and not sample.name.endswith("_created")
            ), sample
        assert not family.name.endswith(("_milliseconds", "_ms", "_minutes"))


class TestWhoMayRead:
    @pytest.fixture
    def server(self, host: Host) -> Iterator[Server]:
        tokens = {"": Secret(TOKEN), "ann": Secret(OTHERS)}
        with served(host, tokens=tokens) as server:
            yield server

    @pytest.mark.parametrize(
        ("token", "status"), [(TOKEN, 200), (OTHERS, 403), (None, 401), ("wrong", 401)]
    )
    def test_closed_to_others(self, server: Server, token: str | None, status: int) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        assert requests.get(f"{server.url}/metrics", headers=headers).status_code == status

    def test_no_token_is_in_it(self, server: Server) -> None:
        assert "canary" not in scrape(server, authorization=f"Bearer {TOKEN}")


def test_a_closed_server_hears_no_more(host: Host) -> None:
    before = genai_otel.plugin.telemetry.has_listeners()
    with served(host) as server:
        scrape(server)
        assert genai_otel.plugin.telemetry.has_listeners()
    assert genai_otel.plugin.telemetry.has_listeners() is before is False


class TestSeveralProcesses:
    """They share what they count."""

    def test_one_alone_has_no_folder(self) -> None:
        assert shared_folder(1, {}) == ""

    def test_those_of_one_parent_have_one_folder(self, home: Path) -> None:
        folder = shared_folder(2, {})
        assert shared_folder(3, {}) == folder
        assert Path(folder).is_relative_to(home)
        assert Path(folder).name.split("-")[0] == str(os.getppid())
        assert Path(folder).stat().st_mode & 0o777 == 0o700

    def test_a_folder_that_is_named_is_taken(self, tmp_path: Path) -> None:
        named = str(tmp_path / "named")
        assert shared_folder(1, {"PROMETHEUS_MULTIPROC_DIR": named}) == named

    @pytest.mark.smoke
    @pytest.mark.process
    def test_folders_of_parents_that_are_gone_are_removed(self, home: Path) -> None:
        folder = Path(shared_folder(2, {}))
        with subprocess.Popen([sys.executable, "-c", ""]) as gone:
            gone.wait()
        stale = folder.with_name(str(gone.pid))
        again = folder.with_name(f"{os.getpid()}-1")  # the id of another, that came again
        other = folder.with_name("notes")
        for each in (stale, again, other):
            each.mkdir()
        shared_folder(2, {})
        assert not stale.exists()
        assert not again.exists() or sys.platform != "linux"
        assert folder.exists()
        assert other.exists()
        assert not is_alive(gone.pid)

    @pytest.mark.slow
    def test_one_scrape_shows_all_of_them(self, tmp_path: Path) -> None:
        """Two servers as workers are; one of them ends, and what it has counted stays."""
        environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "shared")}
        environ["GENAI_HOST_HOME"] = str(tmp_path / "home")
        command = [sys.executable, "-m", "genai_host", "serve", "--port", "0", "--json"]
        body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}
        workers = [
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        try:
            urls = [_url(each) for each in workers]
            for url in (*urls, urls[0]):
                requests.post(f"{url}/v1/chat/completions", json=body).raise_for_status()
            _until(lambda: _counted(urls[0]) == _counted(urls[1]) == 3)
            shared = SharedSums(str(tmp_path / "shared"), Sums())
            assert len(shared.processes()) == 3  # this one too
            memory = requests.get(f"{urls[1]}/metrics").text
            assert len([n for n in samples(memory) if n[0] == "process_open_fds"]) in (0, 2)
            workers[0].terminate()
            workers[0].wait(20)
            assert _counted(urls[1]) == 3
        finally:
            for each in workers:
                each.kill()
                each.communicate()

    @pytest.mark.process
    def test_one_scrape_shows_all_workers_of_a_server(self, tmp_path: Path) -> None:
        """With nothing set by hand."""
        environ = {**os.environ, "GENAI_HOST_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "genai_host", "serve", "--port", "0", "--json"]
        body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}
        with subprocess.Popen(
            [*command, "--workers", "2"], env=environ, stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                url = _url(server)
                [folder] = (tmp_path / "home" / "cache" / "genai-otel").iterdir()
                count = 0

                def ask() -> None:
                    requests.post(f"{url}/v1/chat/completions", json=body).raise_for_status()

                def both_were_asked() -> bool:
                    """Which of them takes a connection is up to the system."""
                    nonlocal count
                    with ThreadPoolExecutor(8) as pool:
                        for done in [pool.submit(ask) for _ in range(8)]:
                            done.result()
                    count += 8
                    return len([*Path(folder).glob("*.json")]) == 2

                _until(both_were_asked)
                _until(lambda: {_counted(url) for _ in range(6)} == {count})
            finally:
                server.terminate()


def _counted(url: str) -> float:
    return total(requests.get(f"{url}/metrics").text, f"{NAME}_count", gen_ai_provider_name="mock")


def _until(holds: Any) -> None:
    """For what is done a moment later, as a request is counted after its reply has come."""
    for _ in range(200):
        if holds():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it does not come to hold")


def _url(process: subprocess.Popen[str]) -> str:
    import json

    assert process.stdout is not None
    return str(json.loads(process.stdout.readline())["url"])
