"""Stores imported objects, and reports the result of each.

`Keeping` stores an object in the same place as one that a client creates. `Report` has one
`Outcome` for each object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, field, frozen

from genai_feature_assistants.service.files import MOST_BYTES
from genai_feature_assistants.service.indexing import shelf_of
from genai_feature_assistants.service.run_states import RunStates
from genai_feature_assistants.service.shelf import Object, Shelf
from genai_host.errors import ValidationError

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
    from genai_host.host import Host


What = Literal["imported", "replaced", "left alone", "failed"]


@frozen
class Outcome:
    """Of one object.

    kind   as the API calls it: `assistant`, `thread`, `thread.message`, `vector_store`,
           `vector_store.file`, `file`; whatever it said of itself if it could not be read
    id     empty if it could not be read
    what   `left alone` for what was there already
    why    it failed; empty if it did not
    at     where it stood, as `threads.jsonl:3` or `list.json[7]`
    """

    kind: str
    id: str
    what: What
    why: str = ""
    at: str = ""

    def line(self) -> str:
        """For people."""
        return f"{self.at}: {' '.join(filter(None, [self.kind, self.id]))}: {self.why}"


@define
class Report:
    """
    outcomes   one for each object
    """

    outcomes: list[Outcome] = field(factory=list)
    _warnings: dict[str, None] = field(factory=dict)

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """By kind, how many have come to what."""
        counts: dict[str, dict[str, int]] = {}
        for each in self.outcomes:
            of = counts.setdefault(each.kind, {})
            of[each.what] = of.get(each.what, 0) + 1
        return counts

    @property
    def failed(self) -> Sequence[Outcome]:
        return [each for each in self.outcomes if each.what == "failed"]

    @property
    def warnings(self) -> list[str]:
        """What was imported, and will not run as it did: each a line."""
        return list(self._warnings)

    def warn(self, text: str) -> None:
        """Once."""
        self._warnings[text] = None


class Keeping:
    """Of one user.

    replaces   whether what is there already is replaced, and not left alone
    """

    def __init__(self, host: Host, service: Service, user: str, *, replaces: bool) -> None:
        self._host = host
        self._service = service
        self._user = user
        self._replaces = replaces

    def shelf(self, kind: str, within: str = "") -> Shelf:
        return Shelf(self._host, self._user, kind, within)

    def has(self, kind: str, id: str) -> bool:
        return self.shelf(kind).find(id) is not None

    def put(self, kind: str, value: Object) -> What:
        """An assistant, a vector store."""
        return self._put(self.shelf(kind), value)

    def put_thread(self, thread: Object) -> What:
        shelf = self.shelf("thread")
        there = shelf.find(thread["id"])
        run = "" if there is None else there["_run"]  # it may be at it
        return self._put(shelf, {**thread, "_run": run})

    def put_file(self, file: Mapping[str, Any], folder: Path, is_only: bool) -> tuple[What, str]:
        """What became of it, and a warning, if there is one. Raises `ValidationError` if its bytes
        are not there.

        folder    where they are, in a file that is called as its id or its name
        is_only   whether no other file that is imported has its name
        """
        shelf = self.shelf("file")
        there = shelf.find(file["id"])
        if there is not None and not self._replaces:
            return "left alone", ""
        data = _bytes_of(file, folder, is_only)
        blobs = self._host.kept(self._user).blobs()
        kept = {**file, "bytes": len(data), "_blob": blobs.put([data])}
        done = self._put(shelf, kept)
        if there is not None and next(shelf.all({"_blob": there["_blob"]}), None) is None:
            blobs.remove(there["_blob"])
        wanted = file["bytes"]
        if wanted is not None and wanted != len(data):
            return done, f"file {file['id']} had {wanted} bytes, and has {len(data)} here"
        return done, ""

    def put_store_file(
        self,
        store: str,
        file: str,
        chunking: Mapping[str, Any] | None,
        attributes: Mapping[str, Any],
        created_at: int,
    ) -> What:
        """Have a file of a vector store made searchable. Raises `ValidationError` if one of them
        is not there."""
        if not self.has("vector store", store):
            raise ValidationError(f"the vector store {store} is not here: import it as well")
        if not self.has("file", file):
            raise ValidationError(f"the file {file} is not here: import it as well, with its bytes")
        shelf = shelf_of(self._host, self._user, store)
        is_there = shelf.find(file) is not None
        if is_there and not self._replaces:
            return "left alone"
        self._service.store_files.add(self._user, store, file, chunking, attributes)
        shelf.update(file, created_at=created_at)
        return "replaced" if is_there else "imported"

    def put_messages(self, thread: str, messages: Sequence[Object]) -> list[What]:
        """Those of a thread, oldest first; those that are new to it stand where their times
        say. Raises `ValidationError` while a run is at it."""
        found = self.shelf("thread").get(thread)
        if RunStates(self._host).active(self._user, found) is not None:
            raise ValidationError(f"a run is at the thread {thread}: wait until it has ended")
        shelf = self.shelf("message", thread)
        there = {each["id"]: each for each in shelf.all()}
        new = [each for each in messages if each["id"] not in there]
        if new:
            _place(shelf, list(there.values()), new)
        done: list[What] = []
        for each in messages:
            if each["id"] not in there:
                done.append("imported")
            elif self._replaces:
                shelf.put(each)
                done.append("replaced")
            else:
                done.append("left alone")
        return done

    def _put(self, shelf: Shelf, value: Object) -> What:
        is_there = shelf.find(value["id"]) is not None
        if is_there and not self._replaces:
            return "left alone"
        shelf.put(value)
        return "replaced" if is_there else "imported"


def _place(shelf: Shelf, there: Sequence[Object], new: Sequence[Object]) -> None:
    """Add messages; those that are later, and there, are put behind them again, as a thread
    is in the order in which its messages were made."""
    first = new[0]["created_at"]
    at = next((at for at, each in enumerate(there) if each["created_at"] > first), len(there))
    later = there[at:]
    moved = {each["id"] for each in later}
    for each in sorted([*later, *new], key=lambda each: int(each["created_at"])):
        if each["id"] in moved:
            shelf.delete(each["id"])
        shelf.put(each)


def _bytes_of(file: Mapping[str, Any], folder: Path, is_only: bool) -> bytes:
    names = [file["id"], file["filename"]] if is_only else [file["id"]]
    for name in names:
        data = _read(folder, name)
        if data is not None:
            return data
    if not is_only and _is_in(folder, file["filename"]):
        raise ValidationError(
            f"several files are called {file['filename']!r:.80}: call the bytes of this one "
            f"{file['id']}"
        )
    raise ValidationError(
        f"its bytes are not beside it: there is neither {file['id']} nor "
        f"{file['filename']!r:.80} in its folder"
    )


def _read(folder: Path, name: str) -> bytes | None:
    """None if it is not there."""
    if not _is_in(folder, name):
        return None
    try:
        with (folder / name).open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValidationError(f"{name!r:.80} cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise ValidationError(f"{name!r:.80} is larger than {MOST_BYTES >> 20} MiB")
    return data


def _is_in(folder: Path, name: str) -> bool:
    """Whether it is a file of the folder itself: a name, or a link, may lead out of it."""
    try:
        path = (folder / name).resolve()
        return path.parent == folder.resolve() and path.is_file()
    except (OSError, ValueError):  # no name that a file can have here
        return False
