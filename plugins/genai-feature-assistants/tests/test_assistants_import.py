"""What was exported elsewhere, imported: objects of the API in files of all forms."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_feature_assistants.imports import Report, import_files
from genai_feature_assistants.service.shelf import Shelf

from genai_host import Host
from genai_host.api import RouteRequest
from genai_host.config import read_config
from genai_host.store import Store
from genai_host_testing.fixtures import MakeHost

from .assistants_line import Line

FILE = {
    "id": "file-1",
    "object": "file",
    "bytes": 11,
    "created_at": 100,
    "filename": "notes.txt",
    "purpose": "assistants",
    "status": "processed",
    "status_details": None,
    "expires_at": None,
}
STORE = {
    "id": "vs_1",
    "object": "vector_store",
    "created_at": 200,
    "name": "Notes",
    "usage_bytes": 5,
    "file_counts": {"in_progress": 0, "completed": 1, "failed": 0, "cancelled": 0, "total": 1},
    "status": "expired",
    "expires_after": {"anchor": "last_active_at", "days": 7},
    "expires_at": 300,
    "last_active_at": 250,
    "metadata": {"team": "sea"},
}
STORE_FILE = {
    "id": "file-1",
    "object": "vector_store.file",
    "created_at": 201,
    "vector_store_id": "vs_1",
    "usage_bytes": 5,
    "status": "completed",
    "last_error": None,
    "chunking_strategy": {
        "type": "static",
        "static": {"max_chunk_size_tokens": 400, "chunk_overlap_tokens": 100},
    },
    "attributes": {"year": 2024},
}
ASSISTANT = {
    "id": "asst_abc",
    "object": "assistant",
    "created_at": 300,
    "name": "Whales",
    "description": None,
    "model": "gpt-4o",
    "instructions": "Sing.",
    "tools": [
        {
            "type": "file_search",
            "file_search": {
                "ranking_options": {"ranker": "default_2024_08_21", "score_threshold": 0.0}
            },
        },
        {"type": "function", "function": {"name": "roll", "parameters": {}, "strict": False}},
    ],
    "tool_resources": {
        "file_search": {"vector_store_ids": ["vs_1"]},
        "code_interpreter": {"file_ids": []},
    },
    "metadata": {"team": "sea"},
    "temperature": 1.0,
    "top_p": 1.0,
    "response_format": "auto",
    "truncation_strategy": {"type": "auto"},
}
THREAD = {
    "id": "thread_abc",
    "object": "thread",
    "created_at": 400,
    "metadata": {"user": "7"},
    "tool_resources": None,
}


def message(id: str, at: int, text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "object": "thread.message",
        "created_at": at,
        "assistant_id": "asst_abc" if role == "assistant" else None,
        "thread_id": "thread_abc",
        "run_id": "run_abc" if role == "assistant" else None,
        "role": role,
        "content": [{"type": "text", "text": {"value": text, "annotations": []}}],
        "attachments": [],
        "metadata": {},
        **more,
    }


ASKED = message("msg_1", 401, "What do whales do?", metadata={"n": "1"})
CITED = message(
    "msg_2",
    402,
    "They sing【4:0†source】.",
    "assistant",
    content=[
        {
            "type": "text",
            "text": {
                "value": "They sing【4:0†source】.",
                "annotations": [
                    {
                        "type": "file_citation",
                        "text": "【4:0†source】",
                        "start_index": 9,
                        "end_index": 21,
                        "file_citation": {"file_id": "file-1"},
                    },
                    {"type": "url_citation", "text": "x"},
                ],
            },
        }
    ],
)
ALL = [FILE, STORE, STORE_FILE, ASSISTANT, THREAD, ASKED, CITED]


@pytest.fixture
def line(
    make_host: MakeHost,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Line]:
    made = Line(make_host, tmp_path, capsys, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the bytes of the file."""
    made = tmp_path / "export"
    made.mkdir()
    (made / "file-1").write_bytes(b"whales sing")
    return made


def page(*objects: Any) -> Any:
    return {"object": "list", "data": list(objects), "first_id": "a", "has_more": False}


