"""The tree of errors: its classes, their fields, equality, and what keeps an error."""

from __future__ import annotations

import copy
import copyreg
import json
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from genai_host import errors
from genai_host.api import Codec
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    BudgetExceeded,
    Cancelled,
    ConfigurationError,
    FunctionFailed,
    GenaiError,
    GenerationError,
    IncompleteReply,
    InvalidParameter,
    LimitExceeded,
    NoRoute,
    OutputValidationError,
    PluginError,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
    StoreError,
    TurnPaused,
    UnexpectedFinish,
    UnsupportedPart,
    ValidationError,
    error_of_status,
)


def tree(kind: type[GenaiError] = GenaiError) -> Iterator[type[GenaiError]]:
    """The classes of the host itself; tests make others."""
    yield kind
    for each in kind.__subclasses__():
        if each.__module__.startswith(f"{errors.__name__}."):
            yield from tree(each)


CLASSES = list(tree())
BASE = {
    **dict.fromkeys(("hint", "plugin", "provider", "model", "raw_reply"), ""),
    "status": None,
    "retryable": False,
}

_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "status": st.none() | st.integers(100, 599),
    "retryable": st.booleans(),
    "line": st.none() | st.integers(1),
    **{
        name: st.none() | st.floats(0, allow_nan=False, allow_infinity=False)
        for name in ("retry_after", "spent", "most")
    },
    **{name: st.lists(st.text(), max_size=3) for name in ("reasons", "suggestions", "valid")},
}


@st.composite
def any_error(draw: st.DrawFn) -> GenaiError:
    """An error of any class of the tree, with any of its fields."""
    kind = draw(st.sampled_from(CLASSES))
    names = draw(st.sets(st.sampled_from(sorted(vars(kind("x"))))))
    fields = {name: draw(_FIELDS.get(name, st.text())) for name in sorted(names)}
    return kind(draw(st.text()), **fields)


def test_the_tree_that_the_docstring_draws_is_the_tree_of_classes() -> None:
    assert errors.__doc__ is not None
    drawn: list[tuple[str, str]] = []
    above = ["GenaiError"]
    for branch, name in re.findall(r"^((?:[│ ]   )*[├└]── )(\w+)", errors.__doc__, re.MULTILINE):
        depth = len(branch) // 4
        del above[depth:]
        drawn.append((above[-1], name))
        above.append(name)
    lines = [(kind.__bases__[0].__name__, kind.__name__) for kind in CLASSES[1:]]
    assert sorted(drawn) == sorted(lines)


