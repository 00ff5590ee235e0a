"""What only the dialect that made it can read, on its way through a client's hands.

It goes into requests to a service as it is, so that a client must not make it up: it is
signed, for one user, by a key that all servers of a store have. It opens nothing else. Without
a store, the key is of this process alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from typing import Any

from genai_host.api.json_text import read_json, write_json
from genai_host.errors import Conflict, StoreError
from genai_host.host import Host
from genai_host.once import once
from genai_host.recording import warn_unrecorded

_COLLECTION = "response_seals"
_SIZE = hashlib.sha256().digest_size


class Seals:
    """Of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.RLock()

    @once
    def _key(self) -> bytes:
        """Made by the first who needs it."""
        key = secrets.token_bytes(_SIZE)
        if self._host.store is None:
            return key
        documents = self._host.kept("").documents(_COLLECTION)
        try:
            documents.put(_COLLECTION, {"key": key.hex()}, expect=0)
        except Conflict:
            return bytes.fromhex(documents.get(_COLLECTION).value["key"])
        except StoreError as error:
            warn_unrecorded(error)
        return key

    def seal(self, value: Any, user: str) -> str:
        data = write_json(value)
        return base64.urlsafe_b64encode(self._mark(data, user) + data).decode()

    def unseal(self, text: str, user: str) -> Any:
        """None for what was not sealed here for that user."""
        try:
            whole = base64.urlsafe_b64decode(text)
        except (binascii.Error, ValueError):
            return None
        mark, data = whole[:_SIZE], whole[_SIZE:]
        if not hmac.compare_digest(mark, self._mark(data, user)):
            return None
        return read_json(data)

    def _mark(self, data: bytes, user: str) -> bytes:
        whose = hashlib.sha256(user.encode(errors="surrogatepass")).digest()
        return hmac.digest(self._key, whose + data, "sha256")
