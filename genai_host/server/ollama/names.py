"""Names of models: one without a tag is that of `latest`."""

from __future__ import annotations

from genai_host.api.given import Given
from genai_host.errors import InvalidData

_USUAL_TAG = ":latest"


def model_in(body: Given) -> tuple[str, str]:
    """The name as it was sent, and the name of the model. Raises `InvalidData`."""
    sent = body.text("model") or body.text("name")
    name = sent.removesuffix(_USUAL_TAG)
    if not name:
        raise InvalidData("model is required", path=body.at("model"))
    return sent, name
