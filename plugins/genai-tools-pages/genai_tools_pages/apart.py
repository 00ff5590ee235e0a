"""A page, read in a process of its own: the look-up of its name, the download, and what makes
text of it.

None of these can be ended from outside within a thread, and the libraries for HTML have C
beneath them. A process has bounds on its time and its memory, and can be killed.

The process reads one line of JSON and writes one line of JSON. Of the environment it gets
what Python and its connections need, and no keys.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import Any

from genai_host.api import CancelToken
from genai_host.errors import (
    BadRequest,
    GenaiError,
    PermissionDenied,
    ProviderTimeout,
    ServiceUnavailable,
    ValidationError,
)
from genai_tools_pages.page import Page
from genai_tools_pages.settings import PagesSettings

MOST_MEMORY = 768 * 2**20
"""Bytes beside what the process takes to begin with, where the system can bound them."""

_MOST_ANSWER = 4 * 2**20  # bytes: a text of `MOST_TEXT` with each character escaped is less
_GRACE = 10  # seconds after which it ends by itself, should nobody be left to kill it

_MAIN = """
import sys
sys.path[:] = sys.argv[1:]
from genai_tools_pages.process import main
main()
"""

_ENVIRONMENT = (
    *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"),  # whom certificates are from
    *("LANG", "LC_ALL", "LC_CTYPE"),  # how paths are written
    *("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT"),  # where Python is
)
"""No proxy among it: one finds the names itself, so that no address could be checked."""

_ERRORS: dict[str, type[GenaiError]] = {
    kind.code: kind
    for kind in (ProviderTimeout, PermissionDenied, ValidationError, BadRequest, ServiceUnavailable)
}


def read_apart(link: str, settings: PagesSettings, limits: CancelToken) -> Page:
    """The page at a link.

    Raises what reading it raises, `ProviderTimeout` when its time is over, `ValidationError`
    where it takes too much memory, and what ended the call if it ended.
    """
    asked = {
        "link": link,
        "private": settings.private,
        "most": settings.megabytes * 2**20,
        "seconds": settings.seconds,
        "alarm": int(settings.seconds) + _GRACE,
        "memory": MOST_MEMORY,
    }
    process = subprocess.Popen(
        [sys.executable, *(["-B"] * sys.dont_write_bytecode), "-c", _MAIN, *filter(None, sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
    )
    with process, limits.on_cancel(process.kill), _Deadline(process, settings.seconds) as deadline:
        written = _told(process, json.dumps(asked).encode())
    limits.check()
    if not written and deadline.is_over:
        raise ProviderTimeout(
            f"the page took more than {settings.seconds:g} seconds",
            deadline="total",
            hint="tools.pages.seconds says how long one may take",
        )
    return _read(written)


class _Deadline:
    """Kills a process when its time is over.

    Attributes:
        is_over: Whether it has.
    """

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process = process
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self.is_over = False

    def _end(self) -> None:
        self.is_over = True
        self._process.kill()

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
        self._timer.join()


def _told(process: subprocess.Popen[bytes], asked: bytes) -> bytes:
    """What the process answers; cut where it is too long, empty if it was killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(OSError):  # it was killed
            process.stdin.write(asked + b"\n")
            process.stdin.close()
        return process.stdout.read(_MOST_ANSWER)
    finally:
        process.kill()


def _read(written: bytes) -> Page:
    try:
        found: Any = json.loads(written)
        if "error" in found:
            raise _ERRORS[found.pop("error")](str(found.pop("message")), **found)
        return Page(**found)
    except (ValueError, LookupError, TypeError, RecursionError):  # it was ended by the system
        raise ValidationError("the page takes too much memory, or time, to be read") from None
