"""Search engines through the library ddgs, which parses their web pages.

ddgs reports "no results" alike for engines without results, engines that refuse, and dead ones, and
ignores refusals. This module records the outcome of each engine, so that an outage does not look
like an empty result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from genai_host.errors import (
    ConfigurationError,
    GenaiError,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
from genai_search_web.tools import WebResult

_ANYWHERE = "wt-wt"
_DEFAULT_REGION = "us-en"
_REFUSING = (202, 403, 429)
"""Statuses with which engines reject automated requests; DuckDuckGo uses 202."""

_BOOKS = ("wikipedia", "grokipedia")
"""Engines that return one article or none, which is not evidence about the web."""


@define(eq=False, repr=False)
class Outcomes:
    """Outcome of each engine."""

    statuses: dict[str, int] = field(factory=dict)
    timed_out: list[str] = field(factory=list)
    failures: dict[str, str] = field(factory=dict)

    def error(self) -> GenaiError | None:
        """Return the reason for an empty result; None if a web engine answered without results."""
        asked = {*self.statuses, *self.timed_out, *self.failures}
        engines = asked.difference(_BOOKS) or asked
        failed = engines.intersection((*self.timed_out, *self.failures))
        if any(self.statuses.get(each) == 200 for each in engines - failed):
            return None
        names = ", ".join(sorted(engines))
        if any(self.statuses.get(each) in _REFUSING for each in engines):
            return RateLimited(
                f"search engines reject requests: {names}",
                hint="wait some minutes, or set other engines in tools.ddgs.backend",
            )
        if engines.intersection(self.timed_out):
            return ProviderTimeout(
                f"no search engine responded in time: {names}", deadline="first_token_timeout"
            )
        return ServiceUnavailable(
            f"cannot connect to any search engine: {names}{self._why(engines)}"
        )

    def _why(self, engines: set[str]) -> str:
        whys = [self.failures[each] for each in sorted(engines & {*self.failures})]
        whys += [f"status {self.statuses[each]}" for each in sorted(engines & {*self.statuses})]
        return f" ({whys[0][:200]})" if whys else ""


def search(asked: Mapping[str, Any]) -> Iterator[WebResult]:
    """Search with ddgs. Raises `GenaiError` if no web engine answers."""
    from ddgs.exceptions import DDGSException

    outcomes = Outcomes()
    client = _client(asked, outcomes)
    try:
        found = client.text(
            asked["query"],
            region=asked["region"],
            safesearch=asked["safesearch"],
            max_results=asked["limit"],
            backend=asked["backend"],
        )
    except DDGSException:
        error = outcomes.error()
        if error is not None:
            raise error from None
        return
    for each in found:
        yield WebResult(each.get("title"), each.get("href"), each.get("body"))


def _client(asked: Mapping[str, Any], outcomes: Outcomes) -> Any:
    from ddgs.ddgs import DDGS
    from ddgs.engines import ENGINES
    from ddgs.results import BaseResult

    # it unescapes links and replaces spaces by plus signs, which changes their target
    links: Any = BaseResult._normalizers
    links.pop("href", None)
    _check(asked["backend"], ENGINES["text"])

    class Watched(DDGS):
        def _get_engines(self, category: str, backend: str) -> list[Any]:
            try:
                engines = super()._get_engines(category, backend)
            except Exception:  # noqa: BLE001 - what is raised may have a proxy's password in it
                raise ConfigurationError(
                    "tools.ddgs has an invalid proxy or invalid certificates"
                ) from None
            for each in engines:
                _watch(each, outcomes)
            return engines

    return Watched(
        proxy=asked["proxy"] or None,
        timeout=asked["seconds"],
        verify=asked["certificates"] or True,
    )


def _check(backend: str, engines: Mapping[str, Any]) -> None:
    """Reject unknown engines; otherwise ddgs would use all engines."""
    names = {name.strip() for name in backend.split(",")}
    unknown = sorted(names - {*engines, "auto", "all"})
    if unknown:
        raise ConfigurationError(
            f"unknown search engines in tools.ddgs.backend: {', '.join(unknown)[:200]}",
            hint=f"use auto, or choose from {', '.join(sorted(engines))}",
        )


def _watch(engine: Any, outcomes: Outcomes) -> None:
    """Record the outcome of an engine's requests."""
    from ddgs.exceptions import TimeoutException

    name, request, search = engine.name, engine.http_client.request, engine.search

    def noting_status(*arguments: Any, **named: Any) -> Any:
        reply = request(*arguments, **named)
        outcomes.statuses[name] = reply.status_code
        return reply

    def noting_failure(query: str, *, region: str, **named: Any) -> Any:
        if name == "wikipedia" and region == _ANYWHERE:
            region = _DEFAULT_REGION  # it requires a language
        try:
            return search(query, region=region, **named)
        except TimeoutException:
            outcomes.timed_out.append(name)
            raise
        except Exception as error:
            outcomes.failures[name] = _line(error)
            raise

    engine.http_client.request, engine.search = noting_status, noting_failure


def _line(error: Exception) -> str:
    """Return the message of an error on one line, without its wrappers."""
    text = " ".join(str(error).split())
    return text.rpartition(" > ")[2].removesuffix("')").removesuffix('")')
