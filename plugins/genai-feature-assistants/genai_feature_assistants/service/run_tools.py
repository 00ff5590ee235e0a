"""Tools that the server itself runs, and citations of files.

`RunTools` runs the file search and code. Each call returns the output for the model, and the call
as the step shows it (`CallResult`).

The model sees each passage with a mark, `【2:0†notes.txt】`, and writes the mark where it uses the
passage. A file that code has created is cited as `sandbox:/mnt/data/NAME`. `annotations_of` and
`AnnotatedPieces` convert both to annotations of the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Object

from genai_feature_assistants.service.vector_stores import VectorStores
from genai_host.api import CancelToken, Image, ToolOutput, read_json
from genai_host.errors import Cancelled, ConfigurationError, GenaiError, NotFound, ValidationError

if TYPE_CHECKING:
    from genai_host.api import HostServices


_MARK = re.compile(r"【([0-9]{1,6}):([0-9]{1,6})†[^【】\n]{0,200}】")
_PATH = re.compile(r"sandbox:/mnt/data/([^\s)\]\"'<>]{1,200})")
_FOLDER = "sandbox:/mnt/data/"
_BEGINS = re.compile("|".join(["【", _FOLDER, *(f"{_FOLDER[:n]}\\Z" for n in range(17, 0, -1))]))
_NO_MARK = re.compile("[】\\n]|.【")
_MAX_LENGTH = 230  # characters of a mark or a path
_UNFIT = re.compile(r"[【】\s†]+")

GUIDE = (
    "Passages of files that file_search finds come with a mark such as 【2:0†notes.txt】. "
    "Where you use a passage, write its mark after the sentence, unchanged."
)


def mark(round: int, number: int, name: str) -> str:
    """Return the mark of a passage: the round that found it, and its number there."""
    return f"【{round}:{number}†{_UNFIT.sub(' ', name).strip()[:100]}】"


def annotations_of(
    text: str, found: Mapping[int, Sequence[str]], made: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the annotations of a text, in order.

    `text[start_index:end_index]` is the annotated text.

    Args:
        text: The text.
        found: Ids of the files of the passages, by round.
        made: Id of each file that code has created, by its name.
    """
    annotated: list[tuple[int, int, str, str]] = []
    for match in _MARK.finditer(text):
        files = found.get(int(match[1]), ())
        if int(match[2]) < len(files):
            annotated.append((*match.span(), "file_citation", files[int(match[2])]))
    for match in _PATH.finditer(text):
        name = match[1].rstrip(".,;:")
        if name in made:
            annotated.append((match.start(), match.start(1) + len(name), "file_path", made[name]))
    return [
        {
            "type": kind,
            "text": text[start:end],
            "start_index": start,
            "end_index": end,
            kind: {"file_id": file},
        }
        for start, end, kind, file in sorted(annotated)
    ]


