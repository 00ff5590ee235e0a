"""Token counts of conversations for Gemini.

Source: Gemini API reference, "Counting tokens"; Vertex AI, "CountTokens"; as of November
2026.
"""

from __future__ import annotations

from attrs import evolve

from genai_host.api import ChatCall, CountDialect, DialectEndpoint, EncodedJson, ProviderRequest
from genai_vendor_gemini.generate_content import GenerateContent


class GeminiCountTokens(CountDialect):
    """Dialect for `countTokens`. Variant:
    - `wrapped`: whether the request contains a whole request for an answer, as in the Gemini API,
      or its fields, as in Vertex AI
    """

    name = "gemini-count"
    of = GenerateContent
    endpoint = DialectEndpoint(path="/models/{model}:countTokens")
    variant = {**GenerateContent.variant, "wrapped": True}
    fields = frozenset({"contents", "generationConfig", "systemInstruction", "tools"})
    tokens = "totalTokens"

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        request = super().prepare_request(call)
        if not {**self.variant, **call.variant}["wrapped"]:
            return request
        model = {"model": f"models/{call.model_id}"}
        whole = evolve(request, body={**model, **request.body})
        return evolve(request, body={"generateContentRequest": EncodedJson(whole.data())})
