"""A server that runs as a child process. Messages are lines on its standard streams.

The transport of the SDK is not used: it reads lines of any length, and reports neither the exit
code of a server nor its last output. The server is untrusted: memory use stays below the constants
in this module, regardless of its output.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from genai_host.api import ValueBudget
from genai_host.errors import (
    ConfigurationError,
    GenaiError,
    MalformedReply,
    ServiceUnavailable,
    ValidationError,
)
from genai_mcp.client.servers import MAX_SIZE, McpServer, filled
from genai_mcp.text import Lines, one_line

MAX_UNSOLICITED = 100_000
"""Maximum number of lines from a server without a message to it."""

GRACE = 2.0
"""Seconds for a server to exit after its input is closed, and again after it is terminated."""

_MAX_ERRORS = 4000  # bytes of stderr to store
_POLL = 0.01  # seconds; `Process.wait` waits for the end of the pipes too

# the same variables as in the official SDKs; none of them has secrets
_PASSED_ON = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE SYSTEMDRIVE "
    "SYSTEMROOT TEMP USERNAME USERPROFILE"
    if sys.platform == "win32"
    else "HOME LANG LC_ALL LOGNAME PATH SHELL TERM TMPDIR USER"
).split()

_Incoming: TypeAlias = "MemoryObjectSendStream[SessionMessage | Exception]"
_Streams: TypeAlias = """tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]"""

_CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def stdio_transport(
    server: McpServer, ended: Callable[[GenaiError], None]
) -> AsyncIterator[_Streams]:
    """Start a server and exchange messages with it.

    Args:
        server: The server.
        ended: Called with the reason when the server ends by itself.

    Raises:
        ConfigurationError: The server cannot be started.
    """
    with anyio.CancelScope(shield=True):  # a process that is started is also stopped
        process = await _started(server)
    child = _Child(server.name, process, ended)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.read_errors)
        tasks.start_soon(child.write, outgoing)
        tasks.start_soon(child.read, incoming)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()
                await child.stop()
            tasks.cancel_scope.cancel()


class _Child:
    def __init__(self, name: str, process: Process, ended: Callable[[GenaiError], None]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._name = name
        self._process = process
        self._stdin: ByteSendStream = process.stdin
        self._stdout: ByteReceiveStream = process.stdout
        self._stderr: ByteReceiveStream = process.stderr
        self._ended = ended
        self._errors = b""
        self._no_more_errors = anyio.Event()
        self._unsolicited = 0
        self._stopped = False

    async def read(self, incoming: _Incoming) -> None:
        """Receive messages until the end of the output, which ends the server."""
        reason = ""
        lines = Lines(MAX_SIZE)
        async with incoming:
            try:
                with contextlib.suppress(*_CLOSED):
                    while True:
                        for line in lines.feed(await self._stdout.receive()):
                            await self._take(line, incoming)
            except MalformedReply as error:
                reason = f": {error}"
            if self._stopped:
                return
            with anyio.CancelScope(shield=True):
                reason = reason or await self._exit_reason()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._drain)
                    await self.stop()
                    tasks.cancel_scope.cancel()
                output = await self._last_output()
                self._ended(ServiceUnavailable(f"{self._name} has ended{reason}{output}"))

    async def write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with outgoing:
            async for sent in outgoing:
                self._unsolicited = 0
                message = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                # if the server has exited, the end of its output shows that too
                with contextlib.suppress(*_CLOSED):
                    await self._stdin.send(message.encode() + b"\n")

    async def read_errors(self) -> None:
        with contextlib.suppress(*_CLOSED):
            while True:
                self._errors = (self._errors + await self._stderr.receive())[-_MAX_ERRORS:]
        self._no_more_errors.set()

    async def stop(self) -> None:
        """Close the input, and end the server with its descendants."""
        if self._stopped:  # the process id can be reused
            return
        self._stopped = True
        with contextlib.suppress(*_CLOSED):
            await self._stdin.aclose()
        exited = await self._has_exited()
        if sys.platform != "win32":
            await terminate_posix_process_tree(self._process, GRACE)
        elif not exited:
            self._process.kill()
        with anyio.move_on_after(GRACE):  # a process outside the group can hold the pipes
            await self._process.wait()
        await self._process.aclose()

    async def _drain(self) -> None:
        """Discard output, because the server may not end before it has written it."""
        with contextlib.suppress(*_CLOSED):
            while True:
                await self._stdout.receive()

    async def _take(self, line: bytes, incoming: _Incoming) -> None:
        self._unsolicited += 1
        if self._unsolicited > MAX_UNSOLICITED:
            raise MalformedReply("it wrote too much output")
        try:
            value = ValueBudget().read(line)
            message = jsonrpc_message_adapter.validate_python(value, by_name=False)
        except (ValueError, ValidationError) as error:
            _log.debug(
                "%s wrote a line that is not a message: %s", self._name, one_line(str(error))
            )
            return
        with contextlib.suppress(anyio.BrokenResourceError):  # the session is closed
            await incoming.send(SessionMessage(message))

    async def _exit_reason(self) -> str:
        """Return the reason after the output has ended, usually the exit status."""
        if not await self._has_exited():
            return ": it closed its output"
        code = self._process.returncode or 0
        return f" by signal {-code}" if code < 0 else f" with exit code {code}"

    async def _last_output(self) -> str:
        with anyio.move_on_after(GRACE):
            await self._no_more_errors.wait()
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return f"; its last output: {one_line(' / '.join(lines[-5:]))}" if lines else ""

    async def _has_exited(self) -> bool:
        with anyio.move_on_after(GRACE):
            while self._process.returncode is None:
                await anyio.sleep(_POLL)
        return self._process.returncode is not None


async def _started(server: McpServer) -> Process:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env = {**passed_on, **{name: filled(server, value) for name, value in server.env.items()}}
    command = filled(server, server.command)
    program = shutil.which(command, path=env.get("PATH")) or command
    try:
        return await anyio.open_process(
            [program, *(filled(server, each) for each in server.args)],
            env=env,
            cwd=filled(server, server.cwd) or None,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # the command is not shown, because it can contain secrets from variables
        reason = getattr(error, "strerror", None) or "invalid command"
        raise ConfigurationError(
            f"{server.name} cannot be started: {reason}: {one_line(server.command)}"
        ) from error
