"""Contents of messages, and their JSON form.

`PARTS` are the parts of an assistant's messages that the host's messages have no form for.
`written_message` and `read_message` convert messages to and from the JSON of the Assistants API.

Source: OpenAI's OpenAPI document 2.3.0: `CreateMessageRequest`, `MessageObject`,
`RunStepDetailsToolCallsCodeObject`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from attrs import field, frozen

from genai_feature_assistants.agents.options import listed
from genai_host.api import (
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    count_in,
    list_in,
    malformed,
    object_in,
    objects_in,
    string_in,
)
from genai_host.errors import UnsupportedPart, ValidationError


@frozen
class Annotation:
    """A citation or link in a text.

    Attributes:
        kind: `file_citation`, `file_path` or `url_citation`.
        text: The annotated text, for example `【4:0†notes.txt】`.
        start: First character of it; `text[start:end]` is the annotated text.
        end: End of it.
        file_id: Id of the file; empty for a web page.
        title: Title of the web page.
        url: Address of the web page.
    """

    kind: str
    text: str = ""
    start: int = 0
    end: int = 0
    file_id: str = ""
    title: str = ""
    url: str = ""


@frozen
class AnnotatedText(Text):
    """Text with annotations."""

    type = "annotated_text"
    annotations: tuple[Annotation, ...] = field(default=(), converter=listed)


@frozen
class Code(Part):
    """A program that the code interpreter ran.

    Attributes:
        code: Source text.
        logs: Printed output.
        images: Images that it created: ids of files, or addresses.
    """

    type = "assistant_code"
    code: str
    logs: str = ""
    images: tuple[str, ...] = field(default=(), converter=listed)


@frozen
class FileImage(Part):
    """An image that the service has as a file.

    Attributes:
        file_id: Id of the file.
        detail: Resolution for the model: `auto`, `low` or `high`.
    """

    type = "assistant_file_image"
    file_id: str
    detail: str = "auto"


PARTS: tuple[type[Part], ...] = (AnnotatedText, Code, FileImage)
"""The parts that a codec needs besides those of the host, to store messages of assistants."""


@frozen
class AgentMessage(Message):
    """A message of a thread, or a call of a function or its result.

    Its JSON has only role and content, like that of any message.

    Attributes:
        name: Name of the agent; empty if unknown.
        visible: Whether the message is for users. Calls and their results are not.
        id: Id of the message or of the step; empty if the service gives none.
        thread_id: Id of the thread.
        run_id: Id of the run, if known.
        assistant_id: Id of the assistant, if known.
    """

    name: str = ""
    visible: bool = True
    id: str = ""
    thread_id: str = ""
    run_id: str = ""
    assistant_id: str = ""

    @property
    def annotations(self) -> tuple[Annotation, ...]:
        """The annotations of all texts."""
        texts: Iterable[AnnotatedText] = (
            part for part in self.content if isinstance(part, AnnotatedText)
        )
        return tuple(each for text in texts for each in text.annotations)


@frozen
class AgentDelta:
    """A streamed piece of a message. The whole `AgentMessage` follows.

    Attributes:
        text: The piece.
        kind: Whether it is text, or code for the code interpreter.
        name: Name of the agent.
        message_id: Id of the message or of the step.
        run_id: Id of the run.
    """

    text: str
    kind: Literal["text", "code"] = "text"
    name: str = ""
    message_id: str = ""
    run_id: str = ""

    visible = True


Wire = dict[str, Any]

_ROLES = ("user", "assistant")


def check_role(message: Message) -> None:
    """Raise `ValidationError` for the role of a message that a thread cannot have."""
    if message.role not in _ROLES:
        raise ValidationError(
            f"messages of a thread must have the role user or assistant, not {message.role}",
            path="$.role",
        )


def written_message(message: Message) -> Wire:
    """Return the JSON of a message.

    Raises:
        ValidationError: The role is neither user nor assistant, or the message is empty.
        UnsupportedPart: A thread cannot have a part of the message.
    """
    check_role(message)
    content = [each for part in message.content for each in _written_part(part)]
    if not content:
        raise ValidationError("a message of a thread must have content", path="$.content")
    return {"role": message.role, "content": content}


def _written_part(part: Part) -> list[Wire]:
    if isinstance(part, Text):
        return [{"type": "text", "text": part.text}] if part.text else []
    if isinstance(part, Code):
        return [{"type": "text", "text": part.code}] if part.code else []
    if isinstance(part, Image) and part.url:
        return [{"type": "image_url", "image_url": {"url": part.url}}]
    if isinstance(part, FileImage):
        image = {"file_id": part.file_id, "detail": part.detail}
        return [{"type": "image_file", "image_file": image}]
    if isinstance(part, Reasoning):
        return []  # of another model; no service accepts it
    raise UnsupportedPart(
        f"a thread cannot contain parts of type {part.type}",
        part=part.type,
        hint="upload it with the client, and use FileImage" if part.type == "image" else "",
    )


def read_message(data: Mapping[str, Any], name: str = "") -> AgentMessage:
    """Return a message from its JSON; `name` is that of the assistant. Raises `MalformedReply`."""
    role = string_in(data, "role")
    if role not in _ROLES:
        raise malformed(f"a message has the role {role!r:.40}")
    return AgentMessage(
        "user" if role == "user" else "assistant",
        tuple(_read_parts(objects_in(data, "content"))),
        name=name if role == "assistant" else "",
        id=string_in(data, "id"),
        thread_id=string_in(data, "thread_id"),
        run_id=string_in(data, "run_id"),
        assistant_id=string_in(data, "assistant_id"),
    )


def _read_parts(content: Iterable[Mapping[str, Any]]) -> Iterable[Part]:
    """Yield the parts of a message. Unknown kinds are left out."""
    for each in content:
        kind = each.get("type")
        if kind == "text":
            text = object_in(each, "text")
            yield read_text(string_in(text, "value"), list_in(text, "annotations"))
        elif kind == "refusal":
            yield Text(string_in(each, "refusal"))
        elif kind == "image_file":
            image = object_in(each, "image_file")
            yield FileImage(string_in(image, "file_id"), string_in(image, "detail") or "auto")
        elif kind == "image_url":
            url = string_in(object_in(each, "image_url"), "url")
            if not url:
                raise malformed("an image has no URL")
            yield Image(url=url)


def read_text(text: str, annotations: Iterable[Any]) -> Text:
    """Return a text with its annotations."""
    read = tuple(_read_annotation(each, text) for each in annotations)
    return AnnotatedText(text, read) if read else Text(text)


def read_code(
    data: Mapping[str, Any], field: str, image: Callable[[Mapping[str, Any]], str]
) -> Code:
    """Return what the code interpreter ran.

    Args:
        data: JSON of one of the APIs.
        field: Name of the field with the program.
        image: Returns the id or the URL of an image among the outputs.
    """
    outputs = [each for each in list_in(data, "outputs") if isinstance(each, Mapping)]
    logs = [string_in(each, "logs") for each in outputs if each.get("type") == "logs"]
    images = [image(each) for each in outputs if each.get("type") == "image"]
    return Code(string_in(data, field), "\n".join(logs), images)


def _read_annotation(data: Any, whole: str) -> Annotation:
    """Return an annotation of either API.

    Responses has the fields beside the kind, and only some of them.
    """
    if not isinstance(data, Mapping):
        raise malformed("an annotation is not an object")
    kind = string_in(data, "type")
    of_kind = object_in(data, kind) or data
    start, end = count_in(data, "start_index"), count_in(data, "end_index")
    return Annotation(
        kind,
        string_in(data, "text") or whole[max(start, 0) : max(end, 0)],
        start,
        end,
        string_in(of_kind, "file_id"),
        string_in(of_kind, "title"),
        string_in(of_kind, "url"),
    )
