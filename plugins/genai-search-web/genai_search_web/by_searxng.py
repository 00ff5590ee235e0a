"""SearXNG through its JSON API, with regions of DuckDuckGo, such as `us-en`, as languages.

Source: SearXNG, "Search API" (docs.searxng.org/dev/search_api.html), and the replies of its
predecessor searx 1.1.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    GenaiError,
    MalformedReply,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
from genai_search_web.tools import WebResult, plain

if TYPE_CHECKING:
    from requests import Response, Session


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


MAX_BYTES = 8 * 2**20
"""Maximum number of bytes of one page of results, decompressed."""

MAX_PAGES = 5
"""Maximum number of pages to request."""

_SAFE = {"off": 0, "moderate": 1, "on": 2}
_CHUNK = 16 * 1024
_NO_JSON = "add json to search.formats in its settings.yml"
_MOVED = "set tools.searxng.base_url to the address that it redirects to"
_REFUSALS: Mapping[int, tuple[type[ProviderError], str, str]] = {
    401: (AuthenticationFailed, "requires a key", "set GENAI_SEARXNG_KEY"),
    403: (BadRequest, "does not provide JSON", _NO_JSON),
    429: (
        RateLimited,
        "limits the request rate",
        "allow this machine in the limiter of its settings.yml",
    ),
    **dict.fromkeys((301, 302, 303, 307, 308), (BadRequest, "redirects", _MOVED)),
}
"""Errors by status: class, message, hint."""


_HERE = ("localhost", "127.0.0.1", "::1")  # never through a proxy


def search(asked: Mapping[str, Any]) -> Iterator[WebResult]:
    """Request page after page, until the caller stops or a page has no new results.

    Raises `GenaiError` if the first page fails.
    """
    import requests

    seen: set[str] = set()
    with requests.Session() as session:
        session.trust_env = False  # it would send credentials from a .netrc
        if urlsplit(asked["base_url"]).hostname not in _HERE:
            session.proxies = requests.utils.get_environ_proxies(asked["base_url"])
        for number in range(1, MAX_PAGES + 1):
            try:
                page = _Page(session, asked, number).read()
            except GenaiError:
                if number == 1:
                    raise
                return
            links = {each.link for each in page if isinstance(each.link, str)}
            if not links - seen:
                return
            seen |= links
            yield from page


class _Page:
    """One page of results."""

    def __init__(self, session: Session, asked: Mapping[str, Any], number: int) -> None:
        self._session = session
        self._asked = asked
        self._number = number
        self._host = urlsplit(asked["base_url"]).hostname or ""
        self._until = time.monotonic() + asked["seconds"]

    def read(self) -> list[WebResult]:
        data = _parsed(self._fetch())
        results = data.get("results")
        if not isinstance(results, list):
            raise MalformedReply("SearXNG's reply has no list of results")
        found = [
            WebResult(each.get("title"), each.get("url"), each.get("content"))
            for each in results
            if isinstance(each, dict)
        ]
        if not found and self._number == 1:
            _check_engines(data.get("unresponsive_engines"))
        return found

    def _fetch(self) -> bytes:
        import requests

        try:
            with self._session.get(
                f"{self._asked['base_url'].rstrip('/')}/search",
                params=self._parameters(),
                headers=self._headers(),
                timeout=self._asked["seconds"],
                allow_redirects=False,
                stream=True,
            ) as response:
                self._check(response)
                return self._body(response)
        except requests.Timeout:
            raise self._late() from None
        except (requests.RequestException, ValueError) as error:
            if _is_late(error):
                raise self._late() from None
            by = "" if not _is_of_proxy(error) else " through the proxy of the environment"
            raise ServiceUnavailable(
                f"SearXNG at {self._host} is unreachable{by}{_why(error)}"
            ) from None

    def _parameters(self) -> dict[str, str | int]:
        given: dict[str, str | int] = {
            "q": self._asked["query"],
            "format": "json",
            "language": language_of(self._asked["region"]),
            "safesearch": _SAFE[self._asked["safesearch"]],
            "pageno": self._number,
        }
        if self._asked["categories"]:
            given["categories"] = self._asked["categories"]
        return given

    def _headers(self) -> dict[str, str]:
        given = {"Accept": "application/json"}
        if self._asked["key"]:
            given["Authorization"] = f"Bearer {self._asked['key']}"
        return given

    def _check(self, response: Response) -> None:
        """Raise the error for a status other than 200."""
        status = response.status_code
        usual = ServiceUnavailable if status >= 500 else BadRequest
        kind, what, hint = _REFUSALS.get(status, (usual, f"responded with status {status}", ""))
        if status != 200:
            raise kind(f"SearXNG at {self._host} {what}", hint=hint, status=status)

    def _body(self, response: Response) -> bytes:
        pieces, size = [], 0
        for piece in response.iter_content(_CHUNK):
            size += len(piece)
            if size > MAX_BYTES:
                raise MalformedReply(f"SearXNG's reply has more than {MAX_BYTES >> 20} MiB")
            if time.monotonic() > self._until:
                raise self._late()
            pieces.append(piece)
        return b"".join(pieces)

    def _late(self) -> ProviderTimeout:
        return ProviderTimeout(
            f"SearXNG at {self._host} did not respond within {self._asked['seconds']:g} seconds",
            hint="raise tools.searxng.seconds",
            deadline="timeout",
        )


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise MalformedReply("SearXNG's reply is not JSON", hint=_NO_JSON) from None
    if not isinstance(data, dict):
        raise MalformedReply("SearXNG's reply is not a JSON object")
    return data


def _check_engines(unresponsive: Any) -> None:
    """Raise an error if nothing was found because SearXNG's engines failed: (name, reason)
    pairs.
    """
    if not isinstance(unresponsive, list) or not unresponsive:
        return
    pairs = [each for each in unresponsive if isinstance(each, list) and len(each) > 1]
    whys = [f"{plain(each[0], 50)}: {plain(each[1], 100)}" for each in pairs[:5]]
    raise ServiceUnavailable(f"SearXNG's search engines failed ({'; '.join(whys)})")


def _is_late(error: Exception) -> bool:
    """Whether the body timed out; requests raises a `ConnectionError` for that."""
    from urllib3.exceptions import ReadTimeoutError

    return any(isinstance(each, ReadTimeoutError) for each in error.args)


def _is_of_proxy(error: Exception) -> bool:
    from requests.exceptions import InvalidProxyURL, InvalidSchema, ProxyError

    return isinstance(error, (ProxyError, InvalidProxyURL, InvalidSchema))


def _why(error: Exception) -> str:
    """Return the message of a connection error without addresses, which can contain keys."""
    signs = ("refused", "reset", "SOCKS", "SSL", "Name or service not known", "closed connection")
    return next((f": {sign}" for sign in signs if sign in str(error)), "")
