"""What a collector gets from the processes that users start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from .otel_receiver import Receiver, attributes_of

pytestmark = pytest.mark.slow

KEY = "sk-canary-collector-77"
SAID = "words that were said 4711"


def environ(home: Path, url: str, **further: str) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "config.toml").write_text('[defaults]\nmodel = "mock"\n')
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "GENAI_HOST_HOME": str(home)}
    return {**environ, **variables, "OPENAI_API_KEY": KEY, **further}


def ask(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "genai_host", "ask", SAID, "--model", "mock", "--no-record"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_a_short_command_loses_no_span(tmp_path: Path) -> None:
    with Receiver() as receiver:
        done = ask(environ(tmp_path, receiver.url, OTEL_SERVICE_NAME="mine"))
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(span.name for span in receiver.spans) == ["chat mock", "invoke_agent chat"]
        assert receiver.resources[0]["service.name"] == "mine"
        assert "gen_ai.client.operation.duration" in receiver.metrics
        assert SAID.encode() not in b"".join(receiver.bodies)
        assert b"canary" not in b"".join(receiver.bodies)


@pytest.mark.parametrize("answers", [True, False], ids=["refuses", "hangs"])
def test_item_7_absent_collector_delays_no_answer(tmp_path: Path, answers: bool) -> None:
    """The exporter's timeout is an hour, so a test that waits for it does not pass."""
    with Receiver(answers=answers) as receiver:
        url = "http://127.0.0.1:1" if answers else receiver.url
        done = ask(environ(tmp_path, url, OTEL_EXPORTER_OTLP_TIMEOUT="3600"))
        assert (done.returncode, done.stdout) == (0, f"{SAID}\n")
        assert done.stderr.startswith("telemetry was not exported: ")
        assert done.stderr.count("\n") == 1


def test_a_server_sends_what_it_does_and_goes_on_with_traces(tmp_path: Path) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    body = {"model": "feature:chat", "messages": [{"role": "user", "content": SAID}]}
    command = [sys.executable, "-m", "genai_host", "serve", "--port", "0", "--json"]
    with Receiver() as receiver:
        env = environ(tmp_path, receiver.url, OTEL_BSP_SCHEDULE_DELAY="100")
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = json.loads(server.stdout.readline())["url"]
                reply = requests.post(
                    f"{url}/v1/chat/completions",
                    json=body,
                    headers={"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"},
                )
                reply.raise_for_status()
                receiver.wait(lambda came: len(came.spans) >= 3)
                assert "gen_ai_client_operation" in requests.get(f"{url}/metrics").text
            finally:
                server.terminate()
                assert server.wait(30) == 0
        receiver.wait(lambda came: "http.server.request.duration" in came.metrics)
    spans = {span.name: span for span in receiver.spans}
    request, turn = spans["POST /v1/chat/completions"], spans["invoke_agent chat"]
    assert {span.trace_id.hex() for span in (request, turn)} == {trace_id}
    assert request.parent_span_id.hex() == "00f067aa0ba902b7"
    assert turn.parent_span_id == request.span_id
    assert spans["chat mock"].parent_span_id == turn.span_id
    assert attributes_of(spans["chat mock"])["gen_ai.request.model"] == "mock"
    assert receiver.resources[0]["service.name"] == "genai-host"
    [point] = receiver.metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert point.count == 1
    assert SAID.encode() not in b"".join(receiver.bodies)
