"""The provider `azure-openai`: the deployments of one Azure resource.

Source: "Azure OpenAI in Azure AI Foundry Models API lifecycle". Since August 2025 there is a v1 API
without versions, in which the model name is the name of a deployment. The older, dated versions
have the deployment in the path. Azure CLI, "az account get-access-token": `accessToken`, and
`expires_on` in seconds since 1970, which versions before 2.54 lack.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genai_host.api import (
    AccessToken,
    CachedToken,
    CancelToken,
    Clock,
    DialectEndpoint,
    HttpProvider,
    ProviderReply,
    Secret,
    Services,
    read_json,
)
from genai_host.errors import AuthenticationFailed, BadRequest, GenaiError
from genai_vendor_openai import AzureSettings
from genai_vendor_openai.openai import HELD, PATIENT

if TYPE_CHECKING:
    from subprocess import Popen

_SECONDS = 30.0  # timeout of the command
_LARGEST = 1 << 16  # bytes of the output, which has little besides a token


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
            output = process.stdout.read(_LARGEST + 1)
            if len(output) > _LARGEST:
                _end(process)
            code = process.wait()
        limits.check()
        if overdue:
            raise self._failed(f"did not finish within {_SECONDS:g} s")
        if len(output) > _LARGEST:
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
        self.serves = _serves(version)

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


def _serves(version: str) -> Mapping[str, DialectEndpoint]:
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
