"""What a user chose last: it is kept where `defaults.remember` asks for that, apart from
the configuration, which only says what it was told to."""

from __future__ import annotations

import json
import logging
import os
from typing import NamedTuple

from genai_host import paths
from genai_host.errors import ConfigurationError
from genai_host.files import read_text, write_text

_log = logging.getLogger(__name__)


class Chosen(NamedTuple):
    """Names, as the user said them; None for what was not said."""

    feature: str | None = None
    model: str | None = None
    provider: str | None = None

    def over(self, last: Chosen) -> Chosen:
        """This, filled up with what was chosen before. A model and its provider belong
        together."""
        feature = self.feature or last.feature
        if self.model or self.provider:
            return self._replace(feature=feature)
        return last._replace(feature=feature)


class LastUsed:
    """Reads and writes it. What cannot be read or written is as if nothing was chosen:
    no answer depends on it.

    file   None for the usual one
    """

    def __init__(self, file: str | None = None) -> None:
        self._file = file or os.path.join(paths.state_dir(), "last-used.json")

    def read(self) -> Chosen:
        try:
            data = json.loads(read_text(self._file) or "{}")
            names = [data.get(name) or None for name in Chosen._fields]
            if all(name is None or isinstance(name, str) for name in names):
                return Chosen(*names)
        except (ConfigurationError, ValueError, AttributeError, RecursionError) as error:
            _log.info("what was used last cannot be read: %s", error)
        return Chosen()

    def write(self, chosen: Chosen) -> None:
        try:
            os.makedirs(os.path.dirname(self._file), mode=0o700, exist_ok=True)
            write_text(self._file, json.dumps(chosen._asdict()))
        except OSError as error:
            _log.info("what was used last cannot be kept: %s", error)