def test_the_codes_are_those_that_are_on_record() -> None:
    """The name in other letters; records have the code, so that it does not change."""
    irregular = {
        "AuthenticationFailed": "authentication", "BadRequest": "request_refused",
        "GenaiError": "error", "OutputValidationError": "deserialization",
        "PermissionDenied": "forbidden", "ProviderTimeout": "deadline_exceeded",
        "ServiceUnavailable": "unavailable", "TurnPaused": "turn_paused",
        "ValidationError": "invalid_data",
    }  # fmt: skip
    for kind in CLASSES:
        usual = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__.removesuffix("Error")).lower()
        assert kind.__dict__["code"] == irregular.get(kind.__name__, usual)
    assert len({kind.code for kind in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_what_nobody_says_is_empty(kind: type[GenaiError]) -> None:
    own = {
        ConfigurationError: {"file": "", "line": None, "setting": ""},
        ValidationError: {"path": ""},
        NoRoute: {"reasons": (), "suggestions": ()},
        InvalidParameter: {"parameter": "", "valid": ()},
        UnsupportedPart: {"part": "", "dialect": ""},
        ProviderError: {"retry_after": None},
        RateLimited: {"retryable": True},
        ServiceUnavailable: {"retryable": True},
        ProviderTimeout: {"deadline": "", "text": "", "retryable": True},
        IncompleteReply: {"text": "", "retryable": True},
        GenerationError: {"reason": "", "detail": ""},
        FunctionFailed: {"exception": ""},
        LimitExceeded: {"limit": ""},
        BudgetExceeded: {
            "budget": "",
            "renews": "",
            **dict.fromkeys(("spent", "most", "retry_after")),
        },
        StoreError: {"file": ""},
        TurnPaused: {"kind": ""},
    }
    expected: dict[str, Any] = dict(BASE)
    for each in reversed(kind.__mro__):
        expected.update(own.get(each, {}))  # type: ignore[call-overload]  # object is no key of it
    error = kind("it failed")
    assert vars(error) == expected
    assert error.message == str(error) == "it failed"
    assert error.fields() == {"retryable": expected["retryable"]}


def test_only_known_fields_are_given_and_zero_is_known() -> None:
    error = RateLimited("x", retry_after=0.0, status=429, hint="")
    assert error.fields() == {"retry_after": 0.0, "status": 429, "retryable": True}
    assert NoRoute("x", reasons=["a"]).fields() == {"reasons": ("a",), "retryable": False}
    for kind in (RateLimited, ServiceUnavailable, ProviderTimeout, IncompleteReply):
        assert kind("x", retryable=False).fields() == {"retryable": False}


def test_where_it_happened_is_filled_in_once() -> None:
    error = ServiceUnavailable("x", provider="near")
    assert error.located(plugin="p", provider="far", model="m") is error
    assert (error.plugin, error.provider, error.model) == ("p", "near", "m")
    error.located(plugin="q", model="n")
    assert (error.plugin, error.model) == ("p", "m")


@pytest.mark.parametrize(("status", "kind", "retryable"), [
    (400, BadRequest, False),
    (401, AuthenticationFailed, False),
    (403, AuthenticationFailed, False),
    (404, BadRequest, False),
    (408, ServiceUnavailable, True),
    (409, ServiceUnavailable, True),
    (422, BadRequest, False),
    (429, RateLimited, True),
    (500, ServiceUnavailable, True),
    (503, ServiceUnavailable, True),
    (599, ServiceUnavailable, True),
])  # fmt: skip
def test_a_status_means_an_error(status: int, kind: type[GenaiError], retryable: bool) -> None:
    error = error_of_status(status, "no", retry_after=2.5)
    assert type(error) is kind
    assert (error.message, error.status, error.retryable) == ("no", status, retryable)
    assert error.retry_after == (2.5 if retryable else None)


def test_equal_errors_are_of_one_class() -> None:
    assert GenerationError("x") != UnexpectedFinish("x")
    assert UnexpectedFinish("x") != OutputValidationError("x")
    assert Cancelled("x") != "x"
    assert Cancelled("x") != Cancelled("y")
    assert len({Cancelled("x"), Cancelled("x"), Cancelled("y"), PluginError("x")}) == 3
    error = Cancelled("x")
    error.__cause__ = ValueError("why")
    error.add_note("by the way")
    assert (error, error.fields()) == (Cancelled("x"), Cancelled("x").fields())


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [(kind, field, "other") for kind in CLASSES for field in vars(kind("x"))],
)
def test_each_field_counts_in_equality(kind: type[GenaiError], field: str, value: str) -> None:
    other = kind("x")
    setattr(other, field, value)
    assert kind("x") != other
    assert kind("x") == kind("x")


@given(error=any_error())
def test_an_error_survives_pickle_copy_and_json(error: GenaiError) -> None:
    codec = Codec()
    written = json.loads(json.dumps(codec.to_json(error)))
    assert written["code"] == type(error).code
    for again in (
        pickle.loads(pickle.dumps(error)),
        copy.copy(error),
        copy.deepcopy(error),
        codec.from_json(written, GenaiError),
        codec.from_json(written, GenaiError | None),
    ):
        assert again == error
        assert type(again) is type(error)
        assert again is not error
        assert hash(again) == hash(error)
        assert (again.message, vars(again)) == (error.message, vars(error))


class Quota(RateLimited):
    """A plugin's own error, with a field of its own."""

    code = "test_quota"

    def __init__(self, message: str, *, quota: int = 0, **context: Any) -> None:
        super().__init__(message, **context)
        self.quota = quota


class Throttled(RateLimited):
    """A plugin's own error, without a code of its own."""


def test_an_error_of_a_plugin_is_read_as_its_class_or_the_one_above() -> None:
    codec = Codec()
    error = Quota("no more", quota=3, retry_after=1.5, hint="pay")
    again = codec.from_json(codec.to_json(error), GenaiError)
    assert (type(again), again) == (Quota, error)
    again = codec.from_json(codec.to_json(Throttled("slower", retry_after=2.0)), GenaiError)
    assert again == RateLimited("slower", retry_after=2.0)
    data = {"code": "gone", "message": "no", "hint": "buy", "quota": 3, "retryable": True}
    gone = codec.from_json(data, GenaiError)
    assert (type(gone), gone.message, gone.hint, gone.retryable) == (GenaiError, "no", "buy", True)
    assert gone.fields()["quota"] == 3


@pytest.mark.parametrize("data", [
    None,
    "cancelled",
    7,
    [],
    {},
    {"code": "cancelled"},
    {"message": "x"},
    {"code": [], "message": "x"},
    {"code": None, "message": "x"},
    {"code": "cancelled", "message": 5},
    {"code": "cancelled", "message": None},
    {"code": "cancelled", "message": "x", "bogus": 1},
    {"code": "cancelled", "message": "x", "fields": 1},
    {"code": "cancelled", "message": "x", "args": [1]},
    {"code": "cancelled", "message": "x", "__class__": "str"},
], ids=repr)  # fmt: skip
def test_what_is_no_error_is_not_read_as_one(data: Any) -> None:
    with pytest.raises(ValidationError):
        Codec().from_json(data, GenaiError)


def test_a_copy_has_its_own_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tblib does, which Dask imports."""

    def share(error: BaseException) -> Any:
        return _with_fields, (type(error), error.args, vars(error))

    monkeypatch.setitem(copyreg.dispatch_table, RateLimited, share)
    error = RateLimited("slow down", retry_after=1.0)
    copied = copy.copy(error)
    copied.located(provider="p")
    assert (type(copied), copied.retry_after, copied.provider) == (RateLimited, 1.0, "p")
    assert (error.provider, copied.__traceback__) == ("", None)


def _with_fields(kind: type[BaseException], args: Any, fields: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__ = fields
    return error
