"""Google's services, as simulated for the tests of their providers: whole and streamed replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from genai_host_testing.fake_service import Reply, json_reply, sse_reply

KEY = "AIza-canary-7d40"
SIGNATURE = "c2lnbmVk"
CALL = {"id": "fc_1", "name": "look", "args": {"at": "é"}}
USAGE = {
    "promptTokenCount": 9,
    "candidatesTokenCount": 2,
    "thoughtsTokenCount": 2,
    "cachedContentTokenCount": 3,
    "totalTokenCount": 13,
}


def response(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a response, or an event of a streamed one."""
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-x", **more}


def gemini(text: str = "", *, call: bool = False, streamed: bool = False) -> Reply:
    """Return an answer; a part that requests a tool is signed."""
    parts: list[Any] = (
        [{"text": letter} for letter in text] if streamed else [{"text": text}] * bool(text)
    )
    if call:
        parts += [{"functionCall": CALL, "thoughtSignature": SIGNATURE}]
    end: dict[str, Any] = {"finish": "STOP", "usageMetadata": USAGE}
    if not streamed:
        return json_reply(response(*parts, **end))
    events = [response(part) for part in parts] + [response({"text": ""}, **end)]
    return sse_reply([written(event) for event in events])


def embeddings(*vectors: Sequence[float]) -> Reply:
    data = [{"values": list(each)} for each in vectors]
    return json_reply({"embeddings": data, "usageMetadata": {"promptTokenCount": 5}})


def failure(code: int, status: str = "", *details: Any, message: str = "no") -> Reply:
    return json_reply(problem(code, status, *details, message=message), code)


def problem(code: int, status: str = "", *details: Any, message: str = "no") -> dict[str, Any]:
    """Return the body of an error."""
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return {"error": error}


def reason(word: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": word,
        "domain": "googleapis.com",
    }


def wait(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def written(event: Any) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode()


OVERFLOW = written(
    {
        "error": {
            "code": 400,
            "message": "The input token count exceeds the maximum number of tokens allowed 8.",
            "status": "INVALID_ARGUMENT",
        }
    }
)


class SpeaksGemini:
    """Replies for a suite; precedes `HttpProviderSuite` among its bases."""

    dialect = "gemini"
    model_id = "gemini-x"
    overflow: bytes | None = OVERFLOW
    filtered: bytes | None = written(response(finish="SAFETY"))
    late_error: bytes | None = written(
        {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    )

    def body(self, text: str) -> bytes:
        return written(response({"text": text}, finish="STOP"))

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        events = [response({"text": piece}) for piece in pieces]
        return [written(event) for event in (*events, response({"text": ""}, finish="STOP"))]
