#!/usr/bin/env python3
"""Measure the CPU time that genai-otel adds to a turn, with the mock provider.

    python benchmarks/telemetry.py [--rounds 11]

Compares turns without the plugin, with the plugin but no configuration, with Prometheus metrics,
with traces and metrics to a collector on this machine, and with all of these. The collector is a
separate process that discards the data.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import genai_feature_chat
import genai_vendor_mock
from timing import median_cpu_times

from genai_host import Config, Host, StaticPlugins
from genai_host.util.clock import SystemClock
from genai_host_testing import installed_wires

_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn."
_TURNS = 200
_WITHOUT = "without the plugin"
_COLLECTOR = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11, help="number of rounds")
    rounds = parser.parse_args().rounds
    print(f"{'turn':28} {'us, CPU':>8} {'added':>6} {'x without':>10}")
    with ExitStack() as stack:
        idle = {
            _WITHOUT: stack.enter_context(_turns()),
            "not configured": stack.enter_context(_turns(installed=True)),
        }
        _measure(idle, rounds)  # before OpenTelemetry is imported
        port = stack.enter_context(_collector())
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
        configured = {
            _WITHOUT: idle[_WITHOUT],
            "metrics for Prometheus": stack.enter_context(_turns(installed=True, scraped=True)),
            "traces to a collector": stack.enter_context(_turns(installed=True, exported=True)),
            "all": stack.enter_context(_turns(installed=True, scraped=True, exported=True)),
        }
        _measure(configured, rounds)


@contextmanager
def _collector() -> Iterator[int]:
    command = [sys.executable, "-c", _COLLECTOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def _turns(
    *, installed: bool = False, scraped: bool = False, exported: bool = False
) -> Iterator[Callable[[], object]]:
    from genai_otel import OtelPlugin
    from genai_otel.telemetry import Telemetry

    plugins = {
        **installed_wires(),
        "mock": genai_vendor_mock,
        "chat": genai_feature_chat,
    }
    telemetry = Telemetry(os.environ if exported else {})
    if scraped:
        from genai_otel.scrape import Gathered

        telemetry.add(Gathered(SystemClock()))
    if installed:
        plugins["otel"] = OtelPlugin(telemetry)
    with Host(config=Config(), discovery=StaticPlugins(plugins)) as host:
        conversation = host.open("chat", "mock")

        def turns() -> None:
            for _ in range(_TURNS):
                conversation.say(_TEXT)
                conversation.undo()
            telemetry.flush()

        yield turns
        telemetry.close()


def _measure(subjects: dict[str, Callable[[], object]], rounds: int) -> None:
    times = median_cpu_times(list(subjects.values()), rounds, [1] * len(subjects))
    baseline, *_ = turns = [time / _TURNS for time in times]
    for name, micros in zip(subjects, turns, strict=True):
        print(f"{name:28} {micros:8.0f} {micros - baseline:6.0f} {micros / baseline:10.2f}")


if __name__ == "__main__":
    main()
