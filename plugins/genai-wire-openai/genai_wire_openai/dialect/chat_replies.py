"""Replies of OpenAI's chat completions, complete and streamed.

Source: OpenAI API reference, "The chat completion object" and "The chat completion chunk object",
OpenAPI document 2.3.0. Compatible services send reasoning as `reasoning_content` or `reasoning`.

A stream ends with `[DONE]`, or at some services with a finish reason. Forms that are not in the
reference are accepted, too: services differ in finish reasons, in how they separate tool calls, and
in fields that are not part of the answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from attrs import evolve

from genai_host.api import (
    NO_USAGE,
    Citation,
    Completion,
    Delta,
    Message,
    Part,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    ToolCallAssembler,
    Usage,
    arguments_as_text,
    details_in,
    distinct_calls,
    extra_of,
    finish_word,
    index_in,
    interrupted,
    list_in,
    malformed,
    object_in,
    read_finish,
    unknown_fields,
    weightier,
    write_json,
)
from genai_host.errors import GenerationError
from genai_wire_openai.dialect.chat_content import NAME, read_content
from genai_wire_openai.dialect.common import error_in, read_event_object, read_object
from genai_wire_openai.shared import (
    INPUT,
    MARKED,
    chat_usage,
    citations_in,
    read_usage,
    unknown_within,
)

_KNOWN: Mapping[str, frozenset[str]] = {
    "reply": frozenset(
        {"choices", "created", "error", "id", "model", "object", "system_fingerprint", "type",
            "usage",}
    ),
    "choice": frozenset(
        {"delta", "error", "finish_reason", "index", "logprobs", "message", "text", "usage"}
    ),
    "message": frozenset(
        {
            "content", "function_call", "reasoning", "reasoning_content", "refusal", "role",
            "tool_calls",
        }
    ),
}  # fmt: skip
"""Fields of objects in replies. Others are passed on to clients, in `extra`."""
_USAGE = chat_usage(NO_USAGE)
_NOT_IN_CHUNKS = frozenset({"obfuscation", "service_tier"})
"""Fields of chunks that are repeated in each of them, or that mean nothing."""


def read_completion(body: bytes, answers: int = 1) -> Completion:
    """Read a complete reply. Of several answers requested, all but the first are in `extra`. Raises
    `MalformedReply`, and `GenerationError` without an answer."""
    data = read_object(body, "choices")
    choice, others = _choices_in(data, answers)
    if choice is None:
        raise _no_answer()
    if choice.get("message") is None and choice.get("text") is None:
        raise malformed("a choice has no message")
    content = read_content(_message_in(choice))
    calls = [each.whole() for each in content.calls]
    return _completion(
        text=content.text,
        citations=citations_in(_message_in(choice).get("annotations")),
        refusal=content.refusal,
        reasoning=content.reasoning,
        calls=distinct_calls(calls) if calls else (),
        finish=finish_word(choice.get("finish_reason")),
        usage=read_usage(data.get("usage") or choice.get("usage")),
        extra={
            **(_extra_in(choice) or {}),
            **({"choices": others} if others else {}),
            **(_unknown(data, choice, _message_in(choice)) or {}),
        },
    )


def _unknown(
    data: Mapping[str, Any],
    choice: Mapping[str, Any],
    message: Mapping[str, Any],
    *,
    neutral: Set[str] = frozenset(),
) -> Mapping[str, Any] | None:
    """The unknown fields of a reply or a chunk, by the name of the object; None for none."""
    objects = {"reply": data, "choice": choice, "message": message}
    found = {
        name: fields
        for name, each in objects.items()
        if (fields := unknown_fields(each, _KNOWN[name] | neutral))
    }
    usage = unknown_within(details_in(data, "usage"), _USAGE)
    if usage := {name: value for name, value in usage.items() if name not in neutral}:
        found["usage"] = usage
    return extra_of(NAME, found)


class ChatDecoder:
    """Assembles a streamed reply. Of several answers requested, all but the first are in `extra` of
    chunks, and so are log probabilities, if requested. It has `ended` with a finish reason, too:
    some services send no `[DONE]`."""

    def __init__(self, answers: int = 1, *, logprobs: bool = False) -> None:
        from genai_wire_openai.dialect.chat_chunks import read_text_chunk  # slow to import

        self._read_text = None if logprobs or answers > 1 else read_text_chunk
        self._text: list[str] = []
        self._citations: tuple[Citation, ...] = ()
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls = ToolCallAssembler()
        self._is_answered = False
        self._whole_calls: list[list[ToolCall]] = []  # of whole messages
        self._sent: set[str] = set()  # unknown fields of messages
        self._finish = ""
        self._usage = NO_USAGE
        self._logprobs: dict[str, Any] | None = {} if logprobs else None
        self._unknown_usage: Mapping[str, Any] = {}
        self._answers = answers
        self.done = False

    @property
    def ended(self) -> bool:
        return self.done or bool(self._finish)

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        plain = None
        if self._read_text is not None and event.name is None:
            plain = self._read_text(event.data)
        if plain is not None:
            self._is_answered = True
            return self._add(*plain)
        if event.is_done:
            self.done = True
            return [Delta(tool_call=call) for call in self._ended_calls()]
        data = read_event_object(event, "choices", "usage")
        choice, others = _choices_in(data, self._answers)
        further = [Delta(extra={"choices": others})] if others else []
        choice = choice or {}
        usage = data.get("usage") or choice.get("usage")
        if usage:
            self._usage = read_usage(usage)
        is_whole = choice.get("delta") in (None, {})  # sent by some proxies, also after chunks
        message = _message_in(choice) if is_whole else object_in(choice, "delta")
        if is_whole:  # it repeats what came in chunks
            message = {name: each for name, each in message.items() if name not in self._sent}
        unknown = _unknown(data, choice, message, neutral=_NOT_IN_CHUNKS)
        if unknown is not None:
            self._sent.update(unknown[NAME].get("message", ()))
            self._unknown_usage = unknown[NAME].get("usage", self._unknown_usage)
        if not choice:
            return further if unknown is None else [Delta(extra=unknown), *further]
        self._is_answered = True
        content = read_content(message)
        if is_whole:
            if content.calls:
                self._whole_calls.append([each.whole() for each in content.calls])
            content = content._replace(
                text="" if self._text else content.text,
                reasoning="" if self._reasoning else content.reasoning,
                refusal="" if self._refusal else content.refusal,
                calls=(),
            )
        for call in content.calls:
            self._calls.add(
                index=call.at,
                id=call.id,
                name=call.name,
                arguments=arguments_as_text(call.arguments),
                extra=call.extra,
                parameter=INPUT if call.is_custom else "",
            )
        finish = choice.get("finish_reason")
        if finish is not None:
            self._finish = weightier(self._finish, finish_word(finish))
        extra = None if is_whole and self._logprobs else self._extra(choice)
        if unknown is not None:
            extra = {**(extra or {}), **unknown}
        cited = citations_in(message.get("annotations"))
        self._citations += cited
        if content.refusal:
            self._refusal.append(content.refusal)
            further.insert(0, Delta(content.refusal, extra=MARKED))
        return [*self._add(content.text, content.reasoning, extra, cited), *further]

    def _extra(self, choice: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The log probabilities of a chunk, which are also added to those of the answer."""
        if self._logprobs is None:
            return None
        extra = _extra_in(choice)
        for name, items in extra["logprobs"].items() if extra else ():
            if isinstance(items, list):
                self._logprobs.setdefault(name, []).extend(items)
        return extra

    def _add(
        self,
        text: str,
        reasoning: str,
        extra: Mapping[str, Any] | None = None,
        cited: tuple[Citation, ...] = (),
    ) -> Sequence[Delta]:
        """Add text and reasoning to the answer."""
        if text:
            self._text.append(text)
        elif not reasoning and extra is None and not cited:
            return ()
        if reasoning:
            self._reasoning.append(reasoning)
        if extra is None and not cited:
            return (Delta(text, reasoning),)
        return (Delta(text, reasoning, extra=extra, citations=cited),)

    def _ended_calls(self) -> list[ToolCall]:
        if not self._whole_calls:
            return self._calls.calls()
        return distinct_calls(_united([self._calls.received(), *self._whole_calls]))

    def finish(self) -> Completion:
        if not self.ended:
            raise interrupted("".join((*self._text, *self._refusal)))
        if not self._is_answered:
            raise _no_answer()
        return _completion(
            text="".join(self._text),
            citations=self._citations,
            refusal="".join(self._refusal),
            reasoning="".join(self._reasoning),
            calls=self._ended_calls(),
            finish=self._finish,
            usage=self._usage,
            extra={
                **({"logprobs": self._logprobs} if self._logprobs else {}),
                **({NAME: {"usage": self._unknown_usage}} if self._unknown_usage else {}),
            },
        )


