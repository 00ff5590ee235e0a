"""The tool `sandbox__run`."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from attrs import frozen

from genai_host.api import CancelToken, Image, Text, Tool, ToolContext, ToolOutput, ToolSource, tool
from genai_host.errors import ValidationError
from genai_tools_sandbox import Settings
from genai_tools_sandbox.process import Bounds, Ended, Process, can_run, started
from genai_tools_sandbox.pyodide import KNOWN, folder_of
from genai_tools_sandbox.sessions import Sessions

MAX_FILES = 20
_MAX_GIVEN = 100
_MAX_CODE = 1_000_000
_MAX_NAME = 200
_MAX_SESSION = 200
_MAX_REACTION = 2**20 - 2**12  # bytes of JSON: the host accepts 1 MiB of reactions
_MAX_IMAGES = 8_000_000  # bytes of images to show
_STARTING = 60.0  # seconds for a process to start, and for a call to wait for one

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # ECMA-48, and surrogates
_IMAGES = ("image/png", "image/jpeg")


@frozen
class GivenFile:
    """A file for the code to read."""

    name: str
    data: str


class SandboxTools(ToolSource):
    """Tool source with the tool, if Pyodide is available, and its processes."""

    name = "sandbox"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = folder_of(settings.folder)
        self._sessions: Sessions[Process] = Sessions(settings.sessions, settings.idle_seconds)
        self._tool = tool(self.run, timeout=settings.seconds + 2 * _STARTING)

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        """Return the tool; nothing before `genai-host sandbox pull`."""
        return [self._tool] if can_run() and KNOWN.is_in(self._folder) else []

    def unavailable_reason(self) -> str | None:
        if not can_run():
            return "the sandbox needs Linux on x86-64 or ARM64, and a Python interpreter"
        if not KNOWN.is_in(self._folder):
            return "the sandbox is not downloaded: run genai-host sandbox pull"
        return None

    def close(self) -> None:
        self._sessions.close()

    def run(
        self,
        code: Annotated[str, "Python code; the output is what it prints, and its last expression"],
        run: ToolContext,
        session: Annotated[str, "calls of one session share variables and files"] = "",
        files: Annotated[list[GivenFile], "files to copy to /mnt/data first"] = [],  # noqa: B006
    ) -> ToolOutput:
        """Run Python in a sandbox, without a network. The standard library is there, other
        packages are not. Files in /mnt/data are kept as long as the session lives, and those
        that the code writes there are handed to the user."""
        if len(code) > _MAX_CODE:
            raise ValidationError(f"code must have at most {_MAX_CODE:,} characters")
        asked = {"code": code, "files": _files(files, self._settings.file_bytes)}
        if len(session) > _MAX_SESSION:
            raise ValidationError(f"a session must have at most {_MAX_SESSION} characters")
        start = partial(started, self._folder, _bounds(self._settings), run.limits)
        try:
            with self._sessions.use(session, start, run.limits) as process:
                answer = process.call(asked, self._settings.seconds, run.limits)
                return _output(answer, self._settings.output_characters)
        except Ended as error:
            lost = "; the variables and files of the session are lost" if session else ""
            return ToolOutput(_plain(f"The code failed: {error}{lost}."), error=True)


def _bounds(settings: Settings) -> Bounds:
    output = 4 * settings.output_characters
    made = min(settings.file_bytes, _MAX_REACTION * 3 // 4)
    return Bounds(
        memory=settings.memory,
        cpu=int(settings.seconds * 100) + 60,
        output=output,
        files=MAX_FILES,
        file_bytes=made,
        answer=12 * output + 2 * made + 2**26,
    )


def _files(files: Sequence[GivenFile], most: int) -> list[dict[str, str]]:
    """Convert files for the runner. Raises `ValidationError` for invalid or too large files."""
    if len(files) > _MAX_GIVEN:
        raise ValidationError(f"at most {_MAX_GIVEN} files are allowed")
    size = 0
    for each in files:
        if len(each.name) > _MAX_NAME or not each.name.isprintable():
            raise ValidationError(f"a file name must have at most {_MAX_NAME} printable characters")
        if each.name.count("/") > 7 or not _is_below(each.name):
            raise ValidationError("a file name must be a path below /mnt/data")
        try:
            size += len(base64.b64decode(each.data, validate=True))
        except (ValueError, binascii.Error):
            raise ValidationError(f"the data of {each.name} is not base64") from None
    if size > most:
        raise ValidationError(f"the files are larger than {most:,} bytes")
    return [{"name": each.name, "data": each.data} for each in files]


def _output(answer: Mapping[str, Any], most: int) -> ToolOutput:
    """Return the output for the model. The code can forge the answer, so all of it is validated."""
    try:
        return _read(answer, most)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Ended("it wrote to the channel for results and was stopped") from None


def _read(answer: Mapping[str, Any], most: int) -> ToolOutput:
    files, left_out, nameless = _made(answer["files"])
    left_out += [_plain(name) for name in answer["left_out"][:MAX_FILES]]
    images, unseen = _images(answer["images"])
    unseen += int(answer["unseen"])
    text = _plain(answer["text"])
    notes = []
    if len(text) > most or answer["dropped"]:
        text = text[:most]
        notes.append(f"[the output was truncated after {len(text):,} characters]")
    if left_out:
        notes.append(
            f"[files omitted, as they are too large or too many: {', '.join(left_out[:20])}]"
        )
    if nameless:
        notes.append(f"[files omitted, as their names are invalid: {', '.join(nameless)}]")
    if unseen:
        notes.append(f"[images omitted, as they are too large or too many: {unseen}]")
    text = "\n".join(filter(None, [text.rstrip("\n"), *notes]))
    reactions = [{"type": "sandbox_files", "files": files}] if files else []
    is_error = answer["error"] is not False
    return ToolOutput([Text(text), *images], error=is_error, reactions=reactions)


def _made(given: Any) -> tuple[list[dict[str, str]], list[str], list[str]]:
    """Return the accepted files, the names of those that exceed a limit, and the unsafe names."""
    files: list[dict[str, str]] = []
    left_out: list[str] = []
    nameless: list[str] = []
    size = 0
    for each in given[:MAX_FILES]:
        name, data = _plain(each["name"]).replace("\n", " "), each["data"]
        base64.b64decode(data, validate=True)
        size += len(json.dumps(name)) + len(data) + 32
        if not _is_below(name) or "\\" in name:  # a path separator on Windows
            nameless.append(name[:_MAX_NAME])
        elif size > _MAX_REACTION or len(name) > _MAX_NAME:
            left_out.append(name[:_MAX_NAME])
        else:
            files.append({"name": name, "data": data})
    return files, left_out, nameless


def _is_below(name: str) -> bool:
    """Whether a name is inside its directory."""
    return not any(part in ("", ".", "..") for part in name.split("/"))


def _images(given: Any) -> tuple[list[Image], int]:
    """Return the images to show, and the number of the others."""
    images, size, unseen = [], 0, 0
    for kind, data in given[:10]:
        decoded = base64.b64decode(data, validate=True)
        size += len(decoded)
        if size > _MAX_IMAGES:
            unseen += 1
        elif kind in _IMAGES and decoded:
            images.append(Image(decoded, kind))
    return images, unseen


def _plain(text: str) -> str:
    """Return text without terminal control characters."""
    lines = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", lines)
