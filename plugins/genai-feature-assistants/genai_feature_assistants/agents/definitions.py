"""Definitions of agents, where they are stored, and their form in the Assistants API.

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from attrs import field, frozen

from genai_feature_assistants.agents.content import PARTS, Wire
from genai_feature_assistants.agents.errors import BrokenDefinition
from genai_feature_assistants.agents.options import (
    NUMBER_OR_NONE,
    TEXTS,
    OpenAIAssistantExecutionOptions,
    checked_files,
    checked_metadata,
    listed,
    one_or_none,
)
from genai_host.api import (
    BOOLEAN,
    FILLED,
    PARTS as DEFAULTS,
    TEXT_BY_NAME,
    TEXT_OR_NONE,
    Codec,
    list_in,
    malformed,
    object_in,
    read_json,
    string_in,
    write_json,
)
from genai_host.errors import GenaiError, StoreError, ValidationError

T = TypeVar("T")


@cache
def _codec() -> Codec:
    return Codec((*DEFAULTS, *PARTS))


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


RUN_OPTIONS = "__run_options"
"""Key of the execution options, as JSON, in the metadata of an assistant."""


def assistant_request(definition: OpenAIAssistantDefinition) -> Wire:
    """Return the body that makes an assistant. Raises `ValidationError`: the definition exceeds a
    limit."""
    metadata = dict(definition.metadata)
    if RUN_OPTIONS in metadata:
        raise ValidationError(
            f"{RUN_OPTIONS} is reserved for the execution options",
            path=f"$.metadata.{RUN_OPTIONS}",
        )
    if definition.execution_options is not None:
        metadata[RUN_OPTIONS] = write_json(to_json(definition.execution_options)).decode()
    files = checked_files(definition.code_interpreter_file_ids, "the definition")
    body: Wire = {
        "model": definition.model_id,
        "tools": built_in_tools(
            definition.enable_code_interpreter or bool(files),
            definition.enable_file_search or bool(definition.vector_store_id),
        ),
        "metadata": checked_metadata(metadata, "the definition"),
        **given(
            name=definition.name,
            description=definition.description,
            instructions=definition.instructions,
            temperature=definition.temperature,
            top_p=definition.top_p,
            tool_resources=tool_resources(files, definition.vector_store_id),
        ),
    }
    if definition.enable_json_response:
        body["response_format"] = {"type": "json_object"}
    return body


def read_definition(data: Mapping[str, Any]) -> OpenAIAssistantDefinition:
    """Return the definition of an assistant of the service. Raises `BrokenDefinition`: the
    assistant cannot be read."""
    id = data.get("id") if isinstance(data.get("id"), str) else ""
    try:
        return _read_definition(data)
    except (GenaiError, TypeError, ValueError) as error:
        raise BrokenDefinition(
            f"cannot read the assistant {id or 'without an id'}: {error}",
            assistant_id=str(id),
            path=getattr(error, "path", ""),
        ) from error


def _read_definition(data: Mapping[str, Any]) -> OpenAIAssistantDefinition:
    if not string_in(data, "id"):
        raise malformed("it has no id")
    metadata = dict(object_in(data, "metadata"))
    kept = metadata.pop(RUN_OPTIONS, None)
    tools = {each.get("type") for each in list_in(data, "tools") if isinstance(each, Mapping)}
    format = data.get("response_format")
    files, store = read_resources(data)
    return OpenAIAssistantDefinition(
        model_id=string_in(data, "model"),
        id=string_in(data, "id"),
        name=data.get("name"),
        description=data.get("description"),
        instructions=data.get("instructions"),
        code_interpreter_file_ids=files,
        enable_code_interpreter="code_interpreter" in tools,
        enable_file_search="file_search" in tools,
        enable_json_response=isinstance(format, Mapping) and format.get("type") == "json_object",
        metadata=metadata,
        temperature=data.get("temperature"),
        top_p=data.get("top_p"),
        vector_store_id=store,
        execution_options=None if kept is None else _read_options(kept),
    )


def _read_options(kept: Any) -> OpenAIAssistantExecutionOptions:
    if not isinstance(kept, str):
        raise ValidationError(f"{RUN_OPTIONS} must be a string", path=f"$.metadata.{RUN_OPTIONS}")
    try:
        return from_json(read_json(kept), OpenAIAssistantExecutionOptions)
    except (ValueError, ValidationError) as error:
        raise ValidationError(
            f"{RUN_OPTIONS}: {error}", path=f"$.metadata.{RUN_OPTIONS}"
        ) from error


def built_in_tools(code_interpreter: bool | None, file_search: bool | None) -> list[Wire]:
    enabled = {"code_interpreter": code_interpreter, "file_search": file_search}
    return [{"type": name} for name, is_enabled in enabled.items() if is_enabled]


def tool_resources(files: Sequence[str], store: str | None) -> Wire | None:
    resources: Wire = {}
    if files:
        resources["code_interpreter"] = {"file_ids": list(files)}
    if store:
        resources["file_search"] = {"vector_store_ids": [store]}
    return resources or None


def read_resources(data: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """The files of the code interpreter, and the first of the vector stores: a thread or an
    assistant has at most one."""
    resources = object_in(data, "tool_resources")
    files = list_in(object_in(resources, "code_interpreter"), "file_ids")
    stores = list_in(object_in(resources, "file_search"), "vector_store_ids")
    return files, stores[0] if stores else None


def given(**fields: Any) -> Wire:
    return {name: value for name, value in fields.items() if value is not None}
