"""Suites that the tests of a plugin subclass in a few lines; see docs/testing.md.

- `CompleteDialectSuite`: a dialect of text completions
- `CountDialectSuite`: a dialect that counts tokens
- `DialectSuite`: a chat dialect
- `EmbedDialectSuite`: an embedding dialect
- `ModerateDialectSuite`: a moderation dialect
- `TranscribeDialectSuite`: a dialect that converts speech to text
- `WireSuite`: an API format, with its dialect and its HTTP routes
- `ProviderSuite`: any provider
- `HttpProviderSuite`: an HTTP provider, with all faults of a service
- `ModelSuite`: models and offerings
- `FeatureSuite`: a feature
- `ToolSuite`: a tool
- `ToolSourceSuite`: a source of tools, or a tool set
- `ExecutorSuite`: an executor of batches

All tests of a suite are mandatory unless they are marked as `recommended`: a class that omits or
replaces one gives the reason in its `deviations`.
"""

import pytest

_REWRITTEN = """
    base codec dialect executor feature http_provider http_replies http_stage http_streams
    model other_dialects provider tool tool_source wire wire_service
"""
# before the imports, so that assertions show the compared values
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _REWRITTEN.split()))

from genai_host_testing.suites.base import PluginSuite, Suite, recommended  # noqa: E402
from genai_host_testing.suites.dialect import DialectSuite  # noqa: E402
from genai_host_testing.suites.executor import ExecutorSuite  # noqa: E402
from genai_host_testing.suites.feature import FeatureSuite  # noqa: E402
from genai_host_testing.suites.http_provider import HttpProviderSuite  # noqa: E402
from genai_host_testing.suites.model import ModelSuite  # noqa: E402
from genai_host_testing.suites.other_dialects import (  # noqa: E402
    CompleteDialectSuite,
    CountDialectSuite,
    EmbedDialectSuite,
    ModerateDialectSuite,
    TranscribeDialectSuite,
)
from genai_host_testing.suites.provider import ProviderSuite  # noqa: E402
from genai_host_testing.suites.sample_replies import AnthropicMessagesReplies, OpenAIChatReplies  # noqa: E402
from genai_host_testing.suites.tool import ToolSuite  # noqa: E402
from genai_host_testing.suites.tool_source import ToolSourceSuite  # noqa: E402
from genai_host_testing.suites.wire import WireSuite  # noqa: E402

__all__ = [
    "AnthropicMessagesReplies",
    "CompleteDialectSuite",
    "CountDialectSuite",
    "DialectSuite",
    "EmbedDialectSuite",
    "ExecutorSuite",
    "FeatureSuite",
    "HttpProviderSuite",
    "ModelSuite",
    "ModerateDialectSuite",
    "OpenAIChatReplies",
    "PluginSuite",
    "ProviderSuite",
    "Suite",
    "ToolSourceSuite",
    "ToolSuite",
    "TranscribeDialectSuite",
    "WireSuite",
    "recommended",
]
