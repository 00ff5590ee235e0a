"""Parameters of OpenAI-compatible servers for chat completions, beyond OpenAI's own.

Source: vLLM, "OpenAI-Compatible Server", extra parameters; llama.cpp, `tools/server/README.md`; LM
Studio, "Chat Completions"; OpenRouter, "Parameters"; SGLang, "Sampling Parameters"; as of November
2026. The server itself validates names and ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _numbers(**described: str) -> dict[str, Any]:
    return {
        name: {"type": "number", "description": description}
        for name, description in described.items()
    }


OF_SERVERS: Mapping[str, Any] = {
    **_numbers(
        top_k="choose among this many of the likeliest tokens",
        min_p="choose among tokens that have at least this part of the likeliest one's probability",
        top_a="the same, of its square",
        typical_p="leave out tokens that are less typical than this",
        repetition_penalty="above 1: the model repeats itself less",
        repeat_penalty="above 1: the model repeats itself less",
        repeat_last_n="how many tokens back that looks",
        length_penalty="above 0: rather longer answers of a beam search",
        min_tokens="do not end the answer before this many tokens",
        dynatemp_range="how far the temperature may move from its value",
        dynatemp_exponent="how it moves",
        xtc_probability="how often the likeliest tokens are left out",
        xtc_threshold="from which probability on that is done",
        dry_multiplier="above 0: sequences are repeated less",
        dry_base="how steeply that grows with their length",
        dry_allowed_length="length that may be repeated",
        dry_penalty_last_n="how many tokens back that looks",
        mirostat="version of Mirostat; 0 for none",
        mirostat_tau="entropy that it aims at",
        mirostat_eta="how fast it learns",
        top_n_sigma="leave out tokens this many standard deviations below the likeliest",
        id_slot="slot that computes the answer",
    ),
    "chat_template_kwargs": {
        "type": "object",
        "description": 'values for the model\'s chat template, such as {"enable_thinking": false}',
    },
    "ignore_eos": {"type": "boolean", "description": "go on after the token that ends an answer"},
    "skip_special_tokens": {"type": "boolean", "description": "leave special tokens out"},
    "cache_prompt": {"type": "boolean", "description": "keep the prompt for the next request"},
    "stop_token_ids": {"type": "array", "description": "end the answer before these tokens"},
    "bad_words": {"type": "array", "description": "words that must not occur"},
    "grammar": {"type": "string", "description": "grammar that the answer satisfies"},
    "structured_outputs": {"type": "object", "description": "what the answer is held to"},
    "guided_json": {"description": "JSON Schema that the answer satisfies"},
    "guided_regex": {"type": "string", "description": "regular expression that it matches"},
    "guided_choice": {"type": "array", "description": "answers to choose among"},
    "guided_grammar": {"type": "string", "description": "grammar that it satisfies"},
    "enable_thinking": {"type": "boolean", "description": "whether the model thinks first"},
    "thinking": {"type": "object", "description": "whether and how the model thinks first"},
    "reasoning": {"type": "object", "description": "how much the model thinks first"},
    "provider": {"type": "object", "description": "which provider a gateway asks, and how"},
    "models": {"type": "array", "description": "models that a gateway asks where one fails"},
    "plugins": {"type": "array", "description": "what a gateway does besides"},
    "transforms": {"type": "array", "description": "what a gateway changes of a prompt"},
}
"""JSON Schema by parameter name, for `DialectEndpoint.parameters`."""
