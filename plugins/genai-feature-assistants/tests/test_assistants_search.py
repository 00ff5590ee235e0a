"""Files, vector stores, and the search in them by runs; what any object refuses."""

from __future__ import annotations

from typing import Any, cast

import pytest
from genai_feature_assistants.service.indexing import shelf_of, stores_of
from genai_feature_assistants.service.vector_store_files import StoreFiles
from genai_wire_openai.server.files import Files
from sqlalchemy import event

from genai_host import Host
from genai_host.api import Cancellation, RouteRequest
from genai_host.store import Store
from genai_host_testing import RecordedPrompt
from genai_host_testing.internal.assistants_api import (
    SEARCH,
    Api,
    MakeApi,
    calls,
    ids_of,
    outputs_in,
    path_of,
    says,
    until,
)
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

pytestmark = pytest.mark.part


def cites(prompt: RecordedPrompt) -> Any:
    """It searches, and answers with the marks of all passages that were found."""
    outputs = outputs_in(prompt)
    if not outputs:
        return calls(("c1", "file_search", {"query": prompt.text}))
    marks = [line for line in outputs[0].splitlines() if line.startswith("【")]
    return says("𝄞 First" + ", then".join(f" something {mark}" for mark in marks) + ".")


def searcher(api: Api, store: str, **search: Any) -> str:
    tool = {**SEARCH, "file_search": search} if search else SEARCH
    return api.assistant(tool, tool_resources={"file_search": {"vector_store_ids": [store]}})


SEA_AND_HILLS = {"sea": "the sea is blue", "hills": "hills are green"}
USER = {"role": "user", "content": "a"}
ATTACHED = [{"file_id": "file_1", "tools": [SEARCH]}]


def test_item_12_answer_cites_files_and_indices_slice_to_its_marks(make_api: MakeApi) -> None:
    api = make_api(cites)
    store = api.store_of(**SEA_AND_HILLS)
    files = {file["id"] for file in api.get(f"/vector_stores/{store}/files")["data"]}
    thread = api.thread("the sea is blue")
    run = api.run(thread, searcher(api, store))
    assert run["status"] == "completed", run
    text = api.get(f"/threads/{thread}/messages")["data"][0]["content"][0]["text"]
    assert len(text["annotations"]) == 2
    for annotation in text["annotations"]:
        start, end = annotation["start_index"], annotation["end_index"]
        assert text["value"][start:end] == annotation["text"]
        assert annotation["text"].startswith("【0:")
        assert annotation["type"] == "file_citation"
    assert {each["file_citation"]["file_id"] for each in text["annotations"]} == files
    first = api.get(f"/files/{text['annotations'][0]['file_citation']['file_id']}")
    assert first["filename"] == "sea.txt"


def test_item_12_what_was_found_stands_in_the_step(make_api: MakeApi) -> None:
    api = make_api(cites)
    store = api.store_of(**SEA_AND_HILLS)
    search = {"max_num_results": 1, "ranking_options": {"score_threshold": 0.5}}
    run = api.run(api.thread("the sea is blue"), searcher(api, store, **search))
    step = api.steps(run)[0]
    [call] = step["step_details"]["tool_calls"]
    assert call["file_search"]["ranking_options"]["score_threshold"] == 0.5
    [hit] = call["file_search"]["results"]
    assert (hit["file_name"], "content" in hit) == ("sea.txt", False)
    assert hit["score"] == pytest.approx(1.0)
    include: Any = {"include[]": "step_details.tool_calls[*].file_search.results[*].content"}
    retrieved = api.get(f"{path_of(run)}/steps/{step['id']}", **include)
    for detailed in (api.steps(run, **include)[0], retrieved):
        [hit] = detailed["step_details"]["tool_calls"][0]["file_search"]["results"]
        assert hit["content"] == [{"type": "text", "text": "the sea is blue"}]


def test_item_12_a_search_without_a_vector_store_is_an_error(make_api: MakeApi) -> None:
    api = make_api(cites)
    thread = api.thread("the sea?")
    refused = api.post(f"/threads/{thread}/runs", {"assistant_id": api.assistant(SEARCH)}, 400)
    assert "file_search has no vector store" in api.error(refused)
    assert refused["error"]["param"] == "tools"
    assert api.get(f"/threads/{thread}/runs")["data"] == []


