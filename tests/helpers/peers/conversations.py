"""What is said to the recording service: as it is said here, and as whoever uses the
`openai` SDK writes it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pydantic
from attrs import frozen

from genai_host.api import File, Image, Message, Prompt, Text, ToolSchema, schema_of

Kind = Literal["", "direct", "thinking"]


@frozen
class Example:
    """One conversation.

    name        to tell it from the others
    prompt      as it is said here
    chat        what the SDK's `chat.completions` gets for it; None if it has no place there
    responses   what its `responses` get
    only        the kind of models that can do it; empty for all
    parsed      whether the SDK is to make the schema, by `parse`
    """

    name: str
    prompt: Prompt
    chat: Mapping[str, Any] | None
    responses: Mapping[str, Any] | None
    only: Kind = ""
    parsed: bool = False


def user(*content: Any) -> Message:
    return Message("user", content)


def _text(name: str, *messages: Message) -> Example:
    """A conversation of nothing but texts, which both formats write alike."""
    wire = [{"role": each.role, "content": each.text} for each in messages]
    return Example(name, Prompt(messages), {"messages": wire}, {"input": wire})


def _with(name: str, prompt: Mapping[str, Any], chat: Any, responses: Any, **more: Any) -> Example:
    """A conversation of one text, and what is asked for with it."""
    hi = [{"role": "user", "content": "hi"}]
    return Example(
        name,
        Prompt([user("hi")], **prompt),
        None if chat is None else {"messages": hi, **chat},
        None if responses is None else {"input": hi, **responses},
        **more,
    )


LOOK = ToolSchema(
    "look",
    "looks",
    {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)
WIRE_LOOK: Mapping[str, Any] = {
    "name": "look",
    "description": "looks",
    "parameters": {
        "type": "object",
        "properties": {"at": {"type": "string"}},
        "required": ["at"],
        "additionalProperties": False,
    },
    "strict": True,
}
CHAT_TOOLS: list[Any] = [{"type": "function", "function": WIRE_LOOK}]
RESPONSE_TOOLS: list[Any] = [{"type": "function", **WIRE_LOOK}]

_City: Any = pydantic.create_model("City", name=(str, ...), people=(int | None, ...))
_LONG = {"type": "object", "properties": {"word": {"type": "string", "minLength": 9}}}
_PNG = b"\x89PNG\r\n\x1a\n"
_PDF = b"%PDF-1.7"
_PNG_URL = f"data:image/png;base64,{base64.b64encode(_PNG).decode()}"
_PDF_URL = f"data:application/pdf;base64,{base64.b64encode(_PDF).decode()}"


def _tools() -> Iterator[Example]:
    choices: Mapping[str, tuple[Any, Any]] = {
        "auto": ("auto", "auto"),
        "none": ("none", "none"),
        "required": ("required", "required"),
        "look": (
            {"type": "function", "function": {"name": "look"}},
            {"type": "function", "name": "look"},
        ),
    }
    prompt = {"tools": [LOOK]}
    chat, responses = {"tools": CHAT_TOOLS}, {"tools": RESPONSE_TOOLS}
    yield _with("tools", prompt, chat, responses)
    for name, (in_chat, in_responses) in choices.items():
        yield _with(
            f"tool choice {name}",
            {**prompt, "tool_choice": name},
            {**chat, "tool_choice": in_chat},
            {**responses, "tool_choice": in_responses},
        )
    one = {"parallel_tool_calls": False}
    yield _with(
        "one tool at a time", {**prompt, "parameters": one}, {**chat, **one}, {**responses, **one}
    )


def _parameters() -> Iterator[Example]:
    least = {"max_tokens": 7}
    yield _with(
        "length", {"parameters": least}, {"max_completion_tokens": 7}, {"max_output_tokens": 7}
    )
    guides = {"temperature": 0.5, "top_p": 0.9}
    yield _with("guides", {"parameters": guides}, guides, guides, only="direct")
    further = {
        "stop": ["x", "\n"], "seed": 1, "presence_penalty": -0.5, "frequency_penalty": 0.5,
    }  # fmt: skip
    yield _with("further guides", {"parameters": further}, further, None, only="direct")
    thinking = {"reasoning_effort": "low", "verbosity": "low"}
    yield _with(
        "effort",
        {"parameters": thinking},
        thinking,
        {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}},
        only="thinking",
    )
    yield _with(
        "summary",
        {"parameters": {"reasoning_summary": "auto"}},
        None,
        {"reasoning": {"summary": "auto"}},
        only="thinking",
    )


def _schemas() -> Iterator[Example]:
    yield _with(
        "class",
        {"schema": schema_of(_City)},
        {"response_format": _City},
        {"text_format": _City},
        parsed=True,
    )
    loose = {"name": "answer", "schema": _LONG, "strict": False}
    yield _with(
        "schema beyond the strict subset",
        {"schema": _LONG},
        {"response_format": {"type": "json_schema", "json_schema": loose}},
        {"text": {"format": {"type": "json_schema", **loose}}},
    )


def _attachments() -> Iterator[Example]:
    for name, image, url in (
        ("picture", Image(_PNG, "image/png"), _PNG_URL),
        ("picture by its address", Image(url="https://x.invalid/a.png"), "https://x.invalid/a.png"),
    ):
        in_chat = [
            {"type": "text", "text": "what?"},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        in_responses = [
            {"type": "input_text", "text": "what?"},
            {"type": "input_image", "image_url": url, "detail": "auto"},
        ]
        yield Example(
            name,
            Prompt([user("what?", image)]),
            {"messages": [{"role": "user", "content": in_chat}]},
            {"input": [{"role": "user", "content": in_responses}]},
        )
    file = {"filename": "a.pdf", "file_data": _PDF_URL}
    yield Example(
        "file",
        Prompt([user("what?", File(_PDF, "application/pdf", "a.pdf"))]),
        {"messages": [{"role": "user", "content": [
            {"type": "text", "text": "what?"}, {"type": "file", "file": file}]}]},
        {"input": [{"role": "user", "content": [
            {"type": "input_text", "text": "what?"}, {"type": "input_file", **file}]}]},
    )  # fmt: skip
    url = "https://x.invalid/a.pdf"
    yield Example(
        "file by its address",
        Prompt([user(File(url=url))]),
        None,
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": url}]}]},
    )


CONVERSATIONS = [
    _text("plain", user("hi")),
    _text("odd characters", user('é 🙂 \u2028 \x00 \n "\\ </script> \ufeff')),
    _text("empty", user("")),
    _text("system", Message("system", "Be brief."), user("hi")),
    _text("history", user("hi"), Message("assistant", "hello"), user("and?")),
    Example(
        "several texts",
        Prompt([user(Text("a"), Text("b"))]),
        {"messages": [{"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
        {"input": [{"role": "user", "content": [
            {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]},
    ),
    *_parameters(),
    *_tools(),
    *_schemas(),
    *_attachments(),
]  # fmt: skip
