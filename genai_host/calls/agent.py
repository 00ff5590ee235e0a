"""The model of a role, with its routes, parameters and history."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from attrs import evolve

from genai_host.api import (
    Call,
    ChatCall,
    CompleteCall,
    Completion,
    CountTokens,
    Delta,
    Embed,
    EmbedCall,
    Embeddings,
    File,
    Message,
    Moderate,
    ModerateCall,
    Prompt,
    SchemaValidator,
    Text,
    TranscribeCall,
    Transcription,
    Usage,
    schema_of,
)
from genai_host.api.calls import Draft
from genai_host.api.cancellation import Cancellation
from genai_host.api.dropped import DroppedFields
from genai_host.api.features import RetryWait
from genai_host.api.models import EXTRA_BODY, merged_parameters
from genai_host.calls.eligibility import (
    eligible_routes,
    needs_of,
    sent_parameters,
    with_images_in_words,
)
from genai_host.calls.middleware import CallMiddleware
from genai_host.calls.passthrough import PassedRequest
from genai_host.calls.rate_limiter import RateLimiter
from genai_host.calls.raw_replies import RawReplies
from genai_host.calls.retry import Retry, StepTrace, drained
from genai_host.calls.route import Route
from genai_host.calls.structured_output import with_schema_in_prompt, with_value
from genai_host.calls.tool_names import with_accepted_names, with_own_names
from genai_host.catalog.catalog import ModelChoice
from genai_host.errors import GenaiError, NoRoute, OutputValidationError, UnsupportedPart
from genai_host.plugins.observers import CallRecord


class Agent:
    """Answers the prompts of one role in one conversation.

    Args:
        role: Role of the feature; `main` owns the history.
        routes: Routes that can run, best first; empty if it is never prompted.
        parameters: Parameters of all prompts.
        history: Initial messages.
        retry: Makes the calls; None without routes.
        rates: Enforces `Prompt.rate`; None if there is none.
        middleware: Call middleware.
        counters: Returns the routes that count tokens; raises `NoRoute`.
        choice: The selected model; its parameters are included in `parameters`.

    Raises:
        InvalidParameter: The best route does not accept the parameters.
    """

    def __init__(
        self,
        role: str,
        routes: Sequence[Route],
        parameters: Mapping[str, Any] | None = None,
        history: Iterable[Message] = (),
        *,
        retry: Retry | None = None,
        rates: RateLimiter | None = None,
        counters: Callable[[], Sequence[Route]] = tuple,
        middleware: Sequence[CallMiddleware] = (),
        choice: ModelChoice | None = None,
    ) -> None:
        self.role = role
        self.choice = choice
        self.routes = tuple(routes)
        self._retry = retry
        self._rates = rates
        self._counters = counters
        self._middleware = middleware
        self.parameters = dict(parameters or {})
        self._history = tuple(history)
        self._checkers: dict[str, SchemaValidator] = {}
        self._draft = Draft()
        self._looked_at: tuple[Sequence[Message], list[Message]] = (), []
        if self.routes:
            self.routes[0].parameters(self.parameters)

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation, oldest message first."""
        return self._history

    def reset(self, history: Iterable[Message] = ()) -> None:
        """Replace the history."""
        self._history = tuple(history)

    def stream(
        self,
        prompt: Prompt,
        cancellation: Cancellation,
        *,
        stream: bool = True,
        trace: StepTrace | None = None,
        raw: RawReplies | None = None,
        form: Any = None,
        dropped: DroppedFields | None = None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        cut: bool = False,
    ) -> Generator[Delta | RetryWait, None, Completion]:
        """Run a prompt: yield chunks of the answer, then return it.

        Args:
            prompt: The prompt.
            cancellation: Cancels the call.
            stream: Whether to request a streamed reply.
            trace: Collects failed attempts.
            raw: Stores raw replies.
            form: Class with a schema per dialect, instead of the schema of the prompt.
            dropped: Fields of a request that only some services receive.
            waiting: Context entered while the call waits for `Prompt.rate`.
            cut: Whether to return an answer that was cut at its length without its value, although
                the prompt has a schema.

        Raises:
            NoRoute: No route has the capabilities that the prompt needs.
            OutputValidationError: The answer does not match the schema.
            GenaiError: The call failed.
        """
        self._checker(prompt.schema)  # checked before anything is sent

        last = CallRecord()
        mixed = self._with_other_parts(prompt.messages)

        def act(route: Route, report: CallRecord) -> Generator[Delta, None, Completion]:
            nonlocal last
            asked, last = prompt, report
            if form is not None and prompt.schema is not None:
                asked = evolve(prompt, schema=schema_of(form, route.info.dialect))
            given = sent_parameters(self._parameters_of(asked), route, dropped)
            call = self._call(asked, route, given, mixed, stream)
            if asked.rate is not None and self._rates is not None:
                with waiting():
                    self._rates.wait(route.info, asked.rate, cancellation)
            call, replaced = with_accepted_names(call, mixed, route.tool_names)
            pieces = route.stream(call, cancellation, report, raw)
            completion = yield from with_own_names(pieces, replaced)
            return self._checked(completion, asked, cut=cut)

        try:
            completion = yield from self._with_retries().stream(
                eligible_routes(
                    self._capable_routes(prompt, self.routes, mixed),
                    self._parameters_of(prompt),
                    dropped,
                ),
                cancellation,
                act,
                trace,
                self._middleware,
                self._parameters_of(prompt),
            )
        except GenaiError as error:
            error.raw_reply = error.raw_reply or last.raw_reply
            raise
        answer: Completion = self._with_configuration_name(completion)
        return evolve(answer, raw_reply=last.raw_reply) if last.raw_reply else answer

    def passing(self, request: PassedRequest) -> list[Route]:
        """The routes for a request that passes through, one for each provider; empty if a provider
        has none, or a parameter is configured."""
        if self.parameters:
            return []
        passing: dict[str, Route | None] = {}
        for route in self._counters() if request.operation == "count" else self.routes:
            if passing.get(route.info.provider) is None:
                passing[route.info.provider] = route.passing(request)
        routes = [route for route in passing.values() if route is not None]
        return routes if len(routes) == len(passing) else []

    def pass_through(
        self, routes: Sequence[Route], request: PassedRequest, cancellation: Cancellation
    ) -> Generator[Delta | RetryWait, None, Any]:
        """Send a request that passes through: yield the chunks of the answer, then return it.

        Args:
            routes: The routes, as `passing` found them.
            request: The request.
            cancellation: Cancels the call.

        Raises:
            GenaiError: The call failed.
        """

        def make_call(route: Route) -> Call:
            return ChatCall(
                model_id=route.candidate.id,
                variant=route.candidate.variant,
                messages=(),
                parameters=dict.fromkeys(request.fields.keys() - {EXTRA_BODY}),
                stream=request.stream,
            )

        return (yield from self._stream(routes, make_call, cancellation, parameters=request.fields))

    def complete(
        self,
        prompts: Sequence[str | Sequence[int]],
        suffix: str,
        cancellation: Cancellation,
        *,
        stream: bool,
        dropped: DroppedFields | None = None,
    ) -> Generator[Delta | RetryWait, None, Completion]:
        """Continue texts: yield chunks of the answers, then return them.

        Args:
            prompts: The texts; see `CompleteCall`.
            suffix: Text after the answer.
            cancellation: Cancels the call.
            stream: Whether to request a streamed reply.
            dropped: Fields of a request that only some services receive.

        Raises:
            UnsupportedPart: No route accepts the texts.
            GenaiError: The call failed.
        """

        def make_call(route: Route) -> Call:
            return CompleteCall(
                model_id=route.candidate.id,
                variant=route.candidate.variant,
                prompts=prompts,
                suffix=suffix,
                parameters=route.parameters(sent_parameters(self.parameters, route, dropped)),
                stream=stream,
            )

        routes = eligible_routes(self._accepting(prompts), self.parameters, dropped)
        completion: Completion = yield from self._stream(routes, make_call, cancellation)
        return completion

    def transcribe(self, audio: File, cancellation: Cancellation) -> Transcription:
        """Convert speech to text.

        Args:
            audio: The recording.
            cancellation: Cancels the call.

        Raises:
            GenaiError: The call failed.
        """

        def make_call(route: Route) -> Call:
            return TranscribeCall(
                model_id=route.candidate.id,
                variant=route.candidate.variant,
                audio=audio,
                parameters=route.parameters(self.parameters),
            )

        routes = eligible_routes(self.routes, self.parameters)
        transcription: Transcription = drained(self._stream(routes, make_call, cancellation))
        return transcription

    def _stream(
        self,
        routes: Sequence[Route],
        make_call: Callable[[Route], Call],
        cancellation: Cancellation,
        trace: StepTrace | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Generator[Delta | RetryWait, None, Any]:
        """Make a call at one of the routes: yield the chunks of the result, then return it."""

        def act(route: Route, report: CallRecord) -> Generator[Delta, None, Any]:
            return route.stream(make_call(route), cancellation, report)

        given = self.parameters if parameters is None else parameters
        attempts = self._with_retries().stream(
            routes, cancellation, act, trace, self._middleware, given
        )
        return self._with_configuration_name((yield from attempts))

    def _with_configuration_name(self, result: Any) -> Any:
        """Add the name of the model configuration that selected the model."""
        asked = self.choice.configuration if self.choice else ""
        if not asked or result.route is None:
            return result
        return evolve(result, route=evolve(result.route, configuration=asked))

    def _checked(self, completion: Completion, prompt: Prompt, *, cut: bool) -> Completion:
        checker = self._checker(prompt.schema)
        if checker is None or completion.finish not in ("stop", "length"):
            return completion
        try:
            return with_value(completion, checker)
        except OutputValidationError:
            if cut and completion.finish == "length":
                return completion
            raise

    def ask(
        self,
        step: CountTokens | Embed | Moderate,
        cancellation: Cancellation,
        trace: StepTrace | None = None,
    ) -> Any:
        """Count the tokens of a prompt, embed texts or moderate a text.

        All routes are of one model: embeddings of another model are never a substitute.

        Args:
            step: The step.
            cancellation: Cancels the call.
            trace: Collects failed attempts.

        Returns:
            A `TokenCount`, `Embeddings` or `ModerationResult`.
        """

        routes: Sequence[Route] = self.routes
        if isinstance(step, CountTokens):
            mixed = self._with_other_parts(step.prompt.messages)
            routes = self._capable_routes(step.prompt, self._counters(), mixed)
        elif isinstance(step, Embed):
            routes = self._accepting(step.texts)
            most = min((route.max_texts for route in routes if route.max_texts), default=0)
            if 0 < most < len(step.texts):
                starts = range(0, len(step.texts), most)
                batches = [evolve(step, texts=step.texts[at : at + most]) for at in starts]
                return _joined([self.ask(batch, cancellation, trace) for batch in batches])
        return drained(self._stream(routes, partial(self._call_of_step, step), cancellation, trace))

    def _accepting(self, texts: Sequence[str | Sequence[int]]) -> Sequence[Route]:
        """The routes to services that accept the texts, of which some may be token IDs."""
        if all(isinstance(each, str) for each in texts):
            return self.routes
        able = [route for route in self.routes if route.accepts_tokens]
        if not able and self.routes:
            info = self.routes[0].info
            raise UnsupportedPart(
                f"{info.model} at {info.provider} accepts texts, not token IDs",
                part="tokens",
                dialect=info.dialect,
            )
        return able

    def _call_of_step(self, step: CountTokens | Embed | Moderate, route: Route) -> Call:
        if isinstance(step, CountTokens):
            taken = route.candidate.parameters
            given = {
                name: v for name, v in self._parameters_of(step.prompt).items() if name in taken
            }
            mixed = self._with_other_parts(step.prompt.messages)
            call = self._call(step.prompt, route, given, mixed)
            return with_accepted_names(call, mixed, route.tool_names)[0]
        id, parameters = route.candidate.id, route.parameters(self.parameters)
        if isinstance(step, Embed):
            return EmbedCall(
                model_id=id, texts=step.texts, purpose=step.purpose, parameters=parameters
            )
        return ModerateCall(model_id=id, text=step.text, parameters=parameters)

    def _parameters_of(self, prompt: Prompt) -> dict[str, Any]:
        """The parameters of a prompt."""
        return merged_parameters(prompt.defaults, self.parameters, prompt.parameters)

    def _call(
        self,
        prompt: Prompt,
        route: Route,
        given: Mapping[str, Any],
        mixed: Sequence[Message],
        stream: bool = False,
    ) -> ChatCall:
        messages = prompt.messages
        in_words = {"assistant", "tool"} - route.roles_with_images
        if any(each.role in in_words for each in mixed):
            messages = [
                each.remember("in words", with_images_in_words) if each.role in in_words else each
                for each in messages
            ]
        tools, choice = route.accepted(prompt.tools, prompt.tool_choice)
        call = ChatCall(
            model_id=route.candidate.id,
            variant=route.candidate.variant,
            messages=messages,
            tools=tools,
            tool_choice=choice,
            schema=prompt.schema,
            strict=prompt.strict,
            parameters=route.parameters(given),
            stream=stream,
            draft=self._draft,
        )
        if prompt.schema is not None and "schema" not in route.capabilities:
            call = with_schema_in_prompt(call)
        return call

    def _capable_routes(
        self, prompt: Prompt, routes: Sequence[Route], mixed: Sequence[Message]
    ) -> list[Route]:
        """The routes with the capabilities that a prompt needs, best first. Services that enforce a
        schema come before those that get an instruction, and models that accept images in tool
        results and answers before others."""
        needs = {"tools"} if prompt.tools else set()
        wants: set[str] = set()
        for message in mixed:
            needed, wanted = message.remember("needs", needs_of)
            needs |= needed
            wants |= wanted
        able = [route for route in routes if needs <= route.capabilities]
        if not routes:
            raise NoRoute(f"the role {self.role} has no model")
        if not able:
            model = routes[0].info.model
            raise NoRoute(
                f"{model} cannot do this: it needs {', '.join(sorted(needs))}",
                reasons=[
                    f"{route.candidate.name} lacks {', '.join(sorted(needs - route.capabilities))}"
                    for route in routes
                ],
                model=model,
            )
        if prompt.schema is not None:
            wants.add("schema")
        if wants:
            able.sort(key=lambda route: len(wants - route.capabilities))
        return able

    def _with_other_parts(self, messages: Sequence[Message]) -> list[Message]:
        """The messages that are not one text, as most are: each other one is looked at closely.
        The messages usually begin with those of the call before; only new ones are looked at."""
        before, found = self._looked_at
        if messages[: len(before)] != before:  # fast if they are the same objects
            before, found = (), []
        new = messages[len(before) :]
        others = [m for m in new if len(m.content) != 1 or type(m.content[0]) is not Text]
        found = [*found, *others] if others else found
        self._looked_at = messages, found
        return found

    def _with_retries(self) -> Retry:
        if self._retry is None:
            raise NoRoute(f"the role {self.role} has no model")
        return self._retry

    def _checker(self, schema: Mapping[str, Any] | None) -> SchemaValidator | None:
        if schema is None:
            return None
        key = json.dumps(schema, sort_keys=True)
        if key not in self._checkers:
            checker = SchemaValidator(schema)
            checker.check_references()
            self._checkers[key] = checker
        return self._checkers[key]


def _joined(batches: Sequence[Embeddings]) -> Embeddings:
    """The vectors of several calls as those of one."""
    costs = [each.cost for each in batches if each.cost is not None]
    return evolve(
        batches[-1],
        vectors=[vector for each in batches for vector in each.vectors],
        usage=sum((each.usage for each in batches), Usage()),
        seconds=sum(each.seconds for each in batches),
        cost=sum(costs) if len(costs) == len(batches) else None,
    )
