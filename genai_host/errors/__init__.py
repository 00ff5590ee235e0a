"""The errors of genai-host: one tree of classes with typed fields.

GenaiError
├── ConfigurationError          a setting, flag or file is wrong
│   └── NoRoute                 no provider can run the model as requested
├── PermissionDenied            the client is not allowed to do this
├── ValidationError             data is invalid
├── PluginError                 a plugin is broken, or raised unexpectedly
├── InvalidParameter            an unknown model parameter, or a bad value
├── UnsupportedPart             a dialect cannot write a part of a message
├── ProviderError               the service, or the connection to it, failed
│   ├── AuthenticationFailed    401, 403, or no key
│   ├── BadRequest              400, 404, 422: do not send it again
│   │   └── ContextOverflow     the prompt is longer than the model's window
│   ├── RateLimited             429
│   ├── ServiceUnavailable      refused, reset, 5xx
│   │   └── CircuitOpen         not called after repeated failures
│   ├── ProviderTimeout         a timeout was exceeded
│   ├── MalformedReply          the reply is not valid in its dialect
│   ├── IncompleteReply         interrupted before its end
│   └── ProviderRemoved         the instance was removed, disabled or closed
├── GenerationError             the answer is not usable
│   ├── UnexpectedFinish        it stopped before the answer was complete
│   └── OutputValidationError   the answer does not match the schema
├── FunctionFailed              a function called by a feature raised
├── LimitExceeded               model calls, steps, time or cost of a turn
│   └── BudgetExceeded          a budget is spent
├── Cancelled                   cancelled
│   └── Interrupted             the process ended; can be resumed
├── ConversationBusy            another turn is running
├── ConversationClosed          the conversation was closed
├── TurnPaused                  the turn waits for a result from outside
├── StoreError                  the store cannot be read or written
│   └── NotRecorded             a step did not run, as it cannot be recorded
├── Conflict                    the data was changed meanwhile
├── NotFound                    the conversation, document or blob is unknown
└── ReplayError                 an event log does not match the feature
    ├── StepChanged             the feature now yields another step
    └── StepInterrupted         a step that must not run twice was running

Errors compare by value (class, message, fields), so that a recorded failure
replays as an equal one, and pickle.
"""

from __future__ import annotations

from genai_host.errors.base import (
    ErrorContext as ErrorContext,
    ErrorPlace as ErrorPlace,
    GenaiError as GenaiError,
)
from genai_host.errors.conversation import (
    BudgetExceeded as BudgetExceeded,
    Cancelled as Cancelled,
    Conflict as Conflict,
    ConversationBusy as ConversationBusy,
    ConversationClosed as ConversationClosed,
    FunctionFailed as FunctionFailed,
    Interrupted as Interrupted,
    LimitExceeded as LimitExceeded,
    NotFound as NotFound,
    NotRecorded as NotRecorded,
    ReplayError as ReplayError,
    StepChanged as StepChanged,
    StepInterrupted as StepInterrupted,
    StoreError as StoreError,
    TurnPaused as TurnPaused,
)
from genai_host.errors.inputs import (
    ConfigurationError as ConfigurationError,
    InvalidParameter as InvalidParameter,
    NoRoute as NoRoute,
    PermissionDenied as PermissionDenied,
    PluginError as PluginError,
    UnsupportedPart as UnsupportedPart,
    ValidationError as ValidationError,
)
from genai_host.errors.service import (
    AuthenticationFailed as AuthenticationFailed,
    BadRequest as BadRequest,
    CircuitOpen as CircuitOpen,
    ContextOverflow as ContextOverflow,
    GenerationError as GenerationError,
    IncompleteReply as IncompleteReply,
    MalformedReply as MalformedReply,
    OutputValidationError as OutputValidationError,
    ProviderError as ProviderError,
    ProviderRemoved as ProviderRemoved,
    ProviderTimeout as ProviderTimeout,
    RateLimited as RateLimited,
    ServiceUnavailable as ServiceUnavailable,
    UnexpectedFinish as UnexpectedFinish,
    error_of_status as error_of_status,
)

__all__ = sorted(
    name for name, value in globals().items() if callable(value) and not name.startswith("_")
)
