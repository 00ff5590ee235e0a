"""Conversion of DuckDuckGo's regions, such as `us-en`, to SearXNG's languages, such as `en-US`."""

from __future__ import annotations

from collections.abc import Mapping

_ODD: Mapping[str, str] = {
    "wt-wt": "all",
    "cn-zh": "zh-CN",
    "ct-ca": "ca",
    "hk-tzh": "zh-HK",
    "jp-jp": "ja-JP",
    "kr-kr": "ko-KR",
    "no-no": "nb-NO",
    "ph-tl": "fil-PH",
    "sl-sl": "sl-SI",
    "tw-tzh": "zh-TW",
    "ue-es": "es-US",
    "uk-en": "en-GB",
    "xa-ar": "ar",
    "xa-en": "en",
    "xl-es": "es",
}
"""Regions that are not a country of ISO 3166 and a language of ISO 639."""


def language_of(region: str) -> str:
    """Return SearXNG's language for a region; `all` for any."""
    country, _, language = region.partition("-")
    return _ODD.get(region) or f"{language}-{country.upper()}"