def test_item_12_marks_of_two_searches_of_a_round_are_told_apart(make_api: MakeApi) -> None:
    def answer(prompt: RecordedPrompt) -> Any:
        outputs = outputs_in(prompt)
        if not outputs:
            queries = ("the sea is blue", "hills are green")
            both = [(f"c{at}", "file_search", {"query": each}) for at, each in enumerate(queries)]
            return calls(*both)
        return says(" ".join(each.splitlines()[0] for each in outputs))

    api = make_api(answer)
    store = api.store_of(**SEA_AND_HILLS)
    thread = api.thread("?")
    api.run(thread, searcher(api, store, max_num_results=1))
    text = api.get(f"/threads/{thread}/messages")["data"][0]["content"][0]["text"]
    cited = [api.get(f"/files/{each['file_citation']['file_id']}") for each in text["annotations"]]
    assert [file["filename"] for file in cited] == ["sea.txt", "hills.txt"]


def test_what_is_attached_to_a_message_is_searched(make_api: MakeApi) -> None:
    api = make_api(cites)
    file = api.upload("sea.txt", b"the sea is blue")
    attached = [{"file_id": file, "tools": [SEARCH]}]
    thread = api.post("/threads")["id"]
    more = [{"role": "user", "content": "the sea is blue", "attachments": attached}]
    run = api.run(thread, api.assistant(SEARCH), additional_messages=more)
    assert run["status"] == "completed", run
    text = api.get(f"/threads/{thread}/messages")["data"][0]["content"][0]["text"]
    assert [each["file_citation"]["file_id"] for each in text["annotations"]] == [file]
    store = api.get(f"/threads/{thread}")["tool_resources"]["file_search"]["vector_store_ids"][0]
    assert api.get(f"/vector_stores/{store}")["expires_after"]["days"] == 7


def test_a_file_of_two_vector_stores_is_found_once(make_api: MakeApi) -> None:
    api = make_api(cites)
    store = api.store_of(**SEA_AND_HILLS)
    files = ids_of(api.get(f"/vector_stores/{store}/files"))
    resources = {"file_search": {"vector_stores": [{"file_ids": files}]}}
    thread = api.post("/threads", {"tool_resources": resources})["id"]
    more = [{"role": "user", "content": "the sea is blue"}]
    run = api.run(thread, searcher(api, store, max_num_results=2), additional_messages=more)
    [call] = api.steps(run)[0]["step_details"]["tool_calls"]
    assert {each["file_id"] for each in call["file_search"]["results"]} == set(files)


def test_a_deleted_file_is_no_longer_found(make_api: MakeApi) -> None:
    api = make_api(cites)
    store = api.store_of(**SEA_AND_HILLS)
    found = api.post(f"/vector_stores/{store}/search", {"query": "the sea is blue"})["data"]
    api.delete(f"/files/{found[0]['file_id']}")
    api.get(f"/vector_stores/{store}/files/{found[0]['file_id']}/content", 404)
    again = api.post(f"/vector_stores/{store}/search", {"query": "the sea is blue"})["data"]
    assert [each["filename"] for each in again] == ["hills.txt"]
    assert api.get(f"/vector_stores/{store}")["file_counts"]["total"] == 1


def test_a_deleted_file_is_in_no_vector_store(make_api: MakeApi) -> None:
    api, other = make_api(cites), make_api(cites)  # two servers of one store
    files = [api.upload(f"{n}.txt", b"the sea is blue") for n in range(3)]
    stores = [api.post("/vector_stores", {"file_ids": files})["id"] for _ in range(2)]
    batch = api.post(f"/vector_stores/{stores[0]}/file_batches", {"file_ids": files})["id"]
    until(lambda: all(api.get(f"/vector_stores/{id}")["status"] == "completed" for id in stores))
    api.delete(f"/files/{files[0]}")
    path = f"/vector_stores/{stores[0]}"
    assert set(ids_of(other.get(f"{path}/files"))) == set(files[1:])
    other.get(f"{path}/files/{files[0]}", 404)
    assert other.get(f"{path}/file_batches/{batch}")["file_counts"]["total"] == 2
    api.delete(f"/files/{files[1]}")
    listed = other.get("/vector_stores")["data"]
    assert [each["file_counts"]["total"] for each in listed] == [1, 1]
    assert [each["id"] for each in listed] == stores[::-1]
    assert other.get(path)["usage_bytes"] == other.get(f"{path}/files/{files[2]}")["usage_bytes"]


