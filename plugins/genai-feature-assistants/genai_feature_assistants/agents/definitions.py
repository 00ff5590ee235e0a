"""Definitions of agents, and where they are stored.

`to_json` and `from_json` convert definitions and options to JSON and back, as strictly as the
host does: an unknown key raises `ValidationError`.

The successor of the Assistants API, Responses and Conversations, has threads and runs under other
names, but no assistants: each request carries the content of the definition. The client therefore
stores definitions itself, in memory (`MemoryDefinitions`) or in a directory of files
(`FileDefinitions`).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from attrs import field, frozen

from genai_feature_assistants.agents.options import (
    NUMBER_OR_NONE,
    TEXTS,
    OpenAIAssistantExecutionOptions,
    listed,
    one_or_none,
)
from genai_host.api import Codec
from genai_host.api.json_text import read_json
from genai_host.api.validators import BOOLEAN, FILLED, TEXT_BY_NAME, TEXT_OR_NONE
from genai_host.errors import StoreError, ValidationError

T = TypeVar("T")


@cache
def _codec() -> Codec:
    from genai_feature_assistants.agents.content import PARTS
    from genai_host.api.messages import PARTS as USUAL

    return Codec((*USUAL, *PARTS))


def to_json(value: Any) -> Any:
    """A JSON value; what equals its default is left out, and so are keys and sessions."""
    public = getattr(value, "public", None)
    return _codec().to_json(public() if callable(public) else value)


def from_json(data: Any, form: type[T]) -> T:
    """An object of a class from its JSON. Raises `ValidationError`, for an unknown key too."""
    read: T = _codec().from_json(data, form)
    return read


@frozen
class OpenAIAssistantDefinition:
    """An assistant: what one is made of, and what the service says of those it has.

    model_id                    the model that answers
    id                          as the service gives it; None for one that is yet to be made
    name, description           for people
    instructions                for the model
    code_interpreter_file_ids   files for the code interpreter, which they switch on; at most 20
    enable_code_interpreter     whether the model may run code
    enable_file_search          whether the model may search files
    enable_json_response        whether answers are JSON
    metadata                    at most 16 pairs, of 64 and 512 characters; the execution
                                options are one of them
    temperature, top_p          as the model takes them; None for the service's
    vector_store_id             of the files to search, which it switches on
    execution_options           how runs are to go

    Source: document 002; `AssistantObject` of OpenAI's OpenAPI document 2.3.0.
    """

    model_id: str = field(validator=FILLED)
    id: str | None = field(default=None, validator=TEXT_OR_NONE)
    name: str | None = field(default=None, validator=TEXT_OR_NONE)
    description: str | None = field(default=None, validator=TEXT_OR_NONE)
    instructions: str | None = field(default=None, validator=TEXT_OR_NONE)
    code_interpreter_file_ids: tuple[str, ...] = field(
        default=(), converter=listed, validator=TEXTS
    )
    enable_code_interpreter: bool = field(default=False, validator=BOOLEAN)
    enable_file_search: bool = field(default=False, validator=BOOLEAN)
    enable_json_response: bool = field(default=False, validator=BOOLEAN)
    metadata: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    temperature: float | None = field(default=None, validator=NUMBER_OR_NONE)
    top_p: float | None = field(default=None, validator=NUMBER_OR_NONE)
    vector_store_id: str | None = field(default=None, validator=TEXT_OR_NONE)
    execution_options: OpenAIAssistantExecutionOptions | None = field(
        default=None, validator=one_or_none(OpenAIAssistantExecutionOptions)
    )


_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Definitions(Protocol):
    """Definitions by their ids; each call may come from any thread."""

    def save(self, definition: OpenAIAssistantDefinition) -> None:
        """Keep one, which has an id."""

    def get(self, id: str) -> OpenAIAssistantDefinition | None:
        """One of them; None if there is none."""

    def all(self) -> list[OpenAIAssistantDefinition]:
        """All of them, the newest first."""

    def remove(self, id: str) -> None:
        """Forget one, if it is there."""


class MemoryDefinitions:
    """In memory: for as long as the configuration lives that has them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, OpenAIAssistantDefinition] = {}

    def save(self, definition: OpenAIAssistantDefinition) -> None:
        with self._lock:
            self._by_id[definition.id or ""] = definition

    def get(self, id: str) -> OpenAIAssistantDefinition | None:
        with self._lock:
            return self._by_id.get(id)

    def all(self) -> list[OpenAIAssistantDefinition]:
        with self._lock:
            return list(reversed(self._by_id.values()))

    def remove(self, id: str) -> None:
        with self._lock:
            self._by_id.pop(id, None)


class FileDefinitions:
    """In a folder, a file of JSON for each; several programs may share it.

    Raises `StoreError` where the folder cannot be written or read, and `ValidationError` for a
    file that holds no definition.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def save(self, definition: OpenAIAssistantDefinition) -> None:
        file = self._file(definition.id or "")
        if file is None:
            raise ValidationError(f"{definition.id!r} cannot be the name of a file", path="$.id")
        text = json.dumps(to_json(definition), ensure_ascii=False, indent=2)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._folder, suffix=".new", delete=False, encoding="utf-8"
            ) as new:
                new.write(text)
            os.replace(new.name, file)
        except OSError as error:
            raise self._failed(error) from error

    def get(self, id: str) -> OpenAIAssistantDefinition | None:
        file = self._file(id)
        return None if file is None else self._read(file)

    def all(self) -> list[OpenAIAssistantDefinition]:
        found = []
        try:
            for file in self._folder.glob("*.json"):
                with suppress(FileNotFoundError):  # another program has just removed it
                    found.append((file.stat().st_mtime_ns, file))
        except OSError as error:
            raise self._failed(error) from error
        read = [self._read(file) for _, file in sorted(found, reverse=True)]
        return [each for each in read if each is not None]

    def remove(self, id: str) -> None:
        file = self._file(id)
        try:
            if file is not None:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(error) from error

    def _file(self, id: str) -> Path | None:
        return self._folder / f"{id}.json" if _ID.fullmatch(id) else None

    def _read(self, file: Path) -> OpenAIAssistantDefinition | None:
        try:
            data = read_json(file.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error) from error
        except ValueError as error:
            raise ValidationError(f"{file.name} holds no definition: {error}") from error
        return from_json(data, OpenAIAssistantDefinition)

    def _failed(self, error: OSError) -> StoreError:
        why = error.strerror or type(error).__name__
        return StoreError(f"definitions cannot be kept: {why}", file=str(self._folder))
