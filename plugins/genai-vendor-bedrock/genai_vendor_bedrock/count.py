"""Token counts of conversations for Bedrock.

Source: Amazon Bedrock Runtime API reference, "CountTokens", as of November 2026.
"""

from __future__ import annotations

import re

from attrs import evolve

from genai_host.api import ChatCall, CountDialect, DialectEndpoint, EncodedJson, ProviderRequest
from genai_vendor_bedrock.converse import BedrockConverse

_PROFILE = re.compile(r"(global|us-gov|us|eu|apac|jp|au|ca|in)\.(?=[^.]+\.)", re.ASCII)


class BedrockCount(CountDialect):
    """Dialect for `CountTokens`. Counts are per model and do not support inference profiles, so the
    prefix of a profile is removed from the id.
    """

    name = "bedrock-count"
    of = BedrockConverse
    endpoint = DialectEndpoint(path="/model/{model}/count-tokens")
    parameters = {
        name: BedrockConverse.parameters[name] for name in ("additional_fields", "prompt_cache")
    }
    variant = BedrockConverse.variant
    fields = frozenset({"additionalModelRequestFields", "messages", "system", "toolConfig"})
    tokens = "inputTokens"

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        request = super().prepare_request(call)
        asked = EncodedJson(b'{"converse":' + request.data() + b"}")
        return evolve(request, model_id=_PROFILE.sub("", call.model_id), body={"input": asked})
