"""Handler of transcriptions, whose requests are forms with a recording.

Source: OpenAI API reference, "Create transcription".
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host import Host
from genai_host.api import EXTRA_BODY, File, RouteRequest, RouteResponse, json_response
from genai_host.errors import ValidationError
from genai_host.serving import capabilities
from genai_wire_openai.dialect.operations import TEXT_FORMATS
from genai_wire_openai.server.files import read_upload

_KINDS = {"vtt": "text/vtt; charset=utf-8"}
_PLAIN = "text/plain; charset=utf-8"


def transcribe(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer with the text of a recording, in the format of `response_format`."""
    upload = read_upload(request)
    fields = {name: values for name, values in upload.lists.items() if values != [""]}
    named = fields.pop("model", [""])[-1]
    model = request.parameters.get("model", named)
    if not model:
        raise ValidationError("model is missing", path="$.model")
    if not upload.data:
        raise ValidationError("the file is empty", path="$.file")
    if fields.pop("stream", ["false"])[-1].lower() not in ("false", "0"):
        raise ValidationError("transcriptions are not streamed here", path="$.stream")
    parameters = _parameters(fields, capabilities(host, model, "transcribe").parameters)
    found = host.transcribe(
        File(upload.data, mimetypes.guess_type(upload.name)[0] or "", upload.name),
        model=model,
        parameters=parameters,
        limits=request.limits,
        owner=request.user,
    )
    form = parameters.get("response_format", "json")
    if form in TEXT_FORMATS:
        headers = {"content-type": _KINDS.get(form, _PLAIN)}
        return RouteResponse(found.text.encode(), headers=headers)
    return json_response(found.extra or {"text": found.text})


def _parameters(fields: Mapping[str, Sequence[str]], known: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the model, and other fields if its service has further ones."""
    found: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for field, values in fields.items():
        name = field.removesuffix("[]")
        is_list = name != field or known.get(name, {}).get("type") == "array"
        value: Any = list(values) if is_list else values[-1]
        if name not in known:
            if EXTRA_BODY not in known:
                raise ValidationError(f"{name} is not supported here", path=f"$.{name:.40}")
            others[name] = value
        elif known[name].get("type") == "number":
            found[name] = _number(name, value)
        else:
            found[name] = value
    return {**found, EXTRA_BODY: others} if others else found


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValidationError("must be a number", path=f"$.{name}") from error
