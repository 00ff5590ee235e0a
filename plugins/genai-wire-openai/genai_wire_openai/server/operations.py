"""Handlers of text completions, transcriptions, embeddings and moderations.

In a completion, the prompt is a text instead of messages. If a provider of the model has text
completions, the prompt is sent there, since an answer continues the text itself. Otherwise a chat
model answers it as a message of the user, in the template of its chat. Which of them answers
depends on the model alone, not on the fields of a request, so that the answers to a program are
comparable. The exception is a suffix, which needs text completions.

Source: OpenAI API reference, "Create completion" (legacy), "Create transcription", "Create
embeddings", "Create moderation".
"""

from __future__ import annotations

import base64
import mimetypes
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from genai_host import Host
from genai_host.api import (
    EXTRA_BODY,
    Completion,
    File,
    JsonReader,
    Message,
    ModerationResult,
    RouteRequest,
    RouteResponse,
    Usage,
    body_of,
    json_response,
    merged_parameters,
    write_json,
)
from genai_host.errors import GenaiError, ValidationError
from genai_host.serving import (
    Capabilities,
    ChatRequest,
    CompletionStream,
    answer,
    api_finish_reason,
    capabilities,
    complete_texts,
    streamed,
    text_completions,
    whole,
)
from genai_wire_openai.dialect.operations import TEXT_FORMATS
from genai_wire_openai.server.files import read_upload
from genai_wire_openai.server.handlers import NEUTRAL, carry, of_deployment, parameters_in
from genai_wire_openai.server.replies import FINISH_REASONS, error_event
from genai_wire_openai.server.requests import texts_or_tokens
from genai_wire_openai.shared import chat_usage

_DIALECT = "openai-completions"
"""Name of the dialect of this format."""

