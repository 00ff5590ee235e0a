"""The providers `openai`, OpenAI's own service, `openai-compatible`, any server with such an API,
and `azure-openai`, the deployments of one Azure resource. Parameters of compatible servers.

Source of the parameters: vLLM, "OpenAI-Compatible Server", extra parameters; llama.cpp,
`tools/server/README.md`; LM Studio, "Chat Completions"; OpenRouter, "Parameters"; SGLang, "Sampling
Parameters"; as of November 2026. The server itself validates names and ranges.

Source for Azure: "Azure OpenAI in Azure AI Foundry Models API lifecycle". Since August 2025 there
is a v1 API without versions, in which the model name is the name of a deployment. The older, dated
versions have the deployment in the path. Azure CLI, "az account get-access-token": `accessToken`,
and `expires_on` in seconds since 1970, which versions before 2.54 lack.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import asdict
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.operations import OpenAIEmbed
from genai_wire_openai.dialect.responses import OpenAIResponses

from genai_host.api import (
    AccessToken,
    CachedToken,
    CancelToken,
    Clock,
    DialectEndpoint,
    HttpProvider,
    ListedModel,
    Operation,
    ProviderReply,
    Secret,
    Services,
    listed_models,
    parameter,
    read_json,
)
from genai_host.errors import AuthenticationFailed, BadRequest, ConfigurationError, GenaiError
from genai_vendor_openai import AzureSettings, CompatibleSettings, OpenAISettings


def _numbers(**described: str) -> dict[str, Any]:
    return {
        name: {"type": "number", "description": description}
        for name, description in described.items()
    }


OF_SERVERS: Mapping[str, Any] = {
    **_numbers(
        top_k="number of likeliest tokens to sample from",
        min_p="minimum probability of a token, relative to the likeliest one",
        top_a="top-a sampling: minimum, relative to the square of the largest probability",
        typical_p="locally typical sampling threshold",
        repetition_penalty="repetition penalty; above 1 reduces repetition",
        repeat_penalty="repetition penalty; above 1 reduces repetition",
        repeat_last_n="number of last tokens that the repetition penalty considers",
        length_penalty="length penalty of beam search; above 0 favors longer answers",
        min_tokens="minimum number of tokens of the answer",
        dynatemp_range="range of the dynamic temperature",
        dynatemp_exponent="exponent of the dynamic temperature",
        xtc_probability="XTC sampling: probability of removing the likeliest tokens",
        xtc_threshold="XTC sampling: minimum probability of removed tokens",
        dry_multiplier="DRY sampling: multiplier; above 0 reduces repeated sequences",
        dry_base="DRY sampling: base of the penalty",
        dry_allowed_length="DRY sampling: length that can be repeated without a penalty",
        dry_penalty_last_n="DRY sampling: number of last tokens to consider",
        mirostat="version of Mirostat; 0 for none",
        mirostat_tau="Mirostat: target entropy",
        mirostat_eta="Mirostat: learning rate",
        top_n_sigma="top-n-sigma sampling: standard deviations below the likeliest token",
        id_slot="slot that computes the answer",
    ),
    "chat_template_kwargs": parameter(
        "object", 'values for the model\'s chat template, such as {"enable_thinking": false}'
    ),
    "ignore_eos": {"type": "boolean", "description": "ignore the end-of-sequence token"},
    "skip_special_tokens": {"type": "boolean", "description": "omit special tokens"},
    "cache_prompt": {"type": "boolean", "description": "cache the prompt for the next request"},
    "stop_token_ids": {"type": "array", "description": "token ids that end the answer"},
    "bad_words": {"type": "array", "description": "words that must not occur"},
    "grammar": {"type": "string", "description": "grammar that the answer must match"},
    "structured_outputs": {"type": "object", "description": "constraint of the answer"},
    "guided_json": {"description": "JSON Schema that the answer must match"},
    "guided_regex": parameter("string", "regular expression that the answer must match"),
    "guided_choice": {"type": "array", "description": "allowed answers"},
    "guided_grammar": {"type": "string", "description": "grammar that the answer must match"},
    "enable_thinking": {"type": "boolean", "description": "enable reasoning"},
    "thinking": {"type": "object", "description": "reasoning settings"},
    "reasoning": {"type": "object", "description": "reasoning budget in tokens"},
    "provider": {"type": "object", "description": "provider preferences of a gateway"},
    "models": {"type": "array", "description": "fallback models of a gateway"},
    "plugins": {"type": "array", "description": "plugins of a gateway"},
    "transforms": {"type": "array", "description": "prompt transforms of a gateway"},
}
"""JSON Schema by parameter name, for `DialectEndpoint.parameters`."""


PATIENT: Mapping[str, float] = {"first_token_timeout": 300, "read_timeout": 300, "timeout": 1800}
"""Timeouts in seconds. A reasoning model can send nothing for minutes."""

HELD: Mapping[str, Any] = {"strict": True, "object_root": True}
"""How the service enforces schemas."""


class OpenAIProvider(HttpProvider):
    """Provider for OpenAI's API. At another address, undeclared models use chat completions first,
    because most servers support them.
    """

    default_models = {
        "chat": "gpt-6.1-sol",
        "embed": "text-embedding-3-small",
        "moderate": "omni-moderation",
        "transcribe": "gpt-4o-transcribe",
    }
    call_limits = PATIENT

    def __init__(self, settings: OpenAISettings, services: Services) -> None:
        named = {"OpenAI-Organization": settings.organization, "OpenAI-Project": settings.project}
        headers = {name: value for name, value in named.items() if value}
        super().__init__(services, settings.base_url, headers, key=settings.api_key)
        self.serves = _OWN if _is_own(self.base_url) else _ELSEWHERE

    def unavailable_reason(self) -> str | None:
        return super().unavailable_reason() or (
            None if self.has_key else self.services.no_key("OPENAI_API_KEY")
        )

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        return listed_models(self.get("/models", limits))


def _is_own(base_url: str) -> bool:
    """Whether an address is OpenAI's own, including the regional ones."""
    host = urlsplit(base_url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


_OWN: Mapping[str, DialectEndpoint] = {
    "openai-responses": DialectEndpoint(variant=HELD),
    "openai-chat": DialectEndpoint(variant={**HELD, "max_tokens": "max_completion_tokens"}),
    "openai-count": DialectEndpoint(),
    "openai-embed": DialectEndpoint(variant={"encoding": "base64"}),
    "openai-moderate": DialectEndpoint(model_ids="*moderation*"),
    "openai-transcribe": DialectEndpoint(),
}
_ELSEWHERE: Mapping[str, DialectEndpoint] = {
    "openai-chat": DialectEndpoint(variant=HELD, parameters=OF_SERVERS),
    "openai-responses": DialectEndpoint(variant=HELD),
    "openai-count": DialectEndpoint(),
    "openai-embed": DialectEndpoint(),
    "openai-moderate": DialectEndpoint(model_ids="*moderation*"),
    "openai-transcribe": DialectEndpoint(),
}


_VARIANTS = {each.name: each.variant for each in (OpenAIChat, OpenAIResponses, OpenAIEmbed)}
"""The variants of each dialect."""


class CompatibleProvider(HttpProvider):
    call_limits = PATIENT

    def __init__(self, settings: CompatibleSettings, services: Services) -> None:
        super().__init__(services, settings.base_url, settings.headers, key=settings.api_key)
        self.serves = _serves(settings)
        self.extra_body = settings.extra_body
        self.default_models = _default_models(settings, services.instance)

    def unavailable_reason(self) -> str | None:
        if not self.base_url:
            return f"no address: set base_url in [providers.{self.services.instance}]"
        return None

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        return listed_models(self.get("/models", limits))


def _serves(settings: CompatibleSettings) -> Mapping[str, DialectEndpoint]:
    if not settings.serves:
        raise ConfigurationError("serves must name at least one dialect")
    chosen = {
        name: value for name, value in asdict(settings, recurse=False).items() if value is not None
    }
    serves: dict[str, DialectEndpoint] = {
        dialect: DialectEndpoint(
            unsupported=settings.lacks,
            parameters=OF_SERVERS if dialect == "openai-chat" else {},
            variant={name: chosen[name] for name in _VARIANTS[dialect] if name in chosen},
        )
        for dialect in settings.serves
    }
    serves["openai-transcribe"] = DialectEndpoint()
    if settings.completions:
        serves["openai-completions"] = DialectEndpoint(unsupported=settings.lacks)
    return serves


def _default_models(settings: CompatibleSettings, instance: str) -> Mapping[Operation, str]:
    """Return the default models, whose ids can look like instances: `openai/gpt-oss-20b`."""
    named: Mapping[Operation, str] = {
        "chat": settings.default_model,
        "embed": settings.default_embed_model,
        "transcribe": settings.default_transcription_model,
    }
    return {operation: f"{instance}/{model}" for operation, model in named.items() if model}


if TYPE_CHECKING:
    from subprocess import Popen

_SECONDS = 30.0  # timeout of the command
_MAX_SIZE = 1 << 16  # bytes of the output, which has little besides a token


class TokenCommand:
    """A command, run without a shell, that prints a token, or JSON with one."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        self._command = command
        self._clock = clock

    def missing(self) -> str | None:
        """Why the command cannot run, checked without running it."""
        program = self._command[0]
        return None if shutil.which(program) else f"token_command: no such program: {program}"

    def __call__(self, limits: CancelToken) -> AccessToken:
        """Run the command and return its token. Raises `AuthenticationFailed`, without the output,
        which can contain a token even after a failure.
        """
        output = self._run(limits).strip()
        if not output.startswith(b"{"):
            return self._token(output.decode(errors="replace"), None)
        try:
            data = read_json(output)
        except ValueError:
            raise self._failed("printed invalid JSON") from None
        return self._token(data.get("accessToken"), self._seconds_until(data))

    def _token(self, value: object, seconds: float | None) -> AccessToken:
        if not isinstance(value, str) or not value:
            raise self._failed("printed no token")
        return AccessToken(Secret(value), seconds)

    def _seconds_until(self, data: Mapping[str, Any]) -> float | None:
        end = data.get("expires_on")
        if isinstance(end, str) and end.isascii() and end.isdigit():
            end = int(end[:20])  # longer numbers are not times and slow to parse
        return float(end) - self._clock.now().timestamp() if type(end) is int else None

    def _run(self, limits: CancelToken) -> bytes:
        """Return the output, within the timeout of the command and of the call."""
        import subprocess  # with modules that few providers need

        program = shutil.which(self._command[0])
        if program is None:
            raise self._failed("was not found")
        overdue: list[bool] = []
        try:
            process = subprocess.Popen(
                [program, *self._command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that its children can be killed too
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise self._failed(f"cannot be run: {why}") from None

        def give_up() -> None:
            overdue.append(True)
            _end(process)

        assert process.stdout is not None
        with (
            process,
            limits.on_cancel(lambda: _end(process)),
            self._clock.call_later(_SECONDS, give_up),
        ):
            output = process.stdout.read(_MAX_SIZE + 1)
            if len(output) > _MAX_SIZE:
                _end(process)
            code = process.wait()
        limits.check()
        if overdue:
            raise self._failed(f"did not finish within {_SECONDS:g} s")
        if len(output) > _MAX_SIZE:
            raise self._failed("printed too much")
        if code:
            raise self._failed(f"exited with code {code}")
        return output

    def _failed(self, why: str) -> AuthenticationFailed:
        name = os.path.basename(self._command[0])
        return AuthenticationFailed(
            f"token_command: {name} {why}", hint="run the command to see its output"
        )


def _end(process: Popen[bytes]) -> None:
    """Kill the command and its child processes, which would otherwise hold its output open."""
    if process.poll() is not None:
        return
    with contextlib.suppress(OSError):  # it has exited
        if os.name == "posix":
            import signal

            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


_V1 = ("", "v1", "latest", "preview")
_FIRST_WITH_RESPONSES = "2025-03-01"
_NO_DEPLOYMENT = ("DeploymentNotFound", "unknown_model")


class AzureProvider(HttpProvider):
    """Provider for Azure deployments. A deployment is assumed to have the name of its model, unless
    an instance maps the names.
    """

    call_limits = PATIENT

    def __init__(self, settings: AzureSettings, services: Services) -> None:
        version = settings.api_version.strip()
        command = TokenCommand(settings.token_command, services.clock)
        self._command = command if settings.token_command else None
        by_token = self._command is not None or settings.token is not None
        super().__init__(
            services,
            _base_url(settings.endpoint, version),
            key=None if self._command else settings.token or settings.api_key,
            auth_header="Authorization: Bearer {key}" if by_token else "api-key: {key}",
            token=CachedToken(command, services.clock) if self._command else None,
        )
        self.serves = _azure_serves(version)

    def unavailable_reason(self) -> str | None:
        if not self.base_url:
            return "no endpoint: set AZURE_OPENAI_ENDPOINT"
        if self._command is not None:
            return self._command.missing()
        return None if self.has_key else self.services.no_key("AZURE_OPENAI_API_KEY")

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        if reply.status != 404 or not _is_about_a_deployment(reply):
            return None
        return BadRequest(
            "the resource has no deployment of this name",
            hint='name your deployment in the configuration: models = { gpt-5 = "mine" }',
            status=reply.status,
        )


def _base_url(endpoint: str, version: str) -> str:
    """Return the base URL for an address from the portal, or in another client's form."""
    resource = endpoint.strip().rstrip("/").removesuffix("/v1").removesuffix("/openai")
    if not resource:
        return ""
    return f"{resource}/openai/v1" if version in _V1 else f"{resource}/openai"


def _azure_serves(version: str) -> Mapping[str, DialectEndpoint]:
    query = {"api-version": version} if version not in ("", "v1") else {}
    by_deployment = "" if version in _V1 else "/deployments/{model}"
    responses = DialectEndpoint(query=query, variant=HELD)
    others = {
        "openai-chat": DialectEndpoint(
            f"{by_deployment}/chat/completions",
            query=query,
            unsupported={"files"},
            variant={**HELD, "max_tokens": "max_completion_tokens"},
        ),
        "openai-embed": DialectEndpoint(
            f"{by_deployment}/embeddings", query=query, variant={"encoding": "base64"}
        ),
        "openai-transcribe": DialectEndpoint(f"{by_deployment}/audio/transcriptions", query=query),
    }
    has_responses = version in _V1 or version >= _FIRST_WITH_RESPONSES
    return {"openai-responses": responses, **others} if has_responses else others


def _is_about_a_deployment(reply: ProviderReply) -> bool:
    try:
        error = read_json(reply.body)["error"]
        return error["code"] in _NO_DEPLOYMENT
    except (ValueError, LookupError, TypeError):
        return False
