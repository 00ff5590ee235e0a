"""Texts of files, split into passages and indexed for search.

    Indexing.do → _index → read_text → passages → Host.embed → Passages.to_bytes → a blob

Indexing a file is a job: if the process is killed, another one does it.

The passages of a file and their vectors are one blob: the length of its head in 8 bytes, the head
in JSON, then for each passage a row of 32-bit floats of length 1; all numbers are little-endian.
`nearest` searches the passages of many files.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Object, ObjectStore

from genai_feature_assistants.file_text import UnreadableFile, read_text
from genai_host.api import CancelToken, Job, read_json, write_json
from genai_host.errors import Cancelled, GenaiError, Interrupted, NotFound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from genai_host.api import BlobStore, HostServices

    Matrix = NDArray[np.float32]


MAX_PASSAGES = 20_000
"""Limit for one file."""

_CHARACTERS = 4  # characters per token, on average; tokenizers differ between models
_BREAKS = ("\n\n", "\n", ". ", " ")


def passages(text: str, tokens: int, overlap: int) -> list[str]:
    """Split a text into passages of at most `tokens` tokens, of four characters each. `overlap` of
    them, at most half, are shared with the next passage."""
    pieces = map(str.strip, _cut(text, tokens * _CHARACTERS, overlap * _CHARACTERS))
    return list(islice(filter(None, pieces), MAX_PASSAGES))


def _cut(text: str, size: int, overlap: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = min(len(text), start + size)
        if end < len(text):
            end = _break_before(text, start + size // 2, end)
        yield text[start:end]
        if end == len(text):
            return
        start = max(end - overlap, start + 1)


def _break_before(text: str, least: int, most: int) -> int:
    """Return where a paragraph ends in this range, else a line, a sentence or a word."""
    ends = ((text.rfind(mark, least, most), len(mark)) for mark in _BREAKS)
    return next((at + length for at, length in ends if at != -1), most)


_LENGTH = 8
_HELD = 256 * 2**20  # bytes of vectors and texts that stay in memory


@frozen(eq=False)
class Passages:
    """The passages of a file: a text for each row, and rows of length 1, or of zeros. `embedder`
    made them: `NAME@PROVIDER`."""

    embedder: str
    texts: Sequence[str]
    vectors: Matrix = field(repr=False)

    def to_bytes(self, label: str) -> bytes:
        """Return the content of a blob. `label` keeps equal files from sharing it."""
        size = int(self.vectors.shape[1])
        head = write_json(
            {"label": label, "embedder": self.embedder, "size": size, "texts": list(self.texts)}
        )
        rows = self.vectors.astype("<f4").tobytes()
        return len(head).to_bytes(_LENGTH, "little") + head + rows

    @classmethod
    def from_bytes(cls, data: bytes) -> Passages:
        import numpy as np

        end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        head: Any = read_json(data[_LENGTH:end])
        rows = np.frombuffer(data, dtype="<f4", offset=end)
        size = head["size"]
        return cls(head["embedder"], head["texts"], rows.reshape(-1, size) if size else rows)

    @property
    def bytes(self) -> int:
        return int(self.vectors.nbytes) + sum(map(len, self.texts))


def unit_rows(vectors: Iterable[Sequence[float]]) -> Matrix:
    """Return the vectors scaled to length 1; vectors of length 0 stay."""
    import numpy as np

    rows = np.nan_to_num(np.asarray(list(vectors), dtype=np.float64))
    if rows.size == 0:
        return np.zeros((0, 0), dtype=np.float32)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    made: Matrix = unit.astype(np.float32)
    return made


@frozen
class Hit:
    """A passage that was found."""

    key: str
    text: str
    score: float


def nearest(
    files: Iterable[tuple[str, Passages]],
    question: Callable[[str], Matrix],
    most: int,
    least: float = 0.0,
) -> list[Hit]:
    """Return the passages most similar to a question, best first, by an exact search.

    Args:
        files: Passages of each file, with a key.
        question: Returns the vectors of the question by the embedder, one row for each wording.
            The best row counts.
        most: Highest number of passages.
        least: Lowest score.
    """
    import numpy as np

    found: list[Hit] = []
    for key, passages in files:
        if not len(passages.texts):
            continue
        asked = question(passages.embedder)
        if asked.shape[1:] != passages.vectors.shape[1:]:  # that model has changed
            continue
        scores = (passages.vectors @ asked.T).max(axis=1)
        best = np.argsort(-scores, kind="stable")[:most]
        found += [
            Hit(key, passages.texts[at], min(1.0, max(0.0, float(scores[at])))) for at in best
        ]
    found.sort(key=lambda hit: -hit.score)
    return [hit for hit in found if hit.score >= least][:most]


class Held:
    """Cache of recently read passages. Thread-safe."""

    def __init__(self, size: int = _HELD) -> None:
        self._size = size
        self._used = 0
        self._held: OrderedDict[str, Passages] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, id: str, blobs: BlobStore) -> Passages:
        """Return the passages of a blob. Raises `NotFound`."""
        with self._lock:
            found = self._held.get(id)
            if found is not None:
                self._held.move_to_end(id)
                return found
        made = Passages.from_bytes(b"".join(blobs.get(id)))
        with self._lock:
            if id not in self._held:
                self._held[id] = made
                self._used += made.bytes
            while self._used > self._size and len(self._held) > 1:
                _, gone = self._held.popitem(last=False)
                self._used -= gone.bytes
        return made


KIND = "file"
_BATCH = 64  # texts that are embedded by one call


def stores_of(host: HostServices, user: str) -> ObjectStore:
    """Return the vector stores of a user."""
    return ObjectStore(host, user, "vector store")


def shelf_of(host: HostServices, user: str, store: str) -> ObjectStore:
    """Return the files of a vector store."""
    return ObjectStore(host, user, "vector store file", store)


def job_of(user: str, found: Object) -> Job:
    """Return the job of a file in a vector store. A file that is added again has another job: the
    former may still be running.
    """
    store, file = found["vector_store_id"], found["id"]
    return Job(found.get("_job", f"{store}/{file}"), KIND, user, {"store": store, "file": file})


class Indexing:
    """Indexes the files of a host."""

    def __init__(self, host: HostServices, files: Files) -> None:
        self._host = host
        self._files = files

    def do(self, job: Job, limits: CancelToken) -> None:
        """Do a job, and write its result into the object of the file."""
        user, store, file = job.user, job.about["store"], job.about["file"]
        shelf = shelf_of(self._host, user, store)
        try:
            found = shelf.get(file)
            if not _is_of(job, found):
                return
            if job.is_exhausted:
                raise UnreadableFile("reading it ended the worker process repeatedly")
            self._end(shelf, job, self._index(user, found, limits))
        except UnreadableFile as error:
            self._end(shelf, job, _failed(error.code, str(error)))
        except NotFound:  # it was removed meanwhile
            return
        except Interrupted:
            raise
        except Cancelled:
            self._end(shelf, job, {"status": "cancelled"})
        except GenaiError as error:
            self._end(shelf, job, _failed("server_error", error.message))

    def _index(self, user: str, found: Any, limits: CancelToken) -> dict[str, Any]:
        file = self._files.get(user, found["id"])
        static = found["chunking_strategy"]["static"]
        texts = passages(
            read_text(self._files.data(user, found["id"]), file["filename"], limits),
            static["max_chunk_size_tokens"],
            static["chunk_overlap_tokens"],
        )
        vectors: list[Any] = []
        embedder = ""
        for start in range(0, len(texts), _BATCH):
            limits.check()
            batch = texts[start : start + _BATCH]
            given = self._host.embed(batch, purpose="document", limits=limits, owner=user)
            vectors += given.vectors
            embedder = embedder_of(given.route)
        made = Passages(embedder, texts, unit_rows(vectors))
        data = made.to_bytes(job_of(user, found).id)
        blob = self._host.store_for(user).blobs().put([data])
        return {"status": "completed", "usage_bytes": len(data), "_blob": blob}

    def _end(self, shelf: ObjectStore, job: Job, fields: dict[str, Any]) -> None:
        """Write the result, unless the file was removed or cancelled meanwhile."""

        def make(found: Any) -> tuple[Any, bool]:
            is_waiting = _is_of(job, found)
            return {**found, **fields} if is_waiting else None, is_waiting

        is_kept = False
        with suppress(NotFound):
            is_kept = shelf.change(job.about["file"], make)
        if not is_kept and "_blob" in fields:
            self._host.store_for(job.user).blobs().remove(fields["_blob"])


def _is_of(job: Job, found: Object) -> bool:
    """Return whether a file waits for this job."""
    return found["status"] == "in_progress" and job_of(job.user, found).id == job.id


def embedder_of(route: Any) -> str:
    """Return a name that finds this model again; empty for any embedder."""
    if route is None:
        return ""
    is_passed = route.model.startswith(f"{route.provider}/")
    return route.model if is_passed else f"{route.model}@{route.provider}"


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"status": "failed", "last_error": {"code": code, "message": message}}
