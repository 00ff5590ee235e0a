"""A turn of the assistant.

    respond → Research.answer → _refusal     moderation
                             → _recall      similar entries of the history
                             → _find        pages, queries; the facts for the prompt
                             → _write       the answer, and the style pass
                             → _end         both entries, with their vectors

Source: Assistant microservice. Parts that belong to the host, for example the search, differ.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from genai_feature_research import Settings
from genai_feature_research.memory import (
    Embedding,
    Fact,
    MemoryAdditions,
    ResearchMemory,
    VectorColumn,
    line,
    memory_of,
    plain,
)
from genai_feature_research.prompts import (
    FLAGGED,
    LATEST,
    NOTHING_LEFT,
    TOO_LONG,
    TOO_MUCH,
    AnswerPrompt,
    query_messages,
    style_messages,
)
from genai_feature_research.search import Cited, Lookup, TurnSearches, cited, page, query
from genai_host.api import (
    Answer,
    Completion,
    Detail,
    FeatureSteps,
    Message,
    Moderate,
    Now,
    Progress,
    Prompt,
    Step,
    Text,
    Turn,
)
from genai_host.errors import ContextOverflow, InvalidParameter, NoRoute

KIND = "research"
"""Kind of the detail with the inputs of the answer."""

SIMILAR = 4
"""Number of similar entries of the history in the prompt."""

_MAX_QUERY = 200
_MAX_QUERY_WORDS = 16  # a longer text is an answer, not a query
_QUERY_TOKENS = 100  # enough for a query; limits a model that does not stop
_SAMPLING = ("max_tokens", "temperature", "top_p", "presence_penalty", "frequency_penalty")
_BETWEEN_LINKS = re.compile(r",(?=\s|https?://|$)")  # a link can contain commas
_PENALTIES = ("presence_penalty", "frequency_penalty")

_Rank = tuple[float, ...]
ResearchSteps = Generator[Step[Any], Any, Any]


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """Answer a message. `Answer.data` has:

    - `sources`: findings cited by the answer, or all findings if it cites none: number, title, link
    - `warnings`: errors that did not prevent an answer
    - `tokens_used`: tokens of the calls for the query, the answer and the style pass

    and a detail of the kind `KIND`, with the `prompt` and the `similar_search_results`. If the
    caller requested an output type, the data is the model's.

    `Turn.state` may be a `ResearchMemory` from a caller that stores it. Otherwise the memory is
    derived from the history.
    """
    given = turn.state
    memory = given if isinstance(given, ResearchMemory) else memory_of(turn.history)
    return (yield from Research(turn, memory).answer())


class Research:
    """One turn."""

    def __init__(self, turn: Turn[Settings], memory: ResearchMemory) -> None:
        self._settings = turn.settings
        self._message_text = turn.message.text
        self._message = turn.message
        self._roles = turn.roles
        self._before = memory
        self._memory = memory
        self._embedding = Embedding(turn.roles)
        self._search = TurnSearches(turn.settings, memory.facts)
        self._warnings: list[str] = []
        self._tokens = 0
        self._question: list[float] = []
        self._size = 0  # of the vectors; 0 until something is embedded
        self._schema = turn.schema
        self._value: Any = None

    def answer(self) -> FeatureSteps:
        settings = self._settings
        now = (yield from Now()) if settings.include_time else ""
        refused = yield from self._refusal()
        if refused:
            return (yield from self._end(refused))
        similar = yield from self._recall()
        facts = yield from self._find()
        prompt = AnswerPrompt(
            settings,
            self._message_text,
            similar,
            self._before.entries[-LATEST:],
            facts,
            now,
            [part for part in self._message.content if not isinstance(part, Text)],
        )
        if len(prompt.text) > settings.prompt_characters:
            return (yield from self._end(TOO_MUCH, prompt))
        try:
            written = yield from self._write(prompt)
        except ContextOverflow:
            return (yield from self._end(TOO_MUCH, prompt))
        if self._schema is not None:  # data has its own form
            return (yield from self._end(written, prompt))
        found = cited(written, prompt.text, len(facts))
        if found.left_out:
            what = line(", ".join(found.left_out))[:500]
            self._warn(f"removed from the answer, because it is in no finding: {what}")
        return (yield from self._end(found.text.strip() or NOTHING_LEFT, prompt, found))

    def _refusal(self) -> ResearchSteps:
        """Return the refusal of a flagged or too long message; empty if it is allowed."""
        if self._settings.moderate:
            if "moderate" not in self._roles:
                raise NoRoute(
                    "moderation is enabled, but no moderation model is available",
                    hint="install a plugin with one, or set moderate to false",
                )
            verdict = yield from Moderate(self._message_text)
            if verdict.flagged:
                return FLAGGED
        return TOO_LONG if len(self._message_text) > self._settings.input_characters else ""

    def _recall(self) -> ResearchSteps:
        """Return the entries most similar to the message, and compute missing vectors."""
        self._question = yield from self._embedding.question(self._message_text)
        self._size = len(self._question)
        yield from self._complete()
        memory = self._memory
        if not self._question:
            return []
        similarity = memory.entry_vectors.similarity(self._question)
        # newest first among equally similar ones
        ranked: list[_Rank] = [(-alike, -at) for at, alike in enumerate(similarity) if alike >= -1]
        texts: dict[str, None] = {}
        for _, at in _in_order(ranked):
            texts[memory.entries[-int(at)]] = None
            if len(texts) == SIMILAR:
                break
        return list(texts)

    def _complete(self) -> ResearchSteps:
        """Compute the vectors that are missing or have another size."""
        memory = self._memory
        entries = yield from self._embedding.completed(
            memory.entry_vectors, memory.entries, self._size, "conversation_history"
        )
        facts = yield from self._embedding.completed(
            memory.fact_vectors, [fact.text for fact in memory.facts], self._size, "search_history"
        )
        self._memory = evolve(memory, entry_vectors=entries, fact_vectors=facts)

    def _find(self) -> ResearchSteps:
        """Return the facts for the prompt."""
        settings = self._settings
        links = map(str.strip, _BETWEEN_LINKS.split(settings.specify_sources))
        wanted: list[Lookup] = [page(link) for link in links if link]
        wanted += [query(text) for text in settings.additional_searches if text.strip()]
        now: list[Fact] = yield from self._search.find(wanted)
        if settings.answer_with_search and self._message_text.strip():
            now += yield from self._find_an_answer()
        memory, new = self._memory, self._search.new
        vectors = memory.fact_vectors.longer(len(new))
        self._memory = evolve(memory, facts=(*memory.facts, *new), fact_vectors=vectors)
        if new:
            yield Progress(f"reading {len(new)} findings")
        yield from self._complete()
        return self._chosen(now)

    def _find_an_answer(self) -> ResearchSteps:
        """Search with a query that the model writes, unless the question is a repeated one."""
        if self._search.has(self._message_text):
            return (yield from self._search.find([query(self._message_text)]))
        yield Progress("writing a query")
        text = yield from self._write_query()
        return (yield from self._search.find([query(text, self._message_text)]))

    def _write_query(self) -> ResearchSteps:
        """Return the message of the user if the model writes no usable query."""
        prompt = Prompt(
            query_messages(self._message_text, self._before.entries[-2:]),
            role="query" if "query" in self._roles else "main",
            defaults={"max_tokens": _QUERY_TOKENS},
            stream=False,
        )
        completion: Completion = yield from self._ask(prompt)
        if not completion.text.strip() and completion.finish == "length":
            # a reasoning model used up the limit before its answer
            completion = yield from self._ask(evolve(prompt, defaults={}))
        lines = [each for each in completion.text.splitlines() if each.strip()]
        text = line(lines[0]).removeprefix("Query:").strip(" \"'`*") if lines else ""
        if not text or len(text.split()) > _MAX_QUERY_WORDS or len(text) > _MAX_QUERY:
            text = line(self._message_text)[:_MAX_QUERY]
        return text

    def _chosen(self, now: Sequence[Fact]) -> list[Fact]:
        """Return the facts most similar to the message; without vectors, those of this turn
        first.
        """
        settings, memory = self._settings, self._memory
        of_now = {(fact.link, fact.text): place for place, fact in reversed([*enumerate(now)])}
        similarity = memory.fact_vectors.similarity(self._question) if self._question else ()
        ranked: list[_Rank] = []
        for row, fact in enumerate(memory.facts):
            place = of_now.get((fact.link, fact.text))
            if place is None and not settings.consult_search_history:
                continue
            alike = similarity[row] if similarity else 0.0
            ranked.append((-alike, len(now) if place is None else place, -row))
        chosen: dict[str, Fact] = {}
        for *_, at in _in_order(ranked):
            if len(chosen) == settings.num_of_excerpts:
                break
            fact = memory.facts[-int(at)]
            chosen.setdefault(plain(fact.text), fact)
        return list(chosen.values())

    def _write(self, prompt: AnswerPrompt) -> ResearchSteps:
        settings, schema = self._settings, self._schema
        given = {name: getattr(settings, name) for name in _SAMPLING}
        parameters = {
            name: value
            for name, value in given.items()
            if value is not None and not (name in _PENALTIES and value == 0)
        }
        answer = Prompt(prompt.messages, parameters=parameters, schema=schema)
        yield Progress("writing")
        if settings.style_pass:
            draft = yield from self._ask(evolve(answer, schema=None, stream=False))
            messages = style_messages(settings, self._message_text, _text_of(draft))
            yield Progress("rewriting the answer")
            role = "style" if "style" in self._roles else "main"
            answer = evolve(answer, messages=messages, role=role)
        completion: Completion = yield from self._ask(answer)
        self._value = completion.value
        return _text_of(completion)

    def _ask(self, prompt: Prompt) -> ResearchSteps:
        """Call the model without the penalties that it does not support, with a warning."""
        while True:
            try:
                completion: Completion = yield from prompt
            except InvalidParameter as error:
                lacking = error.parameter
                if lacking in error.valid or lacking not in (*_PENALTIES, *prompt.defaults):
                    raise
                if lacking in prompt.parameters:
                    self._warn(f"the model does not support {lacking}; it was omitted")
                prompt = evolve(
                    prompt,
                    parameters=_without(lacking, prompt.parameters),
                    defaults=_without(lacking, prompt.defaults),
                )
            else:
                self._tokens += completion.usage.total
                return completion

    def _end(
        self, text: str, prompt: AnswerPrompt | None = None, found: Cited | None = None
    ) -> FeatureSteps:
        """Store both entries, and answer."""
        added = yield from self._remember(text)
        warnings = [*self._embedding.warnings, *self._search.warnings, *self._warnings]
        sources = [] if prompt is None or found is None else _sources(prompt.facts, found.numbers)
        shown = {"sources": sources, "warnings": warnings}
        reactions = [{"type": name, name: value} for name, value in shown.items() if value]
        behind = {
            "prompt": "" if prompt is None else prompt.text,
            "similar_search_results": "" if prompt is None else prompt.findings,
            "tokens_used": self._tokens,
            "warnings": warnings,
        }
        data = {**shown, "tokens_used": self._tokens}
        return Answer(
            text,
            details=[Detail(KIND, "prompt and findings", {**behind, "reactions": reactions})],
            data=data if self._schema is None else self._value,
            new_messages=[self._message, Message("assistant", [Text(text), added.to_part()])],
        )

    def _remember(self, text: str) -> ResearchSteps:
        """Return the additions of this turn to the memory."""
        new = yield from self._embedding.documents([self._message_text, text])
        if new and not self._size:  # the message was refused before anything was embedded
            self._size = len(new[0])
            yield from self._complete()
        before, memory = self._before, self._memory
        rows = len(memory.entries)
        vectors = memory.entry_vectors.longer(2)
        if new:
            vectors = vectors.filled([rows, rows + 1], new)
        return MemoryAdditions(
            (self._message_text, text),
            *_changed(before.entry_vectors, vectors),
            memory.facts[len(before.facts) :],
            *_changed(before.fact_vectors, memory.fact_vectors),
        )

    def _warn(self, warning: str) -> None:
        if warning not in self._warnings:
            self._warnings.append(warning)


def _in_order(values: list[_Rank]) -> Iterator[_Rank]:
    """Yield the smallest values first, lazily, because usually only a few are needed."""
    heapq.heapify(values)
    while values:
        yield heapq.heappop(values)


def _text_of(completion: Completion) -> str:
    """Return the text; raises `UnexpectedFinish` or `GenerationError` for an incomplete answer."""
    completion.check_finish("stop", "length")
    completion.check_text()
    return completion.text.strip()


def _sources(facts: Sequence[Fact], numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the sources cited by an answer; all of them if it cites none."""
    numbers = numbers or range(1, len(facts) + 1)
    return [
        {"number": number, "title": facts[number - 1].title, "link": facts[number - 1].link}
        for number in numbers
    ]


def _changed(before: VectorColumn, now: VectorColumn) -> tuple[int, VectorColumn]:
    """Return the first changed row and the vectors from there. A row that still has no vector is
    unchanged: otherwise a text without words would cause all later vectors to be stored in each
    turn.
    """
    first = 0
    if before.size == now.size:
        still = set(now.missing())
        first = next((row for row in before.missing() if row not in still), len(before))
    return first, VectorColumn(now.matrix[first:])


def _without(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {each: value for each, value in parameters.items() if each != name}
