"""Assistants, threads, messages and files: an official SDK creates, reads, changes, lists and
deletes them. Also the errors for missing or invalid objects.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import openai
import pytest
from assistants_tour import CLOCK, SEARCH, Side, Tour, ids

PNG = b"\x89PNG\r\n\x1a\n and so on"
PIXEL = "data:image/png;base64," + base64.b64encode(PNG).decode()
FORM: Any = {
    "type": "json_schema",
    "json_schema": {"name": "point", "schema": {"type": "object"}, "strict": True},
}
NOBODY = "asst_000000000000000000000000"


class ObjectsTour(Tour):
    def test_item_11_assistants(self, side: Side) -> None:
        store, file = side.store(), side.file()
        resources: Any = {
            "code_interpreter": {"file_ids": [file]},
            "file_search": {"vector_store_ids": [store]},
        }
        settings: Any = {
            "name": "Ada",
            "description": "knows much",
            "instructions": "be brief",
            "tools": [CLOCK, SEARCH, {"type": "code_interpreter"}],
            "tool_resources": resources,
            "metadata": {"a": "b"},
            "temperature": 0.5,
            "top_p": 0.25,
            "response_format": FORM,
        }
        assistant = side.beta.assistants.create(model="fake", **settings)
        assert assistant.id.startswith("asst_")
        assert (assistant.object, assistant.model) == ("assistant", "fake")
        # the SDK converts nested values to objects; compare them in the form in which it sends them
        fields = assistant.to_dict()
        assert {name: fields[name] for name in settings} == settings
        assert side.beta.assistants.retrieve(assistant.id) == assistant

        changed = side.beta.assistants.update(
            assistant.id,
            name="Bea",
            tools=[],
            tool_resources={},
            response_format="auto",
            metadata={},
        )
        assert (changed.id, changed.name, changed.tools) == (assistant.id, "Bea", [])
        assert changed.instructions == "be brief"
        assert changed.response_format == "auto"
        assert side.beta.assistants.retrieve(assistant.id) == changed

        gone = side.beta.assistants.delete(assistant.id)
        assert (gone.id, gone.object, gone.deleted) == (assistant.id, "assistant.deleted", True)
        with pytest.raises(openai.NotFoundError):
            side.beta.assistants.retrieve(assistant.id)

    def test_item_11_what_an_assistant_is_without_more(self, side: Side) -> None:
        assistant = side.beta.assistants.create(model="fake")
        assert (assistant.name, assistant.description, assistant.instructions) == (None, None, None)
        assert (assistant.tools, assistant.metadata) == ([], {})
        assert side.beta.assistants.retrieve(assistant.id) == assistant
        assistant = side.beta.assistants.create(model="fake", name=None, tools=[], metadata=None)
        assert (assistant.name, assistant.tools, assistant.metadata) == (None, [], {})

    def test_item_11_lists_of_nothing(self, side: Side) -> None:
        thread = side.beta.threads.create().id
        for listed in (
            side.beta.assistants.list(), side.client.files.list(), side.stores.list(),
            side.beta.threads.messages.list(thread), side.runs.list(thread),
            side.stores.files.list(side.store()),
        ):  # fmt: skip
            assert list(listed) == []

    def test_item_11_pages(self, side: Side) -> None:
        a, b, c, d, e = assistants = [side.assistant(name=name) for name in "abcde"]
        listed = side.beta.assistants.list
        assert ids(listed().data) == assistants[::-1]
        first = listed(limit=2)
        assert (ids(first.data), first.has_more) == ([e, d], True)
        assert (first.first_id, first.last_id) == (e, d)
        second = first.get_next_page()
        assert (ids(second.data), second.has_more) == ([c, b], True)
        last = second.get_next_page()
        assert (ids(last.data), last.has_more, last.has_next_page()) == ([a], False, False)
        assert ids(list(listed(limit=2))) == assistants[::-1]  # all pages, in order
        assert ids(list(listed(limit=2, order="asc"))) == assistants
        assert ids(listed(order="asc", after=b, limit=2).data) == [c, d]
        assert ids(listed(after=d).data) == [c, b, a]
        before = listed(before=b, limit=2)
        assert (ids(before.data), before.has_more) == ([d, c], True)
        assert ids(listed(order="asc", before=c).data) == [a, b]

    def test_item_11_threads(self, side: Side) -> None:
        store, file = side.store(), side.file()
        empty = side.beta.threads.create()
        assert empty.id.startswith("thread_")
        assert (empty.object, empty.metadata) == ("thread", {})
        assert list(side.beta.threads.messages.list(empty.id)) == []
        messages: Any = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        code = {"code_interpreter": {"file_ids": [file]}}
        thread = side.beta.threads.create(
            messages=messages, metadata={"a": "b"}, tool_resources=code
        )
        assert thread.tool_resources.code_interpreter.file_ids == [file]
        stored = side.beta.threads.messages.list(thread.id, order="asc")
        assert [(each.role, each.content[0].text.value) for each in stored] == [
            ("user", "a"), ("assistant", "b"),
        ]  # fmt: skip
        assert side.beta.threads.retrieve(thread.id) == thread
        search = {"file_search": {"vector_store_ids": [store]}}
        changed = side.beta.threads.update(thread.id, metadata={"c": "d"}, tool_resources=search)
        assert changed.metadata == {"c": "d"}
        assert changed.tool_resources.file_search.vector_store_ids == [store]
        assert side.beta.threads.retrieve(thread.id) == changed
        gone = side.beta.threads.delete(thread.id)
        assert (gone.id, gone.object, gone.deleted) == (thread.id, "thread.deleted", True)
        for missing in (side.beta.threads.retrieve, side.beta.threads.messages.list):
            with pytest.raises(openai.NotFoundError):
                missing(thread.id)

    def test_item_11_messages(self, side: Side) -> None:
        messages, thread, file = side.beta.threads.messages, side.thread("first"), side.file()
        picture = side.client.files.create(file=("a.png", PNG), purpose="vision").id
        content: Any = [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://localhost/a.png"}},
            {"type": "image_file", "image_file": {"file_id": picture}},
        ]
        attached: Any = [{"file_id": file, "tools": [SEARCH]}]
        message = messages.create(
            thread, role="user", content=content, attachments=attached, metadata={"a": "b"}
        )
        assert message.id.startswith("msg_")
        assert (message.object, message.thread_id) == ("thread.message", thread)
        assert (message.role, message.status, message.run_id) == ("user", "completed", None)
        text, data, link, image = message.content
        assert (text.type, text.text.value, text.text.annotations) == ("text", "look", [])
        assert (data.image_url.url, data.image_url.detail) == (PIXEL, "low")
        assert link.image_url.detail == "auto"
        assert (image.type, image.image_file.file_id) == ("image_file", picture)
        assert [each.to_dict() for each in message.attachments] == attached
        assert messages.retrieve(message.id, thread_id=thread) == message

        changed = messages.update(message.id, thread_id=thread, metadata={"c": "d"})
        assert changed.metadata == {"c": "d"}
        assert messages.retrieve(message.id, thread_id=thread) == changed
        gone = messages.delete(message.id, thread_id=thread)
        assert (gone.object, gone.deleted) == ("thread.message.deleted", True)
        with pytest.raises(openai.NotFoundError):
            messages.retrieve(message.id, thread_id=thread)
        assert [each.content[0].text.value for each in messages.list(thread)] == ["first"]

    def test_item_11_pages_of_messages(self, side: Side) -> None:
        thread = side.thread(*"abcde")
        listed = side.beta.threads.messages.list
        oldest = list(listed(thread, limit=2, order="asc"))
        assert [each.content[0].text.value for each in oldest] == list("abcde")
        after = listed(thread, order="asc", after=oldest[1].id, limit=2)
        assert ids(after.data) == ids(oldest[2:4])
        before = listed(thread, order="asc", before=oldest[1].id)
        assert ids(before.data) == ids(oldest[:1])
        assert list(listed(thread, run_id="run_1")) == []

    def test_item_11_files(self, side: Side) -> None:
        files = side.client.files
        one = files.create(file=("größe.txt", b"one"), purpose="assistants")
        assert one.id.startswith("file")
        assert (one.object, one.filename, one.bytes) == ("file", "größe.txt", 3)
        assert (one.purpose, one.status) == ("assistants", "processed")
        two = files.create(file=("b.bin", bytes(range(256))), purpose="user_data")
        assert files.retrieve(one.id) == files.wait_for_processing(one.id) == one
        assert files.content(two.id).read() == bytes(range(256))
        assert ids(list(files.list())) == [two.id, one.id]
        assert ids(list(files.list(order="asc", limit=1))) == [one.id, two.id]
        assert ids(list(files.list(purpose="user_data"))) == [two.id]
        assert ids(list(files.list(after=two.id))) == [one.id]
        gone = files.delete(one.id)
        assert (gone.id, gone.object, gone.deleted) == (one.id, "file", True)
        for missing in (files.retrieve, files.content, files.delete):
            with pytest.raises(openai.NotFoundError):
                missing(one.id)

    @pytest.mark.parametrize(
        "asks",
        [
            lambda side, thread: side.beta.assistants.retrieve(NOBODY),
            lambda side, thread: side.beta.assistants.update(NOBODY, name="a"),
            lambda side, thread: side.beta.assistants.delete(NOBODY),
            lambda side, thread: side.beta.threads.retrieve(NOBODY),
            lambda side, thread: side.beta.threads.update(NOBODY, metadata={}),
            lambda side, thread: side.beta.threads.delete(NOBODY),
            lambda side, thread: side.beta.threads.messages.list(NOBODY),
            lambda side, thread: side.beta.threads.messages.create(
                NOBODY, role="user", content="a"
            ),
            lambda side, thread: side.beta.threads.messages.retrieve(NOBODY, thread_id=thread),
            lambda side, thread: side.beta.threads.messages.delete(NOBODY, thread_id=thread),
            lambda side, thread: side.runs.create(thread, assistant_id=NOBODY),
            lambda side, thread: side.runs.create(NOBODY, assistant_id=side.assistant()),
            lambda side, thread: side.runs.list(NOBODY),
            lambda side, thread: side.runs.retrieve(NOBODY, thread_id=thread),
            lambda side, thread: side.runs.update(NOBODY, thread_id=thread, metadata={}),
            lambda side, thread: side.runs.cancel(NOBODY, thread_id=thread),
            lambda side, thread: side.runs.submit_tool_outputs(
                NOBODY, thread_id=thread, tool_outputs=[]
            ),
            lambda side, thread: side.runs.steps.list(NOBODY, thread_id=thread),
            lambda side, thread: side.beta.threads.create_and_run(assistant_id=NOBODY),
            lambda side, thread: side.client.files.retrieve(NOBODY),
            lambda side, thread: side.stores.retrieve(NOBODY),
            lambda side, thread: side.stores.update(NOBODY, name="a"),
            lambda side, thread: side.stores.delete(NOBODY),
            lambda side, thread: side.stores.search(NOBODY, query="a"),
            lambda side, thread: side.stores.files.list(NOBODY),
            lambda side, thread: side.stores.files.retrieve(
                NOBODY, vector_store_id=side.store()
            ),
            lambda side, thread: side.stores.file_batches.retrieve(
                NOBODY, vector_store_id=side.store()
            ),
        ],
    )  # fmt: skip
    def test_item_11_what_is_not_there(
        self, side: Side, asks: Callable[[Side, Any], object]
    ) -> None:
        thread = side.thread()
        with pytest.raises(openai.NotFoundError) as caught:
            asks(side, thread)
        error = caught.value.response.json()["error"]
        assert NOBODY in error["message"]
        assert error["type"] == "invalid_request_error"
        assert isinstance(caught.value.body, dict)

    @pytest.mark.parametrize(
        ("asks", "param"),
        [
            (lambda side: side.beta.assistants.create(model=""), "model"),
            (lambda side: side.assistant(name="a" * 257), "name"),
            (lambda side: side.assistant(temperature=3), "temperature"),
            (lambda side: side.assistant(tools=[{"type": "magic"}]), "tools[0].type"),
            (lambda side: side.assistant(metadata={"a": "b" * 513}), "metadata.a"),
            (lambda side: side.beta.assistants.list(limit=0), "limit"),
            (lambda side: side.beta.assistants.list(order="best"), "order"),
            (lambda side: side.beta.assistants.list(after=NOBODY), "after"),
            (
                lambda side: side.beta.threads.create(messages=[{"role": "boss", "content": "a"}]),
                "messages[0].role",
            ),
            (
                lambda side: side.beta.threads.messages.create(
                    side.thread(), role="user", content=""
                ),
                "content",
            ),
            (
                lambda side: side.beta.threads.messages.create(
                    side.thread(),
                    role="user",
                    content="a",
                    attachments=[{"file_id": "file_1", "tools": [SEARCH]}],
                ),
                "attachments[0].file_id",
            ),
            (lambda side: side.client.files.create(file=b"a", purpose="fun"), "purpose"),
            (lambda side: side.stores.create(file_ids=["file_1"]), "file_ids"),
            (lambda side: side.stores.files.create(side.store(), file_id="file_1"), "file_id"),
            (lambda side: side.runs.create(side.thread(), assistant_id=""), "assistant_id"),
            (
                lambda side: side.runs.create(
                    side.thread(), assistant_id=side.assistant(), model="nobody"
                ),
                "model",
            ),
            (
                lambda side: side.runs.create(
                    side.thread(), assistant_id=side.assistant(tools=[SEARCH])
                ),
                "tools",
            ),
        ],
    )
    def test_item_11_what_is_wrong(
        self, side: Side, asks: Callable[[Side], object], param: str
    ) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            asks(side)
        assert (caught.value.param or "").lstrip("?") == param
        assert caught.value.type == "invalid_request_error"
        assert caught.value.response.json()["error"]["message"]
