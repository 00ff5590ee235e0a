"""The chat, by the suite that strangers' features run."""

from __future__ import annotations

import genai_feature_chat

from genai_host_testing.suites import FeatureSuite


class TestChat(FeatureSuite):
    plugin = genai_feature_chat
    feature = "chat"


class TestForgetfulChat(TestChat):
    settings = {"system_prompt": "", "history_turns": 1, "keep_history": False}


class TestChatModel(FeatureSuite):
    plugin = genai_feature_chat
    feature = "chat-model"
    settings = {"request_limit": None}


class TestChatModelAtARate(TestChatModel):
    settings = {"system_prompt": "Be brief.", "request_limit": 1000}
