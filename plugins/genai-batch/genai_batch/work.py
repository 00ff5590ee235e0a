"""Running one row, in this process or another.

    Worker.do → _ask (a separate conversation) or _serve (as the server answers OpenAI's requests)

In a process of an executor, `do_row` creates a separate host from the configuration of that
process. `Task` has the settings for all rows of a batch.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from attrs import asdict, field, frozen

from genai_batch.rows import BatchRow
from genai_host import Conversation, Host, RetryPolicy
from genai_host.api import (
    Answer,
    Cancellation,
    Clock,
    Cost,
    HttpProblem,
    Message,
    RouteRequest,
    RouteResponse,
    merged_parameters,
    read_json,
    write_json,
)
from genai_host.errors import Conflict, GenaiError, NotFound
from genai_host.serving import HttpRoutes


@frozen
class Task:
    """Settings for all rows.

    Attributes:
        feature, model, provider, parameters, settings, tools: As for `Host.open`. A row can
            override all except the feature and the tools. Of these, only the model and its
            provider apply to rows of OpenAI's Batch API.
        schema: JSON Schema of the answers; None for text.
        record: Whether each row is a conversation in the store. If its process is killed, it is
            resumed, and recorded model calls are not repeated.
    """

    feature: str = ""
    model: str = ""
    provider: str = ""
    parameters: Mapping[str, Any] = field(factory=dict)
    settings: Mapping[str, Any] = field(factory=dict)
    tools: tuple[str, ...] | None = None
    schema: Mapping[str, Any] | None = None
    record: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Task:
        tools = value["tools"]
        return cls(**{**value, "tools": None if tools is None else tuple(tools)})


RETRY_POLICY = RetryPolicy(max_attempts=4, min_backoff=2.0, max_backoff=60.0, wait_for_circuit=True)
"""Policy for the host of a batch. Rows are not retried themselves: their tools would run again."""

_LOOK = 0.5  # seconds between checks whether another process still runs a row

RowResult = dict[str, Any]


class Worker:
    """Runs rows. Thread-safe."""

    def __init__(self, host: Host, task: Task, batch: str) -> None:
        self._host = host
        self._task = task
        self._batch = batch
        self._ending = Cancellation()
        self._routes = HttpRoutes(host)

    def do(self, row: BatchRow) -> RowResult:
        """Return the result of a row, which may be an error. Raises `Cancelled` after `end`."""
        try:
            return self._serve(row) if row.is_openai else self._ask(row)
        except GenaiError as error:
            self._ending.check()
            return {**row.names, "error": problem_of(error)}

    def end(self) -> None:
        """Cancel running rows."""
        self._ending.cancel()

    def close(self) -> None:
        self.end()
        self._routes.close()

    def _ask(self, row: BatchRow) -> RowResult:
        conversation = self._conversation(row)
        with conversation, self._ending.on_cancel(conversation.cancel):
            self._ending.check()
            if conversation.status == "pending":
                answer = conversation.resume()
            elif self._is_answered(conversation):
                cost = self._host.store_for().summary(conversation.id).cost
                return self._result(row, conversation, conversation.history[-1], cost)
            else:
                answer = conversation.say(row.asked["prompt"], output_type=self._task.schema)
            used = answer.usage
            usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
            data = self._host.codec.to_json(answer.data)
            return self._result(row, conversation, answer, answer.cost, data=data, usage=usage)

    def _is_answered(self, conversation: Conversation) -> bool:
        """Whether another process has already answered the row."""
        if not self._task.record or not conversation.turns:
            return False
        return self._host.store_for().summary(conversation.id).status == "idle"

    def _result(
        self,
        row: BatchRow,
        conversation: Conversation,
        answer: Answer | Message,
        cost: Cost,
        **more: Any,
    ) -> RowResult:
        """The result of a row. That of a row that another process answered before it ended has no
        data and no usage."""
        return {
            **row.names,
            "text": answer.text,
            "citations": self._host.codec.to_json(answer.citations),
            "data": None,
            "usage": None,
            **more,
            "cost": asdict(cost) if cost.known else {"dollars": 0.0, "unknown": cost.unknown},
            "conversation": conversation.id if self._task.record else None,
            "error": None,
        }

    def _conversation(self, row: BatchRow) -> Conversation:
        """A new conversation, or the one that was started for this row. The row has its id before
        it is created, so that each row has one."""
        if not self._task.record:
            return self._open(row)
        store = self._host.store_for()
        begun, id = store.documents("batches"), store.new_id()
        name = hashlib.sha256(f"{self._batch}/{row.number}".encode()).hexdigest()
        with suppress(Conflict):
            begun.put(name, {"conversation": id}, expect=0)
            return self._open(row, id)
        id = begun.get(name).value["conversation"]
        try:
            # another process may run it, which may have just been killed
            while self._host.store_for().is_running_elsewhere(id):
                sleep(self._host.clock, _LOOK, self._ending)
                self._ending.check()
            return self._host.conversation(id)
        except NotFound:
            return self._open(row, id)

    def _open(self, row: BatchRow, id: str = "") -> Conversation:
        task, asked = self._task, row.asked
        system = {"system_prompt": asked["system"]} if asked["system"] else {}
        return self._host.open(
            task.feature or None,
            asked["model"] or task.model or None,
            provider=asked["provider"] or (None if asked["model"] else task.provider or None),
            parameters=merged_parameters(task.parameters, asked["parameters"]),
            settings={**task.settings, **system},
            tools=task.tools,
            record=bool(id),
            id=id,
        )

    def _serve(self, row: BatchRow) -> RowResult:
        """Answer a row as the server does. The cost is not reported there."""
        model, provider = self._task.model, self._task.provider
        usual = f"{model}@{provider}" if model and provider and "@" not in model else model
        body = {"model": usual, **row.asked["body"]}
        request = RouteRequest(
            "POST", row.asked["url"], body=write_json(body), limits=Cancellation(self._ending)
        )
        reply = self._routes.answer(request)
        return {
            **row.names,
            "response": {"status_code": reply.status, "body": read_json(body_in(reply))},
            "cost": {"dollars": 0.0, "unknown": 1},
            "error": None,
        }


def sleep(clock: Clock, seconds: float, ending: Cancellation) -> None:
    """Sleep by a clock, until the end at the latest."""
    awake = threading.Event()
    with ending.on_cancel(awake.set), clock.call_later(seconds, awake.set):
        awake.wait()


def body_in(reply: RouteResponse) -> bytes:
    """Return the whole body of a reply."""
    return reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)


def problem_of(error: GenaiError) -> Mapping[str, Any]:
    """Return the JSON form of an error."""
    problem = HttpProblem.of(error)
    return {"code": problem.code, "message": problem.message, "hint": problem.hint}


def do_row(task: Mapping[str, Any], batch: str, row: BatchRow) -> RowResult:
    """Run a row in a process of an executor, with the result of `Task.to_json`. It may run again if
    that process ends."""
    key = (write_json(task), batch)
    with _lock:
        if key not in _workers:
            _workers.clear()
            _workers[key] = _worker(task, batch)
        worker = _workers[key]
    return worker.do(row)


# The worker of the current batch in this process. Loading plugins and opening connections for each
# row would take longer than the row, and an executor can only transfer a function. Running rows of
# an earlier batch keep their worker.
_workers: dict[tuple[bytes, str], Worker] = {}
_lock = threading.Lock()


def _worker(task: Mapping[str, Any], batch: str) -> Worker:
    wanted = Task.of_json(task)
    host = Host(retry_policy=RETRY_POLICY)
    if wanted.record or host.config.budgets.are_kept:
        from genai_host import Store  # slow to import

        host.store = Store(host.config.database or None)
    return Worker(host, wanted, batch)
