"""A service with OpenAI's Responses and Conversations, over real HTTP, that follows a script.

It takes the same script as `AssistantsService`, and shows the tests the same attributes, so that a
test of agents can run over both. A run is the responses up to the first one without a function
call; each response performs the script up to the next `Calls`.

Source: OpenAI's OpenAPI document 2.3.0: `Response`, `ResponseStreamEvent`, `ConversationItem`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from genai_host_testing.fake_service import Reply, json_reply
from genai_host_testing.services.assistants import (
    NOW,
    Act,
    Calls,
    Ends,
    Says,
    ScriptedService,
    Stays,
    Wire,
    page,
)
from genai_host_testing.services.assistants_events import streamed

TOKENS = 30
"""Output tokens of each response."""


class ResponsesService(ScriptedService):
    """Conversations are `threads`, their items `messages`, and responses `runs`."""

    api = "responses"
    run_path = "/responses"

    def _routed(
        self, method: str, pieces: list[str], body: Wire, query: Mapping[str, str]
    ) -> Reply:
        kind, *rest = pieces
        if kind == "conversations":
            return self._of_conversations(method, rest, body, query)
        if not rest:
            return self._new_run(body)
        run = self.runs[rest[0]]
        if rest[1:] == ["cancel"]:
            run["status"] = "cancelled"
        elif run["status"] == "in_progress":
            self._go_on(run)
        return json_reply(run)

    def _of_conversations(
        self, method: str, rest: list[str], body: Wire, query: Mapping[str, str]
    ) -> Reply:
        if not rest:
            id = self._id("conv")
            metadata = body.get("metadata", {})
            self.threads[id] = {
                "id": id, "object": "conversation", "created_at": NOW, "metadata": metadata,
            }  # fmt: skip
            self.messages[id] = []
            self._add(id, body.get("items", ()))
            return json_reply(self.threads[id])
        thread, *rest = rest
        found = self.threads[thread]
        if rest and method == "GET":
            return json_reply(page(self.messages[thread], query))
        if rest:
            return json_reply({"object": "list", "data": self._add(thread, body["items"])})
        if method == "DELETE":
            del self.threads[thread]
            return json_reply({"id": thread, "object": "conversation.deleted", "deleted": True})
        return json_reply(found)

    def _add(self, thread: str, items: Sequence[Wire]) -> list[Wire]:
        added = [{"id": self._id("msg"), "status": "completed", **each} for each in items]
        for each in added:
            if isinstance(each.get("content"), str):
                each["content"] = [_text(each["content"])]
        self.messages[thread] += added
        return added

    def _new_run(self, body: Wire) -> Reply:
        id, thread = self._id("resp"), body["conversation"]
        given = self._add(thread, body.get("input", ()))
        outputs = [each for each in given if each["type"] == "function_call_output"]
        self.outputs += [
            {"tool_call_id": each["call_id"], "output": each["output"]} for each in outputs
        ]
        if not outputs:
            self._acts[thread] = list(self.turns.pop(0))
        run = {
            "id": id, "object": "response", "created_at": NOW, "status": "in_progress",
            "conversation": {"id": thread}, "model": body["model"], "output": [],
            "error": None, "incomplete_details": None, "usage": None,
        }  # fmt: skip
        self.runs[id] = run
        self._left[id] = 1 if body.get("stream") else self.polls
        created = {"type": "response.created", "response": dict(run)}
        self._go_on(run)
        if not body.get("stream"):
            return json_reply(run)
        events = [(each["type"], each) for each in (created, *_events_of(run))]
        return streamed(events, self.cut)

    def _go_on(self, run: Wire) -> None:
        self._left[run["id"]] -= 1
        if self._left[run["id"]] > 0:
            return
        thread = run["conversation"]["id"]
        run["status"], run["usage"] = "completed", {"output_tokens": TOKENS}
        acts = self._acts[thread]
        while acts and run["status"] == "completed":
            act = acts.pop(0)
            if isinstance(act, Ends):
                run.update(status=act.status, **act.more)
                run["error"] = run.pop("last_error", None)
            elif isinstance(act, Stays):
                run["status"] = act.status
                acts.insert(0, act)
            else:
                run["output"] += self._items(act)
            if isinstance(act, Calls):
                break
        self.messages[thread] += run["output"]

    def _items(self, act: Act) -> Iterator[Wire]:
        if isinstance(act, Says):
            content = [_text(act.text, act.annotations)]
            yield {"id": self._id("msg"), "type": "message", "role": "assistant",
                   "status": "completed", "content": content}  # fmt: skip
        elif isinstance(act, Calls):
            for id, name, arguments in act.calls:
                yield {"id": self._id("fc"), "type": "function_call", "status": "completed",
                       "call_id": id, "name": name, "arguments": arguments}  # fmt: skip
        else:
            assert not isinstance(act, Ends | Stays)
            outputs = [{"type": "logs", "logs": act.logs}] if act.logs else []
            yield {"id": self._id("ci"), "type": "code_interpreter_call", "status": "completed",
                   "code": act.code, "outputs": outputs}  # fmt: skip


def _text(text: str, annotations: Sequence[Wire] = ()) -> Wire:
    noted = list(annotations)
    return {"type": "output_text", "text": text, "annotations": noted, "logprobs": []}


def _events_of(run: Wire) -> Iterator[Wire]:
    for item in run["output"]:
        if item["type"] == "message":
            text = item["content"][0]["text"]
            for piece in filter(None, (text[:3], text[3:])):
                yield {"type": "response.output_text.delta", "item_id": item["id"], "delta": piece}
        elif item["type"] == "code_interpreter_call":
            yield {"type": "response.code_interpreter_call_code.delta", "item_id": item["id"],
                   "delta": item["code"]}  # fmt: skip
    yield {"type": "response.something.new", "delta": 7}
    known = run["status"] in ("completed", "failed", "in_progress")
    yield {"type": f"response.{run['status'] if known else 'incomplete'}", "response": run}
