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
from genai_vendor_bedrock.models import NOVA, OFFERINGS

__all__ = ["NOVA", "OFFERINGS", "BedrockSettings"]


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