def _united(groups: Iterable[Iterable[ToolCall]]) -> list[ToolCall]:
    """The calls of chunks and of whole messages, each of which may repeat those before, with or
    without their ids. The last arguments of an id count, and its first unknown fields."""
    found: dict[tuple[Any, int], ToolCall] = {}
    for calls in groups:
        numbers: Counter[Any] = Counter()  # in the group
        for call in calls:
            content = _content(call)
            if call.id and (call.id, content) in numbers:
                continue
            numbers.update([content, call.id, (call.id, content)])
            key = call.id or content
            before = found.get((key, numbers[key]), call)
            found[key, numbers[key]] = evolve(call, extra=before.extra or call.extra)
    with_id = defaultdict[Any, list[tuple[Any, int]]](list)
    for place, call in found.items():
        if call.id:
            with_id[_content(call)].append(place)
    for place, call in [*found.items()]:
        content, number = place
        if not call.id and number <= len(same := with_id[content]):
            named = found[same[number - 1]]
            found[same[number - 1]] = evolve(named, extra=named.extra or call.extra)
            del found[place]
    return [*found.values()]


def _content(call: ToolCall) -> tuple[Any, ...]:
    return call.name, write_json(call.arguments), call.malformed


def _completion(
    *,
    text: str,
    citations: tuple[Citation, ...],
    refusal: str,
    reasoning: str,
    calls: Sequence[ToolCall],
    finish: str,
    usage: Usage,
    extra: Mapping[str, Any],
) -> Completion:
    content: list[Part] = []
    if reasoning:
        content.append(Reasoning(reasoning))
    if text:
        content.append(Text(text, citations=citations))
    if refusal:
        content.append(Text(refusal, extra=MARKED))
    content.extend(calls)
    normal = read_finish(finish, calls=bool(calls), text=text)
    if refusal:
        normal = "content_filter"
        extra = extra if text else {**extra, **MARKED}
    message = Message("assistant", content)
    return Completion(message, normal, usage, vendor_finish=finish, extra=extra)


def _choices_in(
    data: Mapping[str, Any], answers: int
) -> tuple[Mapping[str, Any] | None, Sequence[Mapping[str, Any]]]:
    """The choice of the first answer, if there is one, and those of the others, which are not
    interpreted."""
    if answers == 1:
        return _first_choice(data), ()
    choices = list_in(data, "choices")
    others = [each for each in choices if isinstance(each, dict) and index_in(each, "index")]
    return _first_choice({"choices": [each for each in choices if each not in others]}), others


def _extra_in(choice: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The log probabilities in a choice, as lists by name; their items are not interpreted."""
    logprobs = choice.get("logprobs")
    return {"logprobs": logprobs} if logprobs and isinstance(logprobs, dict) else None


def _no_answer() -> GenerationError:
    return GenerationError("the model gave no answer", reason="no choices")


def _message_in(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The whole message of a choice; some servers send a text, as for completions without chat."""
    text = choice.get("text")
    return object_in(choice, "message") if text is None else {"content": text}


def _first_choice(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = list_in(data, "choices")
    if not choices:
        return None
    choice = choices[0]
    if not isinstance(choice, dict):
        raise malformed("a choice is not an object")
    error = error_in(choice)
    if error is not None:  # finish reason of the upstream service
        raise error
    return choice
