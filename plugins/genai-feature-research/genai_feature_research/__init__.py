"""The feature `research`, an assistant that searches, reads pages and answers from the results; and
the Assistant microservice, for callers that store the state themselves.

Source: Assistant microservice, "Inputs", `settings` and `archetype`; for the regions, by country
and language, https://duckduckgo.com/params, "Region".
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import Attribute, frozen, validators as must

from genai_host.api import (
    Feature,
    FeatureSteps,
    HttpRoute,
    Operation,
    ReactionType,
    Turn,
    hookimpl,
    setting,
)
from genai_host.errors import ValidationError

__all__ = ["Settings", "respond"]

NOWHERE = "wt-wt"

REGIONS: Mapping[str, str] = {
    "xa-ar": "Arabia",
    "xa-en": "Arabia, in English",
    "ar-es": "Argentina",
    "au-en": "Australia",
    "at-de": "Austria",
    "be-fr": "Belgium, in French",
    "be-nl": "Belgium, in Dutch",
    "br-pt": "Brazil",
    "bg-bg": "Bulgaria",
    "ca-en": "Canada",
    "ca-fr": "Canada, in French",
    "ct-ca": "Catalonia",
    "cl-es": "Chile",
    "cn-zh": "China",
    "co-es": "Colombia",
    "hr-hr": "Croatia",
    "cz-cs": "the Czech Republic",
    "dk-da": "Denmark",
    "ee-et": "Estonia",
    "fi-fi": "Finland",
    "fr-fr": "France",
    "de-de": "Germany",
    "gr-el": "Greece",
    "hk-tzh": "Hong Kong",
    "hu-hu": "Hungary",
    "in-en": "India",
    "id-id": "Indonesia",
    "id-en": "Indonesia, in English",
    "ie-en": "Ireland",
    "il-he": "Israel",
    "it-it": "Italy",
    "jp-jp": "Japan",
    "kr-kr": "Korea",
    "lv-lv": "Latvia",
    "lt-lt": "Lithuania",
    "xl-es": "Latin America",
    "my-ms": "Malaysia",
    "my-en": "Malaysia, in English",
    "mx-es": "Mexico",
    "nl-nl": "the Netherlands",
    "nz-en": "New Zealand",
    "no-no": "Norway",
    "pe-es": "Peru",
    "ph-en": "the Philippines",
    "ph-tl": "the Philippines, in Tagalog",
    "pl-pl": "Poland",
    "pt-pt": "Portugal",
    "ro-ro": "Romania",
    "ru-ru": "Russia",
    "sg-en": "Singapore",
    "sk-sk": "Slovakia",
    "sl-sl": "Slovenia",
    "za-en": "South Africa",
    "es-es": "Spain",
    "se-sv": "Sweden",
    "ch-de": "Switzerland, in German",
    "ch-fr": "Switzerland, in French",
    "ch-it": "Switzerland, in Italian",
    "tw-tzh": "Taiwan",
    "th-th": "Thailand",
    "tr-tr": "Turkey",
    "ua-uk": "Ukraine",
    "uk-en": "the United Kingdom",
    "us-en": "the United States",
    "ue-es": "the United States, in Spanish",
    "ve-es": "Venezuela",
    "vn-vi": "Vietnam",
    NOWHERE: "",
}
"""Region codes with their names; `wt-wt` means no region."""


def _is_region(settings: Any, attribute: Attribute[Any], value: str) -> None:
    if value not in REGIONS:
        raise ValidationError(f"unknown region {value[:20]!r}; choose from {', '.join(REGIONS)}")


_POSITIVE = must.optional(must.ge(1))
_PENALTY = must.optional((must.ge(-2), must.le(2)))


@frozen
class Settings:
    answer_with_search: bool = setting(True, "search with a query written by the model")
    consult_search_history: bool = setting(True, "use earlier findings as well")
    num_of_excerpts: int = setting(
        5, "maximum number of excerpts sent to the model", validator=must.ge(0)
    )
    additional_searches: tuple[str, ...] = setting((), "additional search queries")
    specify_sources: str = setting(
        "", "links of pages and PDFs to read, separated by a comma and a space"
    )
    region: str = setting(
        NOWHERE,
        "country and language of the search, for example us-en or de-de",
        validator=_is_region,
    )
    max_tokens: int | None = setting(None, "maximum number of output tokens", validator=_POSITIVE)
    temperature: float | None = setting(
        None, "sampling temperature of the model", validator=must.optional(must.ge(0))
    )
    top_p: float | None = setting(
        None, "nucleus sampling of the model", validator=must.optional((must.ge(0), must.le(1)))
    )
    presence_penalty: float | None = setting(
        None, "presence penalty of the model; 0 means not set", validator=_PENALTY
    )
    frequency_penalty: float | None = setting(
        None, "frequency penalty of the model; 0 means not set", validator=_PENALTY
    )
    moderate: bool = setting(False, "moderate the user's message first")
    style_pass: bool = setting(False, "rewrite the answer in the assistant's style")
    include_time: bool = setting(False, "add the date and time to the prompt")
    setting_name: str = setting("Assistant", "name of the assistant")
    mood: str = setting(
        "You are a careful research assistant. You answer briefly and to the point, and "
        "you say so where you do not know.",
        "who the assistant is and how it behaves",
    )
    warn_assistant: str = setting("", "instructions that the assistant must follow")
    search: tuple[str, ...] = setting(
        ("corpus__search", "searxng__search", "ddgs__search"),
        "search tools; the first available one is used",
    )
    reader: str = setting("pages__read", "tool that reads a page")
    results: int = setting(10, "number of results of a search", validator=(must.ge(1), must.le(50)))
    input_characters: int = setting(
        8000, "maximum number of characters of a message", validator=must.ge(1)
    )
    prompt_characters: int = setting(
        100_000, "maximum number of characters of a prompt", validator=must.ge(1)
    )


ROLES: Mapping[str, Operation] = {
    "main": "chat",
    "query": "chat",
    "style": "chat",
    "embed": "embed",
    "moderate": "moderate",
}
"""`main` writes the answer. It also takes the roles `query` and `style` if they have no model."""

_BODY = 256 * 2**20  # bytes: tables with vectors are large


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """See `research.respond`, which is imported on first use."""
    from genai_feature_research import research

    return (yield from research.respond(turn))


_WARNINGS = {
    "type": "object",
    "properties": {"warnings": {"type": "array", "items": {"type": "string"}}},
    "required": ["warnings"],
    "additionalProperties": False,
}
WARNINGS = ReactionType("warnings", _WARNINGS, text_view="genai_feature_research:warnings")


def warnings(reaction: Mapping[str, Any], width: int) -> list[str]:
    """Return the text view of warnings, which are untrusted data."""
    lines: list[str] = []
    for warning in reaction["warnings"]:
        lines += textwrap.wrap(
            f"! {warning}", max(width, 20), subsequent_indent="  ", break_on_hyphens=False
        )
    return lines


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature(
        "research",
        Settings,
        respond,
        roles=ROLES,
        optional_roles=ROLES.keys() - {"main"},
        help="an assistant that searches, reads pages and remembers",
    )


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    yield WARNINGS


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute(
        "POST", "/api/assistant", "genai_feature_research.assistant:answer", max_body_size=_BODY
    )
