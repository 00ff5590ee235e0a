"""The resolution of an image, which chat completions and responses have in different fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Image, JsonReader, VendorTool
from genai_wire_openai.annotations import CHAT, RESPONSES

_NAME = "detail"
_USUAL = "auto"
_ONLY_RESPONSES = ("original",)


def detail_extra(detail: str) -> Mapping[str, Any]:
    """The resolution in `extra` of an image, for services of both formats."""
    if detail in ("", _USUAL):
        return {}
    extra: dict[str, Any] = {RESPONSES: {_NAME: detail}}
    if detail not in _ONLY_RESPONSES:
        extra[CHAT] = {"image_url": {_NAME: detail}}
    return extra


def report_detail(given: JsonReader, detail: str) -> None:
    """Report the resolution in an object, unless the service has one of the formats."""
    extra = detail_extra(detail)
    if extra:
        given.drop_elsewhere(_NAME, VendorTool(_NAME, "", extra=extra))


def detail_of(image: Image, dialect: str, usual: str) -> str:
    """The resolution that the client wants, or else the usual one of the service."""
    own = (image.extra or {}).get(dialect, {})
    detail: str = own.get("image_url", own).get(_NAME, usual)
    return detail
