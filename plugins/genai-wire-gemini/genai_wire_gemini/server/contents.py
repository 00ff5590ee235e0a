"""Messages from the contents of a request.

Source: Gemini API reference, "Content", "Part", "FunctionCall", "FunctionResponse"; the guide to
thought signatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from attrs import evolve

from genai_host.api import (
    File,
    Image,
    JsonReader,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
    write_json,
)
from genai_host.errors import ValidationError
from genai_host.serving import Pairing, merge_consecutive, result_and_files
from genai_wire_gemini.dialect.replies import NAME, SIGNATURE

_ROLES = ("user", "model", "function", "tool")
_RUN_BY_SERVICE = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""Calls and results of tools that the service ran. Other services do not receive them."""
_KINDS = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", *_RUN_BY_SERVICE,
)  # fmt: skip
_NOT_READ = ("videoMetadata", "audioTranscription", "mediaProcessing", "speechMetadata")
_NEUTRAL = ("partMetadata",)
"""Fields that mean nothing to services of other formats."""
_WHOLE_TEXT = ({"output"}, {"result"})


class _AddedCalls(Pairing):
    """Adds the missing calls of results."""

    def __init__(self) -> None:
        super().__init__()
        self._added: list[ToolCall] = []

    def result(self, given: str, name: str, path: str) -> tuple[str, str]:
        try:
            return super().result(given, name, path)
        except ValidationError:
            self._added.append(ToolCall(self.call(given, name), name, {}))
            return super().result(given, name, path)

    def taken(self) -> list[Message]:
        """The message with the calls that were added since the last time, if there are any."""
        added, self._added = self._added, []
        return [Message("assistant", added)] if added else []


def messages_in(body: JsonReader, dialect: str, *, are_counted: bool = False) -> list[Message]:
    """Read the system prompt, then the contents, oldest first. `dialect` is that of the service,
    empty for a feature. Contents that `are_counted` may be a part of a conversation, with results
    of calls that are not in it. Raises `ValidationError`."""
    contents = body.objects("contents")
    if not contents:
        raise ValidationError("contents is not specified", path=body.at("contents"))
    pairing = _AddedCalls() if are_counted else Pairing()
    messages: list[Message] = []
    for each in contents:
        read = [*_messages(each, pairing, dialect)]
        messages += [*pairing.taken(), *read] if isinstance(pairing, _AddedCalls) else read
    if not messages:
        raise ValidationError("contents has nothing for the model", path=body.at("contents"))
    return [*_system(body), *map(_joined, merge_consecutive(messages, "tool", "assistant"))]


def text_of(content: JsonReader) -> str:
    """Return the text of a content, which must not have other parts."""
    texts = []
    content.text("role")
    for part in content.objects("parts"):
        texts.append(part.text("text"))
        part.refuse(*(kind for kind in _KINDS if kind != "text"), *_NOT_READ)
        part.drop_others()
    content.drop_others()
    return "".join(texts)


def _joined(message: Message) -> Message:
    """Join consecutive texts of a streamed answer."""
    if message.role != "assistant":
        return message
    joined: list[Part] = []
    for (kind, is_plain), parts in groupby(message.content, key=_kind_of):
        if not is_plain:
            joined += parts
        elif kind is Text:
            joined.append(Text("".join(part.text for part in parts if isinstance(part, Text))))
        elif kind is Reasoning:
            texts = [part.text for part in parts if isinstance(part, Reasoning)]
            joined.append(Reasoning("".join(texts)))
        else:
            joined += parts
    return evolve(message, content=joined)


def _kind_of(part: Part) -> tuple[type[Part], bool]:
    return type(part), part.extra is None


def _system(body: JsonReader) -> Iterator[Message]:
    content = body.object("systemInstruction")
    if content is not None:
        text = text_of(content)
        if text:
            yield Message("system", text)


def _messages(content: JsonReader, pairing: Pairing, dialect: str) -> Iterator[Message]:
    """Yield tool results as a separate message, before the user's other parts."""
    model = content.choice("role", _ROLES, "user") == "model"
    results: list[Part] = []
    others: list[Part] = []
    kinds = set()
    for given in content.objects("parts"):
        kinds.add(kind := _kind(given))
        if kind in _RUN_BY_SERVICE:
            others += _run(given, kind, dialect, model)
            continue
        for part in _parts(given, kind, pairing, model):
            (results if isinstance(part, ToolResult) else others).append(part)
    if not (results or others or model) and kinds.isdisjoint(_RUN_BY_SERVICE):
        raise ValidationError("parts must not be empty", path=content.at("parts"))
    extra = content.extra_fields()
    if results:
        yield Message("tool", results, extra=extra)
    if others:
        yield Message("assistant" if model else "user", others, extra=None if results else extra)


