"""Settings of the searches, which only the user can set."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen
from attrs import validators as must

from genai_host.api import Must, Secret, about

SafeSearch = Literal["on", "moderate", "off"]

_SAFE = about("safe search: on, moderate or off")
_IS_ADDRESS = Must(
    "an address that begins with http:// or https://",
    lambda value: not value or value.startswith(("http://", "https://")),
)


@frozen
class DdgsSettings:
    """Those of the table `[tools.ddgs]`."""

    backend: str = field(
        default="auto",
        metadata=about(
            "the search engines to ask, for example duckduckgo,mojeek; auto for all in turn"
        ),
    )
    safesearch: SafeSearch = field(default="moderate", metadata=_SAFE)
    seconds: float = field(
        default=10.0,
        validator=must.and_(must.gt(0), must.le(300)),
        metadata=about("timeout of a search engine in seconds"),
    )
    proxy: str = field(
        default="",
        metadata=about("proxy URL; if not set, from the environment"),
    )
    certificates: str = field(
        default="",
        metadata=about("file with the certificates to trust, in PEM, where a proxy has its own"),
    )


@frozen
class SearxngSettings:
    """Those of the table `[tools.searxng]`."""

    base_url: str = field(
        default="",
        validator=_IS_ADDRESS,
        metadata=about(
            "address of the SearXNG, for example http://127.0.0.1:8888",
            env="GENAI_SEARXNG_BASE_URL",
        ),
    )
    key: Secret | None = field(
        default=None,
        metadata=about(
            "sent as a bearer token, where what stands before it wants one",
            env="GENAI_SEARXNG_KEY",
        ),
    )
    categories: str = field(
        default="", metadata=about("its categories to search in, for example general,science")
    )
    safesearch: SafeSearch = field(default="moderate", metadata=_SAFE)
    seconds: float = field(
        default=10.0,
        validator=must.and_(must.gt(0), must.le(300)),
        metadata=about("timeout in seconds"),
    )