class AnnotatedPieces:
    """Splits a streamed text so that each annotated text is a piece of its own: clients match an
    annotation with the text of the same piece. The arguments are those of `annotations_of`."""

    def __init__(self, found: Mapping[int, Sequence[str]], made: Mapping[str, str]) -> None:
        self.annotations: list[dict[str, Any]] = []
        self._found = found
        self._made = made
        self._held = ""  # what may be the beginning of something annotated
        self._given = 0  # characters

    def add(self, text: str) -> Iterator[dict[str, Any]]:
        """Yield the pieces that are complete now, as `text` of a delta."""
        self._held += text
        while self._held:
            begin = _beginning(self._held)
            if begin:
                yield self._give(begin)
                continue
            end = _end(self._held)
            if end is None:
                return
            yield self._give(end)

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield the text that was held back."""
        if self._held:
            yield self._give(len(self._held))

    def _give(self, end: int) -> dict[str, Any]:
        text, self._held = self._held[:end], self._held[end:]
        annotations = annotations_of(text, self._found, self._made)
        for annotation in annotations:
            annotation["start_index"] += self._given
            annotation["end_index"] += self._given
        self._given += len(text)
        first = len(self.annotations)
        self.annotations += annotations
        indexed = [{"index": number, **each} for number, each in enumerate(annotations, first)]
        return {"value": text, **({"annotations": indexed} if indexed else {})}


def _beginning(text: str) -> int:
    """Return where an annotated text begins, or may begin; else the end."""
    begins = _BEGINS.search(text)
    return begins.start() if begins else len(text)


def _end(text: str) -> int | None:
    """Return where the annotated text at the beginning ends; None if more text is needed."""
    mark, path = _MARK.match(text), _PATH.match(text)
    if mark:
        return mark.end()
    if path and path.end() < len(text):
        return path.end()
    is_open = not _NO_MARK.search(text) if text[0] == "【" else path or _FOLDER.startswith(text)
    return None if is_open and len(text) < _MAX_LENGTH else 1


CODE, SEARCH = "code_interpreter", "file_search"
SANDBOX = "sandbox__run"
"""Name of the tool that runs code, of any plugin."""

_MAX_FOUND = 20
_OUTPUT = 100_000  # characters of an output
_PICTURES = ".png", ".jpg", ".jpeg", ".gif", ".webp"

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    SEARCH: {
        "name": SEARCH,
        "description": "Search the user's files for passages. Use it whenever the answer may "
        "be in them.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "what to look for"}},
            "required": ["query"],
        },
    },
    CODE: {
        "name": CODE,
        "description": "Run Python code, and see what it prints. Files are in /mnt/data; those "
        "that it writes there are given to the user.",
        "parameters": {
            "type": "object",
            "properties": {"input": {"type": "string", "description": "the code"}},
            "required": ["input"],
        },
    },
}
"""The tools for the model, as `ToolSchema` takes them."""


def begun(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as a step shows it at first."""
    id, name = call["id"], call["name"]
    if name == SEARCH:
        return {"id": id, "type": name, name: {"results": []}}
    if name == CODE:
        code = _code_in(_arguments(call))
        return {"id": id, "type": name, name: {"input": code or "", "outputs": []}}
    function = {"name": name, "arguments": call["arguments"], "output": None}
    return {"id": id, "type": "function", "function": function}


@frozen
class CallResult:
    """The result of a call.

    Attributes:
        output: Output for the model.
        step_call: The call, as the step shows it.
        found: Ids of the files of the passages, in order.
        files: Ids of the files that were created, by name.
    """

    output: str
    step_call: Mapping[str, Any]
    found: Sequence[str] = ()
    files: Mapping[str, str] = field(factory=dict)


