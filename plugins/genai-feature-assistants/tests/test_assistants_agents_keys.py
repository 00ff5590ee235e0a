"""What services repeat of keys."""

from __future__ import annotations

from typing import Any

import pytest
from genai_feature_assistants.agents import OpenAIAssistantAgent, OpenAIServiceConfiguration

from genai_host.errors import BadRequest, GenaiError
from genai_host_testing import FakeService
from genai_host_testing.fake_service import json_reply, reply, stream_reply
from genai_host_testing.internal.assistants_agents import DEFINITION, STREAMED, configured, invoked
from genai_host_testing.services.assistants import KEY, Ends, ScriptedService
from genai_host_testing.services.responses import ResponsesService

pytestmark = pytest.mark.part


class TestKeys:
    """What a service repeats of a key stands in no error."""

    def check(self, service: ScriptedService, *, streamed: bool = False, **given: Any) -> None:
        configuration = configured(service, **given)
        with (
            OpenAIAssistantAgent.create(configuration, DEFINITION) as agent,
            pytest.raises(GenaiError) as caught,
        ):
            invoked(agent, streamed=streamed)
        error = caught.value
        shown = f"{error} {error!r} {error.fields()} {vars(error)}"
        assert KEY not in shown
        assert "bad key ***" in shown

    @pytest.mark.parametrize("length", [490, 990, 1990])
    @pytest.mark.parametrize("form", ["json", "text", "list"])
    def test_a_key_at_the_edge_of_what_is_shown(self, form: str, length: int) -> None:
        said = "x" * length + KEY
        given = {
            "json": json_reply({"error": {"message": said}}, 400),
            "text": reply(said.encode(), 400),
            "list": json_reply([said], 400),
        }[form]
        with FakeService([given]) as service:
            configuration = OpenAIServiceConfiguration.for_host(f"{service.url}/v1", api_key=KEY)
            with configuration.create_client() as client, pytest.raises(BadRequest) as caught:
                client.get("a")
        assert KEY[:4] not in caught.value.message

    @STREAMED
    def test_a_key_in_the_last_error_of_a_run(
        self, either: ScriptedService, streamed: bool
    ) -> None:
        last = {"code": "server_error", "message": f"bad key {KEY}"}
        either.turns.append([Ends("failed", {"last_error": last})])
        self.check(either, streamed=streamed)

    def test_a_key_in_an_error_amid_a_stream(self, either: ScriptedService) -> None:
        event = f'event: error\ndata: {{"type": "error", "message": "bad key {KEY}"}}\n\n'
        either.fail("POST", either.run_path, stream_reply([event.encode()]))
        self.check(either, streamed=True)

    def test_the_key_of_a_credential(self) -> None:
        with ResponsesService([Ends("failed", {"last_error": {"message": f"bad key {KEY}"}})]) as s:
            self.check(s, api_key=None, token_credential=lambda: KEY)
