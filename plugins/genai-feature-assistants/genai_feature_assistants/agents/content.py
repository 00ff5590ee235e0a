"""What assistants say, where the host's messages have no form for it.

Source: `MessageObject` and `RunStepDetailsToolCallsCodeObject` of OpenAI's OpenAPI
document 2.3.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import field, frozen

from genai_feature_assistants.agents.fields import listed
from genai_host.api import Message, Part, Text


@frozen
class Annotation:
    """What a piece of a text refers to.

    kind         what it is: a `file_citation`, a `file_path`, or a `url_citation`
    text         the piece itself, as `【4:0†notes.txt】`
    start, end   where it stands in the text, in characters: `text[start:end]`
    file_id      the file; empty for a page of the web
    title, url   of such a page
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
    """Text, some of it with sources."""

    type = "annotated_text"
    annotations: tuple[Annotation, ...] = field(default=(), converter=listed)


@frozen
class Code(Part):
    """A program that the code interpreter ran.

    code     its text
    logs     what it wrote
    images   the pictures that it made: ids of files, or addresses
    """

    type = "assistant_code"
    code: str
    logs: str = ""
    images: tuple[str, ...] = field(default=(), converter=listed)


@frozen
class FileImage(Part):
    """A picture that the service has as a file.

    detail   how closely a model is to look: `auto`, `low` or `high`
    """

    type = "assistant_file_image"
    file_id: str
    detail: str = "auto"


PARTS: tuple[type[Part], ...] = (AnnotatedText, Code, FileImage)
"""What a codec has to know beside the host's own parts, to keep messages of assistants."""


@frozen
class AgentMessage(Message):
    """A message of a thread, or what an agent did on the way to one. Its JSON is that of any
    message: role and content alone.

    name           of the agent; empty where nobody knows
    visible        whether it is for users: calls of functions and their results are not
    id             of the message, or of the step; empty where the service gives none
    thread_id, run_id, assistant_id   what it belongs to, as far as that is known
    """

    name: str = ""
    visible: bool = True
    id: str = ""
    thread_id: str = ""
    run_id: str = ""
    assistant_id: str = ""

    @property
    def annotations(self) -> tuple[Annotation, ...]:
        """Those of all its texts."""
        texts: Iterable[AnnotatedText] = (
            part for part in self.content if isinstance(part, AnnotatedText)
        )
        return tuple(each for text in texts for each in text.annotations)


@frozen
class AgentDelta:
    """A piece of what an agent is saying; the whole comes after, as an `AgentMessage`.

    text         the piece
    kind         whether it is of a text, or of a program for the code interpreter
    name         of the agent
    message_id   of the message, or of the step, that it is a piece of
    """

    text: str
    kind: Literal["text", "code"] = "text"
    name: str = ""
    message_id: str = ""
    run_id: str = ""

    visible = True