def written(folder: Path, value: Any, name: str = "export.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def imported(line: Line, folder: Path, *values: Any, **how: Any) -> Report:
    """What came of an import of a file for each value."""
    paths = [written(folder, value, f"{number}.json") for number, value in enumerate(values)]
    return import_files(line.host, paths, **{"models": {"gpt-4o": "fake"}, **how})


def kept(line: Line, kind: str, within: str = "") -> list[Any]:
    return list(Shelf(line.host, "", kind, within).all())


def texts(line: Line, thread: str = "thread_abc") -> list[str]:
    return [each["content"][0]["text"]["value"] for each in kept(line, "message", thread)]


@pytest.mark.part
class TestForms:
    @pytest.mark.parametrize(
        "form",
        [
            lambda: [ALL],
            lambda: [page(*ALL)],
            lambda: [[page(*ALL[:3]), page(*ALL[3:])]],
            lambda: ALL,
            lambda: ["\n".join(json.dumps(each) for each in ALL)],
            lambda: ["\n\n".join(json.dumps(page(each)) for each in ALL) + "\n"],
            lambda: [json.dumps(ALL, indent=2)],
            lambda: ["\ufeff" + json.dumps(ALL)],
        ],
        ids=["list", "page", "pages", "objects", "lines", "lines of pages", "indented", "BOM"],
    )
    def test_all_forms_are_the_same(self, line: Line, folder: Path, form: Any) -> None:
        report = imported(line, folder, *form())
        assert report.failed == []
        assert report.warnings == []
        assert report.counts == {each["object"]: {"imported": 1} for each in ALL[:-1]} | {
            "thread.message": {"imported": 2}
        }

    def test_text_of_windows_is_read(self, line: Line, folder: Path) -> None:
        path = folder / "export.jsonl"
        path.write_bytes("\r\n".join(json.dumps(each) for each in ALL).encode("utf-16"))
        assert import_files(line.host, [path], models={"gpt-4o": "fake"}).failed == []

    def test_any_order_will_do(self, line: Line, folder: Path) -> None:
        assert imported(line, folder, ALL[::-1]).failed == []
        assert texts(line) == ["What do whales do?", "They sing【4:0†source】."]

    def test_messages_may_stand_in_their_thread(self, line: Line, folder: Path) -> None:
        bare = {"id": "msg_9", "created_at": 5, "role": "user", "content": "hi"}
        assert imported(line, folder, {**THREAD, "messages": page(CITED, bare)}).failed == []
        assert texts(line) == ["hi", "They sing【4:0†source】."]


class TestKept:
    @pytest.mark.part
    def test_ids_times_and_metadata_stay(self, line: Line, folder: Path) -> None:
        imported(line, folder, ALL)
        for kind, exported in {
            "file": FILE,
            "vector store": STORE,
            "assistant": ASSISTANT,
            "thread": THREAD,
        }.items():
            [found] = kept(line, kind)
            for name in {"id", "created_at", "metadata", "name", "instructions", "tools"}:
                assert found.get(name) == exported.get(name), name
        [found] = kept(line, "vector store file", "vs_1")
        for name in ("id", "created_at", "attributes", "chunking_strategy"):
            assert found[name] == STORE_FILE[name]

    @pytest.mark.part
    def test_messages_stay_as_they_were(self, line: Line, folder: Path) -> None:
        imported(line, folder, ALL)
        asked, cited = kept(line, "message", "thread_abc")
        for name in ASKED:
            assert asked[name] == ASKED[name]
        assert (cited["run_id"], cited["assistant_id"]) == ("run_abc", "asst_abc")
        [annotation] = cited["content"][0]["text"]["annotations"]
        assert annotation["file_citation"] == {"file_id": "file-1"}

    @pytest.mark.part
    def test_the_thread_goes_on_and_its_store_is_searched(self, line: Line, folder: Path) -> None:
        imported(line, folder, ALL)
        from genai_feature_assistants.service.service import Service

        service = Service(line.host)
        try:
            [hit] = service.vector_stores.found(
                "", ["vs_1"], ["whales sing"], 5, 0.9, limits=_unlimited()
            )
        finally:
            service.close()
        assert (hit.key, hit.text) == ("file-1", "whales sing")
        line.model.answer = lambda heard: " | ".join(each.text for each in heard.messages[1:])
        out = line.done("run", "Whales", "--thread", "thread_abc", "And?")
        assert out == "What do whales do? | They sing【4:0†source】. | And?\n"

    @pytest.mark.part
    def test_a_store_may_name_its_files(self, line: Line, folder: Path) -> None:
        imported(line, folder, FILE, {**STORE, "file_ids": ["file-1"]})
        assert [each["status"] for each in kept(line, "vector store file", "vs_1")] == ["completed"]

    def test_a_store_that_does_not_expire_was_used_when_it_was(
        self, line: Line, folder: Path
    ) -> None:
        imported(line, folder, {**STORE, "expires_after": None})
        assert [each["last_active_at"] for each in kept(line, "vector store")] == [250]

    def test_a_store_that_expires_is_used_now(self, line: Line, folder: Path) -> None:
        imported(line, folder, STORE)
        [store] = kept(line, "vector store")
        assert store["last_active_at"] > 1_700_000_000

    def test_bytes_may_go_by_the_name(self, line: Line, folder: Path) -> None:
        (folder / "file-1").rename(folder / "notes.txt")
        assert imported(line, folder, FILE).failed == []

    def test_messages_of_one_second_stay_in_their_order(self, line: Line, folder: Path) -> None:
        said = [message(f"msg_{number}", 5, str(number)) for number in range(4)]
        imported(line, folder, THREAD, said)
        assert texts(line) == ["0", "1", "2", "3"]
        imported(
            line,
            folder,
            {**THREAD, "id": "thread_page"},
            page(*({**each, "thread_id": "thread_page"} for each in reversed(said))),
        )
        assert texts(line, "thread_page") == ["0", "1", "2", "3"]

    def test_a_thread_is_made_for_messages_without_one(self, line: Line, folder: Path) -> None:
        report = imported(line, folder, page(CITED, ASKED))
        assert [each["created_at"] for each in kept(line, "thread")] == [401]
        assert any("thread_abc was not exported" in each for each in report.warnings)

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_messages_that_come_later_stand_where_they_were(
        self, line: Line, folder: Path, order: tuple[int, ...]
    ) -> None:
        said = [message(f"msg_{number}", number, str(number)) for number in range(3)]
        for number in order:
            imported(line, folder, THREAD, said[number])
        assert texts(line) == ["0", "1", "2"]

    @pytest.mark.part
    def test_users_have_their_own(self, line: Line, folder: Path) -> None:
        line.done("--user", "ann", "import", written(folder, ALL))
        assert kept(line, "assistant") == []
        assert line.done("--user", "ann", "list").startswith("asst_abc\tWhales")


@pytest.mark.part
class TestAgain:
    def test_what_is_there_is_left_alone(self, line: Line, folder: Path) -> None:
        imported(line, folder, ALL)
        changed = [{**ASSISTANT, "name": "Other"}, {**ASKED, "content": "Other"}, *ALL[:3]]
        report = imported(line, folder, changed)
        assert {what for of in report.counts.values() for what in of} == {"left alone"}
        assert kept(line, "assistant")[0]["name"] == "Whales"
        assert texts(line)[0] == "What do whales do?"

    def test_it_is_left_alone_without_its_bytes(self, line: Line, folder: Path) -> None:
        imported(line, folder, FILE)
        (folder / "file-1").unlink()
        assert imported(line, folder, FILE).counts == {"file": {"left alone": 1}}

    def test_it_is_replaced_if_that_is_asked_for(self, line: Line, folder: Path) -> None:
        imported(line, folder, ALL)
        (folder / "file-1").write_bytes(b"they dive")
        changed = [{**ASSISTANT, "name": "Other"}, {**ASKED, "content": "Other"}, *ALL[:3], CITED]
        report = imported(line, folder, changed, replace=True)
        assert {what for of in report.counts.values() for what in of} == {"replaced"}
        assert kept(line, "assistant")[0]["name"] == "Other"
        assert texts(line) == ["Other", "They sing【4:0†source】."]
        [file] = kept(line, "file")
        assert b"".join(line.store.of("").blobs().get(file["_blob"])) == b"they dive"
        [searchable] = kept(line, "vector store file", "vs_1")
        assert searchable["status"] == "completed"

    def test_a_thread_that_a_run_is_at_is_let_be(self, line: Line, folder: Path) -> None:
        imported(line, folder, THREAD)
        run = {"id": "run_1", "thread_id": "thread_abc", "status": "requires_action"}
        Shelf(line.host, "", "run", "thread_abc").add({**run, "_until": 10**10})
        Shelf(line.host, "", "thread").update("thread_abc", _run="run_1")
        report = imported(line, folder, {**THREAD, "metadata": {"a": "b"}}, ASKED, replace=True)
        [failed] = report.failed
        assert (failed.kind, failed.id) == ("thread.message", "msg_1")
        assert "a run is at the thread" in failed.why
        assert kept(line, "thread")[0]["_run"] == "run_1"


class TestWrong:
    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({**ASSISTANT, "id": "../../etc"}, "not an id"),
            ({**ASSISTANT, "id": "a/b"}, "not an id"),
            ({**ASSISTANT, "id": "a" * 65}, "not an id"),
            ({**ASSISTANT, "id": "asst_\n"}, "not an id"),
            ({**ASSISTANT, "id": 5}, "not a string"),
            ({**ASSISTANT, "id": None}, "not an id"),
            ({**ASSISTANT, "model": None}, "model is missing"),
            ({**ASSISTANT, "tools": {}}, "not a list"),
            ({**ASSISTANT, "tools": [{"type": "code_interpreter"}] * 2}, "the same"),
            ({**ASSISTANT, "tools": [{"type": "web_search"}]}, "not one of"),
            ({**ASSISTANT, "tools": [5]}, "not an object"),
            ({**ASSISTANT, "metadata": {str(n): "" for n in range(17)}}, "at most 16"),
            ({**ASSISTANT, "metadata": {"a": 5}}, "a value is a text"),
            ({**ASSISTANT, "temperature": "hot"}, "not a number"),
            ({**ASSISTANT, "created_at": -1}, "no time"),
            ({**ASSISTANT, "created_at": 10**30}, "no time"),
            ({**ASSISTANT, "created_at": [1]}, "not an integer"),
            ({**ASSISTANT, "instructions": "x" * 256_001}, "at most 256000"),
            (
                {
                    **ASSISTANT,
                    "tool_resources": {"code_interpreter": {"file_ids": ["f"] * 9 + [1]}},
                },
                "not text",
            ),
            (
                {
                    **ASSISTANT,
                    "tool_resources": {"code_interpreter": {"file_ids": [*map(str, range(21))]}},
                },
                "at most 20",
            ),
            (
                {**ASSISTANT, "tool_resources": {"file_search": {"vector_store_ids": ["../x"]}}},
                "not an id",
            ),
            ({**THREAD, "tool_resources": []}, "not an object"),
            ({**THREAD, "messages": 5}, "not an object"),
            ({**ASKED, "role": "system"}, "not one of"),
            ({**ASKED, "role": None}, "role is missing"),
            ({**ASKED, "thread_id": "a/b"}, "not an id"),
            ({**ASKED, "content": []}, "nothing in it"),
            ({**ASKED, "content": [{"type": "text"}]}, "there is no text"),
            ({**ASKED, "content": [{"type": "video"}]}, "not one of"),
            ({**ASKED, "content": [{}]}, "there is no type"),
            (
                {
                    **ASKED,
                    "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}],
                },
                "not an address of a picture",
            ),
            ({**ASKED, "content": [{"type": "text", "text": "a"}] * 1001}, "at most 1000"),
            ({**ASKED, "attachments": [{"file_id": "../x", "tools": []}]}, "not an id"),
            ({**STORE, "expires_after": {"anchor": "last_active_at", "days": 0}}, "from 1 to 365"),
            ({**STORE_FILE, "vector_store_id": "vs_none"}, "the vector store vs_none is not here"),
            ({**STORE_FILE, "id": "file-none"}, "file file-none is not here"),
            ({**STORE_FILE, "attributes": {"a": []}}, "an attribute is"),
            ({**FILE, "id": "file-2", "filename": "none.txt"}, "its bytes are not beside it"),
            ({**FILE, "id": "file-2", "filename": "../outside"}, "its bytes are not beside it"),
            ({"object": "thread.run", "id": "run_1"}, "objects of this kind are not imported"),
            ({"id": "asst_1"}, "object is missing"),
            ({"object": ["assistant"]}, "object is missing"),
            (5, "it is not an object"),
            (None, "it is not an object"),
            ({"object": "list", "data": 5}, "it is not an object"),
        ],
    )
    def test_it_is_told_and_the_rest_is_imported(
        self, line: Line, folder: Path, wrong: Any, why: str
    ) -> None:
        (folder.parent / "outside").write_text("secret")
        other = {**ASSISTANT, "id": "asst_other"}
        report = imported(line, folder, [wrong, FILE, STORE, other])
        [failed] = report.failed
        assert why in failed.why
        assert len(failed.line()) < 500
        assert failed.at.startswith("0.json[0]")
        assert "asst_other" in [each["id"] for each in kept(line, "assistant")]

    def test_what_is_nested_too_deeply_is_told(self, line: Line, folder: Path) -> None:
        deep: Any = {}
        for _ in range(150):
            deep = {"a": deep}
        report = imported(line, folder, [{**ASSISTANT, "metadata": deep}, THREAD])
        assert "nested" in report.failed[0].why
        assert report.counts["thread"] == {"imported": 1}
        report = imported(line, folder, "[" * 100_000, THREAD)
        assert "not JSON" in report.failed[0].why

    @pytest.mark.parametrize(
        "text", ["", "{", "nothing", '{"object": "assistant",', "{}\x00", "[1e999]", "NaN"]
    )
    def test_a_file_that_is_no_json_is_told(self, line: Line, folder: Path, text: str) -> None:
        report = imported(line, folder, text, THREAD)
        assert report.failed
        assert all(each.at.startswith("0.json") for each in report.failed)
        assert report.counts["thread"] == {"imported": 1}

    def test_a_broken_line_is_told_with_its_number(self, line: Line, folder: Path) -> None:
        lines = f"{json.dumps(THREAD)}\n{{\n{json.dumps(ASKED)}\n"
        report = imported(line, folder, lines)
        assert [each.at for each in report.failed] == ["0.json:2"]
        assert texts(line) == ["What do whales do?"]

    def test_a_file_that_is_no_text_is_told(self, line: Line, folder: Path) -> None:
        path = folder / "noise.json"
        path.write_bytes(bytes(range(256)))
        [failed] = import_files(line.host, [path, folder / "nowhere.json"]).failed[:1]
        assert "not text" in failed.why

    @pytest.mark.skipif(os.name == "nt", reason="links take rights there")
    def test_a_link_out_of_the_folder_is_not_followed(self, line: Line, folder: Path) -> None:
        (folder.parent / "secret").write_text("secret")
        (folder / "file-2").symlink_to(folder.parent / "secret")
        [failed] = imported(line, folder, {**FILE, "id": "file-2", "filename": "x"}).failed
        assert "not beside it" in failed.why

    def test_files_of_one_name_need_their_ids(self, line: Line, folder: Path) -> None:
        (folder / "notes.txt").write_text("of which?")
        report = imported(line, folder, [FILE, {**FILE, "id": "file-2"}])
        [failed] = report.failed
        assert failed.id == "file-2"
        assert "call the bytes of this one file-2" in failed.why

    def test_what_cannot_run_is_told(self, line: Line, folder: Path) -> None:
        coder = {**ASSISTANT, "tools": [{"type": "code_interpreter"}]}
        report = imported(line, folder, coder, models={})
        told = "\n".join(report.warnings)
        assert "nothing can run 'gpt-4o'" in told
        assert "genai-tools-sandbox" in told
        assert "vector store vs_1 is not here" in told

    @pytest.mark.part
    def test_files_that_cannot_be_searched_are_told(self, line: Line, folder: Path) -> None:
        (folder / "file-1").write_bytes(b"\0\0\0")
        report = imported(line, folder, FILE, STORE, STORE_FILE)
        told = "\n".join(report.warnings)
        assert "notes.txt in vs_1 cannot be searched" in told
        assert "had 11 bytes, and has 3 here" in told


