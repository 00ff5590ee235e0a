"""The Assistant microservice. The caller sends the whole state and receives the new state with the
answer.

    assistant = Assistant(host)
    result = assistant.answer({"input_text": "hi", "conversation_history": frame})
    result["answer"], result["conversation_history"]

    Assistant.stream → read_request → Host.open → Conversation.stream → _result

`read_request` validates a request before any model is called. Nothing is stored, except entries
that the caller wants to reference by id (`keep_entries`).

Over HTTP, `POST /api/assistant`, the reply is JSON. A client that prefers server-sent events to
JSON receives events:

    progress   {"text"}   the current step
    delta      {"text"}   a chunk of the answer
    void       {}         discard the chunks so far: the answer restarts
    result     the body of the reply, once, last
    error      {"error": {"code", "message", "hint"}}, once, last

Source: Assistant microservice, "Inputs" and "Outputs".
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, evolve, field, fields, frozen

from genai_feature_research import Settings
from genai_feature_research.memory import BATCH, MemoryAdditions, ResearchMemory
from genai_feature_research.research import KIND
from genai_feature_research.tables import (
    ENTRY_COLUMNS,
    FACT_COLUMNS,
    LENGTH,
    TEXT,
    ScoredTable,
    json_value,
)
from genai_host.api import (
    Answer,
    CancelToken,
    JsonReader,
    Progress,
    RouteRequest,
    RouteResponse,
    StreamedBody,
    TurnLimits,
    json_response,
    prefers_events,
    read_settings,
    sse_event,
)
from genai_host.errors import (
    Cancelled,
    ConfigurationError,
    ConversationClosed,
    GenaiError,
    NoRoute,
    NotFound,
    ServiceUnavailable,
    ValidationError,
)

if TYPE_CHECKING:
    from genai_host.api import DocumentCollection, Event, HostServices


_KEYS = (
    *("input_text", "conversation_history", "search_history", "region"),
    *("additional_searches", "settings", "keep_entries", "model"),
)
_ARCHETYPE = ("setting_name", "mood", "warn_assistant")
_HOSTS = ("search", "reader", "results", "input_characters", "prompt_characters")
"""Settings that only the host may set: tools and limits."""

_NAMED = (*_ARCHETYPE, "region", "additional_searches")  # settings with another place in a request

LoadEntries = Callable[[Sequence[str], str], Sequence[Mapping[str, Any]]]
"""Loads rows by entry ids; the second argument is the path of the ids in the request."""


@define(eq=False, repr=False, slots=False)
class AssistantRequest:
    """A validated request.

    Attributes:
        settings: Settings of the feature, by name.
        entries: Table of the conversation, loaded by id if the request has ids.
        entry_ids: Ids of these entries; None if the request has a table.
        keep_entries: Whether to store new entries and return their ids.
        model: Model alias from the host's configuration; None for the default model.
    """

    input_text: str
    entries: ScoredTable
    facts: ScoredTable
    memory: ResearchMemory
    settings: Mapping[str, Any]
    entry_ids: tuple[str, ...] | None = None
    keep_entries: bool = False
    model: str | None = None


def read_request(
    given: Any, load: LoadEntries, aliases: Collection[str], settings: Mapping[str, Any]
) -> AssistantRequest:
    """Validate a request.

    Raises:
        ValidationError: The request is invalid.
    """
    if not isinstance(given, Mapping):
        raise ValidationError("a request must be an object", path="$")
    body = JsonReader(dict(given), "$")
    _must_be_of(body, _KEYS)
    text, keep = body.text("input_text"), body.flag("keep_entries")
    if not text.strip():
        raise ValidationError("input_text must be a non-blank string", path="$.input_text")
    history = body.raw("conversation_history")
    is_ids = isinstance(history, (list, tuple)) and bool(history) and isinstance(history[0], str)
    ids = tuple(body.texts("conversation_history")) if is_ids else None
    rows = history if ids is None else load(ids, "$.conversation_history")
    entries = ScoredTable.read(rows, ENTRY_COLUMNS, "$.conversation_history")
    facts = ScoredTable.read(body.raw("search_history"), FACT_COLUMNS, "$.search_history")
    memory = ResearchMemory(
        tuple(entries.checked_texts()), entries.vectors(), facts.facts(), facts.vectors()
    )
    return AssistantRequest(
        text,
        entries,
        facts,
        memory,
        {**settings, **_settings(body)},
        ids,
        bool(keep) or ids is not None,
        _alias(body.raw("model"), aliases),
    )


def _settings(body: JsonReader) -> dict[str, Any]:
    """Return the settings of the request under the names of the feature."""
    found: dict[str, Any] = {}
    settings = body.object("settings") or JsonReader({}, "$.settings")
    archetype = settings.object("archetype") or JsonReader({}, "$.settings.archetype")
    names = [each.name for each in fields(Settings)]
    usual = [name for name in names if name not in (*_HOSTS, *_NAMED)]
    _must_be_of(settings, (*usual, "archetype"))
    _must_be_of(archetype, _ARCHETYPE)
    for given, names in (
        (body, ["region", "additional_searches"]),
        (settings, usual),
        (archetype, [*_ARCHETYPE]),
    ):
        for name in names:
            if name in given:
                found[name] = _setting(given, name)
    return found


def _must_be_of(given: JsonReader, known: Sequence[str]) -> None:
    for name, _ in given.names():
        if name not in known:
            why = f"unknown key; choose from {', '.join(known)}"
            raise ValidationError(why, path=given.at(str(name)[:40]))


def _setting(given: JsonReader, name: str) -> Any:
    """Validate one setting, so that an error has its path."""
    try:
        read_settings(Settings, {name: given.raw(name)}, owner=name)
    except ConfigurationError as error:
        raise ValidationError(error.message, path=given.at(name), hint=error.hint) from error
    return given.raw(name)


def _alias(given: Any, aliases: Collection[str]) -> str | None:
    """Validate a model name: callers may only use aliases from the host's configuration."""
    if given is None or (isinstance(given, str) and given in aliases):
        return given
    raise ValidationError(
        "this model is not available here",
        path="$.model",
        hint=f"omit it, or choose from {', '.join(aliases) or 'none'}",
    )


