"""Why a model stopped: the words of services, and what they mean.

Formats name a few words, and services that share a format use others: of other formats, of the
programs that they run, in upper or lower case. So there is one table for all dialects.

A word that is not in the table is a hint alone. Its parts tell an answer that was cut, refused or
broken off; otherwise `read_finish` takes what the dialect says, and the answer is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from genai_host.api.calls import FinishReason
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
"""As some services say in each piece that the answer goes on."""
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN = re.compile(r"[^a-z0-9]+")
_BROKEN_OFF = re.compile(r"abort|cancel|error|fail|insufficient|interrupt|timeout|unavailable")
_PARTS: tuple[tuple[re.Pattern[str], FinishReason], ...] = (
    (re.compile(r"budget|exceeded|length|limit|max_|token|truncat|window"), "length"),
    (re.compile(r"block|filter|moderat|polic|prohibit|refus|safety"), "content_filter"),
    (re.compile(r"invalid|malformed|unexpected"), "other"),
)
"""What the parts of other words tell; the first that is found counts."""
_WEIGHTS: Mapping[FinishReason, int] = {
    "stop": 0, "tool_calls": 1, "other": 2, "length": 3, "content_filter": 4,
}  # fmt: skip
_HEAVIEST = 5  # of what was broken off


def finish_word(value: object) -> str:
    """Why a model stopped, in the service's word; empty for what is no word, and for the words
    that say that the answer goes on."""
    if not isinstance(value, str) or _plain(value) in _NONE:
        return ""
    return value[:_LONGEST_WORD]


def weightier(first: str, second: str) -> str:
    """Of two words for one answer, the one that says more: a cut is not undone by `stop`."""
    if not first or not second:
        return first or second
    return second if _weight(second) >= _weight(first) else first


def read_finish(
    word: str, *, calls: bool = False, text: str = "", unknown: FinishReason = "stop"
) -> FinishReason:
    """What a word means.

    Args:
        word: From `finish_word`; empty where the answer has ended and no reason was given.
        calls: Whether the model has called tools: some services then say `stop`.
        text: What it has said.
        unknown: What a word means that is not known.

    Raises:
        IncompleteReply: For a word that says that the service broke the answer off.
    """
    plain = _plain(word)
    if plain not in _MEANINGS and _BROKEN_OFF.search(plain):
        raise IncompleteReply(f"the service broke the reply off: {word}", text=text)
    meaning = _meaning(plain) or unknown
    return "tool_calls" if calls and meaning == "stop" else meaning


def _meaning(plain: str) -> FinishReason | None:
    """None for a word that is not known."""
    if plain in _MEANINGS or not plain:
        return _MEANINGS.get(plain, "stop")
    return next((meaning for part, meaning in _PARTS if part.search(plain)), None)


def _weight(word: str) -> int:
    plain = _plain(word)
    if plain not in _MEANINGS and _BROKEN_OFF.search(plain):
        return _HEAVIEST
    return _WEIGHTS[_meaning(plain) or "stop"]


def _plain(word: str) -> str:
    """In one form: `MaxTokens`, `MAX_TOKENS` and `max-tokens` are one word."""
    parted = _INNER_CAPITAL.sub("_", word[:_LONGEST_WORD]).lower()
    return _BETWEEN.sub("_", parted).strip("_").removeprefix("finish_reason_")