@pytest.mark.part
def test_what_the_api_shows_comes_back_as_it_was(
    line: Line, folder: Path, make_host: MakeHost, tmp_path: Path
) -> None:
    """Made here, exported by the API, imported into another store: it shows the same."""
    (tmp_path / "notes.txt").write_text("whales sing")
    line.done(
        *("create", "Whales", "--model", "fake", "--instructions", "Sing."),
        *("--tool", "file_search", "--file", tmp_path / "notes.txt"),
    )
    thread = json.loads(line.done("run", "Whales", "hi", "--json"))["thread"]
    line.done("run", "Whales", "again", "--thread", thread)
    exported = shown_by_api(line.host, thread)
    (folder / exported["files"][0]["id"]).write_text("whales sing")
    with Store(tmp_path / "other.db") as store:
        other = make_host(config=line.host.config, store=store, fake=line.model)
        paths = [
            written(folder, page(*objects), f"{name}.json") for name, objects in exported.items()
        ]
        report = import_files(other, paths)
        assert (report.failed, report.warnings) == ([], [])
        assert shown_by_api(other, thread) == exported


def shown_by_api(host: Host, thread: str) -> dict[str, list[Any]]:
    """Pages of all kinds, the newest first."""
    from genai_feature_assistants.service.service import Service

    def data(answer: Any, **parameters: str) -> Any:
        asked = RouteRequest("GET", "/", parameters=parameters, limits=_unlimited())
        body = json.loads(answer(asked).body)
        return body["data"] if body["object"] == "list" else [body]

    service = Service(host)
    try:
        stores = data(service.vector_stores.page)
        return {
            "files": data(service.files.page),
            "stores": stores,
            "store_files": data(service.store_files.page, store=stores[0]["id"]),
            "assistants": data(service.assistants.page),
            "threads": data(service.threads.show, thread=thread),
            "messages": data(service.messages.page, thread=thread),
        }
    finally:
        service.close()


