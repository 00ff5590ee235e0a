"""The file of secrets, for where there is no keyring: JSON that its owner alone can read.

    {"version": 1, "keys": {"my-service": {"api_key": "...", "token": {"in": "keyring"}}}}

It also says which secrets are in the keyring, which can list nothing and is slow to ask.
Nothing that stands in it is in an error, nor in what caused one.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from typing import Any, Final

from genai_host.errors import ConfigurationError
from genai_host.files import alone, read_text, write_text, writing

IN_KEYRING: Final = {"in": "keyring"}
_VERSION = 1
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

Kept = dict[str, dict[str, Any]]
"""By instance and setting: the secret, or `IN_KEYRING`."""


class KeyFile:
    """Raises `ConfigurationError` where the file is damaged, is of a newer version, or can
    be read by others; it is not changed then."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> Kept:
        text = read_text(self.path)
        if text is None:
            return {}
        self._must_be_private()
        return self._parsed(text)

    @contextlib.contextmanager
    def edit(self) -> Iterator[Kept]:
        """What it holds, to be changed: one process at a time, whole or not at all."""
        path = os.path.realpath(self.path)  # a link to it stays one
        with alone(path):
            kept = self.read()
            yield kept
            filled = {name: settings for name, settings in kept.items() if settings}
            text = json.dumps({"version": _VERSION, "keys": filled}, indent=2)
            with writing(path):
                write_text(path, f"{text}\n")

    def _must_be_private(self) -> None:
        """As OpenSSH has it: a key that others could read is used by nobody."""
        if os.name != "nt" and os.stat(self.path).st_mode & _OTHERS:
            raise ConfigurationError(
                f"{self.path} holds keys, and others can read it",
                file=self.path,
                hint=f"chmod 600 {self.path}",
            )

    def _parsed(self, text: str) -> Kept:
        try:
            data = json.loads(text)
            version, kept = data["version"], data["keys"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise self._damaged() from None  # what was raised quotes the file
        if type(version) is int and version > _VERSION:
            raise ConfigurationError(
                f"{self.path} was written by a newer genai-host",
                file=self.path,
                hint="pip install --upgrade genai-host",
            )
        if version != _VERSION or not _is_kept(kept):
            raise self._damaged()
        return dict(kept)

    def _damaged(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path} is damaged; it was not changed",
            file=self.path,
            hint="correct it, or move it away and set the keys again",
        )


def _is_kept(kept: Any) -> bool:
    return isinstance(kept, dict) and all(
        isinstance(settings, dict)
        and all(isinstance(each, str) or each == IN_KEYRING for each in settings.values())
        for settings in kept.values()
    )
