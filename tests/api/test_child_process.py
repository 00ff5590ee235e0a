"""A function in another process: its value or its error comes back, and its limits hold."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from genai_host.api import ChildLimits, child_process, run_in_child
from genai_host.api.cancellation import Cancellation
from genai_host.errors import (
    BadRequest,
    Cancelled,
    ConfigurationError,
    ProviderTimeout,
    ValidationError,
)

_MODULE = """
import ctypes, os, sys
from genai_host.errors import BadRequest

def refuse(why):
    raise BadRequest(why, hint="ask", status=404)

def look_up(name):
    raise LookupError(name)

def shout(text, data):
    print("not the answer")
    sys.stdout.flush()
    os.write(1, b"nor this")
    return text + data.decode()
"""
_EXCEEDED = ValidationError("too much")
_TIMEOUT = ProviderTimeout("too late", deadline="timeout")
_ANY = ChildLimits()


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zz_functions.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def run(function: str, *arguments: Any, limits: ChildLimits = _ANY, **options: Any) -> Any:
    options = {"returns": Any, "cancel": Cancellation(), "timeout": _TIMEOUT, **options}
    return run_in_child(function, *arguments, limits=limits, exceeded=_EXCEEDED, **options)


class TestAnswer:
    """What the child does, in this process."""

    @pytest.fixture(autouse=True)
    def limited(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """The limits that it would have set."""
        resource = pytest.importorskip("resource")
        names = {getattr(resource, name): name for name in dir(resource) if "RLIMIT" in name}
        limits_set: dict[str, Any] = {}
        monkeypatch.setattr(
            resource, "setrlimit", lambda kind, most: limits_set.update({names[kind]: most})
        )
        monkeypatch.setattr("signal.alarm", lambda seconds: limits_set.update(alarm=seconds))
        return limits_set

    def answer(
        self, function: str, *arguments: Any, data: bytes | None = None, **limits: Any
    ) -> bytes:
        task = {
            "function": function,
            "arguments": arguments,
            "limits": limits,
            "has_data": data is not None,
        }
        return child_process.answer(io.BytesIO(json.dumps(task).encode() + b"\n" + (data or b"")))

    def test_it_is_a_value_or_an_error(self) -> None:
        assert json.loads(self.answer("operator:add", [1], [2])) == {"value": [1, 2]}
        assert json.loads(self.answer("zz_functions:shout", "a", data=b"b")) == {"value": "ab"}
        error = json.loads(self.answer("zz_functions:refuse", "no"))["error"]
        assert (error["code"], error["message"], error["hint"]) == ("request_refused", "no", "ask")

    def test_other_errors_give_none(self) -> None:
        assert self.answer("zz_functions:look_up", "x") == b""
        assert self.answer("builtins:object") == b""  # which is no JSON

    def test_limits_are_set_before(self, limited: dict[str, Any]) -> None:
        self.answer("operator:add", 1, 2, memory=1000, cpu_seconds=7, seconds=1.5)
        memory, _ = limited.pop("RLIMIT_AS")
        assert memory > 1000
        assert limited == {
            "RLIMIT_CORE": (0, 0), "RLIMIT_CPU": (7, 7), "RLIMIT_FSIZE": (0, 0), "alarm": 12,
        }  # fmt: skip
        limited.clear()
        self.answer("operator:add", 1, 2, may_write=True)
        assert limited == {"RLIMIT_CORE": (0, 0)}

    def test_limits_that_are_refused_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(kind: int, most: Any) -> None:
            raise ValueError

        monkeypatch.setattr("resource.setrlimit", refuse)
        assert self.answer("operator:add", 1, 2, cpu_seconds=1) == b'{"value": 3}'


@pytest.mark.parametrize("written", [
    "", "no json", "[]", "{}", "5", "[" * 99_999, '{"value": 1, "error": 2}', '{"error": []}',
    '{"error": {"code": [], "message": "of"}}', '{"value": "text"}',
    '{"error": {"code": "request_refused", "message": "of", "nothing": 1}}',
])  # fmt: skip
def test_an_answer_that_is_none_is_an_error(written: str) -> None:
    with pytest.raises(ValidationError, match="too much"):
        child_process._read(written.encode(), int, _EXCEEDED)


def test_a_frozen_program_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not child_process.can_run_in_child()
    with pytest.raises(ConfigurationError, match="no Python interpreter"):
        run("operator:add", 1, 2)


def test_a_call_that_has_ended_starts_none() -> None:
    limits = Cancellation()
    limits.cancel()
    with pytest.raises(Cancelled):
        run("operator:add", 1, 2, cancel=limits)


@pytest.mark.process
class TestProcess:
    @pytest.mark.smoke
    def test_its_value_comes_back_whatever_it_prints(self) -> None:
        assert run("zz_functions:shout", "a", data=b"b" * 2**20, returns=str) == "a" + "b" * 2**20

    def test_its_error_comes_back(self) -> None:
        with pytest.raises(BadRequest, match="no") as caught:
            run("zz_functions:refuse", "no")
        assert (caught.value.hint, caught.value.status) == ("ask", 404)

    def test_it_gets_no_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        monkeypatch.setenv("LC_ALL", "C")
        added = {"HTTP_PROXY": "http://p:1"}
        names = ("OPENAI_API_KEY", "LC_ALL", "HTTP_PROXY")
        values = [run("os:getenv", name, environment=added) for name in names]
        assert values == [None, "C", "http://p:1"]

    @pytest.mark.parametrize(("function", "arguments", "limits"), [
        ("os:_exit", [9], _ANY),
        ("os:abort", [], _ANY),
        ("zz_functions:look_up", ["x"], _ANY),
        ("zz_none:look_up", ["x"], _ANY),
        ("operator:mul", ["a", 2**20], ChildLimits(output=1000)),
        ("builtins:bytearray", [2**30], ChildLimits(memory=2**26)),
        ("os:open", ["written", os.O_CREAT], ChildLimits(cpu_seconds=1)),
        ("builtins:sum", [[[]] * 10], _ANY),
    ])  # fmt: skip
    def test_what_goes_wrong_otherwise_is_one_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str,
        arguments: list[Any], limits: ChildLimits,
    ) -> None:  # fmt: skip
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValidationError, match="too much"):
            run(function, *arguments, limits=limits, returns=str)

    def test_it_is_killed_when_its_time_is_over(self) -> None:
        with pytest.raises(ProviderTimeout, match="too late"):
            run("time:sleep", 600, limits=ChildLimits(seconds=0.1))

    def test_cancelling_kills_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limits, started = Cancellation(), []
        popen = subprocess.Popen

        def start(*args: Any, **named: Any) -> Any:
            started.append(popen(*args, **named))
            limits.cancel()
            return started[0]

        monkeypatch.setattr(subprocess, "Popen", start)
        with pytest.raises(Cancelled):
            run("time:sleep", 600, cancel=limits)
        assert started[0].returncode