def test_the_export_in_the_document_is_python_and_the_aliases_are_in_order(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    text = (pytestconfig.rootpath / "docs/from-openai-assistants.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(block, "from-openai-assistants.md", "exec")
    [aliases] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "config.toml"
    file.write_text(aliases, encoding="utf-8")
    assert read_config(file).aliases == {"gpt-4o": "smollm2"}


class TestCommand:
    @pytest.mark.part
    def test_it_tells_what_became_of_all(self, line: Line, folder: Path) -> None:
        path = written(folder, [*ALL, {**THREAD, "id": "a/b"}])
        code, out, err = line("import", path, "--model", "gpt-4o=fake")
        assert code == 1
        assert "assistant\t1\t0\t0\t0" in out.splitlines()
        assert "thread\t1\t0\t0\t1" in out.splitlines()
        assert "failed: export.json[7]: thread a/b: " in err
        code, out, err = line("import", path, "--model", "gpt-4o=fake", "--json")
        told = json.loads(out)
        assert told["counts"]["assistant"] == {"left alone": 1}
        assert told["failed"][0]["at"] == "export.json[7]"
        assert set(told["failed"][0]) == {"kind", "id", "at", "why"}
        assert line.done("show", "Whales", "--json")

    def test_models_are_mapped(self, line: Line, folder: Path) -> None:
        path = written(folder, [FILE, STORE, ASSISTANT])
        assert line.done("import", path, "--model", "gpt-4o=fake", "--model", "a=b")
        assert kept(line, "assistant")[0]["model"] == "fake"
        assert line("import", path, "--model", "gpt-4o")[0] == 2

    def test_hostile_text_stays_off_the_terminal(self, line: Line, folder: Path) -> None:
        evil = "\x1b]52;c;eA==\x07"
        path = written(folder, [{**ASSISTANT, "id": evil}, {"object": evil}, THREAD])
        code, out, err = line("import", path)
        assert code == 1
        assert not {"\x1b", "\x07"} & set(out + err)

    def test_many_wrong_ones_do_not_flood(self, line: Line, folder: Path) -> None:
        path = written(folder, [{"object": "thread", "id": "a/b"}] * 500)
        _, out, err = line("import", path)
        assert out == "thread\t0\t0\t0\t500\n"
        assert len(err.splitlines()) < 60
        assert "450 more" in err

    def test_an_empty_export_is_told(self, line: Line, folder: Path) -> None:
        assert line("import", written(folder, [])) == (0, "", "there is nothing in it\n")


def _unlimited() -> Any:
    from genai_host.api.cancellation import Cancellation

    return Cancellation()
