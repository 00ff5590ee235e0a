"""The provider `wordlist`, which checks texts in this process."""

from __future__ import annotations

import json

from genai_host.api import (
    FREE,
    CancelToken,
    DialectEndpoint,
    Provider,
    ProviderReply,
    ProviderRequest,
)
from genai_vendor_wordlist.judge import Judge
from genai_vendor_wordlist.settings import Settings

CATEGORY = "profanity"


class WordListProvider(Provider):
    serves = {"word-list": DialectEndpoint(model_ids="word-list")}
    default_models = {"moderate": "word-list"}

    def __init__(self, settings: Settings) -> None:
        self._judge = Judge(settings)

    def price_provider(self, model_id: str) -> str:
        return FREE

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        flagged = self._judge.flags(json.loads(request.data())["text"], limits)
        categories = {CATEGORY: 1.0 if flagged else 0.0}
        return ProviderReply(json.dumps({"flagged": flagged, "categories": categories}).encode())

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self.send(request, limits)
