"""A batch as a whole: every row once, in order, whatever happens on the way."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import genai_feature_agent
import pytest
from attrs import evolve
from genai_batch import batch as batch_module
from genai_batch.batch import Batch, BatchProgress
from genai_batch.work import RETRY_POLICY, Task

from genai_host import Host
from genai_host.api import (
    Completion,
    ExecutorType,
    Message,
    NoSettings,
    Tool,
    ToolCall,
    ToolContext,
)
from genai_host.errors import (
    AuthenticationFailed,
    ConfigurationError,
    LimitExceeded,
    RateLimited,
    ValidationError,
)
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin, ManualClock
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost

FAKE = Task(model="fake")


class Priced:
    """Each call costs half a dollar; `calls` of them were made."""

    calls = 0

    def price(self, *asked: Any) -> float:
        self.calls += 1
        return 0.5


def sold(make_host: MakeHost, **given: Any) -> tuple[Host, Priced, Task]:
    """A host with a provider that costs something, and a task for that."""
    prices = Priced()
    host = make_host(prices=prices, **given)
    host.instances.add("sold", "mock", {"priced_as": "acme"})
    return host, prices, Task(provider="sold")


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel(lambda heard: f"<{heard.text}>")


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "in.jsonl", tmp_path / "out.jsonl"


def write(path: Path, *rows: Any) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def asked(fake: FakeModel) -> Counter[str]:
    return Counter(heard.text for heard in fake.prompts)


def test_every_row_once_and_in_order(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    write(paths[0], *(f"row {number}" for number in range(300)))
    told: list[BatchProgress] = []
    done = Batch(make_host(fake=fake), *paths, FAKE, concurrency=16, on_progress=told.append).run()
    assert [each["text"] for each in read(paths[1])] == [f"<row {n}>" for n in range(300)]
    assert [each["row"] for each in read(paths[1])] == list(range(1, 301))
    assert set(asked(fake).values()) == {1}
    assert (done.rows, done.done, done.failed, done.before) == (300, 300, 0, 0)
    assert [each.done for each in told] == list(range(301))
    assert sorted(each.name for each in paths[0].parent.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_no_more_at_once_than_wanted(make_host: MakeHost, paths: tuple[Path, Path]) -> None:
    lock, gate = threading.Lock(), threading.Barrier(4)
    under_way = most = 0

    def answer(heard: RecordedPrompt) -> str:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        gate.wait(30)  # four are under way together
        with lock:
            under_way -= 1
        return "a"

    write(paths[0], *map(str, range(20)))
    Batch(make_host(fake=FakeModel(answer)), *paths, FAKE, concurrency=4).run()
    assert most == 4


def test_rows_have_what_they_ask_for(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    row = {"id": "a", "prompt": "hi", "system": "S", "parameters": {"temperature": 0.5}}
    write(paths[0], row, {"prompt": "x", "model": "nobody"})
    task = Task(model="fake", parameters={"temperature": 1, "max_tokens": 9})
    Batch(make_host(fake=fake), *paths, task).run()
    [heard] = fake.prompts
    assert heard.messages[0].text == "S"
    assert heard.parameters == {"temperature": 0.5, "max_tokens": 9}
    first, second = read(paths[1])
    assert (first["id"], first["text"], first["error"]) == ("a", "<hi>", None)
    assert second["error"]["code"] == "no_route"


def test_a_schema_holds_for_all(make_host: MakeHost, paths: tuple[Path, Path]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    write(paths[0], "one")
    fake = FakeModel(lambda heard: '{"n": 1}')
    Batch(make_host(fake=fake), *paths, Task(model="fake", schema=schema)).run()
    assert read(paths[1])[0]["data"] == {"n": 1}


def test_lines_of_openais_batches_are_answered_as_the_server_does(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    def line(id: str, url: str, **body: Any) -> Any:
        return {"custom_id": id, "method": "POST", "url": url, "body": body}

    said = [{"role": "user", "content": "hi"}]
    write(
        paths[0],
        line("a", "/v1/chat/completions", model="fake", messages=said),
        line("b", "/v1/embeddings", model="fake-embed", input="hi"),
        line("c", "/v1/chat/completions", model="nobody", messages=said),
    )
    done = Batch(make_host(fake=fake), *paths).run()
    chat, vectors, refused = read(paths[1])
    assert (chat["custom_id"], chat["error"]) == ("a", None)
    assert chat["response"]["status_code"] == 200
    assert chat["response"]["body"]["choices"][0]["message"]["content"] == "<hi>"
    assert vectors["response"]["body"]["data"][0]["embedding"]
    assert refused["response"]["status_code"] == 404
    assert "nobody" in refused["response"]["body"]["error"]["message"]
    assert done.failed == 0


def test_what_fails_is_a_result_and_is_asked_again_when_wanted(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    write(paths[0], "a", "b", "c")
    paths[0].write_text(paths[0].read_text() + "{\n", encoding="utf-8")
    fake.faults[1] = AuthenticationFailed("the key is wrong")
    host = make_host(fake=fake)
    done = Batch(host, *paths, FAKE, concurrency=1).run()
    assert (done.done, done.failed) == (4, 2)
    _, b, _, wrong = read(paths[1])
    assert b["error"]["message"] == "the key is wrong"
    assert "invalid JSON" in wrong["error"]["message"]
    again = Batch(host, *paths, FAKE, retry_failed=True).run()
    assert (again.done, again.failed, again.before) == (4, 1, 2)
    assert [each.get("text") for each in read(paths[1])] == ["<a>", "<b>", "<c>", None]
    assert asked(fake) == {"a": 1, "b": 1, "c": 1}


def test_what_may_succeed_later_is_tried_again(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    write(paths[0], "a")
    host = make_host(fake=fake, patience=RETRY_POLICY)
    fake.faults = {number: RateLimited("slowly", retry_after=0.001) for number in range(3)}
    assert Batch(host, *paths, FAKE).run().failed == 0
    assert fake.calls == 4
    fake.faults = {number: RateLimited("slowly", retry_after=0.001) for number in range(4, 8)}
    paths[1].unlink()
    assert Batch(host, *paths, FAKE).run().failed == 1
    assert fake.calls == 8


@pytest.mark.part
@pytest.mark.parametrize("record", [False, True])
def test_tools_of_a_row_run_once_while_its_calls_are_tried_again(
    make_host: MakeHost, paths: tuple[Path, Path], tmp_path: Path, record: bool
) -> None:
    sent: list[str] = []

    def send(arguments: Mapping[str, Any], run: ToolContext) -> str:
        sent.append("mail")
        return "sent"

    call = Completion(Message("assistant", [ToolCall("1", "send", {})]), finish="tool_calls")
    fake = FakeModel(lambda heard: "done" if heard.messages[-1].role == "tool" else call)
    fake.faults = {number: RateLimited("slowly", retry_after=0.001) for number in range(1, 5)}
    tools = InlinePlugin(tools=[Tool("send", "Sends.", send, {"type": "object"})])
    write(paths[0], "a")
    with Store(tmp_path / "x.db") as store:
        host = make_host(
            fake=fake, agent=genai_feature_agent, tools=tools, store=store, patience=RETRY_POLICY
        )
        task = Task("agent", "fake", record=record)
        assert Batch(host, *paths, task).run().failed == 1
    assert (fake.calls, sent) == (5, ["mail"])


def test_it_stops_before_the_next_call_once_it_has_cost_enough_and_goes_on(
    make_host: MakeHost, paths: tuple[Path, Path]
) -> None:
    write(paths[0], *map(str, range(9)))
    host, prices, task = sold(make_host)
    with pytest.raises(LimitExceeded, match="3 of 9 rows done"):
        Batch(host, *paths, task, concurrency=1, max_cost=1.5).run()
    assert prices.calls == 3
    assert not paths[1].exists()
    with pytest.raises(LimitExceeded):
        Batch(host, *paths, task, concurrency=1, max_cost=1.5).run()
    assert prices.calls == 3
    done = Batch(host, *paths, task, max_cost=100).run()
    assert (done.before, done.cost, prices.calls) == (3, 4.5, 9)
    assert len(read(paths[1])) == 9


def test_rows_that_are_under_way_are_counted_before_more_are_asked(
    make_host: MakeHost, paths: tuple[Path, Path]
) -> None:
    """What is under way when the bound is reached would be paid for as well."""
    write(paths[0], *map(str, range(40)))
    host, prices, task = sold(make_host)
    with pytest.raises(LimitExceeded, match="5 of 40 rows done"):
        Batch(host, *paths, task, concurrency=16, max_cost=2.5).run()
    assert prices.calls == 5


def test_what_is_broken_off_goes_on_without_asking_again(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    write(paths[0], *(f"row {number}" for number in range(50)))

    def tell(progress: BatchProgress) -> None:
        if progress.done == 20:
            raise KeyboardInterrupt

    host = make_host(fake=fake)
    with pytest.raises(KeyboardInterrupt):
        Batch(host, *paths, FAKE, concurrency=1, on_progress=tell).run()
    before = asked(fake)
    done = Batch(host, *paths, FAKE, concurrency=1).run()
    assert done.before == 20
    assert [each["text"] for each in read(paths[1])] == [f"<row {n}>" for n in range(50)]
    assert sum(asked(fake).values()) <= 51  # one was under way
    assert sum(before.values()) in (20, 21)


def test_what_is_under_way_is_ended_with_it(make_host: MakeHost, paths: tuple[Path, Path]) -> None:
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

    paths[0].write_text('"a"\n{\n', encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        Batch(make_host(fake=Waiting()), *paths, FAKE, on_progress=tell).run()
    assert ended.is_set()


def test_another_batch_does_not_go_on_with_it(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    write(paths[0], "a", {})
    host = make_host(fake=fake)
    Batch(host, *paths, FAKE).run()  # a row failed: the journal stays
    with pytest.raises(ConfigurationError, match="another batch"):
        Batch(host, *paths, Task(model="fake", parameters={"temperature": 1})).run()
    write(paths[0], "b")
    with pytest.raises(ConfigurationError, match="another batch"):
        Batch(host, *paths, FAKE).run()


def test_an_output_that_is_there_is_not_written_over(
    make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path]
) -> None:
    write(paths[0], "a")
    paths[1].write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="already exists"):
        Batch(make_host(fake=fake), *paths, FAKE).run()
    assert paths[1].read_text(encoding="utf-8") == "mine"


def test_a_file_without_rows_is_refused_and_an_empty_one_is_done(
    make_host: MakeHost, paths: tuple[Path, Path]
) -> None:
    paths[0].write_text("a,b\n", encoding="utf-8")
    with pytest.raises(ValidationError):
        Batch(make_host(), *paths).run()
    paths[0].write_text("", encoding="utf-8")
    assert Batch(make_host(), *paths).run().rows == 0
    assert paths[1].read_bytes() == b""


@pytest.mark.part
class TestRecorded:
    """Durable rows: what was begun is gone on with."""

    TASK = Task(model="fake", record=True)

    def test_each_row_is_a_conversation(
        self, make_host: MakeHost, fake: FakeModel, paths: tuple[Path, Path], tmp_path: Path
    ) -> None:
        write(paths[0], "a", "b")
        with Store(tmp_path / "s.db") as store:
            host = make_host(fake=fake, store=store)
            Batch(host, *paths, self.TASK).run()
            ids = [each["conversation"] for each in read(paths[1])]
            assert [host.conversation(id).history[0].text for id in ids] == ["a", "b"]

    def test_what_was_answered_is_not_asked_again(
        self, make_host: MakeHost, paths: tuple[Path, Path], tmp_path: Path
    ) -> None:
        """The process was killed after the answer was on record, before the journal had it."""
        write(paths[0], "a", "b")
        with Store(tmp_path / "s.db") as store:
            host, prices, task = sold(make_host, store=store)
            task = evolve(task, record=True)
            Batch(host, *paths, task).run()
            first = read(paths[1])
            paths[1].unlink()
            done = Batch(host, *paths, task).run()
            again = read(paths[1])
            assert [each["text"] for each in again] == ["a", "b"]
            assert [e["conversation"] for e in again] == [e["conversation"] for e in first]
            assert (prices.calls, done.cost) == (2, 1.0)

    def test_what_was_cut_off_goes_on_from_its_record(
        self, make_host: MakeHost, paths: tuple[Path, Path], tmp_path: Path
    ) -> None:
        write(paths[0], "a")
        fails = True

        def answer(heard: RecordedPrompt) -> str:
            if fails:
                raise SystemExit  # as a kill, it leaves the turn as it is on record
            return "done"

        fake = FakeModel(answer)
        with Store(tmp_path / "s.db") as store:
            host = make_host(fake=fake, store=store)
            Batch(host, *paths, self.TASK).run()
            [failed] = read(paths[1])
            fails = False
            Batch(host, *paths, self.TASK, retry_failed=True).run()
            [result] = read(paths[1])
            assert (result["text"], failed["error"]["code"]) == ("done", "plugin")
            assert len(store.conversations()) == 1


class TestExecutors:
    def plugin(self) -> InlinePlugin:
        def refuse(settings: NoSettings) -> Any:
            return ThreadPoolExecutor(2)

        return InlinePlugin(executors=[ExecutorType("pool", NoSettings, refuse)])

    def test_one_of_a_plugin_is_found_by_its_name(self, make_host: MakeHost) -> None:
        host = make_host(mine=self.plugin())
        with host.open_executor("pool", {}) as executor:
            assert executor.submit(int, "3").result() == 3
        with pytest.raises(ConfigurationError, match="unknown executor 'poll'"):
            host.open_executor("poll", {})
        with pytest.raises(ConfigurationError, match="nothing"):
            host.open_executor("pool", {"nothing": 1})

    def test_rows_are_done_by_it(
        self, paths: tuple[Path, Path], make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(paths[0], *map(str, range(40)))
        host = make_host(mine=self.plugin())
        with host.open_executor("pool", {}) as executor:
            done = Batch(host, *paths, Task(provider="mock"), executor=executor).run()
        assert (done.done, done.failed) == (40, 0)
        assert [each["text"] for each in read(paths[1])] == list(map(str, range(40)))

    @pytest.mark.parametrize("opened", [True, False])
    def test_one_that_completes_nothing_is_named(
        self,
        paths: tuple[Path, Path],
        make_host: MakeHost,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
        opened: bool,
    ) -> None:
        given: list[Future[Any]] = []

        class Silent(Executor):
            def submit(self, *_: Any, **__: Any) -> Future[Any]:
                given.append(Future())
                clock.advance(600)
                return given[-1]

        def warn(message: str, *arguments: object) -> None:
            warned.append(message % arguments)
            given[0].set_result({"id": 0, "error": None})

        warned: list[str] = []
        monkeypatch.setattr(batch_module._log, "warning", warn)
        write(paths[0], "hi")
        silent = ExecutorType("silent", NoSettings, lambda settings: Silent())
        host = make_host(mine=InlinePlugin(executors=[silent]), clock=clock)
        executor = host.open_executor("silent", {}) if opened else Silent()
        done = Batch(host, *paths, Task(provider="mock"), executor=executor).run()
        assert (done.done, done.failed) == (1, 0)
        [warning] = warned
        assert warning.startswith("no row was completed for 600 seconds; number of rows in ")
        name = "the executor silent of the plugin mine" if opened else "Silent"
        assert warning.endswith(f"number of rows in {name}: 1")
