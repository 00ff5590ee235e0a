"""The suite of API formats, with conversations of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve
from hypothesis import given

from genai_host.api import ChatCall, File, Image, Message, Text, ToolCall, ToolResult
from genai_host_testing.internal.samples import conversations, files, images, texts
from genai_host_testing.suites import WireSuite

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
"""The parameters of a tool."""


def contents_of(messages: Sequence[Message]) -> list[tuple[str, Any]]:
    """What messages say in any format: these differ in how texts are divided, in the names of
    files, and in how a failure is marked."""
    contents: list[tuple[str, Any]] = []
    for message in messages:
        for part in message.content:
            # a format with one text for several separates them by line ends
            if isinstance(part, Text) and message.role != "assistant":
                part = Text(part.text.replace("\n", ""))
            if isinstance(part, Text) and contents and contents[-1][0] == f"{message.role} text":
                contents[-1] = (contents[-1][0], contents[-1][1] + part.text)
            elif isinstance(part, Text):
                contents.append((f"{message.role} text", part.text))
            elif isinstance(part, (Image, File)):
                contents.append((f"{message.role} {part.type}", part.data))
            elif isinstance(part, ToolCall):
                contents.append(("call", (part.id, part.name, part.arguments)))
            elif isinstance(part, ToolResult):
                shown = [each.data for each in part.content if isinstance(each, Image)]
                words = "".join(each.text for each in part.content if isinstance(each, Text))
                words = f"{'error: ' * part.error}{words}".replace("\n", "")
                contents.append(("result", (part.id, words, shown)))
    return contents


class Wire(WireSuite):
    """The suite, with conversations of all kinds.

    Attributes:
        user_parts: Parts of messages of the user.
        result_parts: Parts of results.
    """

    user_parts = texts | images | files
    result_parts = texts | images

    def as_written(self, messages: list[Message]) -> list[Message]:
        """The messages with the parts in the order of the format."""
        return messages

    def test_conversations_are_read_as_they_were(self) -> None:
        with self.serving() as (_, client):

            @given(messages=conversations(self.user_parts, self.result_parts))
            def check(messages: list[Message]) -> None:
                written = self.fields_of(ChatCall(model_id="m", messages=messages))
                client.post(self.path, written)
                again = self.calls[-1]
                assert contents_of(again.messages) == contents_of(self.as_written(messages))

            check()

    def test_a_conversation_that_has_grown_is_written_as_a_new_one(self) -> None:
        @given(messages=conversations(self.user_parts, self.result_parts))
        def check(messages: list[Message]) -> None:
            grown = ChatCall(model_id="m", messages=())
            for count in range(len(messages) + 1):
                grown = evolve(grown, messages=messages[:count])
                self.fields_of(grown)
            new = [Message(each.role, each.content) for each in messages]
            assert self.fields_of(grown) == self.fields_of(ChatCall(model_id="m", messages=new))

        check()
