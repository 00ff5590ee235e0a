"""Checks whether providers can answer, with a timeout and a short-lived cache."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from attrs import field, frozen

from genai_host.api import CancelToken, Clock, Provider
from genai_host.api.cancellation import Cancellation
from genai_host.errors import GenaiError, IncompleteReply, ProviderTimeout, ServiceUnavailable
from genai_host.providers.instance import ProviderInstance, ProviderUnavailable
from genai_host.util import concurrency
from genai_host.util.text import describe_exception

_log = logging.getLogger(__name__)

_UNREACHABLE = (ServiceUnavailable, ProviderTimeout, IncompleteReply)


@frozen
class Readiness:
    """Result of the check of a provider.

    Attributes:
        reason: Why it cannot answer; empty if it can.
        reachable: Whether the service could be reached.
        unavailable_models: Ids of models that cannot run, with the reason.
    """

    reason: str = ""
    reachable: bool = True
    unavailable_models: Mapping[str, str] = field(factory=dict)


class ReadinessProbes:
    """Checks providers concurrently and caches the results.

    A provider that exceeded the timeout is checked again in the background, so that it delays only
    the first caller.

    Args:
        seconds: Timeout of a check; a provider that exceeds it counts as unreachable.
        kept: Seconds that a result is valid.
    """

    def __init__(self, clock: Clock, *, seconds: float = 5.0, kept: float = 10.0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._kept = kept
        self._lock = threading.Lock()
        self._found: WeakKeyDictionary[ProviderInstance, tuple[float, Readiness]] = (
            WeakKeyDictionary()
        )
        self._late = Readiness(f"no answer within {seconds:g} s", reachable=False)
        self._renewing = (math.inf, self._late)

    def readiness(self, instances: Iterable[ProviderInstance]) -> dict[str, Readiness]:
        """The result of each provider, by name."""
        instances = list(instances)
        with self._lock:  # concurrent callers share one check
            oldest = self._clock.monotonic() - self._kept
            old = [each for each in instances if self._found.get(each, _NEVER)[0] <= oldest]
            late = [each for each in old if self._is_recently_late(each)]
            self._found.update(self._checked([each for each in old if each not in late]))
            if late:
                concurrency.new_thread("probes", lambda: self._renew(late)).start()
                self._found.update(dict.fromkeys(late, self._renewing))
            return {each.name: self._found[each][1] for each in instances}

    def forget(self, instance: ProviderInstance) -> None:
        """Drop the cached result of a provider that was changed or prepared."""
        with self._lock:
            self._found.pop(instance, None)

    def _is_recently_late(self, instance: ProviderInstance) -> bool:
        checked, result = self._found.get(instance, _NEVER)
        return result is self._late and checked > self._clock.monotonic() - _RECENT

    def _renew(self, instances: list[ProviderInstance]) -> None:
        found: Mapping[ProviderInstance, tuple[float, Readiness]] = {}
        try:
            found = self._checked(instances)
        finally:
            with self._lock:
                for instance in instances:
                    if self._found.get(instance) is self._renewing:  # not forgotten meanwhile
                        self._found[instance] = found.get(instance, _NEVER)

    def _checked(
        self, instances: list[ProviderInstance]
    ) -> dict[ProviderInstance, tuple[float, Readiness]]:
        asked: dict[ProviderInstance, Provider] = {}
        results: dict[ProviderInstance, Readiness] = {}
        for instance in instances:  # opening them does not count
            found = _without_asking(instance)
            if isinstance(found, Provider):
                asked[instance] = found
            else:
                results[instance] = found
        if asked:
            results.update(self._ask(asked))
        now = self._clock.monotonic()
        return {instance: (now, result) for instance, result in results.items()}

    def _ask(
        self, providers: Mapping[ProviderInstance, Provider]
    ) -> dict[ProviderInstance, Readiness]:
        with Cancellation() as limits, self._clock.call_later(self._seconds, limits.cancel):
            probes = [_Probe(each, provider, limits) for each, provider in providers.items()]
            return {probe.instance: probe.wait() or self._late for probe in probes}


_NEVER = (-math.inf, Readiness())
_RECENT = 60.0  # seconds


class _Probe:
    """A check in its own thread, which is abandoned after the timeout."""

    def __init__(
        self, instance: ProviderInstance, provider: Provider, limits: Cancellation
    ) -> None:
        self.instance = instance
        self._provider = provider
        self._limits = limits
        self._found: Readiness | None = None
        self._done = concurrency.new_event()
        concurrency.new_thread(f"probe of {instance.name}", self._run).start()

    def wait(self) -> Readiness | None:
        """The result; None if the check was cancelled."""
        with self._limits.on_cancel(self._done.set):
            self._done.wait()
        return self._found

    def _run(self) -> None:
        try:
            found = _tried(self.instance, self._provider, self._limits)
            self._found = None if self._limits.is_cancelled() else found
        finally:
            self._done.set()


def _without_asking(instance: ProviderInstance) -> Provider | Readiness:
    """The provider to check, or its result if no check is needed: it is not ready, or has
    no check."""
    provider = instance.look()
    if isinstance(provider, ProviderUnavailable):
        return Readiness(provider.reason)
    try:
        with instance.watching("unavailable_reason"):
            missing = provider.unavailable_reason()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is that provider's alone
        return Readiness(f"its plugin failed: {describe_exception(error)}")
    if missing or type(provider).probe is Provider.probe:
        return Readiness(missing or "")
    return provider


def _tried(instance: ProviderInstance, provider: Provider, limits: CancelToken) -> Readiness:
    try:
        return Readiness(unavailable_models=provider.probe(limits))
    except _UNREACHABLE as error:
        return Readiness(_line(error), reachable=False)
    except GenaiError as error:
        return Readiness(_line(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is that provider's alone
        _log.info("probe() of provider %s failed", instance.name, exc_info=True)
        return Readiness(f"its plugin failed: {describe_exception(error)}")


def _line(error: GenaiError) -> str:
    return f"{error}: {error.hint}" if error.hint else str(error)
