"""Calls of a model without a conversation: prompts, completions, embeddings, moderation, counts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Literal

from genai_host.api import (
    CancelToken,
    Completion,
    CountTokens,
    Delta,
    Embed,
    Embeddings,
    File,
    Message,
    Moderate,
    ModerationResult,
    Operation,
    Prompt,
    TokenCount,
    ToolSchema,
    Transcription,
)
from genai_host.api.dropped import DroppedFields
from genai_host.api.validators import texts_or_tokens
from genai_host.calls.agent import Agent
from genai_host.calls.passthrough import PassedRequest
from genai_host.calls.route import Route
from genai_host.host.arguments import checked
from genai_host.host.parts import HostParts


class ModelCalls(HostParts):
    """The methods of a `Host` that call a model. No feature and no event log are involved."""

    @checked
    def count_tokens(
        self,
        messages: str | Iterable[Message],
        *,
        model: str | None = None,
        provider: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        tools: Sequence[ToolSchema] = (),
        schema: Mapping[str, Any] | None = None,
        limits: CancelToken | None = None,
    ) -> TokenCount:
        """Count the input tokens of a prompt, as the service does, without running the prompt.

        Args:
            messages: The messages, oldest first; a string is a message of the user.
            model: Name of the model; see `open`.
            provider: Name of the provider to use; None for any.
            parameters: Model parameters by name.
            tools: Tools that the model may call.
            schema: JSON Schema of the answer.
            limits: Cancels the call.

        Raises:
            NoRoute: No provider of the model can count tokens.
            InvalidParameter: A model parameter is unknown or invalid.
            UnsupportedPart: The dialect cannot write a part of a message.
            ProviderError: The service failed.
            Cancelled: `limits` were cancelled.
        """
        prompt_messages = [Message("user", messages)] if isinstance(messages, str) else messages
        prompt = Prompt(prompt_messages, tools=tools, schema=schema)
        agent = self._routing.agent("main", "chat", model, parameters or {}, provider)
        with self._until(limits) as until:
            count: TokenCount = agent.ask(CountTokens(prompt), until)
            return count

    @checked
    def prompt(
        self,
        prompt: Prompt,
        *,
        model: str | None = None,
        provider: str | None = None,
        stream: bool = True,
        limits: CancelToken | None = None,
        owner: str | None = None,
        persisted: bool = False,
        dropped: DroppedFields | None = None,
        cut: bool = False,
    ) -> Generator[Delta, None, Completion]:
        """Send a prompt to a model: yield the chunks of the answer, then return the answer.

        No feature and no event log are involved. The caller runs the tools that the model requests.
        Closing the generator cancels the call.

        Args:
            prompt: The prompt.
            model: Name of the model; see `open`.
            provider: Name of the provider to use; None for any.
            stream: Whether to request a streamed reply; otherwise, the answer is one chunk.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.
            persisted: Whether the caller stores the call, so that its usage is counted there.
            dropped: Fields of the HTTP request that only some services receive.
            cut: Whether to return an answer that was cut at its length, with `value` None, although
                the prompt has a schema.

        Raises:
            OutputValidationError: The answer does not match the schema.
            ValidationError: No service may receive the request, because of `dropped`.
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner, persisted=persisted)
        agent = self._routing.agent("main", "chat", model, {}, provider, middleware)
        with self._until(limits) as until:
            # without a trace, `RetryWait` is not yielded
            pieces: Generator[Any, None, Completion] = agent.stream(
                prompt, until, stream=stream, dropped=dropped, cut=cut
            )
            completion = yield from pieces
            if not stream and completion.text:
                yield Delta(completion.text, citations=completion.message.citations)
            return completion

    @checked
    def complete(
        self,
        prompt: str | Iterable[str | Sequence[int]],
        *,
        suffix: str = "",
        model: str | None = None,
        provider: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        stream: bool = True,
        limits: CancelToken | None = None,
        owner: str | None = None,
        dropped: DroppedFields | None = None,
    ) -> Generator[Delta, None, Completion]:
        """Continue a text, or insert text before a suffix: yield the chunks of the answer, then
        return the answer.

        The text is not a message: the service applies no template of a chat, unless it does so for
        all texts. Closing the generator cancels the call.

        Args:
            prompt: The text; several texts, or token IDs of texts, if the service accepts them. All
                answers are in `extra` of the answer, or of the chunks if `stream` is set.
            suffix: Text after the answer; empty for none.
            model: Name of the model; see `open`.
            provider: Name of the provider to use; None for any.
            parameters: Model parameters by name.
            stream: Whether to request a streamed reply; otherwise, the answer is one chunk.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.
            dropped: Fields of the HTTP request that only some services receive.

        Raises:
            NoRoute: No provider of the model has text completions.
            ValidationError: No service may receive the request, because of `dropped`.
            UnsupportedPart: The service does not accept several texts, token IDs or a suffix.
            GenaiError: The call failed, for example `InvalidParameter` or a `ProviderError`.
        """
        prompts = [prompt] if isinstance(prompt, str) else texts_or_tokens(prompt)
        agent = self._routing.agent(
            "main", "complete", model, parameters or {}, provider, self._middleware(owner)
        )
        with self._until(limits) as until:
            pieces: Generator[Any, None, Completion] = agent.complete(
                prompts, suffix, until, stream=stream, dropped=dropped
            )
            completion = yield from pieces
            if not stream:
                yield completion.in_one_piece()
            return completion

    @checked
    def pass_through(
        self,
        request: PassedRequest,
        *,
        model: str,
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> Generator[Delta, None, Any] | None:
        """Send a request in the format of the service, with only the name of the model changed.

        Args:
            request: The request.
            model: Name of the model; see `open`.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.

        Returns:
            As `prompt`, or a `TokenCount` for the operation `count`; None if the request has to be
            read and written: a provider of the model has another format or differs from the
            format's defaults, or parameters are configured.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner) if request.operation == "chat" else ()
        agent = self._routing.agent("main", "chat", model, {}, None, middleware)
        routes = agent.passing(request)
        return self._passed(agent, routes, request, limits) if routes else None

    def _passed(
        self,
        agent: Agent,
        routes: Sequence[Route],
        request: PassedRequest,
        limits: CancelToken | None,
    ) -> Generator[Any, None, Any]:
        with self._until(limits) as until:
            return (yield from agent.pass_through(routes, request, until))

    @checked
    def suspends(self, model: str | None, operation: Operation = "chat") -> bool:
        """Whether a streamed answer of a model can be read in an event loop: no third-party plugin
        takes part, and all providers of the model use the host's HTTP client.

        Args:
            model: Name of the model; see `open`.
            operation: Kind of call.

        Raises:
            NoRoute: The model is unknown or cannot run.
        """
        registry = self.registry
        if self.observers.plugins & registry.third_parties:
            return False
        agent = self._routing.agent("main", operation, model, {})
        return all(
            route.suspends and not registry.is_of_third_party("dialect", route.info.dialect)
            for route in agent.routes
        )

    @checked
    def embed(
        self,
        texts: Iterable[str | Sequence[int]],
        *,
        model: str | None = None,
        provider: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        purpose: Literal["query", "document"] | None = None,
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> Embeddings:
        """Compute embedding vectors, one per text, in order.

        Args:
            texts: The texts; see `Embed`.
            model: Name of the model; None for the default model of `embed`.
            provider: Name of the provider to use; None for any.
            parameters: Model parameters by name.
            purpose: Use of the vectors, for models that embed queries and documents differently;
                None for the default of the service.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner)
        agent = self._routing.agent("embed", "embed", model, parameters or {}, provider, middleware)
        with self._until(limits) as until:
            vectors: Embeddings = agent.ask(Embed(texts, purpose=purpose), until)
            return vectors

    @checked
    def transcribe(
        self,
        audio: File,
        *,
        model: str | None = None,
        provider: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> Transcription:
        """Convert speech to text.

        Args:
            audio: The recording, with a file name whose extension is that of its format, for
                example `File(data, "audio/wav", name="call.wav")`.
            model: Name of the model; None for the default model of `transcribe`.
            provider: Name of the provider to use; None for any.
            parameters: Model parameters by name, for example `language`.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner)
        agent = self._routing.agent(
            "transcribe", "transcribe", model, parameters or {}, provider, middleware
        )
        with self._until(limits) as until:
            return agent.transcribe(audio, until)

    @checked
    def moderate(
        self,
        text: str,
        *,
        model: str | None = None,
        provider: str | None = None,
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> ModerationResult:
        """Check a text against the rules of a service.

        Args:
            text: The text.
            model: Name of the model; None for the default model of `moderate`.
            provider: Name of the provider to use; None for any.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        agent = self._routing.agent(
            "moderate", "moderate", model, {}, provider, self._middleware(owner)
        )
        with self._until(limits) as until:
            verdict: ModerationResult = agent.ask(Moderate(text), until)
            return verdict
