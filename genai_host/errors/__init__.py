"""The errors of genai-host: one tree, told apart by class and read by field.

GenaiError
├── ConfigurationError          a setting, flag or file is wrong
│   └── NoRoute                 nothing can run that model as asked
├── PermissionDenied            whoever asks may not do this
├── ValidationError             data does not fit the form it should have
├── PluginError                 a plugin is broken, or failed where it must not
├── InvalidParameter            an unknown model parameter, or a bad value
├── UnsupportedPart             a dialect cannot write a part of a message
├── ProviderError               the service, or the way to it, failed
│   ├── AuthenticationFailed    401, 403, or no key
│   ├── BadRequest              400, 404, 422: sending it again is no use
│   │   └── ContextOverflow     the prompt is longer than the model's window
│   ├── RateLimited             429
│   ├── ServiceUnavailable      refused, reset, 5xx
│   │   └── CircuitOpen         it failed too often lately: not called
│   ├── ProviderTimeout         it took too long
│   ├── MalformedReply          not what the dialect says a reply is
│   ├── IncompleteReply         cut before its end; what came is kept
│   └── ProviderRemoved         the instance was removed, disabled or closed
├── GenerationError             the model answered, but not usably
│   ├── UnexpectedFinish        it stopped for another reason than being done
│   └── OutputValidationError   its answer is not the JSON that was asked for
├── FunctionFailed              a function called by a feature raised
├── LimitExceeded               round trips, steps, time or cost of a turn
│   └── BudgetExceeded          what a user may spend is spent
├── Cancelled                   somebody cancelled it
│   └── Interrupted             the process that did it was ended
├── ConversationBusy            a turn is under way already
├── ConversationClosed          the conversation was closed
├── TurnPaused                  the turn waits for a result from outside
├── StoreError                  the store cannot be read or written
├── Conflict                    another process has changed it meanwhile
├── NotFound                    the store has no such thing
└── ReplayError                 a record does not fit the feature that replays it
    ├── StepChanged             the feature now does something else at that point
    └── StepInterrupted         it may have run before, and must not run twice

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
