"""Access tokens: keys that expire, and are got anew."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable

from attrs import field, frozen

from genai_host.api.exchange import Limits
from genai_host.api.providers import Clock
from genai_host.api.settings import Secret
from genai_host.errors import GenaiError


@frozen
class AccessToken:
    """A token as it was got.

    seconds   for how long it is valid from now; None if that is not known: it is used
              until it is refused
    """

    value: Secret = field(repr=False)
    seconds: float | None = None


class CachedToken:
    """An access token, got when it is first needed and again shortly before it expires:
    once, whoever asks at the same time.

        self._token = CachedToken(self._get_token, services.clock)
        ...
        headers = key_header("Authorization: Bearer {key}", self._token.get(limits))

    source   gets a token; under the limits of the call that needs it first, while the
             others wait
    clock    `Services.clock`
    early    seconds before its end from which it is got again; of a token that is valid
             for less than twice as long, half of that

    A `HttpProvider` that is given one sends it, and gets another once when it is refused.
    """

    def __init__(
        self, source: Callable[[Limits], AccessToken], clock: Clock, *, early: float = 60.0
    ) -> None:
        self._source = source
        self._clock = clock
        self._early = early
        self._changed = threading.Condition()
        self._held: Secret | None = None
        self._renew_at: float | None = None
        self._busy = False
        self._failure: tuple[int, GenaiError] | None = None  # and which try it was
        self._tries = 0

    def get(self, limits: Limits) -> Secret:
        """The token. Raises what `source` raises, and what ends `limits`; whoever waits
        for a token that cannot be got is told the same, and later calls try again."""
        with limits.on_cancel(self._wake), self._changed:
            while self._busy:
                limits.check()
                awaited = self._tries
                self._changed.wait()
                if self._failure is not None and self._failure[0] == awaited:
                    raise copy.copy(self._failure[1])
            limits.check()
            if self._held is not None and not self._is_due():
                return self._held
            self._busy = True
            self._tries += 1
        return self._renew(limits)

    def drop(self, value: Secret) -> None:
        """A service has refused this token: get another for the next call, unless that was
        done meanwhile."""
        with self._changed:
            if self._held == value:
                self._held = None

    def _is_due(self) -> bool:
        return self._renew_at is not None and self._clock.monotonic() >= self._renew_at

    def _renew(self, limits: Limits) -> Secret:
        found: AccessToken | None = None
        failure: GenaiError | None = None
        try:
            found = self._source(limits)
            return found.value
        except GenaiError as error:
            failure = None if _has_ended(limits) else error
            raise
        finally:
            with self._changed:
                self._busy = False
                self._failure = None if failure is None else (self._tries, failure)
                if found is not None:
                    self._keep(found)
                self._changed.notify_all()

    def _keep(self, token: AccessToken) -> None:
        self._held, self._renew_at = token.value, None
        if token.seconds is not None:
            early = min(self._early, token.seconds / 2)
            self._renew_at = self._clock.monotonic() + token.seconds - early

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _has_ended(limits: Limits) -> bool:
    """What ended one call is no reason for the others to fail."""
    try:
        limits.check()
    except GenaiError:
        return True
    return False
