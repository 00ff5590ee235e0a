"""Suite of what a chat dialect writes, from tables of its format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from genai_host.api import ChatCall, Completion, Dialect, Message
from genai_host.errors import InvalidParameter, UnsupportedPart
from genai_host_testing.internal.tables import TableSuite

HI = Message("user", "hi")


def user(*content: Any) -> Message:
    return Message("user", content)


def assistant(*content: Any) -> Message:
    return Message("assistant", content)


def tool(*content: Any) -> Message:
    return Message("tool", content)


def system(*content: Any) -> Message:
    return Message("system", content)


class ChatRequests(TableSuite):
    """Suite of what a chat dialect writes.

    Attributes:
        place: Field of the body with the messages.
        conversations: Messages, and what is written of them, by name.
        shown: Parts of a message of the user, and what is written of them.
        calls: Arguments of a call, and fields of the body, by name; None if a field is not there.
        refused: Messages with a part that cannot be written.
        invalid: Arguments of a call, and the parameter that is refused.
    """

    tables = {
        "test_a_conversation_is_written": "conversations",
        "test_user_parts_are_written": "shown",
        "test_all_of_a_call_has_its_place": "calls",
        "test_unsupported_part_is_refused": "refused",
        "test_unsupported_call_is_refused": "invalid",
    }
    dialect: Dialect[ChatCall, Completion]
    place = "messages"
    conversations: Mapping[str, tuple[Sequence[Message], Any]] = {}
    shown: Sequence[tuple[Any, Any]] = ()
    calls: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    refused: Sequence[Message] = ()
    invalid: Sequence[tuple[Mapping[str, Any], str]] = ()

    def body(self, *messages: Message, **call: Any) -> Any:
        """The body of a request; the user says `hi` if there are no messages."""
        chat_call = ChatCall(model_id="m", messages=messages or [HI], **call)
        return json.loads(self.dialect.prepare_request(chat_call).data())

    def content(self, *messages: Message, **call: Any) -> Any:
        """The messages in the body of a request."""
        return self.body(*messages, **call)[self.place]

    def part_of(self, content: Any) -> Any:
        """The only part of the messages in a body."""
        return content[0]["content"][0]

    def test_a_conversation_is_written(self, row: tuple[Sequence[Message], Any]) -> None:
        messages, written = row
        assert self.content(*messages) == written

    def test_user_parts_are_written(self, row: tuple[Any, Any]) -> None:
        part, written = row
        assert self.part_of(self.content(user(part))) == written

    def test_all_of_a_call_has_its_place(
        self, row: tuple[Mapping[str, Any], Mapping[str, Any]]
    ) -> None:
        call, fields = row
        body = self.body(**call)
        assert {name: body.get(name) for name in fields} == fields

    def test_unsupported_part_is_refused(self, row: Message) -> None:
        with pytest.raises(UnsupportedPart) as caught:
            self.body(row)
        assert caught.value.dialect == self.dialect.name
        others = [part.type for part in row.content if part.type != "text"]
        assert caught.value.part in (others or ["text"])

    def test_unsupported_call_is_refused(self, row: tuple[Mapping[str, Any], str]) -> None:
        call, parameter = row
        with pytest.raises(InvalidParameter) as caught:
            self.body(**call)
        assert caught.value.parameter == parameter
