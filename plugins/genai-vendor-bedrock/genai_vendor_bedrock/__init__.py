"""Amazon Bedrock and its models.

provider `bedrock`          by a key of Bedrock, or by the credentials that AWS users have
dialect `bedrock-converse`  one format for all of its models
dialect `bedrock-count`     how many tokens a call in it would take
models `nova-...`           Amazon's own
and Claude, and open-weight models, where their plugins declare them
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, Model, Offering, ProviderType, hookimpl
from genai_vendor_bedrock.bedrock import BedrockProvider, BedrockSettings
from genai_vendor_bedrock.converse import BedrockConverse, BedrockCount
from genai_vendor_bedrock.models import NOVA, OFFERINGS

__all__ = [
    "NOVA",
    "OFFERINGS",
    "BedrockConverse",
    "BedrockCount",
    "BedrockProvider",
    "BedrockSettings",
]


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    """Not automatic: AWS credentials can exist for other purposes."""
    yield ProviderType("bedrock", BedrockSettings, BedrockProvider, automatic=False)


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    yield BedrockConverse()
    yield BedrockCount()


@hookimpl
def genai_models() -> Iterable[Model]:
    return NOVA


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    return OFFERINGS
