"""Rings of tests, by the resources that they may use:

    unit      no process, no socket, no database file, no sleep
    part      sockets of this machine, SQLite files, and sleeps
    process   processes, PostgreSQL, wheels, the weights of the embedded model
    far       slow tests, and tests that need a separate environment

Resources of fixtures of a module or a session are not counted.

A test is in the ring of its directory, markers, fixtures, parameters and name, or else in `unit`. A
test that uses more than its ring may fails. `--rings=unit,part` runs the tests of these rings;
`smoke` adds the tests with this marker, and `hypothesis` those with generated examples.
`--rows=3` runs at most three rows of each parametrized test: the first, the last and one between.
`--usage=FILE` writes the resources of each test, one JSON
object per line: test, ring, cpu and wall (seconds), starts, sockets, databases, sleeps.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key  # stderr before the capture
from _pytest.runner import runtestprotocol

RINGS = ("unit", "part", "process", "far")

_OF_MARKERS = {"part": "part", "process": "process", "weights": "process", "slow": "far"}
_OF_FIXTURES = {
    "place": "part",
    "postgres_server": "process",
    "terminal": "part",  # most commands open the store
    "wheels": "process",
}
_OF_NAMES = {  # in suites that third parties also run, which have no markers
    "test_loading_imports_no_slow_modules": "process",
    "test_replay_with_another_hash_seed": "process",
}
_OF_PARAMETERS = {"postgresql": "process"}
_PART_FOLDERS = ("tests/store/",)
_FAR_FOLDERS = tuple(
    f"tests/{folder}/" for folder in ("assistants_peers", "bare", "npm", "page", "peers")
)
_RING = pytest.StashKey[str]()
_THREADS = "threads"
_EVENTS = {
    "subprocess.Popen": "starts",
    "os.fork": "starts",
    "os.forkpty": "starts",
    "os.posix_spawn": "starts",
    "os.system": "starts",
    "socket.bind": "sockets",
    "socket.connect": "sockets",
    "sqlite3.connect": "databases",
    "time.sleep": "sleeps",  # from Python 3.13 on
    "_thread.start_joinable_thread": _THREADS,  # from Python 3.13 on
    "_thread.start_new_thread": _THREADS,
}
_TEST = "_genai_host_test"  # attribute of a thread
_HANGS = 1000.0  # seconds
_OBJECTS = 100_000  # between garbage collections; usually 2,000, which takes an eighth of the time
_SLOW = 0.5  # seconds
_WATCHED_AGAIN = 60.0  # seconds
_ALLOWED = {"unit": frozenset[str](), "part": frozenset({"sockets", "databases", "sleeps"})}
_MIN = {"starts": "process", "sockets": "part", "databases": "part", "sleeps": "part"}


class Usage:
    """Resources of a test, in its thread and in threads that it starts. Older threads belong to
    earlier tests, and so do threads that those start.

    Attributes:
        places: Where each resource was last used.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(_MIN, 0)
        self.places: dict[str, str] = {}
        self._number = 0
        self._thread = threading.get_ident()
        self._older = frozenset[int]()

    def audit_hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """Return an audit hook: https://docs.python.org/3/library/audit_events.html

        A test has 400 events, for example each `id()`. A method takes 0.8 µs for each, a function
        0.2 µs.
        """

        def see(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _EVENTS and arguments[:1] != (":memory:",):
                self._count(_EVENTS[event], arguments)

        return see

    def _count(self, what: str, arguments: tuple[Any, ...]) -> None:
        test = self._test_of_this_thread()
        if what == _THREADS:
            started = getattr(arguments[0], "__self__", None)
            if isinstance(started, threading.Thread):
                vars(started)[_TEST] = test
        elif test == self._number:
            self.counts = {**self.counts, what: self.counts[what] + 1}
            frame = sys._getframe(2)
            self.places[what] = f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def _test_of_this_thread(self) -> int:
        ident = threading.get_ident()
        if ident == self._thread:
            return self._number
        unknown = -1 if ident in self._older else self._number
        name: int = vars(threading.current_thread()).get(_TEST, unknown)
        return name

    def begin(self) -> None:
        self.counts = dict.fromkeys(self.counts, 0)
        self._number += 1
        self._thread = threading.get_ident()
        self._older = frozenset({*sys._current_frames()} - {self._thread})


def ring_of(item: pytest.Item) -> str:
    """Return the outermost ring of a test's directory, markers, fixtures and parameters."""
    if item.nodeid.startswith(_FAR_FOLDERS):
        return "far"
    rings = {_OF_MARKERS.get(each.name, "unit") for each in item.iter_markers()}
    rings.add("part" if item.nodeid.startswith(_PART_FOLDERS) else "unit")
    rings |= {_OF_FIXTURES.get(each, "unit") for each in getattr(item, "fixturenames", ())}
    rings.add(_OF_NAMES.get(getattr(item, "originalname", ""), "unit"))
    if callspec := getattr(item, "callspec", None):
        values = (each for each in callspec.params.values() if isinstance(each, str))
        rings |= {_OF_PARAMETERS.get(each, "unit") for each in values}
    return max(rings, key=RINGS.index, default="unit")


def _some_rows(items: list[pytest.Item], most: int) -> Iterator[pytest.Item]:
    """Yield at most this many rows of each parametrized test, evenly spaced."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for rows in tests.values():
        last, gaps = len(rows) - 1, max(most - 1, 1)
        yield from rows if last < most else (rows[round(n * last / gaps)] for n in range(most))


def _time_limit(item: pytest.Item) -> float:
    """Return the time limit of a test in seconds; 0 for the default."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None and mark.args else 0.0


class Rings:
    """The pytest plugin."""

    def __init__(self, chosen: str, rows: int, file: str | None) -> None:
        self._chosen = frozenset(filter(None, chosen.split(",")))
        if wrong := self._chosen - {*RINGS, "smoke", "hypothesis"}:
            raise pytest.UsageError(f"--rings: unknown ring {', '.join(sorted(wrong))}")
        self._rows = rows
        self._usage = Usage()
        self._watched = float("-inf")
        self._folders: list[str] = []
        self._file = open(file, "a", encoding="utf-8", buffering=1) if file else None  # noqa: SIM115 - for the whole run
        sys.addaudithook(self._usage.audit_hook())

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Iterator[Any]:
        """Exclude collected objects from garbage collection: they live as long as the run, and
        traversing them takes half a second each time.
        """
        config = session.config
        if config.args_source is config.ArgsSource.TESTPATHS:
            self._folders = list(config.args)
            if getattr(config, "workerinput", {}).get("workerid") == "gw1":
                config.args.reverse()  # in a new clone, each of two workers compiles other modules
        gc.disable()
        # Hypothesis creates its random source with the first example, and treats it as garbage if
        # its references cannot be found later
        hypothesis.find(hypothesis.strategies.none(), lambda _: True)
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.set_threshold(_OBJECTS, 10, 10)
            gc.enable()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=self._folder_number)  # in the same order in each worker
        for item in items:
            item.stash[_RING] = ring_of(item)
        if (self._chosen or self._rows) and items:
            chosen = [each for each in items if self._is_chosen(each)]
            selected = {*(_some_rows(chosen, self._rows) if self._rows else chosen)}
            deselected = [each for each in items if each not in selected]
            items[0].config.hook.pytest_deselected(items=deselected)
            items[:] = [each for each in items if each in selected]
        items.sort(key=_time_limit, reverse=True)  # else one worker waits for the other at the end

    def _folder_number(self, item: pytest.Item) -> int:
        folder = item.nodeid.partition("/")[0]
        return self._folders.index(folder) if folder in self._folders else 0

    def _is_chosen(self, item: pytest.Item) -> bool:
        if not self._chosen:
            return True
        is_smoke = "smoke" in self._chosen and item.get_closest_marker("smoke") is not None
        is_generated = "hypothesis" in self._chosen and hypothesis.is_hypothesis_test(
            getattr(item, "obj", None)
        )
        return is_smoke or is_generated or item.stash[_RING] in self._chosen

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, and report its setup and teardown only if they failed or were slow: to send a
        report to xdist's controller takes 0.3 ms.
        """
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.duration >= _SLOW:
                hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True, specname="pytest_runtest_protocol")
    def pytest_measured_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._watch(item.config)
        self._usage.begin()
        if self._file is None:  # the calls below take a hundredth of a run
            return (yield)
        wall, cpu = time.perf_counter(), _cpu_seconds()
        result = yield
        used = {
            "test": item.nodeid,
            "ring": item.stash[_RING],
            "wall": round(time.perf_counter() - wall, 4),
            "cpu": round(_cpu_seconds() - cpu, 4),
            **self._usage.counts,
        }
        self._file.write(json.dumps(used) + "\n")
        return result

    def _watch(self, config: pytest.Config) -> None:
        """Print the stacks of all threads if a test hangs beyond its time limit.
        `faulthandler_timeout` does the same, but takes 2 ms per test.
        """
        now = time.monotonic()
        if now >= self._watched + _WATCHED_AGAIN:
            self._watched = now
            file = config.stash.get(fault_handler_stderr_fd_key, None)
            if file is not None:
                faulthandler.dump_traceback_later(_HANGS, file=file)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        """Do not count shared fixtures: in another run another test may be the first."""
        before = self._usage.counts
        result = yield
        if fixturedef.scope != "function":
            self._usage.counts = before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        ring = item.stash[_RING]
        wrong = [
            what
            for what, count in self._usage.counts.items()
            if count and ring in _ALLOWED and what not in _ALLOWED[ring]
        ]
        if wrong and self._file is None:
            least = max((_MIN[what] for what in wrong), key=RINGS.index)
            places = ", ".join(self._usage.places[what] for what in wrong)
            pytest.fail(
                f"it is in the ring {ring} and uses {', '.join(wrong)}: mark it {least} ({places})"
            )
        return result


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rings", default="", help="run only the tests of these rings")
    parser.addoption(
        "--rows", type=int, default=0, help="maximum rows of a parametrized test; 0 for all"
    )
    parser.addoption(
        "--usage", metavar="FILE", help="write the resources that each test used, as JSON lines"
    )


def pytest_configure(config: pytest.Config) -> None:
    rings, rows, usage = map(config.getoption, ("--rings", "--rows", "--usage"))
    config.pluginmanager.register(Rings(rings, rows, usage), "ring-rules")
