"""Why a model stopped, in the words of many services."""

from __future__ import annotations

from typing import Any

import pytest

from genai_host.api.finish_reasons import finish_word, read_finish, weightier
from genai_host.errors import IncompleteReply


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"), ("STOP", "stop"), ("eos", "stop"), ("eos_token", "stop"),
        ("end_turn", "stop"), ("EndTurn", "stop"), ("stop_sequence", "stop"),
        ("COMPLETE", "stop"), ("FINISH_REASON_STOP", "stop"), ("", "stop"),
        ("length", "length"), ("max_tokens", "length"), ("MAX_TOKENS", "length"),
        ("maxTokens", "length"), ("model_length", "length"), ("max_output_tokens", "length"),
        ("model_context_window_exceeded", "length"), ("token limit reached", "length"),
        ("tool_use", "tool_calls"), ("function_call", "tool_calls"),
        ("SAFETY", "content_filter"), ("refusal", "content_filter"),
        ("blocked_by_policy", "content_filter"),
        ("pause_turn", "other"), ("malformed_function_call", "other"),
        ("never heard of", "stop"),
    ],
)  # fmt: skip
def test_a_word_is_known_in_any_spelling(word: str, reason: str) -> None:
    assert read_finish(word) == reason


@pytest.mark.parametrize("word", ["error", "network_error", "Aborted", "timeout"])
def test_a_word_for_a_failure_is_no_end_of_an_answer(word: str) -> None:
    with pytest.raises(IncompleteReply, match=word) as caught:
        read_finish(word, text="half")
    assert caught.value.text == "half"


def test_calls_make_an_ordinary_end_one_for_tools_alone() -> None:
    assert read_finish("stop", calls=True) == "tool_calls"
    assert read_finish("length", calls=True) == "length"


def test_a_format_may_take_unknown_words_otherwise() -> None:
    assert read_finish("never heard of", unknown="other") == "other"


@pytest.mark.parametrize("value", [None, 0, 5, True, [], {}, "", "null", "none", "IN_PROGRESS"])
def test_what_is_no_word_ends_nothing(value: Any) -> None:
    assert finish_word(value) == ""


def test_a_word_is_bounded() -> None:
    assert len(finish_word("x" * 100_000)) == 100


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("", "stop", "stop"), ("stop", "", "stop"), ("stop", "eos", "eos"),
        ("length", "stop", "length"), ("stop", "length", "length"),
        ("error", "stop", "error"), ("tool_calls", "stop", "tool_calls"),
    ],
)  # fmt: skip
def test_of_two_words_the_one_that_says_more_counts(first: str, second: str, found: str) -> None:
    assert weightier(first, second) == found
