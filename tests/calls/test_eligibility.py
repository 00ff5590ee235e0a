"""Which routes may receive a request, by what their services receive of it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from genai_host.api import DroppedFields, Model
from genai_host.api.dropped import ModelParameter, OfService
from genai_host.calls.eligibility import eligible_routes, sent_parameters
from genai_host.calls.route import Route
from genai_host.catalog.join import Candidate
from genai_host.errors import ValidationError


class FakeRoute:
    """A route to a service that receives some parameters and the fields of one dialect."""

    def __init__(self, dialect: str, *parameters: str) -> None:
        self._dialect = dialect
        self.candidate = Candidate(
            Model("m", [dialect]), "p", parameters={name: {} for name in parameters}
        )

    def receives(self, dialect: str, given: OfService | None) -> bool:
        if isinstance(given, ModelParameter):
            return given.name in self.candidate.parameters
        return dialect == self._dialect


A, B = (cast("Route", FakeRoute("a", "seed")), cast("Route", FakeRoute("b", "seed", "top_k")))


@pytest.mark.parametrize(
    ("routes", "parameters", "eligible"),
    [
        ([A, B], {}, [A, B]),
        ([A, B], {"top_k": 1}, [A, B]),  # the best route reports the error
        ([B, A], {"top_k": 1}, [B]),
        ([], {"top_k": 1}, []),
    ],
)
def test_other_routes_must_accept_the_parameters(
    routes: list[Route], parameters: dict[str, Any], eligible: list[Route]
) -> None:
    assert eligible_routes(routes, parameters) == eligible
    assert eligible_routes(routes, parameters, DroppedFields()) == eligible


def test_essential_fields_select_the_routes() -> None:
    dropped = DroppedFields()
    dropped.elsewhere("n", "b", essential=True)
    assert eligible_routes([A, B], {}, dropped) == [B]
    with pytest.raises(ValidationError, match="n is not supported"):
        eligible_routes([A, A], {}, dropped)


@pytest.mark.parametrize("strict", [False, True])
def test_other_fields_are_left_out_or_refused(strict: bool) -> None:
    dropped = DroppedFields(strict=strict)
    dropped.elsewhere("only_of_b", "b")
    dropped.parameters({"top_k": "$.top_k"})
    given = {"seed": 1, "top_k": 2}
    assert eligible_routes([A, B], given, dropped) == ([B] if strict else [A, B])
    assert sent_parameters(given, A, dropped) == {"seed": 1}
    assert dropped.all() == ["only_of_b", "top_k"]
    assert sent_parameters(given, B, dropped) == given
    assert dropped.all() == []
    assert sent_parameters(given, A, None) is given
