"""A batch as a whole: every row once, in order, whatever happens on the way."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import genai_feature_agent
import pytest
from attrs import evolve, frozen
from genai_batch import batch as batch_module
from genai_batch.batch import Batch, BatchProgress
from genai_batch.journal import BatchJournal
from genai_batch.work import RETRY_POLICY, Task

from genai_host import Host, api, errors
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin, ManualClock
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost

FAKE = Task(model="fake")


class Priced:
    """Each call costs half a dollar; `calls` of them were made."""

    calls = 0

    def price(self, *args: Any) -> float:
        self.calls += 1
        return 0.5


def sold(make_host: MakeHost, **options: Any) -> tuple[Host, Priced, Task]:
    """A host with a provider that costs something, and a task for that."""
    prices = Priced()
    host = make_host(prices=prices, **options)
    host.instances.add("sold", "mock", {"priced_as": "acme"})
    return host, prices, Task(provider="sold")


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel(lambda prompt: f"<{prompt.text}>")


@frozen
class Files:
    """The rows and the results of a batch."""

    rows: Path
    results: Path

    def write(self, *rows: Any) -> None:
        self.rows.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    def read(self) -> list[dict[str, Any]]:
        lines = self.results.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def run(self, host: Host, task: Task = FAKE, **options: Any) -> BatchProgress:
        return Batch(host, self.rows, self.results, task, **options).run()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "in.jsonl", tmp_path / "out.jsonl")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s.db") as store:
        yield store


def prompt_counts(fake: FakeModel) -> Counter[str]:
    return Counter(prompt.text for prompt in fake.prompts)


def test_every_row_once_and_in_order(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write(*(f"row {number}" for number in range(300)))
    reports: list[BatchProgress] = []
    done = files.run(make_host(fake=fake), concurrency=16, on_progress=reports.append)
    assert [each["text"] for each in files.read()] == [f"<row {n}>" for n in range(300)]
    assert [each["row"] for each in files.read()] == list(range(1, 301))
    assert set(prompt_counts(fake).values()) == {1}
    assert (done.rows, done.done, done.failed, done.before) == (300, 300, 0, 0)
    assert [each.done for each in reports] == list(range(301))
    assert sorted(each.name for each in files.rows.parent.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_no_more_at_once_than_wanted(make_host: MakeHost, files: Files) -> None:
    lock, gate = threading.Lock(), threading.Barrier(4)
    under_way = most = 0

    def answer(prompt: RecordedPrompt) -> str:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        gate.wait(30)  # four are under way together
        with lock:
            under_way -= 1
        return "a"

    files.write(*map(str, range(20)))
    files.run(make_host(fake=FakeModel(answer)), concurrency=4)
    assert most == 4


def test_rows_have_what_they_ask_for(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    row = {"id": "a", "prompt": "hi", "system": "S", "parameters": {"temperature": 0.5}}
    files.write(row, {"prompt": "x", "model": "nobody"})
    task = Task(model="fake", parameters={"temperature": 1, "max_tokens": 9})
    files.run(make_host(fake=fake), task)
    [prompt] = fake.prompts
    assert prompt.messages[0].text == "S"
    assert prompt.parameters == {"temperature": 0.5, "max_tokens": 9}
    first, second = files.read()
    assert (first["id"], first["text"], first["error"]) == ("a", "<hi>", None)
    assert second["error"]["code"] == "no_route"


def test_a_schema_holds_for_all(make_host: MakeHost, files: Files) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    files.write("one")
    fake = FakeModel(lambda prompt: '{"n": 1}')
    files.run(make_host(fake=fake), Task(model="fake", schema=schema))
    assert files.read()[0]["data"] == {"n": 1}


def test_lines_of_openais_batches(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    def line(id: str, url: str, **body: Any) -> Any:
        return {"custom_id": id, "method": "POST", "url": url, "body": body}

    messages = [{"role": "user", "content": "hi"}]
    files.write(
        line("a", "/v1/chat/completions", model="fake", messages=messages),
        line("b", "/v1/embeddings", model="fake-embed", input="hi"),
        line("c", "/v1/chat/completions", model="nobody", messages=messages),
        line("d", "/v1/chat/completions", messages=messages),
    )
    host = make_host(fake=fake)
    done = files.run(host, Task(model="mock", provider="mock"))
    chat, vectors, refused, usual = files.read()
    assert (chat["custom_id"], chat["error"]) == ("a", None)
    assert chat["response"]["status_code"] == 200
    assert chat["response"]["body"]["choices"][0]["message"]["content"] == "<hi>"
    assert vectors["response"]["body"]["data"][0]["embedding"]
    assert refused["response"]["status_code"] == 404
    assert "nobody" in refused["response"]["body"]["error"]["message"]
    assert usual["response"]["body"]["model"] == "mock@mock"
    assert done.failed == 1
    assert files.run(host, Task(model="mock", provider="mock"), retry_failed=True).before == 3


def test_failures_are_asked_again(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write("a", "b", "c")
    files.rows.write_text(files.rows.read_text() + "{\n", encoding="utf-8")
    fake.faults[1] = errors.AuthenticationFailed("the key is wrong")
    host = make_host(fake=fake)
    done = files.run(host, concurrency=1)
    assert (done.done, done.failed) == (4, 2)
    _, b, _, wrong = files.read()
    assert b["error"]["message"] == "the key is wrong"
    assert "invalid JSON" in wrong["error"]["message"]
    again = files.run(host, retry_failed=True)
    assert (again.done, again.failed, again.before) == (4, 1, 2)
    assert [each.get("text") for each in files.read()] == ["<a>", "<b>", "<c>", None]
    assert prompt_counts(fake) == {"a": 1, "b": 1, "c": 1}


def test_some_failures_are_tried_again(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write("a")
    host = make_host(fake=fake, patience=RETRY_POLICY)
    fake.faults = {number: errors.RateLimited("slowly", retry_after=0.001) for number in range(3)}
    assert files.run(host).failed == 0
    assert fake.calls == 4
    fake.faults = {
        number: errors.RateLimited("slowly", retry_after=0.001) for number in range(4, 8)
    }
    files.results.unlink()
    assert files.run(host).failed == 1
    assert fake.calls == 8


@pytest.mark.part
@pytest.mark.parametrize("record", [False, True])
def test_tools_of_a_row_run_once(
    make_host: MakeHost, files: Files, store: Store, record: bool
) -> None:
    sent: list[str] = []

    def send(arguments: Mapping[str, Any], run: api.ToolContext) -> str:
        sent.append("mail")
        return "sent"

    call = api.Completion(
        api.Message("assistant", [api.ToolCall("1", "send", {})]), finish="tool_calls"
    )
    fake = FakeModel(lambda prompt: "done" if prompt.messages[-1].role == "tool" else call)
    fake.faults = {
        number: errors.RateLimited("slowly", retry_after=0.001) for number in range(1, 5)
    }
    tools = InlinePlugin(tools=[api.Tool("send", "Sends.", send, {"type": "object"})])
    files.write("a")
    host = make_host(
        fake=fake, agent=genai_feature_agent, tools=tools, store=store, patience=RETRY_POLICY
    )
    assert files.run(host, Task("agent", "fake", record=record)).failed == 1
    assert (fake.calls, sent) == (5, ["mail"])


def test_it_stops_before_a_call_that_costs_too_much(make_host: MakeHost, files: Files) -> None:
    files.write(*map(str, range(9)))
    host, prices, task = sold(make_host)
    with pytest.raises(errors.LimitExceeded, match="3 of 9 rows done"):
        files.run(host, task, concurrency=1, max_cost=1.5)
    assert prices.calls == 3
    assert not files.results.exists()
    with pytest.raises(errors.LimitExceeded):
        files.run(host, task, concurrency=1, max_cost=1.5)
    assert prices.calls == 3
    done = files.run(host, task, max_cost=100)
    assert (done.before, done.cost, prices.calls) == (3, 4.5, 9)
    assert len(files.read()) == 9


def test_rows_in_progress_count_for_the_cost(make_host: MakeHost, files: Files) -> None:
    """What is under way when the bound is reached would be paid for as well."""
    files.write(*map(str, range(40)))
    host, prices, task = sold(make_host)
    with pytest.raises(errors.LimitExceeded, match="5 of 40 rows done"):
        files.run(host, task, concurrency=16, max_cost=2.5)
    assert prices.calls == 5


def test_what_was_interrupted_goes_on(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write(*(f"row {number}" for number in range(50)))

    def tell(progress: BatchProgress) -> None:
        if progress.done == 20:
            raise KeyboardInterrupt

    host = make_host(fake=fake)
    with pytest.raises(KeyboardInterrupt):
        files.run(host, concurrency=1, on_progress=tell)
    before = prompt_counts(fake)
    assert files.run(host, concurrency=1).before == 20
    assert [each["text"] for each in files.read()] == [f"<row {n}>" for n in range(50)]
    assert sum(prompt_counts(fake).values()) <= 51  # one was under way
    assert sum(before.values()) in (20, 21)


def test_running_rows_are_cancelled_on_interrupt(make_host: MakeHost, files: Files) -> None:
    begun, ended = threading.Event(), threading.Event()

    class Waiting(FakeModel):
        def begin(self, limits: Any) -> bool:
            with limits.on_cancel(ended.set):
                begun.set()
                assert ended.wait(30)
            limits.check()
            return False

    def tell(progress: BatchProgress) -> None:
        if progress.done:
            assert begun.wait(30)
            raise KeyboardInterrupt

    files.rows.write_text('"a"\n{\n', encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        files.run(make_host(fake=Waiting()), on_progress=tell)
    assert ended.is_set()


def test_another_batch_is_no_match(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write("a", {})
    host = make_host(fake=fake)
    files.run(host)  # a row failed: the journal stays
    with pytest.raises(errors.ConfigurationError, match="another batch"):
        files.run(host, Task(model="fake", parameters={"temperature": 1}))
    files.write("b")
    with pytest.raises(errors.ConfigurationError, match="another batch"):
        files.run(host)


def test_an_output_is_not_overwritten(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write("a")
    files.results.write_text("mine", encoding="utf-8")
    with pytest.raises(errors.ConfigurationError, match="already exists"):
        files.run(make_host(fake=fake))
    assert files.results.read_text(encoding="utf-8") == "mine"
    files.rows.write_text("a,b\n", encoding="utf-8")
    with pytest.raises(errors.ValidationError):  # of the source
        files.run(make_host(fake=fake), overwrite=True)
    assert files.results.read_text(encoding="utf-8") == "mine"
    files.write("a")
    files.run(make_host(fake=fake), overwrite=True)
    assert [each["text"] for each in files.read()] == ["<a>"]


def test_overwriting_discards_results(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    host = make_host(fake=fake)
    files.write("a", {})
    files.run(host)
    files.write("b")
    assert files.run(host, overwrite=True).before == 0
    assert [each["text"] for each in files.read()] == ["<b>"]


def test_running_batch_is_kept(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write("a")
    journal = Batch(make_host(), files.rows, files.results).journal_path
    with BatchJournal(journal, {"rows": "", "task": {}}, ManualClock()):
        before = journal.read_bytes()
        with pytest.raises(errors.Conflict, match="another process"):
            files.run(make_host(fake=fake), overwrite=True)
        assert journal.read_bytes() == before


def test_output_link_stays_a_link(make_host: MakeHost, fake: FakeModel, files: Files) -> None:
    files.write("a")
    target = files.rows.with_name("target.jsonl")
    target.write_text("old", encoding="utf-8")
    files.results.symlink_to(target)
    files.run(make_host(fake=fake), overwrite=True)
    assert files.results.is_symlink()
    assert json.loads(target.read_text(encoding="utf-8"))["text"] == "<a>"


@pytest.mark.parametrize(("output", "to", "message"), [
    ("in.jsonl", "", "would replace the input"),
    ("link", "in.jsonl", "would replace the input"), ("link", os.devnull, "is not a file"),
])  # fmt: skip
def test_source_is_kept(
    make_host: MakeHost, files: Files, output: str, to: str, message: str
) -> None:
    files.write("a")
    before = files.rows.read_bytes()
    same = Files(files.rows, files.rows.with_name(output))
    if to:
        same.results.symlink_to(files.rows.parent / to)
    with pytest.raises(errors.ConfigurationError, match=message):
        same.run(make_host(), overwrite=True)
    assert files.rows.read_bytes() == before
    assert same.results.is_symlink() is bool(to)


def test_a_file_without_rows_and_an_empty_one(make_host: MakeHost, files: Files) -> None:
    files.rows.write_text("a,b\n", encoding="utf-8")
    with pytest.raises(errors.ValidationError):
        files.run(make_host(), Task())
    files.rows.write_text("", encoding="utf-8")
    assert files.run(make_host(), Task()).rows == 0
    assert files.results.read_bytes() == b""


@pytest.mark.part
class TestRecorded:
    """Durable rows: what was begun is gone on with."""

    TASK = Task(model="fake", record=True)

    def test_each_row_is_a_conversation(
        self, make_host: MakeHost, fake: FakeModel, files: Files, store: Store
    ) -> None:
        files.write("a", "b")
        host = make_host(fake=fake, store=store)
        files.run(host, self.TASK)
        ids = [each["conversation"] for each in files.read()]
        assert [host.conversation(id).history[0].text for id in ids] == ["a", "b"]

    def test_answered_rows_are_kept(self, make_host: MakeHost, files: Files, store: Store) -> None:
        """The process was killed after the answer was on record, before the journal had it."""
        files.write("a", "b")
        host, prices, task = sold(make_host, store=store)
        task = evolve(task, record=True)
        files.run(host, task)
        first = files.read()
        files.results.unlink()
        done = files.run(host, task)
        again = files.read()
        assert [each["text"] for each in again] == ["a", "b"]
        assert [e["conversation"] for e in again] == [e["conversation"] for e in first]
        assert (prices.calls, done.cost) == (2, 1.0)

    def test_rows_have_cited_pages(self, make_host: MakeHost, files: Files, store: Store) -> None:
        said = api.Text("cold", citations=[api.Citation("https://a.example", "A", end=4)])
        model = FakeModel(lambda prompt: api.Completion(api.Message("assistant", said)))
        host = make_host(fake=model, store=store)
        files.write("a")
        for _ in range(2):  # the second time from the conversation
            files.run(host, self.TASK)
            [row] = files.read()
            assert row["citations"] == [{"url": "https://a.example", "title": "A", "end": 4}]
            files.results.unlink()
        assert len(model.prompts) == 1

    def test_row_is_resumed(self, make_host: MakeHost, files: Files, store: Store) -> None:
        files.write("a")
        fails = True

        def answer(prompt: RecordedPrompt) -> str:
            if fails:
                raise SystemExit  # as a kill, it leaves the turn as it is on record
            return "done"

        host = make_host(fake=FakeModel(answer), store=store)
        files.run(host, self.TASK)
        [failed] = files.read()
        fails = False
        files.run(host, self.TASK, retry_failed=True)
        [result] = files.read()
        assert (result["text"], failed["error"]["code"]) == ("done", "plugin")
        assert len(store.conversations()) == 1


class TestExecutors:
    def plugin(self) -> InlinePlugin:
        pool = api.ExecutorType("pool", api.NoSettings, lambda settings: ThreadPoolExecutor(2))
        return InlinePlugin(executors=[pool])

    def test_one_of_a_plugin_is_found_by_its_name(self, make_host: MakeHost) -> None:
        host = make_host(mine=self.plugin())
        with host.open_executor("pool", {}) as executor:
            assert executor.submit(int, "3").result() == 3
        with pytest.raises(errors.ConfigurationError, match="unknown executor 'poll'"):
            host.open_executor("poll", {})
        with pytest.raises(errors.ConfigurationError, match="nothing"):
            host.open_executor("pool", {"nothing": 1})

    def test_rows_are_done_by_it(self, files: Files, make_host: MakeHost) -> None:
        files.write(*map(str, range(40)))
        host = make_host(mine=self.plugin())
        with host.open_executor("pool", {}) as executor:
            done = files.run(host, Task(provider="mock"), executor=executor)
        assert (done.done, done.failed) == (40, 0)
        assert [each["text"] for each in files.read()] == list(map(str, range(40)))

    @pytest.mark.parametrize("opened", [True, False])
    def test_one_that_completes_nothing_is_named(
        self, files: Files, make_host: MakeHost, clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch, opened: bool,
    ) -> None:  # fmt: skip
        futures: list[Future[Any]] = []

        class Silent(Executor):
            def submit(self, *_: Any, **__: Any) -> Future[Any]:
                futures.append(Future())
                clock.advance(600)
                return futures[-1]

        def warn(message: str, *arguments: object) -> None:
            warned.append(message % arguments)
            futures[0].set_result({"id": 0, "error": None})

        warned: list[str] = []
        monkeypatch.setattr(batch_module._log, "warning", warn)
        files.write("hi")
        silent = api.ExecutorType("silent", api.NoSettings, lambda settings: Silent())
        host = make_host(mine=InlinePlugin(executors=[silent]), clock=clock)
        executor = host.open_executor("silent", {}) if opened else Silent()
        done = files.run(host, Task(provider="mock"), executor=executor)
        assert (done.done, done.failed) == (1, 0)
        [warning] = warned
        assert warning.startswith("no row was completed for 600 seconds; number of rows in ")
        name = "the executor silent of the plugin mine" if opened else "Silent"
        assert warning.endswith(f"number of rows in {name}: 1")
