"""What services repeat of keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from genai_feature_assistants.agents import OpenAIAssistantAgent, OpenAIServiceConfiguration

from genai_host.errors import BadRequest, GenaiError
from genai_host.testing import FakeService
from genai_host.testing.fake_service import Reply, json_reply, reply, sse_reply, stream_reply
from genai_host_testing.assistants_agents import DEFINITION, agent_of
from genai_host_testing.assistants_service import KEY, AssistantsService, Ends

pytestmark = pytest.mark.part


@pytest.fixture
def service() -> Iterator[AssistantsService]:
    with AssistantsService() as made:
        yield made


class TestKeys:
    """What a service repeats of a key stands in no error."""

    def shown(self, act: Any) -> str:
        with pytest.raises(GenaiError) as caught:
            act()
        error = caught.value
        return f"{error} {error!r} {error.fields()} {vars(error)}"

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

    @pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
    def test_a_key_in_the_last_error_of_a_run(
        self, service: AssistantsService, streamed: bool
    ) -> None:
        last = {"code": "server_error", "message": f"bad key {KEY}"}
        service.turns.append([Ends("failed", {"last_error": last})])
        with agent_of(service) as agent:
            thread = agent.create_thread()
            invoke = agent.invoke_stream if streamed else agent.invoke
            shown = self.shown(lambda: list(invoke(thread)))
        assert KEY not in shown
        assert "bad key ***" in shown

    def test_a_key_in_an_error_amid_a_stream(self, service: AssistantsService) -> None:
        event = f'event: error\ndata: {{"message": "bad key {KEY}"}}\n\n'
        service.fail("POST", "/runs", stream_reply([event.encode()]))
        with agent_of(service) as agent:
            thread = agent.create_thread()
            shown = self.shown(lambda: list(agent.invoke_stream(thread)))
        assert KEY not in shown
        assert "bad key ***" in shown

    @pytest.mark.parametrize(
        "given",
        [
            sse_reply([f'{{"type": "error", "message": "bad key {KEY}"}}'.encode()]),
            sse_reply(
                [
                    b'{"type": "response.failed", "response": {"id": "r", "status": "failed", '
                    b'"error": {"code": "x", "message": "bad key %b"}}}' % KEY.encode()
                ]
            ),
        ],
        ids=range(2),
    )
    def test_a_key_in_an_error_of_a_response(self, given: Reply) -> None:
        def answer(received: Any) -> Reply:
            return json_reply({"id": "conv_1"}) if "/conv" in received.path else given

        with FakeService(answer=answer) as service:
            configuration = OpenAIServiceConfiguration.for_host(
                f"{service.url}/v1", api="responses", token_credential=lambda: KEY
            )
            with OpenAIAssistantAgent.create(configuration, DEFINITION) as agent:
                shown = self.shown(lambda: list(agent.invoke_stream("conv_1")))
        assert KEY not in shown
        assert "bad key ***" in shown