_COLLECTION = "research.entries"
_ID = re.compile(r"entry_[0-9a-f]{24}")


@frozen(eq=False)
class Assistant:
    """Answers requests. Thread-safe.

    Args:
        model: As for `Host.open`; None for the default. A request can name another model by an
            alias from the host's configuration.
        models: Models of the other roles: `query`, `style`, `embed`, `moderate`.
        settings: Defaults of the feature's settings.
        owner: Owner of the entries that requests reference by id, and user whose budget is charged;
            None for the owner of the store.
    """

    _host: HostServices
    _model: str | None = None
    _models: Mapping[str, str] | None = field(default=None, kw_only=True)
    _settings: Mapping[str, Any] | None = field(default=None, kw_only=True)
    _owner: str | None = field(default=None, kw_only=True)

    def answer(self, given: Mapping[str, Any], limits: CancelToken | None = None) -> dict[str, Any]:
        """Answer a request.

        The result has `answer`, `conversation_history`, `search_history` (each in the form of the
        request), `prompt`, `similar_search_results`, `tokens_used` and `warnings`. The arguments
        are never modified.

        Args:
            given: `input_text`, `conversation_history` and the other fields of the specification.
                Tables are pandas DataFrames, lists of records, or objects of columns.
            limits: Cancels the turn.

        Raises:
            ValidationError: The request is invalid. The error has the path.
            NotFound: An entry does not exist.
            GenaiError: The model could not answer.
        """
        events = self.stream(given, limits)
        while True:
            try:
                next(events)
            except StopIteration as end:
                result: dict[str, Any] = end.value
                return result

    def stream(
        self, given: Mapping[str, Any], limits: CancelToken | None = None
    ) -> Generator[Event, None, dict[str, Any]]:
        """Answer a request as a stream of host events; the generator returns the result. Closing
        the generator ends the turn.
        """
        aliases = self._host.config.configurations
        asked = read_request(given, self._load, aliases, self._settings or {})
        conversation = self._host.open(
            "research",
            asked.model or self._model,
            models=self._models,
            settings=asked.settings,
            state=asked.memory,
            record=False,
            turn_limits=_caps(asked.memory),
            owner=self._owner,
        )
        leaving = nullcontext() if limits is None else limits.on_cancel(conversation.close)
        answer: Answer | None = None
        try:
            with conversation, leaving, closing(conversation.stream(asked.input_text)) as events:
                for event in events:
                    answer = event.answer or answer
                    yield event
        except (Cancelled, ConversationClosed):
            if limits is not None:
                limits.check()  # its error has the actual reason
            raise
        assert answer is not None  # a turn that does not raise ends with it
        return self._result(asked, answer)

    def _result(self, asked: AssistantRequest, answer: Answer) -> dict[str, Any]:
        texts = (asked.input_text, answer.summary)
        assert answer.new_messages  # the feature adds both messages
        added = MemoryAdditions.in_message(answer.new_messages[-1])
        assert added is not None
        memory = asked.memory.with_(evolve(added, entries=texts))
        behind = next(each.data for each in answer.details if each.kind == KIND)
        entries = asked.entries.longer(
            [{TEXT: text, LENGTH: len(text)} for text in texts],
            memory.entry_vectors,
            changed=added.entries_from < asked.entries.rows,
        )
        facts = asked.facts.longer(
            [{**asdict(fact), LENGTH: len(fact.text)} for fact in added.facts],
            memory.fact_vectors,
            changed=added.facts_from < asked.facts.rows,
        )
        return {
            "answer": answer.summary,
            "conversation_history": self._kept(asked, entries) if asked.keep_entries else entries,
            "search_history": facts,
            **{name: behind[name] for name in _BEHIND},
        }

    def _load(self, ids: Sequence[str], path: str) -> list[Mapping[str, Any]]:
        rows = []
        documents = self._documents()
        for number, id in enumerate(ids):
            unknown = NotFound(f"unknown entry {id[:60]!r}: {path}[{number}]")
            if not _ID.fullmatch(id):  # the store is not queried
                raise unknown
            try:
                rows.append(documents.get(id).value)
            except NotFound as error:
                raise unknown from error
        return rows

    def _kept(self, asked: AssistantRequest, entries: Any) -> list[str]:
        """Return the ids of all entries; entries without an id are stored."""
        ids = list(asked.entry_ids or ())
        documents = self._documents()
        for row in _rows(entries)[len(ids) :]:
            ids.append(f"entry_{secrets.token_hex(12)}")
            entry = {name: json_value(row[name]) for name in ENTRY_COLUMNS}
            documents.put(ids[-1], entry, expect=0)
        return ids

    def _documents(self) -> DocumentCollection:
        return self._host.store_for(self._owner).documents(_COLLECTION)