_OF_CHATS = (
    *("messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
    *("response_format", "top_logprobs"),
)
_MAX_PROMPTS = 32  # each is a call of a chat model
_ANSWERS = {"n": 1, "best_of": 1, "echo": False, "logit_bias": {}, "logprobs": None}
"""Fields that change an answer, with the value at which each has no effect."""

_Prompts = Sequence[str | Sequence[int]]


def complete(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer one or several prompts, streamed if `stream` is set.

    A service with this format receives them as they are. Otherwise a chat model answers, unless
    there is a suffix.
    """
    request = of_deployment(request)
    body = body_of(request)
    model = body.required_text("model")
    prompts, suffix = _prompts(body), body.text("suffix")
    is_streamed = bool(body.flag("stream"))
    options = body.object("stream_options")
    with_usage = bool(options.flag("include_usage")) if options is not None else False
    if options is not None:
        options.drop_others()
    writer = _TextWriter(model, host.clock.now(), with_usage=with_usage)
    can = text_completions(host, model)
    if can is None or not (suffix or can.dialect == _DIALECT):
        return _by_chat(body, prompts, request, host, writer)
    parameters = _parameters_in(body, can)
    del body  # its values take memory while the service answers
    answering = complete_texts(
        host,
        request,
        prompts,
        model=model,
        suffix=suffix,
        parameters=parameters,
        stream=is_streamed,
    )
    if is_streamed:
        return streamed(answering, writer.events)
    return json_response(writer.whole([answering.finish()]))


def _parameters_in(body: JsonReader, can: Capabilities) -> dict[str, Any]:
    """The parameters of the service, and other fields if it has this format. Services that lack
    what changes the answers do not receive the request."""
    body.read.update(NEUTRAL)
    names = [name for name, _ in body.names() if name not in body.read]
    has_format = EXTRA_BODY in can.parameters and can.dialect == _DIALECT
    body.carry(_DIALECT, lambda: has_format)
    found = {name: body.raw(name) for name in names if name in can.parameters}
    no_effect = [name for name, usual in _ANSWERS.items() if body.value.get(name) == usual]
    body.read.update(no_effect)
    optional = found.keys() - {*_ANSWERS, EXTRA_BODY}
    paths = {name: body.at(name) for name in optional}
    body.dropped.parameters(paths | dict.fromkeys(no_effect, ""))
    if isinstance(found.get("stop"), str):
        found["stop"] = [found["stop"]]
    for name in _ANSWERS:
        if name not in found and name not in no_effect:
            body.refuse_elsewhere(name)
    extra = body.extra_fields()
    return merged_parameters({EXTRA_BODY: extra[_DIALECT]}, found) if extra else found


def _by_chat(
    body: JsonReader, prompts: _Prompts, request: RouteRequest, host: Host, writer: _TextWriter
) -> RouteResponse:
    """Have a chat model answer each prompt as a message of the user."""
    texts = [each for each in prompts if isinstance(each, str)]
    if len(texts) < len(prompts):
        raise ValidationError("tokens are not supported: send text", path=body.at("prompt"))
    if len(texts) > _MAX_PROMPTS:
        message = f"the number of prompts must be from 1 to {_MAX_PROMPTS}"
        raise ValidationError(message, path=body.at("prompt"))
    is_streamed, is_repeated = bool(body.flag("stream")), bool(body.flag("echo"))
    if is_streamed and len(texts) > 1:
        raise ValidationError("only one prompt can be streamed", path=body.at("prompt"))
    body.refuse("suffix")
    if body.raw("logprobs") is not None:
        raise ValidationError("logprobs is not supported here", path=body.at("logprobs"))
    body.drop(*_OF_CHATS)
    for name in ("n", "best_of"):
        if body.whole(name) not in (None, 1):
            raise ValidationError("only one answer per prompt is supported", path=body.at(name))
    model = body.text("model")
    carry(body, host, model)
    parameters = parameters_in(body, host, model)
    calls = [
        ChatRequest(
            model=model, messages=[Message("user", text)], parameters=parameters, stream=is_streamed
        )
        for text in texts
    ]
    del body  # its values take memory while the service answers
    before = texts if is_repeated else [""] * len(texts)
    if is_streamed:
        answering = answer(host, calls[0], request)
        return streamed(answering, lambda each: writer.events(each, before[0]))
    return json_response(writer.whole([whole(host, each, request) for each in calls], before))


def _prompts(body: JsonReader) -> _Prompts:
    prompts = texts_or_tokens(body, "prompt")
    if not prompts:
        raise ValidationError("prompt is missing", path=body.at("prompt"))
    return prompts


class _TextWriter:
    """Writer of answers as text."""

    def __init__(self, model: str, now: datetime, *, with_usage: bool) -> None:
        self._with_usage = with_usage
        self._head = {
            "id": f"cmpl-{os.urandom(12).hex()}",
            "object": "text_completion",
            "created": int(now.timestamp()),
            "model": model,
            "system_fingerprint": "",
        }

    def whole(
        self, completions: Sequence[Completion], before: Sequence[str] = ("",)
    ) -> dict[str, Any]:
        """The answers to the prompts, in order, each with a text before it. An answer with choices
        of the service has those to all prompts."""
        choices = self._choices(completions[0].extra) or [
            self._choice(text + each.text, number, api_finish_reason(each, FINISH_REASONS))
            for number, (text, each) in enumerate(zip(before, completions, strict=True))
        ]
        usage = sum((each.usage for each in completions), Usage())
        return {**self._head, "choices": choices, "usage": chat_usage(usage)}

    def events(self, answering: CompletionStream, before: str = "") -> Iterator[bytes]:
        """The events of a stream. An error is the last event, without `[DONE]`."""
        choices: list[dict[str, Any]] = []
        try:
            if before:
                yield self._event(self._choice(before))
            for delta in answering:
                choices = self._choices(delta.extra or {})
                if choices:
                    yield self._event(*choices)
                elif delta.text:
                    yield self._event(self._choice(delta.text))
            completion = answering.completion
            finish = "" if choices else api_finish_reason(completion, FINISH_REASONS)
        except GenaiError as error:
            yield error_event(error)
            return
        if not choices:  # those of the service have their reasons
            yield self._event(self._choice("", finish=finish))
        if self._with_usage:
            usage = chat_usage(completion.usage)
            yield b"data: " + write_json({**self._head, "choices": [], "usage": usage}) + b"\n\n"
        yield b"data: [DONE]\n\n"

    def _event(self, *choices: Mapping[str, Any]) -> bytes:
        return b"data: " + write_json({**self._head, "choices": choices}) + b"\n\n"

    def _choices(self, extra: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The choices of a service with this format."""
        return [{**self._choice(""), **choice} for choice in extra.get("choices", ())]

    def _choice(self, text: str, number: int = 0, finish: str | None = None) -> dict[str, Any]:
        return {"text": text, "index": number, "logprobs": None, "finish_reason": finish}


_KINDS = {"vtt": "text/vtt; charset=utf-8"}
_PLAIN = "text/plain; charset=utf-8"


def transcribe(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer with the text of a recording, in the format of `response_format`."""
    upload = read_upload(request)
    fields = {name: values for name, values in upload.lists.items() if values != [""]}
    named = fields.pop("model", [""])[-1]
    model = request.parameters.get("model", named)
    if not model:
        raise ValidationError("model is missing", path="$.model")
    if not upload.data:
        raise ValidationError("the file is empty", path="$.file")
    if fields.pop("stream", ["false"])[-1].lower() not in ("false", "0"):
        raise ValidationError("transcriptions are not streamed here", path="$.stream")
    parameters = _parameters(fields, capabilities(host, model, "transcribe").parameters)
    found = host.transcribe(
        File(upload.data, mimetypes.guess_type(upload.name)[0] or "", upload.name),
        model=model,
        parameters=parameters,
        limits=request.limits,
        owner=request.user,
    )
    form = parameters.get("response_format", "json")
    if form in TEXT_FORMATS:
        headers = {"content-type": _KINDS.get(form, _PLAIN)}
        return RouteResponse(found.text.encode(), headers=headers)
    return json_response(found.extra or {"text": found.text})


def _parameters(fields: Mapping[str, Sequence[str]], known: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the model, and other fields if its service has further ones."""
    found: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for field, values in fields.items():
        name = field.removesuffix("[]")
        is_list = name != field or known.get(name, {}).get("type") == "array"
        value: Any = list(values) if is_list else values[-1]
        if name not in known:
            if EXTRA_BODY not in known:
                raise ValidationError(f"{name} is not supported here", path=f"$.{name:.40}")
            others[name] = value
        elif known[name].get("type") == "number":
            found[name] = _number(name, value)
        else:
            found[name] = value
    return {**found, EXTRA_BODY: others} if others else found


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValidationError("must be a number", path=f"$.{name}") from error


_MAX = 2048  # maximum number of texts per request
_IS_BIG_ENDIAN = array("H", [1]).tobytes() == b"\x00\x01"


def embed(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer with one vector per text."""
    body = body_of(of_deployment(request))
    model = body.required_text("model")
    texts = _texts(body)
    form = body.choice("encoding_format", ("float", "base64"), "float")
    size = body.whole("dimensions")
    body.text("user")
    body.drop_others()
    vectors = host.embed(
        texts,
        model=model,
        parameters={} if size is None else {"dimensions": size},
        limits=request.limits,
        owner=request.user,
    )
    write = _as_base64 if form == "base64" else list
    return json_response(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": number, "embedding": write(vector)}
                for number, vector in enumerate(vectors.vectors)
            ],
            "model": model,
            "usage": {
                "prompt_tokens": vectors.usage.input_tokens,
                "total_tokens": vectors.usage.total,
            },
        }
    )


def _texts(body: JsonReader) -> Sequence[str | Sequence[int]]:
    """The texts to embed."""
    texts = texts_or_tokens(body, "input")
    if not 0 < len(texts) <= _MAX:
        raise ValidationError(
            f"the number of texts must be from 1 to {_MAX}", path=body.at("input")
        )
    if not all(texts):
        raise ValidationError("texts must not be empty", path=body.at("input"))
    return texts


def _as_base64(vector: Sequence[float]) -> Any:
    """32-bit floats, little-endian."""
    numbers = array("f", vector)
    if _IS_BIG_ENDIAN:
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


_CATEGORIES = (
    "hate", "hate/threatening", "harassment", "harassment/threatening", "illicit",
    "illicit/violent", "self-harm", "self-harm/intent", "self-harm/instructions", "sexual",
    "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip
"""Categories of the format. Others reported by a service are added."""

_LIKELY = 0.5
_MAX_MODERATIONS = 32  # maximum number of texts per request; each is a call


def moderate(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer with a moderation of each text, in order."""
    body = body_of(request)
    model = body.text("model") or None
    texts = _texts_to_moderate(body)
    body.drop_others()
    limits, user = request.limits, request.user
    verdicts = [host.moderate(text, model=model, limits=limits, owner=user) for text in texts]
    return json_response(
        {
            "id": f"modr-{os.urandom(12).hex()}",
            "model": model or verdicts[0].model,
            "results": [_result(verdict) for verdict in verdicts],
        }
    )


def _texts_to_moderate(body: JsonReader) -> Sequence[str]:
    given = body.raw("input")
    if isinstance(given, str):
        return [given]
    values = body.values("input")
    if not 0 < len(values) <= _MAX_MODERATIONS:
        raise ValidationError(
            f"the number of texts must be from 1 to {_MAX_MODERATIONS}", path=body.at("input")
        )
    if all(isinstance(each, str) for each in values):
        return values
    parts = body.objects("input")
    for part in parts:
        if part.text("type") != "text":
            raise ValidationError("only text can be moderated", path=part.at("type"))
    return ["\n".join(part.text("text") for part in parts)]  # parts are moderated together


def _result(verdict: ModerationResult) -> dict[str, Any]:
    scores = {**dict.fromkeys(_CATEGORIES, 0.0), **verdict.categories}
    surest = max(scores.values())
    broken = {
        name: verdict.flagged and score > 0 and (score >= _LIKELY or score == surest)
        for name, score in scores.items()
    }
    return {
        "flagged": verdict.flagged,
        "categories": broken,
        "category_scores": scores,
        "category_applied_input_types": {name: ["text"] for name in scores},
    }
