"""`/v1/responses`: what is asked reaches the model, and what it says the client."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from genai_wire_openai.shared import MARKED, detail_extra
from responses_api import CLOCK, Api, output_of, user

from genai_host import Config
from genai_host.api import (
    Answer,
    Completion,
    Feature,
    FeatureSteps,
    File,
    Image,
    Message,
    Model,
    NoSettings,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    VendorPart,
)
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PNG = b"\x89PNG\r\n\x1a\n and so on"
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def test_a_response(api: Api) -> None:
    api.fake.answer = lambda prompt: Completion(
        Message("assistant", "hello"),
        usage=Usage(7, 3, cached_tokens=2, reasoning_tokens=1, cache_write_tokens=1),
    )
    response = api.response(metadata={"a": "b"}, user="me", temperature=0.5)
    (item,) = response["output"]
    text = {"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}
    assert item == {
        "type": "message", "id": item["id"], "role": "assistant", "status": "completed",
        "content": [text],
    }  # fmt: skip
    assert response["id"].startswith("resp_")
    assert response["completed_at"] >= response["created_at"]
    # Open Responses requires all fields, with the values of the API where the client gives none
    expected = {
        "object": "response", "status": "completed", "model": "fake", "metadata": {"a": "b"},
        "user": "me", "temperature": 0.5, "top_p": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "top_logprobs": 0, "safety_identifier": None,
        "prompt_cache_key": None,
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 10,
        },
    }  # fmt: skip
    assert {name: response[name] for name in expected} == expected


def test_what_the_model_hears(api: Api) -> None:
    parameters = {"temperature": 0, "top_p": 0.5, "presence_penalty": -0.5,
                  "frequency_penalty": 0.25}  # fmt: skip
    answer = [{"type": "output_text", "text": "and", "annotations": []},
              {"type": "refusal", "refusal": "no"}]  # fmt: skip
    items: list[Any] = [
        {"role": "developer", "content": "be brief"},
        user([
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": PNG_URL, "detail": "low"},
            {"type": "input_image", "image_url": "https://a.example/b.png"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERg=="},
            {"type": "input_file", "file_url": "https://a.example/b.pdf"},
        ]),
        {"type": "message", "role": "assistant", "content": "nice"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": answer},
        {"type": "function_call", "call_id": "1", "name": "clock", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "2", "name": "look", "arguments": "{"},
        output_of("1", [{"type": "input_file", "file_url": "https://a.example/c.pdf"}]),
        output_of("2", [{"type": "input_image", "image_url": PNG_URL}]),
        user("so"),
        user("and so"),
    ]  # fmt: skip
    api.response(items, instructions="be kind", max_output_tokens=9, **parameters)
    (prompt,) = api.fake.prompts
    calls = [ToolCall("1", "clock", {"a": 1}), ToolCall("2", "look", malformed="{")]
    results = [
        ToolResult("1", "clock", "(the document https://a.example/c.pdf follows)"),
        ToolResult("2", "look", Image(PNG, "image/png")),
    ]
    assert list(prompt.messages) == [
        Message("system", "be kind"),
        Message("system", "be brief"),
        Message("user", [
            "look",
            Image(PNG, "image/png", extra=detail_extra("low")),
            Image(url="https://a.example/b.png"),
            File(b"%PDF", "application/pdf", "a.pdf"),
            File(url="https://a.example/b.pdf"),
        ]),
        Message("assistant", ["nice", "and", Text("no", extra=MARKED), *calls]),
        Message("tool", results),
        Message("user", File(url="https://a.example/c.pdf")),
        Message("user", "so"),
        Message("user", "and so"),
    ]  # fmt: skip
    assert prompt.parameters == {"max_tokens": 9, **parameters}


def test_tools(api: Api) -> None:
    call = ToolCall("c1", "clock", {"zone": "é"})
    api.fake.answer = lambda prompt: Completion(Message("assistant", [call]), "tool_calls")
    response = api.response(tools=[CLOCK], tool_choice="required", parallel_tool_calls=True)
    (item,) = response["output"]
    assert item["id"].startswith("fc_")
    assert (item["type"], item["call_id"], item["name"]) == ("function_call", "c1", "clock")
    assert item["arguments"] == '{"zone":"é"}'
    assert response["status"] == "completed"
    assert response["tools"] == [{**CLOCK, "strict": True}]
    assert response["tool_choice"] == "required"
    assert api.fake.prompts[0].tools == ("clock",)


def test_some_of_the_tools(api: Api) -> None:
    tools = [CLOCK, {"type": "function", "name": "look"}]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "look"}]}
    response = api.response(tools=tools, tool_choice=allowed)
    assert api.fake.prompts[0].tools == ("look",)
    assert len(response["tools"]) == 2
    assert response["tool_choice"]["tools"] == [{"type": "function", "name": "look"}]


@pytest.mark.parametrize("name", ["clock", "none"])
def test_one_tool(api: Api, name: str) -> None:
    """A tool may have a name that otherwise says how to choose."""
    tools = [CLOCK, {"type": "function", "name": "none"}]
    chosen = {"type": "function", "name": name}
    assert api.response(tools=tools, tool_choice=chosen)["tool_choice"] == chosen
    assert name in api.fake.prompts[0].tools


@pytest.mark.parametrize(("form", "schema"), [
    ({"type": "text"}, None),
    ({"type": "json_object"}, {"type": "object"}),
    ({"type": "json_schema", "name": "n", "strict": True, "schema": {"required": ["a"]}},
     {"title": "n", "required": ["a"]}),
])  # fmt: skip
def test_formats_of_text(api: Api, form: dict[str, Any], schema: Any) -> None:
    api.fake.answer = lambda prompt: '{"a": 1}'
    response = api.response(text={"format": form})
    assert response["text"]["format"] == form
    assert response["output"][0]["content"][0]["text"] == '{"a": 1}'
    assert api.fake.prompts[0].schema == schema


@pytest.mark.parametrize(("finish", "status", "why"), [
    ("length", "incomplete", {"reason": "max_output_tokens"}),
    ("content_filter", "incomplete", {"reason": "content_filter"}),
    ("other", "incomplete", {}),
    ("stop", "completed", None),
])  # fmt: skip
def test_why_it_ended(api: Api, finish: Any, status: str, why: Any) -> None:
    api.fake.answer = lambda prompt: Completion(Message("assistant", "so"), finish)
    response = api.response()
    assert (response["status"], response["incomplete_details"]) == (status, why)
    assert response["output"][0]["status"] == status


def test_the_items_of_an_answer_are_in_its_order(api: Api) -> None:
    api.fake.answer = lambda prompt: Completion(
        Message("assistant", [
            Reasoning("one"), Reasoning("two"), "a", "b", ToolCall("1", "clock", malformed="{"),
            VendorPart("openai-responses", {"phase": "commentary"}), "c",
        ])
    )  # fmt: skip
    thought, first, call, second = api.response()["output"]
    assert [part["text"] for part in thought["summary"]] == ["one", "two"]
    assert first["content"][0]["text"] == "ab"
    assert call["arguments"] == "{"
    assert (second["content"][0]["text"], second["phase"]) == ("c", "commentary")


def test_pictures_that_the_model_makes(api: Api) -> None:
    picture = Image(PNG, "image/png")
    elsewhere = Image(url="https://a.example/b.png")
    api.fake.answer = lambda prompt: Completion(Message("assistant", ["so", picture, elsewhere]))
    for output in (api.response()["output"], api.events()[-1]["response"]["output"]):
        assert [item["type"] for item in output][1] == "image_generation_call"
        assert base64.b64decode(output[1]["result"]) == PNG
        assert output[2]["content"][0]["text"] == "https://a.example/b.png"
        api.response([user("hi"), *output, user("and?")])
        message = api.fake.prompts[-1].messages[1]
        assert message.content[1] == Image(PNG)


def test_arguments_that_are_nested_too_deeply(api: Api) -> None:
    for depth in (500, 5_000):
        arguments = '{"a":' * depth + "1" + "}" * depth
        call = {"type": "function_call", "call_id": "1", "name": "x", "arguments": arguments}
        api.response([call, output_of("1")])
        assert api.fake.prompts[-1].messages[0].tool_calls[0].malformed == arguments


def test_the_usual_model_is_named(api: Api) -> None:
    assert api.ok("POST", "/responses", {"input": "hi"})["model"] == "fake@fake"


def test_a_request_without_a_model_where_none_is_the_default(make_host: MakeHost) -> None:
    with Api.serving(make_host, config=Config()) as api:
        error = api.ask("POST", "/responses", {"input": "hi"}).json()["error"]
    assert (error["param"], error["code"]) == ("model", "missing_required_parameter")


def test_what_is_asked_of_a_model_that_does_not_know_it(api: Api) -> None:
    """Hints are left out and reported, and the rest is refused."""
    reasoning = {"effort": "high", "summary": "auto"}
    hints = {"reasoning": reasoning, "text": {"verbosity": "low"}, "parallel_tool_calls": False}
    body = {"model": "fake", "input": "hi", "tools": [CLOCK], **hints}
    reply = api.ask("POST", "/responses", body)
    assert reply.json()["reasoning"] == reasoning
    dropped = reply.headers["x-genai-host-dropped"].split(", ")
    assert sorted(dropped) == [
        "parallel_tool_calls", "reasoning.effort", "reasoning.summary", "text.verbosity",
    ]  # fmt: skip
    assert api.fake.prompts[0].parameters == {}
    refused = api.refused(reasoning={"summary": "detailed"})
    assert refused["code"] == "invalid_parameter"


@pytest.mark.parametrize("model", ["thinks", None])
def test_hints_reach_a_model_that_supports_them(make_host: MakeHost, model: str | None) -> None:
    parameters = {
        "reasoning_effort": {"type": "string"},
        "parallel_tool_calls": {"type": "boolean"},
    }
    thinks = Model(
        "thinks", ["plain"], capabilities={"tools"}, parameters=parameters, at={"fake": "thinks"}
    )
    config = Config(models={"chat": "thinks"})
    with Api.serving(make_host, more=InlinePlugin(models=[thinks]), config=config) as api:
        body = {"reasoning": {"effort": "high"}, "parallel_tool_calls": False, "tools": [CLOCK]}
        reply = api.ask("POST", "/responses", {"model": model, "input": "hi", **body})
    assert reply.status_code == 200, reply.text
    assert "x-genai-host-dropped" not in reply.headers
    sent = {"reasoning_effort": "high", "parallel_tool_calls": False}
    assert api.fake.prompts[0].parameters == sent


def shouts(turn: Turn[NoSettings]) -> FeatureSteps:
    completion = yield from Prompt([*turn.history, turn.message])
    return Answer(completion.text.upper())


SHOUT = InlinePlugin(features=[Feature("shout", NoSettings, shouts)])


@pytest.mark.parametrize("stream", [False, True])
def test_a_feature_in_place_of_a_model(make_host: MakeHost, stream: bool) -> None:
    with Api.serving(make_host, shout=SHOUT) as api:
        body: dict[str, Any] = {"model": "feature:shout", "input": "hi"}
        if stream:
            response = api.events(**body)[-1]["response"]
        else:
            response = api.ok("POST", "/responses", body)
        assert response["output"][0]["content"][0]["text"].endswith("HI")
        again = {**body, "previous_response_id": response["id"], "input": "so"}
        api.ok("POST", "/responses", again)
        assert [message.role for message in api.fake.prompts[-1].messages] == [
            "user", "assistant", "user",
        ]  # fmt: skip
        assert api.refused(**{**body, "tools": [CLOCK]})["param"] == "tools"
        system = [{"role": "system", "content": "x"}]
        assert api.refused(**{**body, "input": system})["param"] == "input"
        assert api.refused(status=404, **{**body, "model": "feature:no"})["code"] == (
            "model_not_found"
        )


def test_tokens_are_counted(api: Api) -> None:
    body = {"model": "fake", "input": "one two three", "instructions": "four"}
    counted = api.ok("POST", "/responses/input_tokens", body)
    assert counted == {"object": "response.input_tokens", "input_tokens": 4}
    first = api.response("five six")
    more = {**body, "previous_response_id": first["id"]}
    assert api.ok("POST", "/responses/input_tokens", more)["input_tokens"] == 8
    feature = {**body, "model": "feature:chat"}
    api.error("POST", "/responses/input_tokens", feature, 400)
