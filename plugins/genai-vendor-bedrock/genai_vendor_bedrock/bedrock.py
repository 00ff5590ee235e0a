"""The provider `bedrock`: Amazon Bedrock, with an API key or signed requests.

Source: Amazon Bedrock API reference and user guide, "Amazon Bedrock endpoints", "API keys",
"Supported Regions and models for inference profiles", "Anthropic Claude tool use"; AWS SDKs and
Tools reference guide, "Service-specific endpoints"; as of November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from attrs import evolve

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    HttpRequest,
    ListedModel,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    Secret,
    Services,
)
from genai_host.errors import GenaiError, MalformedReply
from genai_vendor_bedrock import BedrockSettings
from genai_vendor_bedrock.aws import Aws
from genai_vendor_bedrock.event_stream import FRAMINGS
from genai_vendor_bedrock.failures import explain_error

_MOST_PAGES = 100
_TOOLS = ["bash_", "computer_", "memory_", "text_editor_", "tool_search_tool_"]
"""Tools of Anthropic that Bedrock has. It neither searches the web nor runs code for Claude."""
_GLOBAL, _NEAR = "global.", "geo."
_NEAR_OF_REGION = {"us-gov": "us-gov", "us": "us", "ca": "us", "eu": "eu", "ap": "apac"}


class _Signed(HttpProvider):
    """One endpoint of the service, with the API key or a signature per request."""

    def __init__(self, services: Services, base_url: str, key: Secret | None, aws: Aws) -> None:
        super().__init__(services, base_url, key=key)
        self._aws = aws

    def authorize(self, request: HttpRequest, limits: CancelToken) -> HttpRequest:
        return request if self.has_key else self._aws.sign(request)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


class BedrockProvider(_Signed):
    """Provider for Bedrock. Unless an endpoint is set, the address depends on the region, which is
    determined by the first request.
    """

    framings = FRAMINGS
    default_models = {"chat": "nova-2-lite"}
    call_limits = {
        "first_token_timeout": 300,
        "read_timeout": 300,
        "timeout": 1800,
    }  # a model can reason for minutes

    def __init__(self, settings: BedrockSettings, services: Services) -> None:
        access, secret = settings.access_key_id, settings.secret_access_key
        keys = (access, secret, settings.session_token) if access and secret else None
        aws = Aws(
            settings.region.strip(),
            settings.profile.strip(),
            keys,
            machine_role=settings.machine_role,
        )
        super().__init__(services, settings.endpoint, settings.bearer_token, aws)
        self.serves = _serves(settings.betas)
        self._control_url = settings.control_endpoint
        self._geography = settings.geography.strip().rstrip(".")

    def unavailable_reason(self) -> str | None:
        no_credentials = None if self.has_key else self._aws.missing_credentials()
        needs_region = not (self.base_url and self.has_key)
        return no_credentials or (self._aws.missing() if needs_region else None)

    def provider_model_id(self, model_id: str) -> str:
        """Replace the prefixes `global.` and `geo.` by the location of the inference profile."""
        before, _, id = model_id.partition(".")
        if before == _NEAR[:-1]:
            return f"{self._geography or _geography_of(self._aws.region())}.{id}"
        if before == _GLOBAL[:-1] and self._geography:
            return f"{self._geography}.{id}"
        return model_id

    def address(self, request: ProviderRequest) -> str:
        if not self.base_url:
            self.base_url = self._url("bedrock-runtime")
        return super().address(request)

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self._shown(super().send(request, limits))

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        reply = super().stream(request, limits)
        return self._shown(reply) if isinstance(reply, ProviderReply) else reply

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        url = self._control_url or self._url("bedrock")
        control = _Signed(self.services, url, self._key, self._aws)
        yield from _models(control.get("/foundation-models?byOutputModality=TEXT", limits))
        yield from _profiles(control, limits)

    def _shown(self, reply: ProviderReply) -> ProviderReply:
        if reply.status < 400:
            return reply
        return evolve(reply, body=self._aws.without_secrets(reply.body))

    def _url(self, service: str) -> str:
        region = self._aws.region()
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://{service}.{region}.{domain}"


def _serves(betas: Sequence[str]) -> Mapping[str, DialectEndpoint]:
    version = {"anthropic_version": "bedrock-2023-05-31"}
    return {
        "anthropic-messages": DialectEndpoint(
            "/model/{model}/invoke",
            stream_path="/model/{model}/invoke-with-response-stream",
            omit_fields=["model", "stream"],
            extra_fields={**version, **({"anthropic_beta": [*betas]} if betas else {})},
            parameters={"betas": False},  # a setting, since they are in the body
            variant={"cache": "blocks", "unknown_fields": False, "vendor_tools": _TOOLS},
            model_ids="*anthropic.claude-*",
        ),
        "bedrock-converse": DialectEndpoint(),
        "bedrock-count": DialectEndpoint(),
    }


def _geography_of(region: str) -> str:
    """Return the location prefix of a region's inference profiles; its own if it is unknown."""
    before = region.rsplit("-", 2)[0]
    return _NEAR_OF_REGION.get(before, before)


def _models(page: Any) -> Iterator[ListedModel]:
    """Yield the models that run without an inference profile."""
    try:
        for model in page["modelSummaries"]:
            if "ON_DEMAND" in model["inferenceTypesSupported"]:
                yield ListedModel(model["modelId"])
    except (LookupError, TypeError, AttributeError) as error:
        raise MalformedReply(f"the reply is not a list of models: {error!r}") from error


def _profiles(control: HttpProvider, limits: CancelToken) -> Iterator[ListedModel]:
    """Yield the inference profiles, which have separate ids."""
    query = {"maxResults": "1000"}
    for _ in range(_MOST_PAGES):
        page = control.get(f"/inference-profiles?{urlencode(query)}", limits)
        try:
            for profile in page["inferenceProfileSummaries"]:
                yield ListedModel(profile["inferenceProfileId"])
            after = page.get("nextToken")
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedReply(f"the reply is not a list of profiles: {error!r}") from error
        if not isinstance(after, str) or not after:
            return
        query["nextToken"] = after
