"""What only the dialect that made it can read, on its way through a client's hands.

It goes into requests to a service as it is, so that a client must not make it up: it is
signed, for one user, by a key of this process. What another process signed is not known here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Any

from genai_host.api.json_text import read_json, write_json

_SIZE = hashlib.sha256().digest_size


class Seals:
    def __init__(self) -> None:
        self._key = secrets.token_bytes(_SIZE)

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
