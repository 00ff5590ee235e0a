"""Readiness of providers: tried, bounded, kept for a short time (item 4 of "First contact")."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import pytest
from stand_ins import UnaskedProvider

from genai_host import Host
from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    Model,
    NoSettings,
    Provider,
    ProviderType,
    Services,
    http_provider,
)
from genai_host.errors import AuthenticationFailed, NoRoute, ServiceUnavailable
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

Probe = Callable[[CancelToken], Mapping[str, str]]


class Probed(UnaskedProvider):
    default_models = {"chat": "m"}

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def probe(self, limits: CancelToken) -> Mapping[str, str]:
        return self._probe(limits)


MakeProbed = Callable[..., Host]


@pytest.fixture
def probed(make_host: MakeHost) -> MakeProbed:
    """Makes hosts with a provider of each name, which is tried by the function."""

    def make(clock: ManualClock | None = None, **probes: Probe) -> Host:
        def opener(probe: Probe) -> Callable[[NoSettings, Services], Provider]:
            return lambda settings, services: Probed(probe)

        types = [ProviderType(name, NoSettings, opener(probes[name])) for name in probes]
        model = Model("m", ["plain"], at=dict.fromkeys(probes, "m"))
        plugin = InlinePlugin(providers=types, models=[model])
        return make_host(probed=plugin, mock=None, **({} if clock is None else {"clock": clock}))

    return make


def raising(error: BaseException) -> Probe:
    return mock.Mock(side_effect=error)


def works(limits: CancelToken) -> Mapping[str, str]:
    return {}


def states(host: Host) -> dict[str, tuple[str, str]]:
    return {each.provider: (each.state, "; ".join(each.reasons)) for each in host.probe().matrix()}


class TestStates:
    def test_item_4_one_works_needs_something_or_is_unreachable(self, probed: MakeProbed) -> None:
        host = probed(
            good=works,
            away=raising(ServiceUnavailable("nobody answers", hint="start it")),
            refused=raising(AuthenticationFailed("the key is refused", status=401)),
            lacking=lambda limits: {"m": "it is not pulled"},
            broken=raising(RuntimeError("oh")),
            ending=raising(SystemExit("out")),
        )
        assert states(host) == {
            "good": ("works", ""),
            "away": ("unreachable", "nobody answers: start it"),
            "refused": ("needs", "the key is refused"),
            "lacking": ("needs", "it is not pulled"),
            "broken": ("needs", "its plugin failed: RuntimeError: oh"),
            "ending": ("needs", "its plugin failed: SystemExit: out"),
        }

    def test_item_4_a_call_is_not_held_up_by_what_was_found(self, probed: MakeProbed) -> None:
        host = probed(away=raising(ServiceUnavailable("nobody answers")))
        assert states(host)["away"][0] == "unreachable"
        assert host.catalog.resolve("m")[0].provider == "away"
        with pytest.raises(NoRoute, match="m cannot run: nobody answers"):
            host.probe().resolve("m")

    def test_item_4_all_are_tried_at_once_and_hanging_ones_left(self, probed: MakeProbed) -> None:
        clock, until_end = ManualClock(), threading.Event()

        def hanging(limits: CancelToken) -> Mapping[str, str]:
            until_end.wait()
            return {}

        host = probed(clock, one=hanging, other=hanging)

        def pass_time() -> None:
            clock.wait_for_alarm_in(5)
            clock.advance(5)

        threading.Thread(target=pass_time, daemon=True).start()
        statuses = states(host)
        until_end.set()
        assert statuses == dict.fromkeys(("one", "other"), ("unreachable", "no answer within 5 s"))

    def test_a_hanging_provider_delays_only_the_first_caller(self, probed: MakeProbed) -> None:
        clock, until_end, again = ManualClock(), threading.Event(), threading.Event()
        waits = [again, until_end]

        def hanging(limits: CancelToken) -> Mapping[str, str]:
            waits.pop().wait()
            return {}

        def pass_time() -> None:
            clock.wait_for_alarm_in(5)
            clock.advance(5)

        host = probed(clock, hanging=hanging)
        threading.Thread(target=pass_time, daemon=True).start()
        expected = {"hanging": ("unreachable", "no answer within 5 s")}
        assert states(host) == expected
        until_end.set()
        clock.advance(10)
        assert states(host) == expected  # although it is being checked
        [renewing] = [each for each in threading.enumerate() if each.name == "probes"]
        again.set()
        renewing.join()
        assert states(host)["hanging"] == ("works", "")

    def test_item_4_what_was_found_holds_for_some_seconds(self, probed: MakeProbed) -> None:
        clock, counted = ManualClock(), mock.Mock(return_value={})
        host = probed(clock, counted=counted)
        for _ in range(3):
            host.probe()
        assert counted.call_count == 1
        clock.advance(10)
        host.probe()
        assert counted.call_count == 2
        host.instances.reopen("counted")
        host.probe()
        assert counted.call_count == 3
        host.probe(again=host.instances["counted"])
        assert counted.call_count == 4

    def test_item_4_what_is_found_later_takes_the_place_of_it(self, probed: MakeProbed) -> None:
        clock, lacking = ManualClock(), dict[str, str]()
        host = probed(clock, pulled=lambda limits: {**lacking}, other=works)
        assert states(host) == {"pulled": ("works", ""), "other": ("works", "")}
        before = host.probe()
        assert host.probe() is before
        lacking["m"] = "it is not pulled"
        clock.advance(10)
        assert states(host) == {"pulled": ("needs", "it is not pulled"), "other": ("works", "")}


@pytest.mark.part
class TestOverHttp:
    @pytest.mark.parametrize("models", ["/models", ""], ids=["listed", "unlisted"])
    @pytest.mark.parametrize(
        ("status", "state"),
        [(200, "works"), (403, "works"), (404, "works"), (429, "works"), (500, "works"),
         (401, "needs"), (503, "unreachable")],
    )  # fmt: skip
    def test_item_4_a_service_is_judged_by_its_reply(
        self, make_host: MakeHost, service: FakeService, status: int, state: str, models: str
    ) -> None:
        service.replies = [json_reply({"data": []}, status=status)]
        assert self._states(make_host, service.url, models)["acme"][0] == state
        assert [each.method for each in service.requests] == ["GET"]

    def test_item_4_nobody_at_the_port(self, make_host: MakeHost) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        state, why = self._states(make_host, f"http://127.0.0.1:{port}", "/models")["acme"]
        assert (state, "Connection refused" in why) == ("unreachable", True)

    def _states(self, make_host: MakeHost, url: str, models: str) -> dict[str, tuple[str, str]]:
        kind = http_provider("acme", url, {"openai-chat": DialectEndpoint()}, models=models)
        model = Model("m", ["openai-chat"], at={"acme": "m"})
        plugin: Any = InlinePlugin(providers=[kind], models=[model])
        return states(make_host(acme=plugin, mock=None))
