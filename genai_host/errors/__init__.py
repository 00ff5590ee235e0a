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
    ErrorContext,
    ErrorPlace,
    GenaiError,
)
from genai_host.errors.conversation import (
    BudgetExceeded,
    Cancelled,
    Conflict,
    ConversationBusy,
    ConversationClosed,
    FunctionFailed,
    Interrupted,
    LimitExceeded,
    NotFound,
    NotRecorded,
    ReplayError,
    StepChanged,
    StepInterrupted,
    StoreError,
    TurnPaused,
)
from genai_host.errors.inputs import (
    ConfigurationError,
    InvalidParameter,
    NoRoute,
    PermissionDenied,
    PluginError,
    UnsupportedPart,
    ValidationError,
)
from genai_host.errors.service import (
    AuthenticationFailed,
    BadRequest,
    CircuitOpen,
    ContextOverflow,
    GenerationError,
    IncompleteReply,
    MalformedReply,
    OutputValidationError,
    ProviderError,
    ProviderRemoved,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
    UnexpectedFinish,
    error_of_status,
)

__all__ = [
    "AuthenticationFailed",
    "BadRequest",
    "BudgetExceeded",
    "Cancelled",
    "CircuitOpen",
    "ConfigurationError",
    "Conflict",
    "ContextOverflow",
    "ConversationBusy",
    "ConversationClosed",
    "ErrorContext",
    "ErrorPlace",
    "FunctionFailed",
    "GenaiError",
    "GenerationError",
    "IncompleteReply",
    "Interrupted",
    "InvalidParameter",
    "LimitExceeded",
    "MalformedReply",
    "NoRoute",
    "NotFound",
    "NotRecorded",
    "OutputValidationError",
    "PermissionDenied",
    "PluginError",
    "ProviderError",
    "ProviderRemoved",
    "ProviderTimeout",
    "RateLimited",
    "ReplayError",
    "ServiceUnavailable",
    "StepChanged",
    "StepInterrupted",
    "StoreError",
    "TurnPaused",
    "UnexpectedFinish",
    "UnsupportedPart",
    "ValidationError",
    "error_of_status",
]
