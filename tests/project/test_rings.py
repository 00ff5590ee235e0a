"""Item 1 of the tests: the rings, and that a test that uses more than its ring may fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from genai_host_testing.internal import rings

pytestmark = pytest.mark.process  # each is a run of pytest of its own

_TESTS = """
import pathlib, socket, sqlite3, subprocess, sys, threading, time
import hypothesis, pytest

def test_nothing(): pass

def test_starts():
    subprocess.run([sys.executable, "-c", ""])

def test_binds():
    socket.create_server(("127.0.0.1", 0)).close()

def test_opens_a_database(tmp_path):
    sqlite3.connect(tmp_path / "x.db").close()

def test_computes_with_sqlite():
    sqlite3.connect(":memory:").close()

@pytest.mark.part
def test_part_opens_a_database(tmp_path):
    test_opens_a_database(tmp_path)

def test_sleeps():
    time.sleep(0.001)

def test_sleeps_in_a_thread():
    thread = threading.Thread(target=time.sleep, args=[0.001])
    thread.start()
    thread.join()

went_on, ended = threading.Event(), threading.Event()

@pytest.mark.part
def test_part_leaves_a_thread():
    def go_on():
        went_on.wait(60)
        test_sleeps_in_a_thread()
        ended.set()

    threading.Thread(target=go_on).start()

def test_what_a_thread_of_another_starts():
    went_on.set()
    assert ended.wait(60)

@pytest.fixture(scope="module")
def shared():
    test_starts()

def test_shares(shared): pass

@pytest.mark.part
def test_part_binds():
    test_binds()

@pytest.mark.part
def test_part_starts():
    test_starts()

@pytest.mark.process
@pytest.mark.smoke
def test_process_starts():
    test_starts()

@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_of(engine): pass

@pytest.mark.part
@pytest.mark.slow
def test_far():
    test_starts()

@pytest.mark.slow
@hypothesis.given(hypothesis.strategies.none())
def test_generated(_): pass
"""
_SLEEPS_ARE_SEEN = sys.version_info >= (3, 13)
_MARKERS = ("part", "process", "smoke", "weights", "slow")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(rings.__file__).parent))


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    lines = "\n    ".join(_MARKERS)
    pytester.makeini(f"[pytest]\naddopts = -p rings -p no:randomly\nmarkers =\n    {lines}\n")
    pytester.makepyfile(_TESTS)
    return pytester


def test_item_1_who_uses_more_than_its_ring_may_fails(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess()
    failed = sorted(
        line.split()[1].partition("::")[2] for line in result.outlines if line[:7] == "FAILED "
    )
    sleep = ["test_sleeps", "test_sleeps_in_a_thread"] if _SLEEPS_ARE_SEEN else []
    files = ["test_opens_a_database"]
    assert failed == ["test_binds", *files, "test_part_starts", *sleep, "test_starts"]
    result.stdout.fnmatch_lines(
        [
            "*in the ring unit and uses starts: mark it process (*.py:*",
            "*in the ring unit and uses sockets: mark it part (*.py:*",
            "*in the ring unit and uses databases: mark it part (*.py:*",
            "*in the ring part and uses starts: mark it process (*.py:*",
        ]
    )


@pytest.mark.parametrize(("ring", "count"), [
    *(("unit", 10), ("part", 4), ("process", 2), ("far", 2)),
    *(("unit,smoke", 11), ("unit,hypothesis", 11)),
])  # fmt: skip
def test_item_1_choice_of_rings(project: pytest.Pytester, ring: str, count: int) -> None:
    result = project.runpytest_subprocess("--collect-only", "-q", f"--rings={ring}")
    assert sum("::" in line for line in result.outlines) == count


def test_rows_of_a_parametrized_test_are_evenly_spaced(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -p rings -p no:randomly")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", range(10))
        def test_many(n): pass

        @pytest.mark.parametrize("n", range(3))
        def test_few(n): pass

        def test_one(): pass
        """
    )
    result = pytester.runpytest_subprocess("--collect-only", "-q", "--rows=3")
    rows = [line.partition("::")[2] for line in result.outlines if "::" in line]
    few, many = (f"test_few[{n}]" for n in range(3)), (f"test_many[{n}]" for n in (0, 4, 9))
    assert rows == [*many, *few, "test_one"]


def test_item_1_what_each_test_used_is_written(project: pytest.Pytester) -> None:
    project.runpytest_subprocess("--usage=used.jsonl").assert_outcomes(passed=18)
    lines = (project.path / "used.jsonl").read_text("utf-8").splitlines()
    used = {each["test"].partition("::")[2]: each for each in map(json.loads, lines)}
    assert used["test_starts"]["starts"] >= 1
    assert used["test_sleeps_in_a_thread"]["sleeps"] == int(_SLEEPS_ARE_SEEN)
    assert used["test_part_binds"]["sockets"] == 1
    assert used["test_part_opens_a_database"]["databases"] == 1
    assert used["test_computes_with_sqlite"]["databases"] == 0
    assert used["test_process_starts"]["ring"] == "process"
    assert used["test_of[postgresql]"]["ring"] == "process"
    assert used["test_nothing"]["cpu"] >= 0
