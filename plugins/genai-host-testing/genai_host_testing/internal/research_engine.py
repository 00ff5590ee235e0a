"""Requirements of the research assistant, in this process: a search engine, a page reader and an
embedder.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import pytest
from genai_feature_research.assistant import Assistant

from genai_host import Host
from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    Embeddings,
    Model,
    NoSettings,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    Tool,
    ToolSet,
    hookimpl,
    tool,
)
from genai_host.api.codec import default_codec
from genai_host.errors import GenaiError, ServiceUnavailable
from genai_host_testing import FakeModel, RecordedPrompt

Result = Mapping[str, str]


def result(text: str, link: str = "", title: str = "") -> Result:
    return {
        "title": title or text[:20],
        "link": link or f"https://example.org/{hash_of(text)}",
        "text": text,
    }


def hash_of(text: str) -> str:
    return "".join(each for each in text.lower() if each.isalnum())[:30]


class Engine:
    """A plugin: `engine__search` and `engine__read`.

    Attributes:
        results: Returns the results of a query; called from any thread.
        pages: Text by link; other links fail.
        fault: Raised by searches, if set.
        says: Output of all searches, if set.
        queries: Queries of the searches, with the region and the limit.
        read: Links that were read.
    """

    def __init__(self) -> None:
        self.results: Callable[[str], Iterable[Result]] = lambda query: [
            result(f"All about {query}, as far as it is known.")
        ]
        self.pages = {"https://example.org/a": "Page a says that rivers run to the sea."}
        self.fault: GenaiError | None = None
        self.says: str | None = None
        self.queries: list[tuple[str, str, int]] = []
        self.read: list[str] = []

    @hookimpl
    def genai_tool_sources(self) -> Iterable[ToolSet[Any]]:
        yield ToolSet("engine", NoSettings, lambda settings: self._tools())

    def _tools(self) -> list[Tool]:
        def search(
            query: Annotated[str, "what to search for"], region: str = "wt-wt", limit: int = 10
        ) -> str:
            """Search."""
            self.queries.append((query, region, limit))
            if self.fault is not None:
                raise self.fault
            results = [dict(each) for each in self.results(query)]
            return json.dumps(results) if self.says is None else self.says

        def read(link: Annotated[str, "address of the page"]) -> str:
            """Read a page."""
            self.read.append(link)
            if link not in self.pages:
                raise ServiceUnavailable(f"{link} is not there")
            return json.dumps(
                {"title": "A page", "link": link, "text": self.pages[link], "kind": "html"}
            )

        return [tool(search, idempotent=True), tool(read, idempotent=True, approval="ask")]


class Words:
    """A plugin: models `words-16` and `words-64`, whose vectors count words, so that texts with the
    same words are similar.

    Attributes:
        fault: Raised, if set.
        embedded: Embedded texts, by call.
    """

    def __init__(self) -> None:
        self.fault: GenaiError | None = None
        self.embedded: list[list[str]] = []

    @hookimpl
    def genai_providers(self) -> Iterable[ProviderType[Any]]:
        yield ProviderType("words", NoSettings, lambda settings, services: _Counter(self))

    @hookimpl
    def genai_models(self) -> Iterable[Model]:
        for size in (16, 64):
            name = f"words-{size}"
            yield Model(name, dialects=["plain-embed"], operation="embed", at={"words": name})


class _Counter(Provider):
    serves = {"plain-embed": DialectEndpoint()}

    def __init__(self, words: Words) -> None:
        self._words = words

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        if self._words.fault is not None:
            raise self._words.fault
        texts = json.loads(request.data())["texts"]
        self._words.embedded.append(texts)
        size = int(request.model_id.split("-")[1])
        vectors = Embeddings([_counted(text, size) for text in texts])
        return ProviderReply(json.dumps(default_codec().to_json(vectors)).encode())

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream:
        raise AssertionError("vectors are not streamed")


def _counted(text: str, size: int) -> list[float]:
    vector = [0.0] * size
    for word in re.findall(r"\w+", text.lower()):
        vector[zlib.crc32(word.encode()) % size] += 1.0
    return vector


class Scene:
    """A host with the requirements of the research assistant.

    Attributes:
        model: The model; `model.answer` determines its answers.
    """

    def __init__(self, make_host: Callable[..., Host], **settings: Any) -> None:
        import genai_feature_research

        self.model = FakeModel(self._answer)
        self.engine = Engine()
        self.words = Words()
        self.query = "a query of the model"
        self.says = "The answer."
        self.host = make_host(
            fake=self.model,
            engine=self.engine,
            words=self.words,
            research=genai_feature_research,
            **settings,
        )

    def _answer(self, prompt: RecordedPrompt) -> str:
        if "queries for a search engine" in prompt.messages[0].text:
            return self.query
        return self.says

    @property
    def roles(self) -> dict[str, str]:
        return {"embed": "words-64", "moderate": "fake-moderate"}

    @property
    def settings(self) -> dict[str, Any]:
        return {"search": ["engine__search"], "reader": "engine__read"}

    def assistant(self, **options: Any) -> Assistant:
        return Assistant(
            self.host,
            options.pop("model", "fake"),
            models={**self.roles, **options.pop("models", {})},
            settings={**self.settings, **options.pop("settings", {})},
            **options,
        )

    def ask(self, text: str = "Where do rivers run to?", **settings: Any) -> dict[str, Any]:
        """Send one request; further keys are settings, except those of the request itself."""
        beside = ("conversation_history", "search_history", "region", "additional_searches")
        request = {name: settings.pop(name) for name in beside if name in settings}
        own = {name: settings.pop(name) for name in ("model", "models") if name in settings}
        assistant = self.assistant(**own)
        return assistant.answer({"input_text": text, **request, "settings": settings})

    def prompts(self) -> list[str]:
        """Return the prompts of the model, without those for queries."""
        conversations = [prompt.messages for prompt in self.model.prompts]
        texts = ["\n\n".join(message.text for message in each) for each in conversations]
        return [text for text in texts if "queries for a search engine" not in text]


@pytest.fixture
def scene(make_host: Callable[..., Host]) -> Scene:
    return Scene(make_host)


def entries(*texts: str, size: int = 64) -> list[dict[str, Any]]:
    """Return the table of a conversation."""
    return [
        {"text": text, "text_length": len(text), "ada_search": _counted(text, size)}
        for text in texts
    ]


def facts(*texts: str, size: int = 64) -> list[dict[str, Any]]:
    """Return a table of facts."""
    return [
        {
            "title": f"About {number}",
            "link": f"https://facts.example/{number}",
            "text": text,
            "query": f"About {number}",
            "text_length": len(text),
            "ada_search": _counted(text, size),
        }
        for number, text in enumerate(texts)
    ]
