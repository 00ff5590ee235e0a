#!/usr/bin/env python3
"""What being watched costs a turn: CPU time of the process, on the mock vendor.

    python benchmarks/telemetry.py [--rounds 11]

Without the plugin, with it idle (nobody has configured it), with numbers for Prometheus, with
traces and metrics to a collector on this machine, and with all of that. The collector is a
process of its own, which takes what comes and reads none of it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import genai_feature_chat
import genai_vendor_mock

from genai_host import Config, Host, StaticPlugins
from genai_host.util.clock import SystemClock
from genai_host_testing import installed_wires

_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn."
_TURNS = 200
_WITHOUT = "without the plugin"
_COLLECTOR = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Taking(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
print(server.server_port, flush=True)
server.serve_forever()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    print(f"{'a turn':28} {'us, CPU':>8} {'more':>6} {'x without':>10}")
    with ExitStack() as stack:
        idle = {
            _WITHOUT: stack.enter_context(_turns()),
            "idle": stack.enter_context(_turns(watched=True)),
        }
        _print(_interleaved(idle, rounds))  # as long as nothing of OpenTelemetry is imported
        port = stack.enter_context(_collector())
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
        watched = {
            _WITHOUT: idle[_WITHOUT],
            "numbers for Prometheus": stack.enter_context(_turns(watched=True, gathers=True)),
            "traces to a collector": stack.enter_context(_turns(watched=True, sends=True)),
            "all": stack.enter_context(_turns(watched=True, gathers=True, sends=True)),
        }
        _print(_interleaved(watched, rounds))


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
    *, watched: bool = False, gathers: bool = False, sends: bool = False
) -> Iterator[Callable[[], object]]:
    from genai_otel import OtelPlugin
    from genai_otel.telemetry import Telemetry

    plugins = {
        **installed_wires(),
        "mock": genai_vendor_mock,
        "chat": genai_feature_chat,
    }
    telemetry = Telemetry(os.environ if sends else {})
    if gathers:
        from genai_otel.scrape import Gathered

        telemetry.add(Gathered(SystemClock()))
    further = {"otel": OtelPlugin(telemetry)} if watched else {}
    with Host(config=Config(), discovery=StaticPlugins({**plugins, **further})) as host:
        conversation = host.open("chat", "mock")

        def turns() -> None:
            for _ in range(_TURNS):
                conversation.say(_TEXT)
                conversation.undo()
            telemetry.flush()

        yield turns
        telemetry.close()


def _interleaved(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median microseconds of CPU per turn, all of them in turn in each round."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, turns in ways.items():
            started = time.process_time_ns()
            turns()
            if number:
                taken[name].append((time.process_time_ns() - started) / _TURNS / 1000)
    return {name: statistics.median(each) for name, each in taken.items()}


def _print(times: dict[str, float]) -> None:
    floor = times[_WITHOUT]
    for name, each in times.items():
        print(f"{name:28} {each:8.0f} {each - floor:6.0f} {each / floor:10.2f}")


if __name__ == "__main__":
    main()
