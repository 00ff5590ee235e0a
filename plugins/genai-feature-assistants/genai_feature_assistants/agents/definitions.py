"""Where assistants are kept for a service that has no place for them.

The successor of the Assistants API, Responses and Conversations, knows threads and runs by
other names, but has no assistants: what one is made of is sent with each request. So whoever
asks keeps it, in memory or in a folder of files.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from genai_feature_assistants.agents.definition import OpenAIAssistantDefinition
from genai_feature_assistants.agents.json_form import from_json, to_json
from genai_host.api.json_text import read_json
from genai_host.errors import StoreError, ValidationError

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