_BEHIND = ("prompt", "similar_search_results", "tokens_used", "warnings")


def _rows(entries: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a table in any form."""
    if isinstance(entries, list):
        return entries
    if hasattr(entries, "to_dict"):
        rows: list[Mapping[str, Any]] = entries.to_dict("records")
        return rows
    columns = {
        name: list(values.values()) if isinstance(values, Mapping) else values
        for name, values in entries.items()
    }
    count = len(columns[TEXT])
    return [{name: values[row] for name, values in columns.items()} for row in range(count)]


def _caps(memory: ResearchMemory) -> TurnLimits:
    """Return the usual limits of a turn, raised for batches of embeddings for the tables."""
    usual = TurnLimits()
    calls = (len(memory.entries) + len(memory.facts)) // BATCH
    return TurnLimits(max_model_calls=usual.max_model_calls + calls, steps=usual.steps + calls)


def answer(request: RouteRequest, host: HostServices) -> RouteResponse:
    assistant = Assistant(host, owner=request.user)
    given = request.json()
    if not prefers_events(request):
        with _with_a_model():
            return json_response(assistant.answer(given, request.limits))
    body = StreamedBody(_written(assistant.stream(given, request.limits)), _failed)
    headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
    return RouteResponse(body, headers=headers, keepalive=b": ping\n\n", begin=body.begin)


@contextmanager
def _with_a_model() -> Iterator[None]:
    """Convert `NoRoute`: the host has no model, since the client named only models of the host."""
    try:
        yield
    except NoRoute as error:
        raise ServiceUnavailable(error.message, hint=error.hint) from error


def _written(events: Generator[Event, None, dict[str, Any]]) -> Generator[bytes, None, None]:
    with closing(events), _with_a_model():
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                yield sse_event("result", end.value)
                return
            yield from _of(event)


def _failed(error: GenaiError) -> bytes:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    return sse_event("error", {"error": body})


def _of(event: Event) -> Generator[bytes, None, None]:
    if event.text:
        yield sse_event("delta", {"text": event.text})
    elif event.kind == "reset":
        yield sse_event("void", {})
    elif isinstance(event.data, Progress):
        yield sse_event("progress", {"text": event.data.text})
