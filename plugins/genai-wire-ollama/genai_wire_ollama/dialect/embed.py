"""The dialect for Ollama's embeddings, `/api/embed`.

Source: Ollama's `docs/api.md`, `docs/openapi.yaml` and `api/types.go`, of August 2026.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    Dialect,
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    ProviderReply,
    ProviderRequest,
    Usage,
    count_in,
    list_in,
    must_be_vectors,
    parameter,
    read_vector,
    string_in,
)
from genai_host.errors import GenaiError
from genai_wire_ollama.dialect.form import (
    KEEP_ALIVE,
    OPTIONS,
    TRUNCATE,
    VARIANT,
    add_parameters,
    explain_error,
    read_object,
)

_LOADING = ("num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap")


class OllamaEmbed(Dialect[EmbedCall, Embeddings]):
    """Dialect for `/api/embed`. The variant is that of `form.VARIANT`, and:
    - `query`: prefix of a search query, for models that require one
    - `document`: prefix of a document
    """

    name = "ollama-embed"
    operation = "embed"
    endpoint = DialectEndpoint(path="/api/embed")
    parameters = {
        "dimensions": parameter(
            "integer", "size of the vectors, if the model supports it", minimum=1
        ),
        **{name: OPTIONS[name] for name in _LOADING},
        "keep_alive": KEEP_ALIVE,
        "truncate": TRUNCATE,
    }
    variant = {**VARIANT, "query": "", "document": ""}

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        before = variant[call.purpose] if call.purpose else ""
        body: dict[str, Any] = {
            "model": call.model_id,
            "input": [f"{before}{text}" for text in call.texts],
        }
        add_parameters(body, call, variant)
        return ProviderRequest("embed", self.name, call.model_id, body)

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Embeddings:
        data = read_object(reply.body, "embeddings")
        vectors = [read_vector(each) for each in list_in(data, "embeddings")]
        must_be_vectors(vectors, len(call.texts))
        usage = Usage(input_tokens=count_in(data, "prompt_eval_count"))
        return Embeddings(vectors, string_in(data, "model"), usage)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)
