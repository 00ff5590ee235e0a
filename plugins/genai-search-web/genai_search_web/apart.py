"""A search, in a process of its own.

What search engines send is anybody's: it is unpacked and parsed by libraries that set no
bounds, and cannot be stopped. A process has bounds, and can be killed when the call ends. It
gets nothing of the environment but what it needs to connect.

The process reads one line of JSON and writes one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from genai_host.api import CancelToken
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ConfigurationError,
    GenaiError,
    MalformedReply,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
from genai_search_web.results import Found, sound

MOST_MEMORY = 2**30
"""Bytes beside what the process has when it begins; most are addresses that are never used,
which each thread takes some of."""

MOST_SECONDS = 60
"""Of computing."""

_ENVIRONMENT = frozenset(
    {
        *("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
        *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("LANG", "LC_ALL", "LC_CTYPE"),  # how paths are written
        *("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT"),  # where Python is
    }
)
"""What the process gets of the environment, in capitals or not: no keys of services."""

_MAIN = "import sys; del sys.path[0]; from genai_search_web.apart import main; main()"
_ERRORS: Mapping[str, type[GenaiError]] = {
    each.code: each
    for each in (
        AuthenticationFailed,
        ConfigurationError,
        ProviderTimeout,
        MalformedReply,
        RateLimited,
        BadRequest,
        ServiceUnavailable,
    )
}


def search_apart(engine: str, asked: Mapping[str, Any], limits: CancelToken) -> list[Found]:
    """Search with an engine, in another process.

    Args:
        engine: `ddgs` or `searxng`.
        asked: Query, region and limit, and the settings of the engine.
        limits: Cancels the search.

    Raises:
        GenaiError: The search failed or was cancelled.
    """
    limits.check()
    if not sys.executable or getattr(sys, "frozen", False):
        raise ConfigurationError("there is no Python here to search with")
    given = {**asked, "engine": engine, "memory": MOST_MEMORY}
    process = subprocess.Popen(
        [sys.executable, "-c", _MAIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    )
    with process, limits.on_cancel(process.kill):
        try:
            said, _ = process.communicate(json.dumps(given).encode())
        finally:
            process.kill()
    limits.check()
    return _read(said)


def _environment() -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name.upper() in _ENVIRONMENT}
    return {**known, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _read(said: bytes) -> list[Found]:
    try:
        answer: Any = json.loads(said)
    except ValueError:  # it was ended by the system
        raise ServiceUnavailable(
            "the search took too much memory, or time", retryable=False
        ) from None
    if "error" in answer:
        raise _ERRORS[answer["error"]](answer["message"], hint=answer["hint"])
    return [Found(*each) for each in answer["found"]]


def main() -> None:
    """The process."""
    asked = json.loads(sys.stdin.buffer.readline())
    _bound(asked["memory"])
    json.dump(_answer(asked), sys.stdout)


def _answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = [*islice(sound(_engine(asked["engine"])(asked)), asked["limit"])]
    except GenaiError as error:
        return {"error": error.code, "message": error.message, "hint": error.hint}
    except Exception as error:  # noqa: BLE001 - of what a library made of what it was sent
        message = f"what the search brought cannot be read ({type(error).__name__})"
        return {"error": MalformedReply.code, "message": message, "hint": ""}
    return {"found": found}


def _engine(name: str) -> Callable[[Mapping[str, Any]], Iterable[Found]]:
    if name == "ddgs":
        from genai_search_web.by_ddgs import search

        return search
    from genai_search_web.by_searxng import search as search_searxng

    return search_searxng


def _bound(memory: int) -> None:
    """More memory than is taken already, and time, where the system has such bounds."""
    try:
        import resource
    except ImportError:  # Windows has none: there a process ends with its call alone
        return
    for kind, most in (("RLIMIT_AS", _taken() + memory), ("RLIMIT_CPU", MOST_SECONDS)):
        with contextlib.suppress(ValueError, OSError):  # a lower one holds already
            resource.setrlimit(getattr(resource, kind), (most, most))


def _taken() -> int:
    """Bytes of addresses that this process has; a usual number where nobody says."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 2**30
