"""Access tokens from a command, for example `az account get-access-token`.

Source: Azure CLI, "az account get-access-token": `accessToken`, and `expires_on` in seconds since
1970, which versions before 2.54 lack.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import AccessToken, CancelToken, Clock, Secret, read_json
from genai_host.errors import AuthenticationFailed

_SECONDS = 30.0  # timeout of the command
_LARGEST = 1 << 16  # bytes of the output, which has little besides a token


class TokenCommand:
    """A command, run without a shell, that prints a token, or JSON with one."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        self._command = command
        self._clock = clock

    def missing(self) -> str | None:
        """Why the command cannot run, checked without running it."""
        program = self._command[0]
        return None if shutil.which(program) else f"token_command: no such program: {program}"

    def __call__(self, limits: CancelToken) -> AccessToken:
        """Run the command and return its token. Raises `AuthenticationFailed`, without the output,
        which can contain a token even after a failure.
        """
        output = self._run(limits).strip()
        if not output.startswith(b"{"):
            return self._token(output.decode(errors="replace"), None)
        try:
            told = read_json(output)
        except ValueError:
            raise self._failed("printed invalid JSON") from None
        return self._token(told.get("accessToken"), self._seconds_until(told))

    def _token(self, value: object, seconds: float | None) -> AccessToken:
        if not isinstance(value, str) or not value:
            raise self._failed("printed no token")
        return AccessToken(Secret(value), seconds)

    def _seconds_until(self, told: Mapping[str, Any]) -> float | None:
        end = told.get("expires_on")
        if isinstance(end, str) and end.isascii() and end.isdigit():
            end = int(end[:20])  # longer numbers are not times and slow to parse
        return float(end) - self._clock.now().timestamp() if type(end) is int else None

    def _run(self, limits: CancelToken) -> bytes:
        """Return the output, within the timeout of the command and of the call."""
        program = shutil.which(self._command[0])
        if program is None:
            raise self._failed("was not found")
        overdue: list[bool] = []
        try:
            process = subprocess.Popen(
                [program, *self._command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that its children can be killed too
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise self._failed(f"cannot be run: {why}") from None

        def give_up() -> None:
            overdue.append(True)
            _end(process)

        assert process.stdout is not None
        with (
            process,
            limits.on_cancel(lambda: _end(process)),
            self._clock.call_later(_SECONDS, give_up),
        ):
            output = process.stdout.read(_LARGEST + 1)
            if len(output) > _LARGEST:
                _end(process)
            code = process.wait()
        limits.check()
        if overdue:
            raise self._failed(f"did not finish within {_SECONDS:g} s")
        if len(output) > _LARGEST:
            raise self._failed("printed too much")
        if code:
            raise self._failed(f"exited with code {code}")
        return output

    def _failed(self, why: str) -> AuthenticationFailed:
        name = os.path.basename(self._command[0])
        return AuthenticationFailed(
            f"token_command: {name} {why}", hint="run the command to see its output"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and its child processes, which would otherwise hold its output open."""
    if process.poll() is not None:
        return
    with contextlib.suppress(OSError):  # it has exited
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
