"""Finish reasons of services.

Each format defines a few finish reasons, but services that share a format use others. So there is
one table for all dialects.

An unknown reason is only a hint. Words in it can mean that the answer was truncated, refused or
interrupted; otherwise `read_finish` returns the default of the dialect, and the answer is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from genai_host.api.results import FinishReason
from genai_host.errors import IncompleteReply

_LONGEST_WORD = 100

_WORDS: Mapping[FinishReason, str] = {
    "stop": """
        complete completed done end end_of_text end_of_turn end_token end_turn eos eos_token eot
        finish finished normal ok stop stop_sequence stop_str stop_token stopped success
    """,
    "length": """
        cache_full context_full continuation error_limit length limit max_length max_tokens
        model_context_window_exceeded model_length token_limit truncated
    """,
    "tool_calls": "function_call function_calls tool tool_call tool_calls tool_use tools",
    "content_filter": """
        blocklist content_filter content_filtered error_toxic escalation guardrail_intervened
        image_prohibited_content image_recitation image_safety model_armor prohibited_content
        recitation refusal safety sensitive spii
    """,
    "other": """
        image_other language load malformed_function_call malformed_model_output
        malformed_response malformed_tool_use missing_thought_signature no_image other pause
        pause_turn too_many_tool_calls unexpected_tool_call unload
    """,
}
_MEANINGS: Mapping[str, FinishReason] = {
    word: meaning for meaning, words in _WORDS.items() for word in words.split()
}
_NONE = frozenset({"", "in_progress", "none", "not_finished", "null", "unspecified"})
"""Values of services for an answer that is not finished."""
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN = re.compile(r"[^a-z0-9]+")
_BROKEN_OFF = re.compile(r"abort|cancel|error|fail|insufficient|interrupt|timeout|unavailable")
_PARTS: tuple[tuple[re.Pattern[str], FinishReason], ...] = (
    (re.compile(r"budget|exceeded|length|limit|max_|token|truncat|window"), "length"),
    (re.compile(r"block|filter|moderat|polic|prohibit|refus|safety"), "content_filter"),
    (re.compile(r"invalid|malformed|unexpected"), "other"),
)
"""Meaning of words in unknown reasons; the first match counts."""
_WEIGHTS: Mapping[FinishReason, int] = {
    "stop": 0, "tool_calls": 1, "other": 2, "length": 3, "content_filter": 4,
}  # fmt: skip
_HEAVIEST = 5  # interrupted


def finish_word(value: object) -> str:
    """A finish reason in the service's words; empty if it is missing or means that the answer is
    not finished."""
    if not isinstance(value, str) or _plain(value) in _NONE:
        return ""
    return value[:_LONGEST_WORD]


def weightier(first: str, second: str) -> str:
    """The more specific of two finish reasons of one answer: `stop` does not override a
    truncation."""
    if not first or not second:
        return first or second
    return second if _weight(second) >= _weight(first) else first


def read_finish(
    word: str, *, calls: bool = False, text: str = "", unknown: FinishReason = "stop"
) -> FinishReason:
    """The meaning of a finish reason.

    Args:
        word: From `finish_word`; empty if the service gave no reason.
        calls: Whether the model requested tool calls; some services then report `stop`.
        text: Text of the answer.
        unknown: Meaning of an unknown reason.

    Raises:
        IncompleteReply: The reason means that the service interrupted the answer.
    """
    plain = _plain(word)
    if plain not in _MEANINGS and _BROKEN_OFF.search(plain):
        raise IncompleteReply(f"the service interrupted the reply: {word}", text=text)
    meaning = _meaning(plain) or unknown
    return "tool_calls" if calls and meaning == "stop" else meaning


def _meaning(plain: str) -> FinishReason | None:
    """None for an unknown word."""
    if plain in _MEANINGS or not plain:
        return _MEANINGS.get(plain, "stop")
    return next((meaning for part, meaning in _PARTS if part.search(plain)), None)


def _weight(word: str) -> int:
    plain = _plain(word)
    if plain not in _MEANINGS and _BROKEN_OFF.search(plain):
        return _HEAVIEST
    return _WEIGHTS[_meaning(plain) or "stop"]


def _plain(word: str) -> str:
    """Normalize case and separators: `MaxTokens`, `MAX_TOKENS` and `max-tokens` are one word."""
    if word in _MEANINGS:
        return word
    parted = _INNER_CAPITAL.sub("_", word[:_LONGEST_WORD]).lower()
    return _BETWEEN.sub("_", parted).strip("_").removeprefix("finish_reason_")
