"""Vector stores, their files and batches, their search, and runs that search, with an official SDK;
also with its asynchronous client.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any

import openai
import pytest
from assistants_tour import FOUND, NOTE, POLL, SEARCH, Side, Tour, calling, cites, ids, results

from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_service import HANG

CONTENT: Any = ["step_details.tool_calls[*].file_search.results[*].content"]
STATIC: Any = {
    "type": "static",
    "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0},
}
DAY = 24 * 3600


class SearchTour(Tour):
    def test_item_11_vector_stores(self, side: Side) -> None:
        created = side.stores.create(
            name="notes", file_ids=[side.file()], metadata={"a": "b"},
            expires_after={"anchor": "last_active_at", "days": 7},
            chunking_strategy=STATIC,
        )  # fmt: skip
        assert created.id.startswith("vs_")
        assert (created.object, created.name, created.metadata) == (
            "vector_store", "notes", {"a": "b"},
        )  # fmt: skip
        assert created.expires_after.days == 7
        assert created.expires_at == created.last_active_at + 7 * DAY
        assert created.file_counts.total == 1
        (file,) = side.stores.files.list(created.id)
        side.stores.files.poll(file.id, vector_store_id=created.id, poll_interval_ms=POLL)
        store = side.stores.retrieve(created.id)
        assert (store.status, store.file_counts.completed) == ("completed", 1)
        assert store.usage_bytes > 0
        changed = side.stores.update(created.id, name="books", metadata={}, expires_after=None)
        assert (changed.name, changed.metadata) == ("books", {})
        assert (changed.expires_after, changed.expires_at) == (None, None)
        assert side.stores.retrieve(created.id) == changed
        gone = side.stores.delete(created.id)
        assert (gone.object, gone.deleted) == ("vector_store.deleted", True)
        with pytest.raises(openai.NotFoundError):
            side.stores.retrieve(created.id)
        assert side.client.files.retrieve(file.id).status == "processed"  # which remains

    def test_item_11_pages_of_vector_stores(self, side: Side) -> None:
        a, b, c = stores = [side.store() for _ in range(3)]
        assert ids(list(side.stores.list(limit=2))) == stores[::-1]
        assert ids(side.stores.list(order="asc", after=a, limit=1).data) == [b]
        assert ids(side.stores.list(before=a).data) == [c, b]

    def test_item_11_files_of_vector_stores(self, side: Side) -> None:
        store, files = side.store(), side.stores.files
        first = files.create(store, file_id=side.file(), attributes={"year": 2026, "new": True})
        assert (first.object, first.vector_store_id) == ("vector_store.file", store)
        assert first.attributes == {"year": 2026, "new": True}
        done = files.poll(first.id, vector_store_id=store, poll_interval_ms=POLL)
        assert (done.status, done.last_error) == ("completed", None)
        assert done.usage_bytes > 0
        static = done.chunking_strategy.static
        assert (static.max_chunk_size_tokens, static.chunk_overlap_tokens) == (800, 400)
        second = files.create_and_poll(
            side.file("b.txt", "b"), vector_store_id=store, chunking_strategy=STATIC,
            poll_interval_ms=POLL,
        )  # fmt: skip
        assert second.chunking_strategy.static.max_chunk_size_tokens == 100
        upload = io.BytesIO(b"<html><body><p>Hello</p></body></html>")
        upload.name = "hello.html"
        third = files.upload_and_poll(vector_store_id=store, file=upload, poll_interval_ms=POLL)
        assert third.status == "completed"
        assert [each.text for each in files.content(third.id, vector_store_id=store)] == ["Hello"]
        assert ids(list(files.list(store, limit=1))) == [third.id, second.id, first.id]
        assert ids(files.list(store, order="asc", after=first.id, limit=1).data) == [second.id]
        assert ids(files.list(store, before=first.id).data) == [third.id, second.id]
        changed = files.update(first.id, vector_store_id=store, attributes={"year": 2027})
        assert changed.attributes == {"year": 2027}
        assert files.retrieve(first.id, vector_store_id=store) == changed
        gone = files.delete(first.id, vector_store_id=store)
        assert (gone.id, gone.object, gone.deleted) == (first.id, "vector_store.file.deleted", True)
        with pytest.raises(openai.NotFoundError):
            files.retrieve(first.id, vector_store_id=store)
        assert side.stores.retrieve(store).file_counts.total == 2

    def test_item_11_a_file_that_cannot_be_read(self, side: Side) -> None:
        store = side.store()
        for name, text, code in [
            ("a.bin", "\0\0", "unsupported_file"),
            ("b.pdf", "%PDF-", "invalid_file"),
        ]:
            file = side.stores.files.create_and_poll(
                side.file(name, text), vector_store_id=store, poll_interval_ms=POLL
            )
            assert (file.status, file.last_error.code) == ("failed", code)
            assert file.last_error.message
            list(side.stores.files.content(file.id, vector_store_id=store))
        failed = side.stores.files.list(store, filter="failed")
        assert len(failed.data) == side.stores.retrieve(store).file_counts.failed == 2
        assert list(side.stores.files.list(store, filter="completed")) == []

    def test_item_11_batches(self, side: Side) -> None:
        store, batches = side.store(), side.stores.file_batches
        texts = [side.file(f"{name}.txt", name) for name in "abc"]
        broken = side.file("d.bin", "\0")
        batch = batches.create_and_poll(
            store, file_ids=[*texts, broken], attributes={"a": "b"}, poll_interval_ms=POLL
        )
        assert (batch.object, batch.vector_store_id) == ("vector_store.files_batch", store)
        assert batch.status == "completed"
        assert batch.file_counts.to_dict() == {
            "in_progress": 0, "completed": 3, "failed": 1, "cancelled": 0, "total": 4,
        }  # fmt: skip
        assert batches.retrieve(batch.id, vector_store_id=store) == batch
        listed = list(batches.list_files(batch.id, vector_store_id=store, limit=2, order="asc"))
        assert ids(listed) == [*texts, broken]
        assert listed[0].attributes == {"a": "b"}
        failed = batches.list_files(batch.id, vector_store_id=store, filter="failed")
        assert ids(list(failed)) == [broken]
        other = batches.upload_and_poll(
            store, files=[("e.txt", b"e"), ("f.txt", b"f")], poll_interval_ms=POLL
        )
        assert other.file_counts.completed == 2
        assert side.stores.retrieve(store).file_counts.total == 6

    def test_item_11_files_of_a_batch_by_themselves(self, side: Side) -> None:
        store = side.store()
        files: Any = [
            {"file_id": side.file("a.txt", "a"), "attributes": {"name": "a"}},
            {"file_id": side.file("b.txt", "b"), "chunking_strategy": STATIC},
        ]
        batch = side.stores.file_batches.create_and_poll(store, files=files, poll_interval_ms=POLL)
        listed = side.stores.file_batches.list_files(batch.id, vector_store_id=store, order="asc")
        one, two = listed
        assert (one.attributes, two.attributes) == ({"name": "a"}, {})
        assert two.chunking_strategy.static.max_chunk_size_tokens == 100

    def test_item_11_a_batch_that_is_cancelled(self, side: Side) -> None:
        side.fake.faults = dict.fromkeys(range(100), HANG)
        store, batches = side.store(), side.stores.file_batches
        batch = batches.create(store, file_ids=[side.file(), side.file("b.txt", "b")])
        assert batch.status == "in_progress"
        assert side.fake.hanging.wait(30)
        cancelled = batches.cancel(batch.id, vector_store_id=store)
        assert (cancelled.status, cancelled.file_counts.cancelled) == ("cancelled", 2)
        assert batches.poll(batch.id, vector_store_id=store, poll_interval_ms=POLL) == cancelled

    def test_item_11_search(self, side: Side) -> None:
        store = side.store(harbour=NOTE, ship="The ship sails.", crew="The crew sings.")
        page = side.stores.search(
            store, query=NOTE, max_num_results=2, rewrite_query=False,
            ranking_options={"ranker": "auto", "score_threshold": 0.99},
        )  # fmt: skip
        assert page.object == "vector_store.search_results.page"
        (hit,) = page
        assert (hit.filename, hit.score) == ("harbour.txt", pytest.approx(1.0))
        assert [(each.type, each.text) for each in hit.content] == [("text", NOTE)]
        both = side.stores.search(
            store, query=["The ship sails.", NOTE], ranking_options={"score_threshold": 0.99}
        )
        assert {each.filename for each in both} == {"harbour.txt", "ship.txt"}

    def test_item_11_a_vector_store_that_has_expired(self, late: Side, clock: ManualClock) -> None:
        store = late.store(harbour=NOTE)
        late.stores.update(store, expires_after={"anchor": "last_active_at", "days": 1})
        clock.advance(DAY + 1)
        assert late.stores.retrieve(store).status == "expired"
        with pytest.raises(openai.BadRequestError, match="expired"):
            late.stores.search(store, query=NOTE)

    @pytest.mark.parametrize("is_included", [False, True], ids=["without", "with"])
    def test_item_11_what_was_found_in_a_stream(self, side: Side, is_included: bool) -> None:
        side.fake.answer = calling(FOUND)
        resources: Any = {"file_search": {"vector_store_ids": [side.store(harbour=NOTE)]}}
        assistant = side.assistant(tools=[SEARCH], tool_resources=resources)
        options: Any = {"include": CONTENT} if is_included else {}
        events = list(
            side.runs.create(side.thread(), assistant_id=assistant, stream=True, **options)
        )
        deltas = [each.data.delta for each in events if each.event == "thread.run.step.delta"]
        done = [each.data for each in events if each.event == "thread.run.step.completed"]
        for details in (deltas[-1].step_details, done[0].step_details):
            (hit,) = details.to_dict()["tool_calls"][0]["file_search"]["results"]
            assert hit["file_name"] == "harbour.txt"
            assert ("content" in hit) is is_included

    def test_item_11_what_is_attached_is_searched(self, side: Side) -> None:
        side.fake.answer = calling(FOUND, then=lambda prompt: results(prompt)[0])
        thread, file = side.thread("when?"), side.file("harbour.txt")
        side.beta.threads.messages.create(
            thread, role="user", content="it is in here",
            attachments=[{"file_id": file, "tools": [SEARCH]}],
        )  # fmt: skip
        (store,) = side.beta.threads.retrieve(thread).tool_resources.file_search.vector_store_ids
        assert side.stores.retrieve(store).expires_after.days == 7
        run = side.ran(thread, side.assistant(tools=[SEARCH]))
        assert side.texts(run) == [f"【0:0†harbour.txt】\n{NOTE}"]

    def test_item_11_vector_stores_that_are_made_with_others(self, side: Side) -> None:
        resources: Any = {"file_search": {"vector_stores": [{"file_ids": [side.file()]}]}}
        for owner in (
            side.beta.assistants.create(model="fake", tools=[SEARCH], tool_resources=resources),
            side.beta.threads.create(tool_resources=resources),
        ):
            (store,) = owner.tool_resources.file_search.vector_store_ids
            assert side.stores.retrieve(store).file_counts.total == 1

    def test_item_11_the_asynchronous_client(self, side: Side) -> None:
        side.fake.answer = calling(FOUND, then=cites)

        async def toured(client: Any) -> list[str]:
            file = await client.files.create(file=("a.txt", NOTE.encode()), purpose="assistants")
            store = await client.vector_stores.create()
            await client.vector_stores.files.create_and_poll(
                file.id, vector_store_id=store.id, poll_interval_ms=POLL
            )
            assistant = await client.beta.assistants.create(
                model="fake", tools=[SEARCH],
                tool_resources={"file_search": {"vector_store_ids": [store.id]}},
            )  # fmt: skip
            thread = await client.beta.threads.create(messages=[{"role": "user", "content": "?"}])
            runs = client.beta.threads.runs
            run = await runs.create_and_poll(
                thread_id=thread.id, assistant_id=assistant.id, poll_interval_ms=POLL
            )
            assert run.status == "completed"
            async with runs.stream(thread_id=thread.id, assistant_id=assistant.id) as stream:
                streamed = "".join([text async for text in stream.text_deltas])
                assert (await stream.get_final_run()).status == "completed"
            messages = [
                each async for each in client.beta.threads.messages.list(thread.id, limit=1)
            ]
            with pytest.raises(openai.NotFoundError):
                await client.beta.threads.retrieve("thread_1")
            return [streamed, *(each.content[0].text.value for each in messages)]

        async def client() -> list[str]:
            async with openai.AsyncOpenAI(
                base_url=f"{side.url}/v1", api_key="key", max_retries=0
            ) as client:
                return await toured(client)

        answer = "At nine【0:0†a.txt】."
        assert asyncio.run(client()) == [answer, answer, answer, "?"]
