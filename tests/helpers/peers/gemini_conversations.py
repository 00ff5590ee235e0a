"""What is said to the recording service, as whoever uses the `google-genai` SDK writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.genai import types
from peers.conversations import CONVERSATIONS, user

from genai_host.api import File, Message, Prompt, Text, VendorPart

_ODD = 'é 🙂 \u2028 \x00 \n "\\ </script> \ufeff'
_PNG = b"\x89PNG\r\n\x1a\n"
_PDF = b"%PDF-1.7"
_LONG = {"type": "object", "properties": {"word": {"type": "string", "minLength": 9}}}
WIRE_LOOK = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="look",
            description="looks",
            parameters_json_schema={
                "type": "object",
                "properties": {"at": {"type": "string"}},
                "required": ["at"],
            },
        )
    ]
)


def said(*parts: Any, role: str = "user") -> Any:
    """A content; strings are texts."""
    return types.Content(
        role=role, parts=[types.Part(text=each) if type(each) is str else each for each in parts]
    )


def _hi(**config: Any) -> dict[str, Any]:
    return {"contents": [said("hi")], "config": config}


def _choice(mode: str, *names: str) -> dict[str, Any]:
    calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=[*names] or None)
    return _hi(tools=[WIRE_LOOK], tool_config=types.ToolConfig(function_calling_config=calling))


def _at(url: str, media_type: str) -> Any:
    return types.Part(file_data=types.FileData(file_uri=url, mime_type=media_type))


_SHARED: Mapping[str, Mapping[str, Any]] = {
    "plain": _hi(),
    "odd characters": {"contents": [said(_ODD)]},
    "empty": {"contents": [said("")]},
    "system": _hi(system_instruction="Be brief."),
    "history": {"contents": [said("hi"), said("hello", role="model"), said("and?")]},
    "several texts": {"contents": [said("a", "b")]},
    "length": _hi(max_output_tokens=7),
    "guides": _hi(temperature=0.5, top_p=0.9),
    "further guides": _hi(
        stop_sequences=["x", "\n"], seed=1, presence_penalty=-0.5, frequency_penalty=0.5
    ),
    "tools": _hi(tools=[WIRE_LOOK]),
    "tool choice auto": _choice("AUTO"),
    "tool choice none": _choice("NONE"),
    "tool choice required": _choice("ANY"),
    "tool choice look": _choice("ANY", "look"),
    "schema beyond the strict subset": _hi(
        response_mime_type="application/json", response_json_schema=_LONG
    ),
    "picture": {"contents": [
        said("what?", types.Part.from_bytes(data=_PNG, mime_type="image/png"))]},
    "picture by its address": {"contents": [
        said("what?", _at("https://x.invalid/a.png", "image/png"))]},
    "file": {"contents": [
        said("what?", types.Part.from_bytes(data=_PDF, mime_type="application/pdf"))]},
    "file by its address": {"contents": [
        said(_at("https://x.invalid/a.pdf", "application/pdf"))]},
}  # fmt: skip
"""Of the conversations that are had with others as well, by name."""

_HARM = "HARM_CATEGORY_HARASSMENT"
_SIGNED = VendorPart("gemini", {"thoughtSignature": "c2lnbmVk"})
_OWN: Mapping[str, tuple[Prompt, Mapping[str, Any]]] = {
    "effort": (
        Prompt([user("hi")], parameters={"reasoning_effort": "low", "include_thoughts": True}),
        _hi(thinking_config=types.ThinkingConfig(
            thinking_level=types.ThinkingLevel.LOW, include_thoughts=True)),
    ),
    "budget": (
        Prompt([user("hi")], parameters={"thinking_budget": 0}),
        _hi(thinking_config=types.ThinkingConfig(thinking_budget=0)),
    ),
    "top k": (Prompt([user("hi")], parameters={"top_k": 3}), _hi(top_k=3)),
    "safety": (
        Prompt([user("hi")], parameters={"safety_settings": {_HARM: "BLOCK_NONE"}}),
        _hi(safety_settings=[types.SafetySetting(
            category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
            threshold=types.HarmBlockThreshold.BLOCK_NONE)]),
    ),
    "sound": (
        Prompt([user(File(b"RIFF", "audio/wav"))]),
        {"contents": [said(types.Part.from_bytes(data=b"RIFF", mime_type="audio/wav"))]},
    ),
    "signed": (
        Prompt([user("hi"), Message("assistant", [Text("hello"), _SIGNED]), user("and?")]),
        {"contents": [
            said("hi"),
            said(types.Part(text="hello", thought_signature=b"signed"), role="model"),
            said("and?")]},
    ),
}  # fmt: skip

TOLD: Mapping[str, tuple[Prompt, Mapping[str, Any]]] = {
    **{
        each.name: (each.prompt, _SHARED[each.name])
        for each in CONVERSATIONS
        if each.name in _SHARED
    },
    **_OWN,
}
"""What is said here, and the arguments of the SDK's `generate_content` for it."""
