"""All of an import: exported files → their objects → the host's store.

import_files → sources_in → _Import.take, each object checked → _Import.keep, in an order
in which what one needs is there → await_searchable
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from genai_feature_assistants.imports import forms
from genai_feature_assistants.imports.checks import (
    await_searchable,
    why_model_cannot,
    why_tools_cannot,
)
from genai_feature_assistants.imports.forms import files_of, message_of
from genai_feature_assistants.imports.keeping import Keeping, Outcome, Report, What
from genai_feature_assistants.imports.reading import Source, objects_in, sources_in
from genai_host.api.http_routes import JsonReader
from genai_host.errors import ValidationError

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
    from genai_host.host import Host

_KINDS = (
    "file",
    "vector_store",
    "vector_store.file",
    "assistant",
    "thread",
    "thread.message",
)
"""What is imported, each after what it needs."""

_KIND = re.compile(r"[a-z_.]{1,40}")
_TOLD = 80  # characters that are told of an id that is none


def import_files(
    host: Host,
    paths: Iterable[str | Path],
    *,
    user: str = "",
    models: Mapping[str, str] | None = None,
    replace: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Report:
    """Import what was exported: objects of the API in JSON files, in any order, and the bytes
    of files beside these.

    host      it has a store
    user      whose they are to be, as the server knows them; empty for whoever runs it
    models    what takes the place of models, by their names there
    replace   whether what is there already is replaced, and not left alone
    tell      how far it is, in words

    What cannot be imported is in the report, and the rest is imported. It may be interrupted
    at any time, and done again. Raises `ConfigurationError` if the host keeps nothing,
    `StoreError` if its store cannot be written.
    """
    from genai_feature_assistants.service.service import Service

    service = Service(host)
    try:
        importing = _Import(host, service, user, models or {}, replace, tell)
        for path in paths:
            for source in sources_in(Path(path)):
                importing.take(source)
        return importing.keep()
    finally:
        service.close()


@frozen
class _Read:
    """An object that was checked.

    value   as the service keeps it; of a file in a vector store, what `put_store_file` takes
    """

    value: dict[str, Any]
    source: Source


class _Import:
    def __init__(
        self,
        host: Host,
        service: Service,
        user: str,
        models: Mapping[str, str],
        replace: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._host = host
        self._service = service
        self._user = user
        self._models = models
        self._tell = tell
        self._keeping = Keeping(host, service, user, replaces=replace)
        self._report = Report()
        self._read: dict[str, list[_Read]] = {kind: [] for kind in _KINDS}
        self._now = self._keeping.shelf("file").now()
        self._named: dict[str, set[str]] = {}  # names of files to the ids of those called so
        self._done = 0

    def take(self, source: Source) -> None:
        """Check an object; one that is wrong is reported."""
        if source.wrong:
            self._failed("", "", source.wrong, source)
            return
        kind, id = source.value.get("object"), source.value.get("id")
        kind = kind if isinstance(kind, str) and _KIND.fullmatch(kind) else ""
        id = id[:_TOLD] if isinstance(id, str) else ""
        try:
            if kind not in _KINDS:
                raise ValidationError(
                    f"objects of this kind are not imported: {', '.join(_KINDS)} are"
                    if kind
                    else "it does not say what it is: object is missing"
                )
            self._take(kind, source)
        except ValidationError as error:
            self._failed(kind, id, str(error), source)

    def _take(self, kind: str, source: Source) -> None:
        given, now = JsonReader(source.value, "$"), self._now
        if kind == "assistant":
            value = forms.assistant_of(given, now, self._models)
        elif kind == "thread":
            value = forms.thread_of(given, now)
        elif kind == "thread.message":
            value = message_of(given, now)
        elif kind == "file":
            value = forms.file_of(given, now)
            self._named.setdefault(value["filename"], set()).add(value["id"])
        elif kind == "vector_store.file":
            value = forms.store_file_of(given, now)
        else:
            value, files = forms.store_of(given, now)
            for file in files:
                usual = {"chunking": None, "attributes": {}, "created_at": value["created_at"]}
                entry = {"store": value["id"], "file": file, **usual}
                self._read["vector_store.file"].append(_Read(entry, source))
        self._read[kind].append(_Read(value, source))
        if kind == "thread" and source.value.get("messages") is not None:
            self._take_messages(value["id"], source)

    def _take_messages(self, thread: str, source: Source) -> None:
        """Those that a thread was exported with."""
        at = f"{source.at}.messages"
        for each in objects_in(source.value["messages"], at, source.folder):
            usual = {"object": "thread.message", "thread_id": thread}
            self.take(each if each.wrong else evolve(each, value={**usual, **each.value}))

    def keep(self) -> Report:
        """All that was taken."""
        for kind in ("file", "vector_store", "vector_store.file", "assistant", "thread"):
            keep = getattr(self, f"_keep_{kind.replace('.', '_')}")
            for read in sorted(self._read[kind], key=lambda read: int(read.value["created_at"])):
                self._keep(kind, read, keep)
        self._keep_messages()
        stores = {read.value["id"] for read in self._read["vector_store"]}
        stores |= {read.value["store"] for read in self._read["vector_store.file"]}
        there = sorted(store for store in stores if self._keeping.has("vector store", store))
        unsearchable = await_searchable(self._host, self._service, self._user, there, self._tell)
        for why in unsearchable:
            self._report.warn(f"{why}; import it again with --replace, once that is mended")
        return self._report

    def _keep(self, kind: str, read: _Read, keep: Callable[[_Read], What]) -> None:
        id = read.value.get("id") or read.value["file"]
        try:
            self._report.outcomes.append(Outcome(kind, id, keep(read), at=read.source.at))
        except ValidationError as error:
            self._failed(kind, id, str(error), read.source)
        self._count()

    def _keep_file(self, read: _Read) -> What:
        file = read.value
        is_only = len(self._named[file["filename"]]) == 1
        done, warning = self._keeping.put_file(file, read.source.folder, is_only)
        if warning:
            self._report.warn(warning)
        return done

    def _keep_vector_store(self, read: _Read) -> What:
        return self._keeping.put("vector store", read.value)

    def _keep_vector_store_file(self, read: _Read) -> What:
        return self._keeping.put_store_file(**read.value)

    def _keep_assistant(self, read: _Read) -> What:
        done = self._keeping.put("assistant", read.value)
        self._warn_of_needs("assistant", read.value)
        there = self._keeping.shelf("assistant").get(read.value["id"])
        for why in (
            *why_model_cannot(self._host, there["model"]),
            *why_tools_cannot(self._host, there),
        ):
            self._report.warn(why)
        return done

    def _keep_thread(self, read: _Read) -> What:
        done = self._keeping.put_thread(read.value)
        self._warn_of_needs("thread", read.value)
        return done

    def _warn_of_needs(self, kind: str, value: Mapping[str, Any]) -> None:
        for needed, id in forms.needed_by(value):
            if not self._keeping.has(needed, id):
                self._report.warn(
                    f"{kind} {value['id']}: its {needed} {id} is not here: import it as well"
                )

    def _keep_messages(self) -> None:
        threads: dict[str, list[_Read]] = {}
        for read in self._read["thread.message"]:
            threads.setdefault(read.value["thread_id"], []).append(read)
        for thread, reads in threads.items():
            reads = _oldest_first(reads)
            self._make_thread(thread, reads[0])
            latest = {read.value["id"]: read for read in reads}
            try:
                done = self._keeping.put_messages(thread, [read.value for read in latest.values()])
            except ValidationError as error:
                for read in latest.values():
                    self._failed("thread.message", read.value["id"], str(error), read.source)
                continue
            for read, what in zip(latest.values(), done, strict=True):
                outcome = Outcome("thread.message", read.value["id"], what, at=read.source.at)
                self._report.outcomes.append(outcome)
                self._warn_of_files(read.value)
                self._count()

    def _make_thread(self, thread: str, first: _Read) -> None:
        """For messages whose thread was not exported."""
        if self._keeping.has("thread", thread):
            return
        about = {"id": thread, "created_at": first.value["created_at"]}
        made = forms.thread_of(JsonReader(about, "$"), self._now)
        self._report.outcomes.append(
            Outcome("thread", thread, self._keeping.put_thread(made), at=first.source.at)
        )
        self._report.warn(f"thread {thread} was not exported: it was made from its messages")

    def _warn_of_files(self, message: dict[str, Any]) -> None:
        for file in files_of(message):
            if not self._keeping.has("file", file):
                self._report.warn(f"the file {file} is not here, and messages have it")

    def _failed(self, kind: str, id: str, why: str, source: Source) -> None:
        self._report.outcomes.append(Outcome(kind, id, "failed", why, source.at))

    def _count(self) -> None:
        self._done += 1
        whole = sum(map(len, self._read.values()))
        self._tell(f"{self._done} of {whole} objects")


def _oldest_first(reads: Sequence[_Read]) -> list[_Read]:
    """By their times, which are whole seconds: among those of one second the order of the
    export tells, which has the newest first where it is a page, unless times say otherwise."""
    times = [read.value["created_at"] for read in reads]
    pairs = list(itertools.pairwise(times))
    rises = any(one < other for one, other in pairs)
    falls = any(one > other for one, other in pairs)
    is_newest_first = falls or all(read.source.in_a_page for read in reads)
    if is_newest_first and not rises:
        reads = reads[::-1]
    return sorted(reads, key=lambda read: int(read.value["created_at"]))
