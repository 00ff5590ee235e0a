"""Complete and streamed replies of Converse.

Source: Amazon Bedrock API reference, "Converse", "ConverseStream", "TokenUsage".

Events have the form `{"messageStop":{...}}`, from `event_stream`. The answer is complete with
`messageStop`. The stream ends with the event `metadata`, which has the token usage.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.api import (
    Citation,
    Completion,
    Delta,
    Message,
    Part,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    arguments_as_text,
    citation_of,
    count_in,
    decode_base64,
    details_in,
    finish_word,
    id_in,
    interrupted,
    list_in,
    malformed,
    object_in,
    read_event,
    read_finish,
    read_tool_call,
    string_in,
    weightier,
    write_json,
)
from genai_vendor_bedrock.failures import error_in
from genai_vendor_bedrock.form import NAME


def read_completion(data: Mapping[str, Any], answer_tool: str = "") -> Completion:
    """Read a complete reply. `answer_tool` is the tool whose arguments are the answer; empty if
    there is none. Raises `MalformedReply`."""
    message = object_in(object_in(data, "output"), "message")
    if not isinstance(message.get("content"), list):
        raise malformed("it has no message")
    content: list[Part] = []
    for at, block in enumerate(message["content"]):
        if not isinstance(block, dict):
            raise malformed("a block is not an object")
        content += _read_block(block, at, answer_tool)
    reason = finish_word(data.get("stopReason"))
    calls = any(isinstance(part, ToolCall) for part in content)
    text = "".join(part.text for part in content if isinstance(part, Text))
    finish = read_finish(reason, calls=calls, text=text, unknown="other")
    if answer_tool and finish == "tool_calls" and not calls:
        finish = "stop"
    return Completion(
        Message("assistant", content),
        finish,
        _usage(details_in(data, "usage")),
        vendor_finish=reason,
    )


_Place = tuple[int, int]  # index of a block, and its sequence number


class ConverseDecoder:
    """Assembles a streamed reply block by block; `answer_tool` as for `read_completion`."""

    def __init__(self, answer_tool: str = "") -> None:
        self._answer_tool = answer_tool
        self._blocks: dict[_Place, _Growing] = {}
        self._newest: dict[int, _Place] = {}
        self._ended: set[_Place] = set()
        self._stop: Mapping[str, Any] | None = None
        self._metadata: Mapping[str, Any] | None = None
        self._thought_in: _Place | None = None

    @property
    def done(self) -> bool:
        return self._stop is not None and self._metadata is not None

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        data = read_event(event, error_in)
        if not data:
            raise malformed("an event is empty")
        if "contentBlockDelta" in data:
            return self._add_piece(object_in(data, "contentBlockDelta"))
        if "contentBlockStart" in data:
            begun = object_in(data, "contentBlockStart")
            self._begin_block(begun)
        elif "contentBlockStop" in data:
            return self._end_block(object_in(data, "contentBlockStop"))
        elif "messageStop" in data:
            self._set_stop(object_in(data, "messageStop"))
        elif "metadata" in data:
            self._metadata = details_in(data, "metadata")
        return ()  # for example `messageStart`, or a future type

    def _set_stop(self, stop: Mapping[str, Any]) -> None:
        reasons = (finish_word((each or {}).get("stopReason")) for each in (self._stop, stop))
        self._stop = {**stop, "stopReason": weightier(*reasons)}

    def finish(self) -> Completion:
        blocks = [self._blocks[place] for place in sorted(self._blocks)]
        if self._stop is None:
            text = "".join(each.answer_text(self._answer_tool) for each in blocks)
            raise interrupted(text)
        content = [whole for each in blocks if (whole := each.whole())]
        whole = {
            "output": {"message": {"content": content}},
            **(self._metadata or {}),
            **self._stop,
        }
        return read_completion(whole, self._answer_tool)

    def _place(self, data: Mapping[str, Any]) -> _Place:
        """Return the latest block at an index; some compatible services reuse one index."""
        index = count_in(data, "contentBlockIndex")
        return self._newest.setdefault(index, (index, len(self._blocks)))

    def _block(self, data: Mapping[str, Any]) -> _Growing:
        return self._blocks.setdefault(self._place(data), _Growing())

    def _begin_block(self, data: Mapping[str, Any]) -> None:
        start = object_in(data, "start")
        if self._block(data).is_followed_by(start):
            del self._newest[count_in(data, "contentBlockIndex")]
        self._block(data).begin(start)

    def _add_piece(self, data: Mapping[str, Any]) -> Sequence[Delta]:
        """Add a chunk. Text blocks have no start event."""
        block, place = self._block(data), self._place(data)
        text, thought = block.add(object_in(data, "delta"), self._answer_tool)
        if text:
            return (Delta(text),)
        if not thought:
            return ()
        begins = self._thought_in not in (None, place)
        self._thought_in = place
        return (Delta(reasoning=f"\n\n{thought}" if begins else thought),)

    def _end_block(self, data: Mapping[str, Any]) -> Sequence[Delta]:
        place = self._place(data)
        whole = self._block(data).whole()
        if place in self._ended or "toolUse" not in whole:
            return ()
        self._ended.add(place)
        calls = _read_block(whole, place[1], self._answer_tool)
        return [Delta(tool_call=part) for part in calls if isinstance(part, ToolCall)]


class _Growing:
    """A block whose chunks are arriving."""

    def __init__(self) -> None:
        self._start: Mapping[str, Any] = {}
        self._texts: list[str] = []
        self._inputs: list[str] = []
        self._thoughts: list[str] = []
        self._signatures: list[str] = []
        self._redacted: list[bytes] = []
        self._image: list[bytes] = []
        self._results: list[Any] = []
        self._citations: list[Any] = []

    def is_followed_by(self, start: Mapping[str, Any]) -> bool:
        """Whether a start event at the same place begins a new block, rather than repeats one."""
        ids = (object_in(each, "toolUse").get("toolUseId") for each in (self._start, start))
        return bool(self.whole()) and (self._start != start or None in ids)

    def begin(self, start: Mapping[str, Any]) -> None:
        self._start = {kind: object_in(start, kind) for kind in start}

    def add(self, delta: Mapping[str, Any], answer_tool: str) -> tuple[str, str]:
        """Add a chunk, and return its text and its reasoning."""
        text = string_in(delta, "text")
        if text:
            self._texts.append(text)
        given = arguments_as_text(object_in(delta, "toolUse").get("input"))
        if given:
            self._inputs.append(given)
            if self._is_answer(answer_tool):
                text += given
        reasoning = object_in(delta, "reasoningContent")
        thought = string_in(reasoning, "text")
        self._thoughts += [thought] * bool(thought)
        self._signatures += filter(None, [string_in(reasoning, "signature")])
        self._redacted += filter(None, [_bytes_in(reasoning, "redactedContent")])
        image = object_in(object_in(delta, "image"), "source")
        self._image += filter(None, [_bytes_in(image, "bytes")])
        self._results += list_in(delta, "toolResult")
        citation = object_in(delta, "citation")
        self._citations += [citation] * bool(citation)
        return text, thought

    def answer_text(self, answer_tool: str) -> str:
        pieces = self._inputs if self._is_answer(answer_tool) else self._texts
        return "".join(pieces)

    def whole(self) -> dict[str, Any]:
        """Return the block in the format of a complete reply; empty if it has no content."""
        for kind in ("toolUse", "toolResult", "image"):
            if kind in self._start:
                return {kind: {**self._start[kind], **self._grown(kind)}}
        if self._redacted:
            return {"reasoningContent": {"redactedContent": _base64(self._redacted)}}
        if self._thoughts or self._signatures:
            text, signature = "".join(self._thoughts), "".join(self._signatures)
            signed = {"signature": signature} if signature else {}
            return {"reasoningContent": {"reasoningText": {"text": text, **signed}}}
        text = "".join(self._texts)
        if self._citations:
            return {"citationsContent": {"content": [{"text": text}], "citations": self._citations}}
        return {"text": text} if text else {}

    def _grown(self, kind: str) -> Mapping[str, Any]:
        if kind == "toolUse":
            return {"input": "".join(self._inputs)}
        if kind == "toolResult":
            return {"content": self._results}
        return {"source": {"bytes": _base64(self._image)}}

    def _is_answer(self, answer_tool: str) -> bool:
        use = self._start.get("toolUse")
        return bool(answer_tool) and isinstance(use, dict) and use.get("name") == answer_tool


def _bytes_in(data: Mapping[str, Any], name: str) -> bytes:
    try:
        return decode_base64(string_in(data, name))
    except ValueError as error:
        raise malformed(f"{name} is not base64") from error


def _base64(pieces: Sequence[bytes]) -> str:
    return base64.b64encode(b"".join(pieces)).decode()


def _read_block(block: Mapping[str, Any], at: int, answer_tool: str) -> Iterator[Any]:
    """Yield the parts for a content block. Reasoning, and the use of the service's own tools, are
    also stored unchanged to be sent back.
    """
    if "text" in block:
        text = string_in(block, "text")
        if text:
            yield Text(text)
    elif "toolUse" in block:
        yield from _read_tool_use(object_in(block, "toolUse"), at, answer_tool)
    elif "reasoningContent" in block:
        thought = object_in(object_in(block, "reasoningContent"), "reasoningText")
        text = string_in(thought, "text")
        if text:
            yield Reasoning(text)
        if string_in(thought, "signature") or not text:  # unsigned reasoning need not be sent back
            yield VendorPart(NAME, dict(block))
    elif "citationsContent" in block:
        cited = object_in(block, "citationsContent")
        text = "".join(
            string_in(object_in({"content": part}, "content"), "text")
            for part in list_in(cited, "content")
        )
        if text and list_in(cited, "citations"):
            yield VendorPart(NAME, {"citations": cited["citations"]})
        if text:
            yield Text(text, citations=_citations_in(cited, len(text)))
    elif block:
        yield VendorPart(NAME, dict(block))
    else:
        raise malformed("a block is empty")


def _citations_in(cited: Mapping[str, Any], size: int) -> Iterator[Citation]:
    """Yield the web pages that a text cites."""
    for each in list_in(cited, "citations"):
        if isinstance(each, dict):
            page = details_in(details_in(each, "location"), "web")
            yield from citation_of(page.get("url"), each.get("title"), 0, size)


def _read_tool_use(use: Mapping[str, Any], at: int, answer_tool: str) -> Iterator[Part]:
    name, given = string_in(use, "name"), use.get("input")
    if "type" in use:  # a tool that the service has run itself
        whole = given if not isinstance(given, str) else read_tool_call("", "", given).arguments
        yield VendorPart(NAME, {"toolUse": {**use, "input": whole}})
        return
    if answer_tool and name == answer_tool:
        text = given if isinstance(given, str) else write_json(given).decode()
        if text:
            yield Text(text)
        return
    id = id_in(use, "toolUseId") or f"call_{at}"
    yield read_tool_call(id, name, given)


def _usage(data: Mapping[str, Any]) -> Usage:
    """Return the usage. `inputTokens` excludes tokens written to and read from the cache."""
    cached = count_in(data, "cacheReadInputTokens")
    written = count_in(data, "cacheWriteInputTokens")
    return Usage(
        input_tokens=count_in(data, "inputTokens") + written + cached,
        output_tokens=count_in(data, "outputTokens"),
        cached_tokens=cached,
        cache_write_tokens=written,
    )
