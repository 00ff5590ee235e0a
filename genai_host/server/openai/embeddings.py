"""`/v1/embeddings`.

Source: OpenAI API reference, "Create embeddings".
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Sequence
from typing import Any

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.api.given import Given, body_of
from genai_host.errors import InvalidData
from genai_host.host import Host

_MOST = 2048  # texts in one request
_IS_BIG_ENDIAN = array("H", [1]).tobytes() == b"\x00\x01"


def embed(request: RouteRequest, host: Host) -> RouteReply:
    """One vector for each text."""
    body = body_of(request)
    model = body.text("model")
    if not model:
        raise InvalidData("there is no model", path="$.model")
    texts = _texts(body)
    form = body.choice("encoding_format", ("float", "base64"), "float")
    size = body.whole("dimensions")
    body.text("user")
    body.nothing_else()
    vectors = host.embed(
        texts,
        model=model,
        parameters={} if size is None else {"dimensions": size},
        limits=request.limits,
        owner=request.user,
    )
    write = _as_base64 if form == "base64" else list
    return json_reply(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": number, "embedding": write(vector)}
                for number, vector in enumerate(vectors.vectors)
            ],
            "model": model,
            "usage": {
                "prompt_tokens": vectors.usage.input,
                "total_tokens": vectors.usage.total,
            },
        }
    )


def _texts(body: Given) -> Sequence[str]:
    given = body.raw("input")
    texts = [given] if isinstance(given, str) else body.values("input")
    if not 0 < len(texts) <= _MOST:
        raise InvalidData(f"there are 1 to {_MOST} texts", path=body.at("input"))
    for text in texts:
        if not isinstance(text, str):
            raise InvalidData("texts are taken here, and not tokens", path=body.at("input"))
        if not text:
            raise InvalidData("a text is empty", path=body.at("input"))
    return texts


def _as_base64(vector: Sequence[float]) -> Any:
    """Numbers of 32 bits, the least significant byte first."""
    numbers = array("f", vector)
    if _IS_BIG_ENDIAN:
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
