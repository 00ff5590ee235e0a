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
from genai_host.api import BOOLEAN, FILLED, TEXT_BY_NAME, TEXT_OR_NONE, Codec, read_json
from genai_host.errors import StoreError, ValidationError

T = TypeVar("T")


@cache
def _codec() -> Codec:
    from genai_feature_assistants.agents.content import PARTS
    from genai_host.api import PARTS as USUAL

    return Codec((*USUAL, *PARTS))


def to_json(value: Any) -> Any:
    """Return a value as JSON, without defaults, keys and sessions."""
    public = getattr(value, "public", None)
    return _codec().to_json(public() if callable(public) else value)


def from_json(data: Any, form: type[T]) -> T:
    """Return an object of a class from its JSON.

    Raises:
        ValidationError: The JSON is invalid, or has an unknown key.
    """
    read: T = _codec().from_json(data, form)
    return read


@frozen
class OpenAIAssistantDefinition:
    """The definition of an assistant.

    Attributes:
        model_id: The model that answers.
        id: Id that the service gave; None before the assistant is made.
        name: Name, for people.
        description: Description, for people.
        instructions: System prompt.
        code_interpreter_file_ids: Files for the code interpreter, at most 20. They enable it.
        enable_code_interpreter: Whether the model may run code.
        enable_file_search: Whether the model may search files.
        enable_json_response: Whether answers are JSON.
        metadata: At most 16 pairs, of 64 and 512 characters. The execution options are one pair.
        temperature: Sampling temperature, as the model takes it. None for that of the service.
        top_p: Nucleus sampling, as the model takes it. None for that of the service.
        vector_store_id: Vector store to search. It enables the file search.
        execution_options: Options of runs.

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
    """Stores definitions by their ids. Thread-safe."""

    def save(self, definition: OpenAIAssistantDefinition) -> None:
        """Store a definition, which has an id."""

    def get(self, id: str) -> OpenAIAssistantDefinition | None:
        """Return a definition; None if there is none of this id."""

    def all(self) -> list[OpenAIAssistantDefinition]:
        """Return all definitions, newest first."""

    def remove(self, id: str) -> None:
        """Delete a definition, if it exists."""


class MemoryDefinitions:
    """Stores definitions in memory, as long as the configuration exists."""

    def __init__(self) -> None:
        self._by_id: dict[str, OpenAIAssistantDefinition] = {}

    def save(self, definition: OpenAIAssistantDefinition) -> None:
        self._by_id[definition.id or ""] = definition

    def get(self, id: str) -> OpenAIAssistantDefinition | None:
        return self._by_id.get(id)

    def all(self) -> list[OpenAIAssistantDefinition]:
        return list(self._by_id.values())[::-1]

    def remove(self, id: str) -> None:
        self._by_id.pop(id, None)


class FileDefinitions:
    """Stores each definition in a JSON file of a directory that programs may share.

    Raises:
        StoreError: The directory cannot be read or written.
        ValidationError: A file is not a definition.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def save(self, definition: OpenAIAssistantDefinition) -> None:
        file = self._file(definition.id or "")
        if file is None:
            raise ValidationError(f"{definition.id!r} cannot be used as a file name", path="$.id")
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
            raise ValidationError(f"{file.name} contains no valid definition: {error}") from error
        return from_json(data, OpenAIAssistantDefinition)

    def _failed(self, error: OSError) -> StoreError:
        why = error.strerror or type(error).__name__
        return StoreError(f"cannot save definitions: {why}", file=str(self._folder))