class TestVectorStoresAfterTheDeletionOfAFile:
    @pytest.fixture
    def store(self, make_store: MakeStore) -> Store:
        return make_store()

    @pytest.fixture
    def host(self, make_host: MakeHost, store: Store) -> Host:
        return make_host(store=store)

    @staticmethod
    def begun(host: Host, count: int) -> tuple[StoreFiles, Any]:
        """A vector store with some files, the first of which is deleted after it was read."""
        files, worker = Files(host), cast("Any", None)  # no file is being indexed
        stores_of(host, "").add({"id": "vs_1"})
        for number in range(count):
            file = files.keep("", "a.txt", b"", "assistants", id=f"file-{number}")
            shelf_of(host, "", "vs_1").add({"id": file["id"], "status": "completed"})
        found = stores_of(host, "").get("vs_1")
        named = {"file": "file-0"}
        files.delete(RouteRequest("DELETE", "/", parameters=named, limits=Cancellation()))
        return StoreFiles(host, files, worker), found

    def test_all_files_are_read_at_once(self, host: Host, store: Store) -> None:
        store_files, found = self.begun(host, 50)
        statements: list[Any] = []
        event.listen(
            store._database.engine,
            "before_cursor_execute",
            lambda *given: statements.append(given[2]),
        )
        store_files.settle("", found)
        assert 0 < len(statements) < 50
        assert len([*shelf_of(host, "", "vs_1").all()]) == 49

    def test_store_is_deleted_meanwhile(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        remove = StoreFiles.remove

        def removes(self: StoreFiles, user: str, store: str, file: str) -> None:
            remove(self, user, store, file)
            stores_of(host, user).delete(store)

        monkeypatch.setattr(StoreFiles, "remove", removes)
        store_files, found = self.begun(host, 2)
        store_files.settle("", found)
        assert stores_of(host, "").find("vs_1") is None


def test_file_deleted_during_a_search(make_api: MakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api = make_api(cites)
    store = api.store_of(**SEA_AND_HILLS)
    [file] = [each for each in api.get("/files")["data"] if each["filename"] == "sea.txt"]
    begin = api.fake.begin

    def deletes(limits: Any) -> bool:
        api.delete(f"/files/{file['id']}")
        return begin(limits)

    monkeypatch.setattr(api.fake, "begin", deletes)
    found = api.post(f"/vector_stores/{store}/search", {"query": "the sea is blue"})["data"]
    assert [each["filename"] for each in found] == ["hills.txt"]


def test_a_search_that_fails_is_told_to_the_model(make_api: MakeApi) -> None:
    def answer(prompt: RecordedPrompt) -> Any:
        outputs = outputs_in(prompt)
        return says(outputs[0]) if outputs else calls(("c1", "file_search", {"query": "a"}))

    api = make_api(answer)
    store = api.store_of(sea="the sea is blue")
    assistant, thread = searcher(api, store), api.thread("?")
    api.delete(f"/vector_stores/{store}")
    assert api.run(thread, assistant)["status"] == "completed"
    assert "the search failed" in api.texts(thread)[-1][1]


def test_files_are_kept_as_they_are(make_api: MakeApi) -> None:
    api = make_api()
    data = bytes(range(256)) * 1000
    id = api.upload("dir/näme.bin", data, "user_data")
    file = api.get(f"/files/{id}")
    assert (file["bytes"], file["purpose"], file["status"]) == (256_000, "user_data", "processed")
    assert api.ask("GET", f"/files/{id}/content").content == data
    assert ids_of(api.get("/files", purpose="user_data")) == [id]
    assert ids_of(api.get("/files", purpose="vision")) == []
    assert api.delete(f"/files/{id}") == {"id": id, "object": "file", "deleted": True}
    api.get(f"/files/{id}", 404)
    api.delete(f"/files/{id}", 404)


def test_equal_files_are_deleted_one_by_one(make_api: MakeApi) -> None:
    api = make_api()
    first, second = api.upload("a.txt", b"same"), api.upload("b.txt", b"same")
    api.delete(f"/files/{first}")
    assert api.ask("GET", f"/files/{second}/content").content == b"same"


@pytest.mark.parametrize(("name", "data", "code"), [
    ("a.bin", b"a\0b", "unsupported_file"),
    ("a.txt", b"  ", "invalid_file"),
    pytest.param("a.pdf", b"%PDF-1.4 nonsense", "invalid_file", marks=pytest.mark.process),
    pytest.param("a.html", b"<div>" * 10_000, "invalid_file", marks=pytest.mark.process),
])  # fmt: skip
def test_files_without_a_text_fail(make_api: MakeApi, name: str, data: bytes, code: str) -> None:
    api = make_api()
    store = api.post("/vector_stores", {"file_ids": [api.upload(name, data)]})["id"]
    until(lambda: api.get(f"/vector_stores/{store}")["status"] == "completed")
    [file] = api.get(f"/vector_stores/{store}/files")["data"]
    assert (file["status"], file["last_error"]["code"]) == ("failed", code)
    counts = api.get(f"/vector_stores/{store}")["file_counts"]
    assert (counts["failed"], counts["total"]) == (1, 1)


def test_a_vector_store_is_searched_with_filters(make_api: MakeApi) -> None:
    api = make_api()
    store = api.post("/vector_stores", {"name": "mine"})["id"]
    for name, year in (("old", 1999), ("new", 2026)):
        file = api.upload(f"{name}.txt", f"it is {name}".encode())
        body = {"file_id": file, "attributes": {"year": year}}
        api.post(f"/vector_stores/{store}/files", body)
    until(lambda: api.get(f"/vector_stores/{store}")["status"] == "completed")
    body = {"query": "it is old", "filters": {"type": "gt", "key": "year", "value": 2000}}
    [hit] = api.post(f"/vector_stores/{store}/search", body)["data"]
    assert (hit["filename"], hit["attributes"]) == ("new.txt", {"year": 2026})
    page = api.post(f"/vector_stores/{store}/search", {"query": "it is old"})
    assert page["data"][0]["filename"] == "old.txt"
    assert page["search_query"] == ["it is old"]


def test_batches_of_files(make_api: MakeApi) -> None:
    api = make_api()
    store = api.post("/vector_stores")["id"]
    files = [api.upload(f"{number}.txt", f"number {number}".encode()) for number in range(3)]
    batch = api.post(f"/vector_stores/{store}/file_batches", {"file_ids": files})
    path = f"/vector_stores/{store}/file_batches/{batch['id']}"
    until(lambda: api.get(path)["status"] == "completed")
    assert api.get(path)["file_counts"]["completed"] == 3
    assert sorted(ids_of(api.get(f"{path}/files"))) == sorted(files)
    api.delete(f"/vector_stores/{store}/files/{files[0]}")
    assert len(api.get(f"/vector_stores/{store}/files")["data"]) == 2
    content = api.get(f"/vector_stores/{store}/files/{files[1]}/content")
    assert content["data"] == [{"type": "text", "text": "number 1"}]


@pytest.mark.parametrize(("path", "body", "param"), [
    ("/assistants", {"model": ""}, "model"),
    ("/assistants", {"model": "fake", "name": "a" * 257}, "name"),
    ("/assistants", {"model": "fake", "temperature": 3}, "temperature"),
    ("/assistants", {"model": "fake", "tools": [{"type": "magic"}]}, "tools[0].type"),
    ("/assistants", {"model": "fake", "metadata": {"a": "b" * 513}}, "metadata.a"),
    ("/assistants?limit=0", None, "limit"), ("/assistants?order=best", None, "order"),
    ("/assistants?after=asst_1", None, "after"),
    ("/threads", {"messages": [{"role": "boss", "content": "a"}]}, "messages[0].role"),
    ("/threads/{thread}/messages", {"role": "user", "content": ""}, "content"),
    ("/threads/{thread}/messages", {**USER, "attachments": ATTACHED}, "attachments[0].file_id"),
    ("/vector_stores", {"file_ids": ["file_1"]}, "file_ids"),
    ("/vector_stores", {"expires_after": {"anchor": "created_at", "days": 1}},
     "expires_after.anchor"),
    ("/vector_stores", {"chunking_strategy": {"type": "static"}}, "chunking_strategy.static"),
    ("/vector_stores/{store}/files", {"file_id": "file_1"}, "file_id"),
    ("/vector_stores/{store}/files", {}, "file_id"),
    ("/vector_stores/{store}/search", {"query": " "}, "query"),
    ("/vector_stores/{store}/search", {"query": "a", "filters": {"type": "x"}}, "filters.type"),
    ("/vector_stores/{store}/file_batches", {"file_ids": []}, "file_ids"),
])  # fmt: skip
def test_what_is_refused(make_api: MakeApi, path: str, body: Any, param: str) -> None:
    api = make_api()
    names = {"store": api.post("/vector_stores")["id"], "thread": api.thread()}
    refused = api.ask("GET" if body is None else "POST", path.format(**names), body)
    error = refused.json()["error"]
    assert (refused.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["param"] == param, error


@pytest.mark.parametrize("kind", ["assistants", "files", "messages", "stores", "store files"])
def test_every_list_goes_on_after_a_deleted_object(make_api: MakeApi, kind: str) -> None:
    api = make_api()
    store, thread = api.post("/vector_stores")["id"], api.thread()
    paths = {
        "assistants": "/assistants", "files": "/files", "messages": f"/threads/{thread}/messages",
        "stores": "/vector_stores", "store files": f"/vector_stores/{store}/files",
    }  # fmt: skip
    for number in range(3):
        if kind == "assistants":
            api.assistant()
        elif kind == "messages":
            api.post(paths[kind], {"role": "user", "content": "hi"})
        elif kind == "stores":
            api.post("/vector_stores")
        else:
            file = api.upload(f"{number}.txt", b"text")
            if kind == "store files":
                api.post(paths[kind], {"file_id": file})
    newest, second, *rest = ids_of(api.get(paths[kind]))
    assert ids_of(api.get(paths[kind], limit=1)) == [newest]
    api.delete(f"{paths[kind]}/{newest}")
    assert ids_of(api.get(paths[kind], after=newest)) == [second, *rest]
    assert "unknown" in api.error(api.get(paths[kind], 400, after=f"{newest}0"))


def test_item_11_what_is_not_there_is_a_404_with_a_message(make_api: MakeApi) -> None:
    api = make_api()
    thread, store = (
        f"/threads/{api.thread('hi')}",
        f"/vector_stores/{api.post('/vector_stores')['id']}",
    )
    assistant, none = {"assistant_id": api.assistant()}, {"assistant_id": "none_1"}
    message = {"role": "user", "content": "a"}
    posts: list[tuple[str, Any]] = [
        ("/assistants/none_1", {"name": "a"}), ("/threads/none_1", {"metadata": {}}),
        ("/threads/none_1/messages", message), ("/threads/none_1/runs", assistant),
        (f"{thread}/runs", none), (f"{thread}/runs/none_1", {"metadata": {}}),
        (f"{thread}/runs/none_1/cancel", {}), ("/threads/runs", none),
        (f"{thread}/runs/none_1/submit_tool_outputs", {"tool_outputs": []}),
        ("/vector_stores/none_1", {"name": "a"}), ("/vector_stores/none_1/search", {"query": "a"}),
    ]  # fmt: skip
    refused = [api.post(path, body, 404) for path, body in posts]
    for path in (
        "/assistants/none_1", "/threads/none_1", f"{thread}/messages/none_1",
        "/vector_stores/none_1", "/files/none_1",
    ):  # fmt: skip
        refused += [api.get(path, 404), api.delete(path, 404)]
    for path in (
        "/threads/none_1/messages", "/threads/none_1/runs", f"{thread}/runs/none_1",
        f"{thread}/runs/none_1/steps", "/vector_stores/none_1/files", f"{store}/files/none_1",
        f"{store}/file_batches/none_1", "/files/none_1/content",
    ):  # fmt: skip
        refused.append(api.get(path, 404))
    for each in refused:
        assert "none_1" in api.error(each)
        assert each["error"]["type"] == "invalid_request_error"