def _parts(given: JsonReader, kind: str, pairing: Pairing, model: bool) -> Iterator[Part]:
    """Yield a part, followed by its signature. It has the unknown fields."""
    parts = [*_read_parts(given, kind, pairing, model)]
    if model and parts and isinstance(parts[0], Image):
        given.drop_elsewhere(kind, Image)
    if not parts or isinstance(parts[0], (Reasoning, VendorPart)):
        given.drop_others()  # they are not sent again as they are
    elif (extra := given.extra_fields(*_NEUTRAL)) is not None:
        parts[0] = evolve(parts[0], extra=extra)
    yield from parts


def _kind(given: JsonReader) -> str:
    """The kind of a part; text if there is nothing but a signature."""
    given.refuse(*_NOT_READ)
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) > 1 or not (kinds or given.text(SIGNATURE)):
        raise ValidationError(
            f"a part must have exactly one of {', '.join(_KINDS)}", path=given.path
        )
    return kinds[0] if kinds else "text"


def _run(given: JsonReader, kind: str, dialect: str, model: bool) -> list[Part]:
    """What the service ran, with all fields; nothing if it is dropped."""
    given.mapping(kind)  # must be one
    is_sent = dialect == NAME or (model and not dialect)  # a feature keeps it for its model
    if not is_sent:
        given.drop(kind)
        for name in ("thought", SIGNATURE, *_NEUTRAL):  # of no use without it
            given.raw(name)
        given.drop_others()
    if not (is_sent or model):  # other dialects may refuse a message of the user with nothing else
        return []
    part = VendorPart(NAME, dict(given.value))
    if is_sent:
        given.drop_elsewhere(kind, part)
    return [part]


def _read_parts(given: JsonReader, kind: str, pairing: Pairing, model: bool) -> Iterator[Part]:
    thought, signature = given.flag("thought"), given.text(SIGNATURE)
    text = given.text("text")
    if kind == "text" and thought and model:
        yield from [Reasoning(text)] if text else []
        if signature:
            yield VendorPart(NAME, {"text": text, "thought": True, SIGNATURE: signature})
    elif kind == "text":
        yield from [Text(text)] if text or not (signature or model) else []
        if signature and model:
            yield VendorPart(
                NAME, {SIGNATURE: signature} if text else {"text": "", SIGNATURE: signature}
            )
    else:
        yield from _other_parts(given, kind, pairing, model)
        if signature and model:
            yield VendorPart(NAME, {SIGNATURE: signature})


def _other_parts(given: JsonReader, kind: str, pairing: Pairing, model: bool) -> Iterable[Part]:
    value = given.object(kind)
    assert value is not None  # the key is present
    if kind == "functionCall":
        if not model:
            raise ValidationError(
                "only contents with role model can contain a functionCall", path=given.path
            )
        return [_call(value, pairing)]
    if kind == "functionResponse":
        if model:
            raise ValidationError(
                "contents with role model cannot contain a functionResponse", path=given.path
            )
        result, files = _result(value, pairing)
        return [result, *files]
    return [_data(value) if kind == "inlineData" else _address(value)]


def _call(given: JsonReader, pairing: Pairing) -> ToolCall:
    name = given.required_text("name")
    id = pairing.call(given.text("id"), name)
    call = ToolCall(id, name, given.mapping("args") or {})
    given.refuse("partialArgs", "willContinue")
    return call


def _result(given: JsonReader, pairing: Pairing) -> tuple[ToolResult, list[File]]:
    id, name = pairing.result(given.text("id"), given.required_text("name"), given.path)
    response = given.mapping("response") or {}
    given.refuse("willContinue", "scheduling")
    shown = [evolve(_shown(each), extra=each.extra_fields()) for each in given.objects("parts")]
    failed = response.keys() == {"error"}
    known = failed or response.keys() in _WHOLE_TEXT
    value = next(iter(response.values())) if known else response
    text = value if isinstance(value, str) else write_json(value).decode()
    return result_and_files(id, name, [Text(text), *shown], failed)


def _shown(given: JsonReader) -> Image | File:
    data, address = given.object("inlineData"), given.object("fileData")
    if data is not None:
        return _data(data)
    if address is not None:
        return _address(address)
    raise ValidationError(
        "a part of a functionResponse must be inlineData or fileData", path=given.path
    )


def _data(given: JsonReader) -> Image | File:
    media_type, data = given.text("mimeType"), given.data("data")
    name = given.text("displayName")
    if not (data and media_type):
        raise ValidationError("inlineData must have mimeType and data", path=given.path)
    if media_type.startswith("image/"):
        return Image(data, media_type)
    return File(data, media_type, name)


def _address(given: JsonReader) -> Image | File:
    media_type, url = given.text("mimeType"), given.text("fileUri")
    name = given.text("displayName")
    if not url.startswith(("https://", "http://")):
        raise ValidationError("fileUri must be an http(s) URL", path=given.at("fileUri"))
    if media_type.startswith("image/"):
        return Image(media_type=media_type, url=url)
    return File(media_type=media_type, name=name, url=url)