@frozen(eq=False, repr=False)
class RunTools:
    """The tools that the server itself runs."""

    _host: HostServices
    _files: Files
    _stores: VectorStores

    def must_have(self, tools: Sequence[Mapping[str, Any]], stores: Sequence[str]) -> None:
        """Raise `ValidationError` for a tool that cannot run."""
        kinds = {tool["type"] for tool in tools}
        if SEARCH in kinds and not stores:
            raise ValidationError(
                "file_search has no vector store",
                path="$.tools",
                hint="set tool_resources.file_search of the assistant or the thread",
            )
        if CODE in kinds:
            try:
                self._host.tool(SANDBOX)
            except ConfigurationError as error:
                raise ValidationError(
                    f"code_interpreter is unavailable: {error.message}",
                    path="$.tools",
                    hint=error.hint,
                ) from error

    def call(
        self, user: str, run: Object, call: Object, place: tuple[int, int], limits: CancelToken
    ) -> CallResult:
        """Run a tool. A failure is an output for the model, unless it ends the run."""
        if call["name"] not in [tool["type"] for tool in run["tools"]]:
            return CallResult(f"unknown tool {call['name']!r}", begun(call))
        if call["name"] == SEARCH:
            return self._search(user, run, call, place, limits)
        return self._code(user, run, call, limits)

    def _search(
        self, user: str, run: Object, call: Object, place: tuple[int, int], limits: CancelToken
    ) -> CallResult:
        wanted = next(each for each in run["tools"] if each["type"] == SEARCH).get(SEARCH, {})
        ranking = wanted.get(
            "ranking_options", {"ranker": "default_2024_08_21", "score_threshold": 0.0}
        )
        query = _arguments(call).get("query")
        details: dict[str, Any] = {"ranking_options": ranking, "results": []}
        step_call = {"id": call["id"], "type": SEARCH, SEARCH: details}
        if not isinstance(query, str) or not query.strip():
            return CallResult("query is missing: it must be a string", step_call)
        try:
            hits = self._stores.found(
                user,
                run["_resources"]["stores"],
                [query],
                wanted.get("max_num_results", _MAX_FOUND),
                ranking["score_threshold"],
                limits,
            )
        except Cancelled:
            raise
        except GenaiError as error:
            return CallResult(f"the search failed: {error.message}", step_call)
        names = {hit.key: self._files.name(user, hit.key) for hit in hits}
        details["results"] = [
            {
                "file_id": hit.key,
                "file_name": names[hit.key],
                "score": hit.score,
                "content": [{"type": "text", "text": hit.text}],
            }
            for hit in hits
        ]
        round, first = place
        passages = [
            f"{mark(round, number, names[hit.key])}\n{hit.text}"
            for number, hit in enumerate(hits, first)
        ]
        output = "\n\n".join(passages) or "no results"
        return CallResult(output, step_call, [hit.key for hit in hits])

    def _code(self, user: str, run: Object, call: Object, limits: CancelToken) -> CallResult:
        code = _code_in(_arguments(call))
        if code is None:
            return CallResult("code is missing", begun(call))
        given = self._host.call_tool(
            SANDBOX,
            {
                "code": code,
                "session": f"{user}/{run['thread_id']}",
                "files": self._sent(user, run["_resources"]["files"]),
            },
            limits=limits,
        )
        limits.check()
        text = given.text[:_OUTPUT]
        outputs: list[dict[str, Any]] = [{"type": "logs", "logs": text}] if text else []
        made = self._kept(user, given)
        pictures = [file for name, file in made.items() if name.lower().endswith(_PICTURES)]
        pictures = pictures or [
            self._files.keep(user, f"image-{number}.png", image.data, "assistants_output")["id"]
            for number, image in enumerate(given.content)
            if isinstance(image, Image) and image.data
        ]
        outputs += [{"type": "image", "image": {"file_id": file}} for file in pictures]
        done = {"input": code, "outputs": outputs}
        names = "".join(f"\n[written: sandbox:/mnt/data/{name}]" for name in made)
        shown = f"\n[{len(pictures)} images are shown to the user]" if pictures else ""
        output = (text + names + shown) or "[nothing was printed]"
        return CallResult(output, {"id": call["id"], "type": CODE, CODE: done}, files=made)

    def _sent(self, user: str, files: Sequence[str]) -> list[dict[str, str]]:
        """Return files as the sandbox takes them. Deleted files are left out."""
        sent = []
        for file in files:
            try:
                data, name = self._files.data(user, file), self._files.get(user, file)["filename"]
            except NotFound:
                continue
            sent.append({"name": name, "data": base64.b64encode(data).decode()})
        return sent

    def _kept(self, user: str, given: ToolOutput) -> dict[str, str]:
        """Store the files that code has written, and return their ids by name."""
        kept: dict[str, str] = {}
        for reaction in given.reactions:
            files = reaction.get("files")
            for each in files if isinstance(files, (list, tuple)) else ():
                try:
                    name, data = str(each["name"]), base64.b64decode(each["data"], validate=True)
                except (KeyError, TypeError, binascii.Error, ValueError):
                    continue
                kept[name] = self._files.keep(user, name, data, "assistants_output")["id"]
        return kept


def _code_in(arguments: Mapping[str, Any]) -> str | None:
    code = arguments.get("input", arguments.get("code"))
    return code if isinstance(code, str) else None


def _arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found = read_json(call["arguments"])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
