"""How a model is to answer: `options`, `think`, `format`.

Source: Ollama's `docs/modelfile.mdx`, "Valid Parameters and Values", `docs/api.md`, and
`api/types.go`, which has further ones. Options that nobody knows are ignored there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api.given import Given
from genai_host.errors import InvalidData
from genai_host.server.able import Able
from genai_host.server.offered import check_schema

_NUMBERS: Mapping[str, Any] = {
    "temperature": None,
    "top_p": 1,
    "min_p": 0,
    "typical_p": 1,
    "repeat_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "tfs_z": 1,
}
"""What guides the choice of tokens, with the value at which it does not."""
_WHOLE_NUMBERS: Mapping[str, Any] = {
    "top_k": 0,
    "seed": None,
    "repeat_last_n": 0,
    "mirostat": 0,
}
OF_THE_MACHINE = frozenset(
    {
        "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap",
        "draft_num_predict",
    }
)  # fmt: skip
"""How a model is run: for one that runs elsewhere, nothing is to be done about it."""
_LEVELS = ("low", "medium", "high", "max")


def parameters_in(body: Given, taken: Mapping[str, Any]) -> dict[str, Any]:
    """The model parameters of a request, by the host's names.

    taken   the parameters that the model takes

    Raises `InvalidData`.
    """
    options = body.object("options")
    if options is None:
        return {}
    found: dict[str, Any] = {name: options.number(name) for name in _NUMBERS}
    found.update({name: options.whole(name) for name in _WHOLE_NUMBERS})
    usual = {**_NUMBERS, **_WHOLE_NUMBERS}
    given = {
        name: value
        for name, value in found.items()
        if value is not None and (name in taken or value != usual[name])
    }
    if given.get("top_k") == 0:  # which is no number of tokens to choose among
        del given["top_k"]
    most = options.whole("num_predict")
    if most is not None and most >= 0:  # below, there is no limit
        given["max_tokens"] = most
    stop = options.texts("stop")
    if stop:
        given["stop"] = list(stop)
    given.update(
        {name: options.raw(name) for name in OF_THE_MACHINE if name in options and name in taken}
    )
    return given


def thinking_in(body: Given, can: Able) -> tuple[bool, dict[str, Any]]:
    """Whether what the model thinks is to be shown, and the parameters that tell it to think.
    Raises `InvalidData`, also if it does not think."""
    think = body.raw("think")
    if think is None:
        return True, {}
    if not isinstance(think, bool) and think not in _LEVELS:
        raise body.wrong("think", f"neither true nor false nor one of {', '.join(_LEVELS)}")
    if think and "reasoning" not in can.capabilities:
        raise InvalidData("this model does not support thinking", path=body.at("think"))
    taken = can.parameters
    if "think" in taken:
        return think is not False, {"think": think}
    found: dict[str, Any] = {}
    if think and "include_thoughts" in taken:
        found["include_thoughts"] = True
    if isinstance(think, str):
        found["reasoning_effort"] = think
    return think is not False, found


def schema_in(body: Given) -> Mapping[str, Any] | None:
    """JSON Schema of the answer; None for free text. Raises `InvalidData`."""
    form = body.raw("format")
    if form in (None, ""):
        return None
    if form == "json":
        return {"type": "object"}
    if not isinstance(form, dict):
        raise InvalidData("format is neither json nor a JSON Schema", path=body.at("format"))
    check_schema(form, body.at("format"))
    return form


def refuse_what_is_not_done(body: Given, *names: str) -> None:
    """Raises `InvalidData`; see `Given.refuse`. What is about how a model is kept is read and
    left at that."""
    body.refuse("logprobs", "top_logprobs", *names)
