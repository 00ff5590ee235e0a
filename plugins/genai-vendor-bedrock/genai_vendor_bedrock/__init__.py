"""Amazon Bedrock and its models.

provider `bedrock`          by a key of Bedrock, or by the credentials that AWS users have
dialect `bedrock-converse`  one format for all of its models
dialect `bedrock-count`     how many tokens a call in it would take
models `nova-...`           Amazon's own
and Claude, and open-weight models, where their plugins declare them

Ids are from AWS's model cards and its list of supported models, October 2026. Capabilities were
tested there by third parties. Anthropic's models require an inference profile: here the global one,
which an instance can restrict to a location.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from genai_host.api import (
    Dialect,
    Model,
    Offering,
    Provider,
    ProviderType,
    Secret,
    Services,
    hookimpl,
    setting,
)

__all__ = ["NOVA", "OFFERINGS", "BedrockSettings"]


_PROVIDER = "bedrock"
_CONVERSE = "bedrock-converse"
_CLAUDE = ("anthropic-messages", _CONVERSE)


def _nova(name: str, id: str, window: int, *capabilities: str, **variant: Any) -> Model:
    """A Nova model. A tool enforces schemas, and the cache excludes tools."""
    return Model(
        name,
        dialects=[_CONVERSE],
        capabilities={"tools", "schema", *capabilities},
        window=window,
        variant={_CONVERSE: {"schema": "tool", "cached_tools": False, **variant}},
        at={_PROVIDER: id},
    )


NOVA: Sequence[Model] = (
    _nova(
        "nova-2-lite",
        "global.amazon.nova-2-lite-v1:0",
        1_000_000,
        "images", "files", "reasoning",
        effort="reasoning_config",
    ),
    _nova("nova-pro", "geo.amazon.nova-pro-v1:0", 300_000, "images", "files"),
    _nova("nova-lite", "geo.amazon.nova-lite-v1:0", 300_000, "images", "files"),
    _nova("nova-micro", "geo.amazon.nova-micro-v1:0", 128_000),
)  # fmt: skip


def _claude(name: str, id: str = "", *, held: bool = False) -> Offering:
    """An offering of a Claude model; `held` is whether the service enforces schemas."""
    return Offering(
        name,
        _PROVIDER,
        f"global.anthropic.{id or name}",
        dialects=_CLAUDE,
        unsupported=() if held else {"schema"},
    )


def _open_weight(name: str, id: str, *, lacks: Sequence[str] = (), **variant: Any) -> Offering:
    return Offering(name, _PROVIDER, id, dialects=[_CONVERSE], unsupported=lacks, variant=variant)


def _llama(name: str, id: str) -> Offering:
    """An offering of a Llama model, without schemas and without tool calls in a stream."""
    return _open_weight(name, f"us.meta.{id}", lacks=["schema"], streamed_tools=False)


OFFERINGS: Sequence[Offering] = (
    _claude("claude-fable-5-1"),
    _claude("claude-fable-5"),
    _claude("claude-opus-5-5"),
    _claude("claude-opus-5"),
    _claude("claude-opus-4-8"),
    _claude("claude-opus-4-7"),
    _claude("claude-opus-4-6", "claude-opus-4-6-v1", held=True),
    _claude("claude-opus-4-5", "claude-opus-4-5-20251101-v1:0", held=True),
    _claude("claude-sonnet-5-5"),
    _claude("claude-sonnet-5", held=True),
    _claude("claude-sonnet-4-6", held=True),
    _claude("claude-sonnet-4-5", "claude-sonnet-4-5-20250929-v1:0", held=True),
    _claude("claude-haiku-5-5"),
    _claude("claude-haiku-4-5", "claude-haiku-4-5-20251001-v1:0", held=True),
    _llama("llama-3.1-8b", "llama3-1-8b-instruct-v1:0"),
    _llama("llama-3.1-70b", "llama3-1-70b-instruct-v1:0"),
    _llama("llama-3.3-70b", "llama3-3-70b-instruct-v1:0"),
    _llama("llama-4-scout", "llama4-scout-17b-instruct-v1:0"),
    _llama("llama-4-maverick", "llama4-maverick-17b-instruct-v1:0"),
    _open_weight("qwen3-32b", "qwen.qwen3-32b-v1:0"),
    _open_weight("gpt-oss-20b", "openai.gpt-oss-20b-1:0", effort="reasoning_effort"),
    _open_weight("gpt-oss-120b", "openai.gpt-oss-120b-1:0", effort="reasoning_effort"),
    _open_weight("gemma-3-4b", "google.gemma-3-4b-it", lacks=["schema"]),
    _open_weight("gemma-3-12b", "google.gemma-3-12b-it"),
    _open_weight("gemma-3-27b", "google.gemma-3-27b-it"),
    _open_weight("deepseek-r1", "us.deepseek.r1-v1:0", lacks=["schema", "tools"]),
)  # fmt: skip


@frozen
class BedrockSettings:
    region: str = setting(
        "", "AWS region; empty for that of the profile", env=("AWS_REGION", "AWS_DEFAULT_REGION")
    )
    profile: str = setting("", "profile of your AWS files; comes before keys in the environment")
    bearer_token: Secret | None = setting(
        None,
        "API key of Bedrock; comes before all other credentials",
        env="AWS_BEARER_TOKEN_BEDROCK",
    )
    access_key_id: Secret | None = setting(
        None, "access key of an AWS user", env="AWS_ACCESS_KEY_ID"
    )
    secret_access_key: Secret | None = setting(
        None, "secret access key of the AWS user", env="AWS_SECRET_ACCESS_KEY"
    )
    session_token: Secret | None = setting(
        None, "session token of temporary credentials", env="AWS_SESSION_TOKEN"
    )
    machine_role: bool = setting(False, "use the IAM role of the EC2 instance")
    geography: str = setting(
        "",
        "geography whose inference profiles replace the global ones, for example us, "
        "eu, apac, jp or au",
    )
    betas: tuple[str, ...] = setting((), "Anthropic beta features to enable for Claude")
    endpoint: str = setting(
        "",
        "URL of the service, if not the default",
        env=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"),
    )
    control_endpoint: str = setting(
        "",
        "URL of the endpoint that lists models",
        env=("AWS_ENDPOINT_URL_BEDROCK", "AWS_ENDPOINT_URL"),
    )


def _open(settings: BedrockSettings, services: Services) -> Provider:
    from genai_vendor_bedrock.bedrock import BedrockProvider

    return BedrockProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    """Not automatic: AWS credentials can exist for other purposes."""
    yield ProviderType("bedrock", BedrockSettings, _open, automatic=False)


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_vendor_bedrock.converse import BedrockConverse, BedrockCount

    yield BedrockConverse()
    yield BedrockCount()


@hookimpl
def genai_models() -> Iterable[Model]:
    return NOVA


@hookimpl
def genai_offerings() -> Iterable[Offering]:
    return OFFERINGS
